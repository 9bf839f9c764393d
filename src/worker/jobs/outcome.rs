//! The end of a job: stores its settlement, counts a failed attempt, or releases the rows.

use std::sync::Arc;
use std::time::Duration;

use crate::compress::digest::digest;
use crate::model::{Millis, SessionId};
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::{self, Settlement};
use crate::store::queue::{self, ClaimId};
use crate::worker::state::{Running, Shared};
use crate::{clock, search};

/// Interval between attempts to store a result while the disk is full or the database is busy.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a job, before it is stored.
#[derive(Debug)]
pub enum JobOutcome {
    /// Results, which end the rows.
    Settled(Box<Settlement>),
    /// The rows themselves failed, which counts an attempt: the reason, and the cost.
    Failed {
        /// The reason; the first line is logged.
        reason: String,
        /// Entries of the event log, such as the cost of the model call.
        log: Vec<LogEntry>,
    },
    /// The rows are fine and released; retry no earlier than this.
    RetryAt(Millis),
    /// The rows are fine and released; retry at once.
    Released,
}

impl JobOutcome {
    /// Returns the outcome of a job that the database stopped, unless the database needs help.
    pub fn of_error(error: StoreError) -> Result<Self, StoreError> {
        match error {
            StoreError::Refused(error) => Ok(Self::Failed { reason: error.to_string(), log: Vec::new() }),
            error if error.is_transient() => Ok(Self::Released),
            error => Err(error),
        }
    }
}

/// The reason why a job ended early.
#[derive(Debug)]
pub enum JobError {
    /// The database failed.
    Store(StoreError),
    /// The outcome is known.
    Outcome(JobOutcome),
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<JobOutcome> for JobError {
    fn from(outcome: JobOutcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// The claim of a job, for storing its outcome.
pub struct Claimed<'a> {
    /// The worker.
    pub shared: &'a Shared,
    /// The open database and the settings.
    pub running: &'a Running,
    /// The claim on the rows.
    pub claim: ClaimId,
    /// The session of the rows.
    pub session: SessionId,
}

impl Claimed<'_> {
    /// Stores an outcome. Returns the time of [`JobOutcome::RetryAt`].
    pub async fn store(&self, outcome: JobOutcome) -> Result<Option<Millis>, StoreError> {
        match outcome {
            JobOutcome::Settled(settlement) => self.settle(Arc::new(*settlement)).await?,
            JobOutcome::Failed { reason, log } => self.fail(reason, log).await?,
            JobOutcome::RetryAt(time) => {
                self.release().await?;
                return Ok(Some(time));
            }
            JobOutcome::Released => self.release().await?,
        }
        Ok(None)
    }

    async fn settle(&self, settlement: Arc<Settlement>) -> Result<(), StoreError> {
        let store = || {
            let settlement = settlement.clone();
            self.running.database.write(move |database| {
                memory::settle(database, &settlement, digest, search::indexing::index_batch)
            })
        };
        match self.retry_transient(store).await {
            Ok(true) => {
                self.running.seen.confirm(&settlement.session);
                log_settled(&settlement);
            }
            // The claim was taken away; the remaining rows wait again.
            Ok(false) => self.shared.nudge.notify_one(),
            // The model call was billed nevertheless.
            Err(StoreError::Refused(error)) => {
                return self.fail(error.to_string(), settlement.log.clone()).await;
            }
            Err(error) => return Err(error),
        }
        self.shared.notify_settled();
        Ok(())
    }

    /// Releases the rows for a later attempt.
    async fn release(&self) -> Result<(), StoreError> {
        let claim = self.claim;
        let release = || self.running.database.write(move |database| queue::release(database, claim));
        self.retry_transient(release).await?;
        self.shared.nudge.notify_one();
        Ok(())
    }

    /// Records a failure of the rows themselves.
    async fn fail(&self, message: String, entries: Vec<LogEntry>) -> Result<(), StoreError> {
        // The model's full response is kept with the row; the log gets one line.
        let reason = message.lines().next().unwrap_or_default();
        let (claim, session) = (self.claim, self.session.as_str());
        tracing::warn!(session, "cannot compress events of session {session}: {reason}");
        let max_attempts = self.running.config.queue.max_attempts;
        let record = || {
            let (message, entries) = (message.clone(), entries.clone());
            self.running.database.write(move |database| {
                queue::fail(database, claim, &message, max_attempts, &entries, clock::now())
            })
        };
        self.retry_transient(record).await?;
        self.shared.notify_settled();
        self.shared.nudge.notify_one();
        Ok(())
    }

    /// Retries while the database has a transient error. Drop the future to give up.
    async fn retry_transient<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let mut had_problem = false;
        loop {
            match work().await {
                Err(error) if error.is_transient() => {
                    self.shared.set_trouble(&format!("{}: {error}", self.shared.home.database().display()));
                    had_problem = true;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                outcome => {
                    if had_problem {
                        self.shared.set_healthy();
                    }
                    return outcome;
                }
            }
        }
    }
}

/// Logs one line per job, so that a user can follow a session.
fn log_settled(settlement: &Settlement) {
    let session = settlement.session.as_str();
    let (events, notes) = (settlement.endings.len(), settlement.observations.len());
    let summary = if settlement.summary.is_some() { ", 1 summary" } else { "" };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    tracing::info!(
        session,
        "session {session}: processed {events} event{}: {notes} observation{}{summary}",
        plural(events),
        plural(notes)
    );
}
