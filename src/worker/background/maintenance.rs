//! Housekeeping: checkpoints the WAL, updates the search index, closes silent sessions, drops old
//! rows, makes backups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::{daily_backup, embedder, spool_drain, vetoes};
use crate::files::atomic;
use crate::files::disk::{self, Space};
use crate::paths::Home;
use crate::store::StoreError;
use crate::store::files::{backup, recovery};
use crate::store::maintenance::limits::{self, Limit};
use crate::store::maintenance::retention;
use crate::store::memory::learnings;
use crate::worker::state::{Running, Shared};
use crate::{clock, learn, search};

/// WAL size in bytes that triggers a checkpoint.
const CHECKPOINT_WAL_BYTES: u64 = 4 << 20;

/// WAL size in bytes at which writers wait for readers: continuous readers keep it from being
/// emptied.
const BLOCKING_CHECKPOINT_WAL_BYTES: u64 = 24 << 20;

/// Maximum time that writers wait; less than hooks accept.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Time without a settled job after which other work may run.
const QUIET: Duration = Duration::from_millis(500);

/// Maximum delay of other work.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Maximum age of a measurement: memories grow slowly, and measuring them reads the whole queue.
const MEASURED_FOR: Duration = Duration::from_secs(600);

const HOUR: Duration = Duration::from_secs(3600);

/// The times of the last housekeeping tasks.
#[derive(Debug, Default)]
pub struct Schedule {
    hourly: Option<Instant>,
    /// True if old rows are left, or sessions wait for their work to be done: continue at the next
    /// opportunity.
    unfinished: bool,
    /// The running check and backup.
    under_way: Option<JoinHandle<()>>,
    /// The size of the memories, and the time it was measured.
    memories: Option<(Instant, u64)>,
}

impl Schedule {
    /// Does everything that is due. Cheap if nothing is. The few rows that the last job left
    /// unindexed wait for an idle moment. Returns true if more is left to do at once.
    pub async fn run(
        &mut self,
        shared: &Arc<Shared>,
        running: &Arc<Running>,
        is_quiet: bool,
    ) -> Result<bool, StoreError> {
        let log = std::fs::metadata(shared.home.wal()).map_or(0, |meta| meta.len());
        if log > CHECKPOINT_WAL_BYTES {
            let patience = if log > BLOCKING_CHECKPOINT_WAL_BYTES { LONGEST_WAIT } else { Duration::ZERO };
            running.database.write(move |database| retention::checkpoint(database, patience)).await?;
        }
        self.make_room(shared, running, log).await?;
        let is_indexing = is_quiet && running.database.write(search::indexing::index_and_merge_some).await?;
        if is_indexing {
            shared.nudge.notify_one();
        }
        embedder::embed_missing(shared, running).await?;
        vetoes::enforce(shared, running).await?;
        shared
            .embedder
            .unload_if_idle(Duration::from_secs(running.config.search.model_idle_s), &running.similarity);
        let is_due = self.hourly.is_none_or(|last| last.elapsed() >= HOUR);
        if !is_due && !self.unfinished {
            return Ok(is_indexing);
        }
        let retention = running.config.retention.clone();
        let now = clock::now();
        let keeping = running.database.write(move |database| {
            let silent = retention::interrupt_silent_sessions(database, now)?;
            retention::drop_empty_sessions(database, now)?;
            learnings::drop_faded(database, now, learn::SHOWN_FROM)?;
            let more = retention::drop_old(database, &retention, now)? | retention::shrink(database)?;
            Ok((silent, more))
        });
        let (silent, more) = keeping.await?;
        if is_due {
            for folder in [shared.home.spool(), shared.home.backups()] {
                atomic::clean_up(&folder);
            }
            spool_drain::drop_rejected(
                &shared.home,
                Duration::from_secs(running.config.retention.queue_days * 24 * 3600),
            );
            disk::keep_ballast(&shared.home);
            self.check_and_back_up(shared, running);
        }
        self.hourly = Some(Instant::now());
        self.unfinished = more || silent.waiting;
        running.forget_counts();
        if more || silent.queued {
            shared.nudge.notify_one();
        }
        Ok(is_indexing || more)
    }

    /// Keeps raw events below their limit, and disk space free for hooks.
    async fn make_room(
        &mut self,
        shared: &Arc<Shared>,
        running: &Arc<Running>,
        log: u64,
    ) -> Result<(), StoreError> {
        let max_mb = running.config.retention.max_mb;
        let is_low = limits::is_disk_low(&shared.home);
        if !is_low && !limits::is_over(&shared.home, max_mb) {
            return Ok(());
        }
        if is_low {
            backup::prune_to(&shared.home.backups(), 0)?;
        }
        let memories = match self.memories.filter(|(measured, _)| measured.elapsed() < MEASURED_FOR) {
            Some((_, bytes)) => bytes,
            None => {
                let home = shared.home.clone();
                let measure = move |database: &_| limits::measure_memories(database, &home);
                let bytes = running.database.read(measure).await?;
                self.memories = Some((Instant::now(), bytes));
                bytes
            }
        };
        let disk = Space::at(shared.home.dir()).map(|disk| Space { free: disk.free + log, ..disk });
        let limit = Limit { most: max_mb.saturating_mul(1 << 20), memories, disk };
        let relieve = move |database: &mut _| limits::relieve(database, &limit, clock::now());
        let relief = running.database.write(relieve).await?;
        if relief.cost_events {
            shared.set_pressure(if is_low {
                "the disk is nearly full: raw events are cut or dropped before they are processed"
            } else {
                "raw events exceed retention.max_mb and are cut or dropped before they are processed"
            });
        }
        if relief.more {
            shared.nudge.notify_one();
        }
        Ok(())
    }

    /// Checks the file once in a worker's life, and makes the daily backup, which checks it, too.
    /// Nothing waits for either.
    fn check_and_back_up(&mut self, shared: &Arc<Shared>, running: &Arc<Running>) {
        let is_first = self.hourly.is_none();
        if self.under_way.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (shared, running) = (shared.clone(), running.clone());
        self.under_way = Some(tokio::spawn(async move {
            until_quiet(&shared).await;
            let checked = if is_first { check(shared.home.clone()).await } else { Ok(()) };
            let outcome = match checked {
                Ok(()) => daily_backup::backup(&shared, &running).await,
                Err(error) => Err(error),
            };
            match outcome {
                Err(error) if error.is_damage() => shared.set_damage(error.cause()),
                Err(error) => tracing::warn!(%error, "the backup failed: {error}"),
                Ok(()) => {}
            }
            shared.mark_memory_used();
        }));
    }
}

/// Stops the check: its result about a closed database would say nothing about the next one.
impl Drop for Schedule {
    fn drop(&mut self) {
        if let Some(task) = &self.under_way {
            task.abort();
        }
    }
}

/// Waits for a quiet moment, within limits: checking the whole file takes as long as hundreds of
/// events, so waiting events go first.
async fn until_quiet(shared: &Shared) {
    let mut settled = shared.settled.subscribe();
    let began = Instant::now();
    while began.elapsed() < MAX_DELAY && tokio::time::timeout(QUIET, settled.changed()).await.is_ok() {}
}

async fn check(home: Home) -> Result<(), StoreError> {
    let looked = tokio::task::spawn_blocking(move || recovery::examine(&home)).await;
    looked.map_err(|_| StoreError::Gone)?
}
