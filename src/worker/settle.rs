//! The end of a piece of work: its memory stored, or why there is none.

use std::sync::Arc;
use std::time::Duration;

use super::state::{Running, Shared};
use super::{clock, observe};
use crate::model::{Millis, SessionId};
use crate::search;
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::{self, Settlement};
use crate::store::queue::{self, ClaimId, Work};

/// What was made is not thrown away because the disk is full for a moment.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What became of a piece of work.
#[derive(Debug)]
pub enum Settled {
    /// It is dealt with.
    Dealt,
    /// It was given back, and nothing of its kind is worth trying before this.
    NotBefore(Millis),
}

/// Makes memory of the work and stores it, or notes why not. An error concerns the database, not the work.
pub async fn settle(shared: &Shared, running: &Arc<Running>, work: Work) -> Result<Settled, StoreError> {
    let (claim, session) = (work.claim, work.session.clone());
    let settlement = match observe::observe(running, work).await {
        Ok(observe::Outcome::Settled(settlement)) => Arc::new(*settlement),
        Ok(observe::Outcome::Failed(message, entries)) => {
            return fail(shared, running, (claim, &session), message, entries).await;
        }
        Ok(observe::Outcome::Postponed(time)) => {
            give_back(shared, running, claim).await?;
            return Ok(Settled::NotBefore(time));
        }
        Err(StoreError::Refused(error)) => {
            return fail(shared, running, (claim, &session), error.to_string(), Vec::new()).await;
        }
        Err(error) if error.passes() => return give_back(shared, running, claim).await,
        Err(error) => return Err(error),
    };
    let store = || {
        let settlement = settlement.clone();
        running
            .database
            .write(move |database| memory::settle(database, &settlement, search::upkeep::take_up_many))
    };
    match patiently(shared, store).await {
        Ok(true) => {
            running.seen.confirm(&settlement.session);
            tell(&settlement);
        }
        // Somebody took the work away; what was left of it waits again.
        Ok(false) => shared.nudge.notify_one(),
        // The model was paid all the same.
        Err(StoreError::Refused(error)) => {
            let entries = settlement.log.clone();
            return fail(shared, running, (claim, &session), error.to_string(), entries).await;
        }
        Err(error) => return Err(error),
    }
    shared.note_settled();
    Ok(Settled::Dealt)
}

/// Says what came of it, so that a person can see a session go by.
fn tell(settlement: &Settlement) {
    let session = settlement.session.as_str();
    let (events, observations) = (settlement.endings.len(), settlement.observations.len());
    let summary = if settlement.summary.is_some() { ", a summary" } else { "" };
    tracing::info!(session, "session {session}: {events} settled, {observations} remembered{summary}");
}

/// Nothing could be made of it for now.
async fn give_back(shared: &Shared, running: &Running, claim: ClaimId) -> Result<Settled, StoreError> {
    let release = || running.database.write(move |database| queue::release(database, claim));
    patiently(shared, release).await?;
    shared.nudge.notify_one();
    Ok(Settled::Dealt)
}

/// The rows themselves are at fault.
async fn fail(
    shared: &Shared,
    running: &Running,
    (claim, session): (ClaimId, &SessionId),
    message: String,
    entries: Vec<LogEntry>,
) -> Result<Settled, StoreError> {
    // What the model answered is kept with the row; a log has lines.
    let reason = message.lines().next().unwrap_or_default();
    let session = session.as_str();
    tracing::warn!(session, "an event of session {session} could not be compressed: {reason}");
    let max_attempts = running.config.queue.max_attempts;
    let note = || {
        let (message, entries) = (message.clone(), entries.clone());
        running.database.write(move |database| {
            queue::fail(database, claim, &message, max_attempts, &entries, clock::now())
        })
    };
    patiently(shared, note).await?;
    shared.note_settled();
    shared.nudge.notify_one();
    Ok(Settled::Dealt)
}

/// Tries again while the database cannot for a reason that passes. Whoever is impatient drops this.
async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
    shared: &Shared,
    work: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut was_hindered = false;
    loop {
        match work().await {
            Err(error) if error.passes() => {
                shared.set_trouble(&format!("{}: {error}", shared.home.database().display()));
                was_hindered = true;
                tokio::time::sleep(TRY_AGAIN).await;
            }
            outcome => {
                if was_hindered {
                    shared.set_well();
                }
                return outcome;
            }
        }
    }
}
