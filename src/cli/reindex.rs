//! `claude-mem reindex`: the search index made anew from the tables.

use std::process::ExitCode;
use std::time::Instant;

use super::progress::Progress;
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
    let progress = Progress::new("indexing");
    let mut steps = 0_u64;
    upkeep::rebuild(&mut database, || {
        steps += 1;
        progress.tell(steps * 100, 0);
    })?;
    drop(progress);
    say!("The search index is made anew ({:.1} s).", began.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}
