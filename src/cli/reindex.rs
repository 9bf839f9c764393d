//! `claude-mem reindex`: the search index made anew from the tables.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::paths::Home;
use crate::search::upkeep;
use crate::store;

/// Make the search index anew
///
/// It is kept up to date by itself; this is for a file that was damaged or changed by hand. The service may run meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem reindex")]
pub struct Arguments {}

/// Steps are short, but other writers may hold the lock for a while.
const PATIENCE_MS: u32 = 10_000;

pub fn run(home: &Home) -> anyhow::Result<ExitCode> {
    let mut database = store::open_to_change(home, PATIENCE_MS)?;
    let began = Instant::now();
    let watched = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let mut steps = 0_u64;
    upkeep::rebuild(&mut database, || {
        steps += 1;
        if watched && told.elapsed() > Duration::from_millis(500) {
            told = Instant::now();
            eprint!("\rabout {} rows …", steps * 100);
            let _ = std::io::stderr().flush();
        }
    })?;
    if watched && steps > 0 {
        eprint!("\r\u{1b}[K");
    }
    println!("The search index is made anew ({:.1} s).", began.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}
