//! Standard output of commands, directly or through a pager. The reader may close the pipe, as `head` does, or the disk may
//! be full: a command still finishes normally, and reports an error if its output could not be written.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

use super::pager::Pager;

/// The first write error.
static WRITE_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);
/// The pager, if there is one.
static PAGER: Mutex<Option<Pager>> = Mutex::new(None);

/// Sends what follows through a pager, if a person reads it.
pub fn page() {
    if let Ok(mut pager) = PAGER.lock() {
        *pager = Pager::start();
    }
}

/// Prints a text as it is.
pub fn print(text: Arguments<'_>) {
    let mut pager = PAGER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    record(match pager.as_mut() {
        Some(pager) => pager.write_fmt(text),
        None => io::stdout().write_fmt(text),
    });
}

/// True while no write has failed; after an error, further output is useless.
pub fn is_open() -> bool {
    WRITE_ERROR.lock().is_ok_and(|first| first.is_none())
}

/// Flushes the output, and waits for the pager. Fails if something could not be written; a closed pipe is no failure.
pub fn finish() -> io::Result<()> {
    record(io::stdout().flush());
    if let Some(pager) = PAGER.lock().ok().and_then(|mut pager| pager.take()) {
        record(pager.finish());
    }
    match WRITE_ERROR.lock().ok().and_then(|mut first| first.take()) {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn record(outcome: io::Result<()>) {
    if let (Err(error), Ok(mut first)) = (outcome, WRITE_ERROR.lock()) {
        first.get_or_insert(error);
    }
}
