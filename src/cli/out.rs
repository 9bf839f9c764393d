//! What commands print. Whoever reads may go away in the middle, as `head` does, and a disk may be full: a command still ends as it
//! would, and says so if its answer could not be written.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

/// What went wrong first.
static TROUBLE: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a text as it is.
pub fn print(text: Arguments<'_>) {
    keep(io::stdout().write_fmt(text));
}

/// Whether anything that was printed has arrived so far; after trouble, nobody needs more of it.
pub fn is_heard() -> bool {
    TROUBLE.lock().is_ok_and(|trouble| trouble.is_none())
}

/// Writes what is left. Fails if something could not be written; that nobody wanted it is no failure.
pub fn finish() -> io::Result<()> {
    keep(io::stdout().flush());
    match TROUBLE.lock().ok().and_then(|mut trouble| trouble.take()) {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn keep(outcome: io::Result<()>) {
    if let (Err(error), Ok(mut trouble)) = (outcome, TROUBLE.lock()) {
        trouble.get_or_insert(error);
    }
}
