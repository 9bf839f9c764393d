//! Syncs the WAL. A commit survives the death of any process immediately, but a power cut only
//! after a sync: done here, outside the database lock, so that neither a hook nor another commit
//! waits for the disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// Pause between two syncs: commits in between share one, so that many events do not cause many
/// syncs.
const PAUSE: Duration = Duration::from_millis(200);

/// Pause after a sync, as a multiple of its duration. Writers may block during a sync, so a slow
/// disk is synced at most a tenth of the time.
const SHARE: u32 = 9;

/// Maximum time without a sync, however slow the disk is.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Granularity of file timestamps: a write shortly after a sync may carry the same time as the
/// synced data.
const STEP: Duration = Duration::from_millis(20);

/// Syncs the WAL shortly after each write, until the last writer is gone.
pub async fn run(log: PathBuf, mut written: watch::Receiver<()>) {
    let mut synced = None;
    let mut is_well = true;
    while written.changed().await.is_ok() {
        let state = state_of(&log);
        if state == synced {
            continue;
        }
        let began = Instant::now();
        let outcome = sync(&log).await;
        let pause = (began.elapsed() * SHARE).clamp(PAUSE, LONGEST_PAUSE);
        if let Err(error) = &outcome
            && is_well
        {
            tracing::warn!(%error, "cannot sync the WAL to disk: {error}");
        }
        is_well = outcome.is_ok();
        let may_look_the_same = |(_, time): &State| time.elapsed().is_ok_and(|age| age < STEP);
        synced = state.filter(|state| is_well && !may_look_the_same(state));
        tokio::time::sleep(pause).await;
    }
}

/// Returns when all commits are on disk.
pub async fn sync(log: &Path) -> io::Result<()> {
    let log = log.to_owned();
    let syncing = tokio::task::spawn_blocking(move || match File::open(&log) {
        // A missing WAL was checkpointed into the database, with a sync.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.sync_data(),
    });
    syncing.await.map_err(io::Error::other)?
}

type State = (u64, SystemTime);

fn state_of(log: &Path) -> Option<State> {
    let meta = std::fs::metadata(log).ok()?;
    Some((meta.len(), meta.modified().ok()?))
}
