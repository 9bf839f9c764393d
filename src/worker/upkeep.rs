//! What has to be done now and then: the log written back, the search index brought up to date, silent sessions closed, old
//! rows dropped, a backup made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::state::{Running, Shared};
use super::{clock, daily, mind};
use crate::paths::Home;
use crate::store::{StoreError, learnings, limits, recovery, upkeep};
use crate::{learn, search, unfinished};

/// The write-ahead log is written back when it is larger than this.
const LOG_LARGE: u64 = 4 << 20;

/// When it is larger than this, readers without end keep it from being emptied: then writers wait a moment for them.
const LOG_TOO_LARGE: u64 = 24 << 20;

/// Less than hooks are willing to wait.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Nothing was settled for this long: there is time for other things.
const QUIET: Duration = Duration::from_millis(500);

/// Other things wait no longer than this.
const LONGEST_RUSH: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);

/// When things were last done.
#[derive(Debug, Default)]
pub struct Schedule {
    hourly: Option<Instant>,
    /// Old rows are left, or sessions wait for their work to be done: go on at the next occasion.
    unfinished: bool,
    /// The check and the backup.
    under_way: Option<JoinHandle<()>>,
}

impl Schedule {
    /// Does what is due. Cheap when nothing is. The few rows that the last work left to the index wait until it is quiet.
    pub async fn keep_up(
        &mut self,
        shared: &Arc<Shared>,
        running: &Arc<Running>,
        is_quiet: bool,
    ) -> Result<(), StoreError> {
        let log = std::fs::metadata(shared.home.log()).map_or(0, |meta| meta.len());
        if log > LOG_LARGE {
            let patience = if log > LOG_TOO_LARGE { LONGEST_WAIT } else { Duration::ZERO };
            running.database.write(move |database| upkeep::checkpoint(database, patience)).await?;
        }
        let max_mb = running.config.retention.max_mb;
        if limits::is_over(&shared.home, max_mb) {
            let relieve = move |database: &mut _| {
                limits::relieve(database, max_mb.saturating_mul(1 << 20), clock::now())
            };
            if running.database.write(relieve).await? {
                shared.nudge.notify_one();
            }
        }
        if is_quiet && running.database.write(search::upkeep::tidy_up).await? {
            shared.nudge.notify_one();
        }
        mind::read_on(shared, running).await?;
        shared.mind.rest(Duration::from_secs(running.config.search.model_idle_s), &running.comparing);
        let is_due = self.hourly.is_none_or(|last| last.elapsed() >= HOUR);
        if !is_due && !self.unfinished {
            return Ok(());
        }
        let retention = running.config.retention.clone();
        let now = clock::now();
        let keeping = running.database.write(move |database| {
            let silent = upkeep::interrupt_silent_sessions(database, now)?;
            learnings::drop_faded(database, now, learn::TOLD_FROM)?;
            upkeep::adopt_imported(database)?;
            let more = upkeep::drop_old(database, &retention, now)? | upkeep::shrink(database)?;
            Ok((silent, more))
        });
        let (silent, more) = keeping.await?;
        if is_due {
            for folder in [shared.home.spool(), shared.home.backups()] {
                unfinished::clean_up(&folder);
            }
            self.look_after_the_file(shared, running);
        }
        self.hourly = Some(Instant::now());
        self.unfinished = more || silent.waiting;
        running.forget_counts();
        if more || silent.queued {
            shared.nudge.notify_one();
        }
        Ok(())
    }

    /// Checks the file once in a worker's life, and makes the day's backup, which checks it too. Nothing waits for either.
    fn look_after_the_file(&mut self, shared: &Arc<Shared>, running: &Arc<Running>) {
        let is_first = self.hourly.is_none();
        if self.under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (shared, running) = (shared.clone(), running.clone());
        self.under_way = Some(tokio::spawn(async move {
            until_quiet(&shared).await;
            let checked = if is_first { check(shared.home.clone()).await } else { Ok(()) };
            let outcome = match checked {
                Ok(()) => daily::backup(&shared, &running).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.is_damage() => shared.note_damage(error.cause()),
                Err(error) => tracing::warn!(%error, "no backup was made: {error}"),
                Ok(()) => {}
            }
        }));
    }
}

/// What was found out about a database that is not worked with any more says nothing about the next one.
impl Drop for Schedule {
    fn drop(&mut self) {
        if let Some(task) = &self.under_way {
            task.abort();
        }
    }
}

/// Looking at the whole file takes as long as hundreds of events: those that wait go first, within reason.
async fn until_quiet(shared: &Shared) {
    let mut settled = shared.settled.subscribe();
    let began = Instant::now();
    while began.elapsed() < LONGEST_RUSH && tokio::time::timeout(QUIET, settled.changed()).await.is_ok() {}
}

async fn check(home: Home) -> Result<(), StoreError> {
    let looked = tokio::task::spawn_blocking(move || recovery::examine(&home)).await;
    looked.map_err(|_| StoreError::Gone)?
}
