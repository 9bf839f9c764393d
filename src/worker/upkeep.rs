//! What has to be done now and then: the log written back, the search index brought up to date, silent sessions closed, old
//! rows dropped.

use std::time::{Duration, Instant};

use super::clock;
use super::state::{Running, Shared};
use crate::search;
use crate::store::{StoreError, upkeep};

/// The write-ahead log is written back when it is larger than this.
const LOG_TOO_LARGE: u64 = 4 << 20;

const HOUR: Duration = Duration::from_secs(3600);

/// When things were last done.
#[derive(Debug, Default)]
pub struct Schedule {
    hourly: Option<Instant>,
    /// Old rows are left: go on at the next occasion.
    unfinished: bool,
}

impl Schedule {
    /// Does what is due. Cheap when nothing is.
    pub async fn keep_up(&mut self, shared: &Shared, running: &Running) -> Result<(), StoreError> {
        let log = std::fs::metadata(shared.home.log()).map_or(0, |meta| meta.len());
        if log > LOG_TOO_LARGE {
            running.writer.run(|database| tolerate_busy(upkeep::checkpoint(database))).await?;
        }
        if running.writer.run(search::upkeep::catch_up).await? {
            shared.nudge.notify_one();
        }
        let is_due = self.hourly.is_none_or(|last| last.elapsed() >= HOUR);
        if !is_due && !self.unfinished {
            return Ok(());
        }
        self.hourly = Some(Instant::now());
        let retention = running.config.retention.clone();
        let now = clock::now();
        let (queued, more) = running
            .writer
            .run(move |database| {
                let queued = upkeep::interrupt_silent_sessions(database, now)?;
                let more = upkeep::drop_old(database, &retention, now)? | upkeep::shrink(database)?;
                Ok((queued, more))
            })
            .await?;
        if more {
            running.forget_counts();
        }
        self.unfinished = more;
        if queued || more {
            shared.nudge.notify_one();
        }
        Ok(())
    }
}

/// Somebody reads for long: the next occasion will do.
fn tolerate_busy(outcome: Result<(), StoreError>) -> Result<(), StoreError> {
    match outcome {
        Err(StoreError::Busy) => Ok(()),
        other => other,
    }
}
