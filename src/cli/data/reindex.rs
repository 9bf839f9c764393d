//! `claude-mem reindex`: rebuilds the search index from the tables.

use std::process::ExitCode;
use std::time::Instant;

use crate::cli::output::progress::Progress;
use crate::paths::Home;
use crate::search::indexing;
use crate::store;

/// Rebuild the search index
///
/// The index is kept up to date automatically; use this after the file was damaged or changed by
/// hand. The service can keep running.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem reindex")]
pub struct Arguments {}

/// Busy timeout: steps are short, but other writers may hold the lock for a while.
const BUSY_TIMEOUT_MS: u32 = 10_000;

pub fn run(home: &Home) -> anyhow::Result<ExitCode> {
    let mut database = store::open_for_bulk_change(home, BUSY_TIMEOUT_MS)?;
    let began = Instant::now();
    let progress = Progress::new("indexing");
    let mut steps = 0_u64;
    indexing::rebuild(&mut database, || {
        steps += 1;
        progress.set(steps * 100, 0);
    })?;
    drop(progress);
    outln!("Rebuilt the search index in {:.1} s.", began.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}
