//! What has to be done now and then: the log written back, the search index brought up to date, silent sessions closed, old
//! rows dropped.

use std::time::{Duration, Instant};

use super::clock;
use super::state::{Running, Shared};
use crate::search;
use crate::store::{StoreError, upkeep};

/// The write-ahead log is written back when it is larger than this.
const LOG_LARGE: u64 = 4 << 20;

/// When it is larger than this, readers without end keep it from being emptied: then writers wait a moment for them.
const LOG_TOO_LARGE: u64 = 24 << 20;

/// Less than hooks are willing to wait.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

const HOUR: Duration = Duration::from_secs(3600);

/// When things were last done.
#[derive(Debug, Default)]
pub struct Schedule {
    hourly: Option<Instant>,
    /// Old rows are left, or sessions wait for their work to be done: go on at the next occasion.
    unfinished: bool,
}

impl Schedule {
    /// Does what is due. Cheap when nothing is.
    pub async fn keep_up(&mut self, shared: &Shared, running: &Running) -> Result<(), StoreError> {
        let log = std::fs::metadata(shared.home.log()).map_or(0, |meta| meta.len());
        if log > LOG_LARGE {
            let patience = if log > LOG_TOO_LARGE { LONGEST_WAIT } else { Duration::ZERO };
            running.database.write(move |database| upkeep::checkpoint(database, patience)).await?;
        }
        if running.database.write(search::upkeep::catch_up).await? {
            shared.nudge.notify_one();
        }
        let is_due = self.hourly.is_none_or(|last| last.elapsed() >= HOUR);
        if !is_due && !self.unfinished {
            return Ok(());
        }
        let retention = running.config.retention.clone();
        let now = clock::now();
        let keeping = running.database.write(move |database| {
            let silent = upkeep::interrupt_silent_sessions(database, now)?;
            let more = upkeep::drop_old(database, &retention, now)? | upkeep::shrink(database)?;
            Ok((silent, more))
        });
        let (silent, more) = keeping.await?;
        self.hourly = Some(Instant::now());
        self.unfinished = more || silent.waiting;
        if more {
            running.forget_counts();
        }
        if more || silent.queued {
            shared.nudge.notify_one();
        }
        Ok(())
    }
}
