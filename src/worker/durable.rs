//! The log on the disk. A commit survives the death of every process at once, and a power cut only when the log was synced:
//! here, outside of the database's lock, so that neither a hook nor another commit waits for the disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// What is committed meanwhile is synced together: a storm of events is no storm of syncs.
const PAUSE: Duration = Duration::from_millis(200);

/// Whoever writes to a file while it is synced may have to wait: a slow disk is synced in no more than a tenth of the time.
const SHARE: u32 = 9;

/// However slow it is, the log is not left to itself for longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A file system's clock ticks in steps: what was written within one step of a sync may bear the same time as what was synced.
const STEP: Duration = Duration::from_millis(20);

/// Syncs the log a moment after somebody wrote, until nobody can any more.
pub async fn follow(log: PathBuf, mut written: watch::Receiver<()>) {
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
            tracing::warn!(%error, "the log cannot be synced to the disk: {error}");
        }
        is_well = outcome.is_ok();
        let may_look_the_same = |(_, time): &State| time.elapsed().is_ok_and(|age| age < STEP);
        synced = state.filter(|state| is_well && !may_look_the_same(state));
        tokio::time::sleep(pause).await;
    }
}

/// Returns when everything that was committed is on the disk.
pub async fn sync(log: &Path) -> io::Result<()> {
    let log = log.to_owned();
    let syncing = tokio::task::spawn_blocking(move || match File::open(&log) {
        // A log that is not there was written back into the database, with a sync.
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
