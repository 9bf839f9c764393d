//! A job, in the order of the files: a claim is [classified](classify), [assembled](assemble) into a
//! turn, built [by a model](by_model) or [by rules](by_rules), and its [outcome] is stored.

mod assemble;
mod by_model;
mod by_rules;
mod classify;
mod job;
mod outcome;
pub mod seen_files;
mod transcript;

use std::sync::Arc;

use super::state::{Running, Shared};
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::queue::Work;
use job::Job;
use outcome::{Claimed, JobError, JobOutcome};

/// Runs a job. Returns the time before which no other is worth trying, if the provider has a
/// problem. An error concerns the database, not the job.
pub async fn run(shared: &Shared, running: &Arc<Running>, work: Work) -> Result<Option<Millis>, StoreError> {
    let claimed = Claimed { shared, running, claim: work.claim, session: work.session.clone() };
    let outcome = match Job::new(running, work).run().await {
        Ok(settlement) => JobOutcome::Settled(Box::new(settlement)),
        Err(JobError::Outcome(outcome)) => outcome,
        Err(JobError::Store(error)) => JobOutcome::of_error(error)?,
    };
    claimed.store(outcome).await
}
