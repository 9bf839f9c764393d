//! Runs a job: builds a settlement from claimed rows and stores it, or stores the reason for the
//! failure.

pub mod seen_files;
mod transcript;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use super::state::{Running, Shared};
use crate::compress::digest::digest;
use crate::model::{Millis, SessionId};
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::{self, Settlement};
use crate::store::queue::{self, ClaimId, Work};
use crate::{clock, search};
use turns::Built;

/// Interval between attempts to store a result while the disk is full or the database is busy.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a job.
#[derive(Debug)]
pub enum JobOutcome {
    /// Its rows are settled, or wait for their next attempt.
    Finished,
    /// Its rows were released, and no other is worth trying before this time.
    RetryAt(Millis),
}

/// Runs a job. An error concerns the database, not the job.
pub async fn run(shared: &Shared, running: &Arc<Running>, work: Work) -> Result<JobOutcome, StoreError> {
    let (claim, session) = (work.claim, work.session.clone());
    let settlement = match turns::build(running, work).await {
        Ok(Built::Settlement(settlement)) => Arc::new(*settlement),
        Ok(Built::Failed(message, entries)) => {
            return fail(shared, running, (claim, &session), message, entries).await;
        }
        Ok(Built::Postponed(time)) => {
            give_back(shared, running, claim).await?;
            return Ok(JobOutcome::RetryAt(time));
        }
        Err(StoreError::Refused(error)) => {
            return fail(shared, running, (claim, &session), error.to_string(), Vec::new()).await;
        }
        Err(error) if error.is_transient() => return give_back(shared, running, claim).await,
        Err(error) => return Err(error),
    };
    let store = || {
        let settlement = settlement.clone();
        running.database.write(move |database| {
            memory::settle(database, &settlement, digest, search::indexing::index_batch)
        })
    };
    match retry_transient(shared, store).await {
        Ok(true) => {
            running.seen.confirm(&settlement.session);
            log_settled(&settlement);
        }
        // The claim was taken away; the remaining rows wait again.
        Ok(false) => shared.nudge.notify_one(),
        // The model call was billed nevertheless.
        Err(StoreError::Refused(error)) => {
            let entries = settlement.log.clone();
            return fail(shared, running, (claim, &session), error.to_string(), entries).await;
        }
        Err(error) => return Err(error),
    }
    shared.notify_settled();
    Ok(JobOutcome::Finished)
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

/// Releases the rows for a later attempt.
async fn give_back(shared: &Shared, running: &Running, claim: ClaimId) -> Result<JobOutcome, StoreError> {
    let release = || running.database.write(move |database| queue::release(database, claim));
    retry_transient(shared, release).await?;
    shared.nudge.notify_one();
    Ok(JobOutcome::Finished)
}

/// Records a failure of the rows themselves.
async fn fail(
    shared: &Shared,
    running: &Running,
    (claim, session): (ClaimId, &SessionId),
    message: String,
    entries: Vec<LogEntry>,
) -> Result<JobOutcome, StoreError> {
    // The model's full response is kept with the row; the log gets one line.
    let reason = message.lines().next().unwrap_or_default();
    let session = session.as_str();
    tracing::warn!(session, "cannot compress events of session {session}: {reason}");
    let max_attempts = running.config.queue.max_attempts;
    let note = || {
        let (message, entries) = (message.clone(), entries.clone());
        running.database.write(move |database| {
            queue::fail(database, claim, &message, max_attempts, &entries, clock::now())
        })
    };
    retry_transient(shared, note).await?;
    shared.notify_settled();
    shared.nudge.notify_one();
    Ok(JobOutcome::Finished)
}

/// Retries while the database has a transient error. Drop the future to give up.
async fn retry_transient<T, F: Future<Output = Result<T, StoreError>>>(
    shared: &Shared,
    work: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut had_problem = false;
    loop {
        match work().await {
            Err(error) if error.is_transient() => {
                shared.set_trouble(&format!("{}: {error}", shared.home.database().display()));
                had_problem = true;
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            outcome => {
                if had_problem {
                    shared.set_healthy();
                }
                return outcome;
            }
        }
    }
}
