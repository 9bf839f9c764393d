//! The provider `session`: a running Claude Code session answers with its own login.
//!
//! The service cannot call a session. A session with the plugin's mod asks for a job at the end of a
//! turn; a request waits for one that asks, is handed to it, and waits for its answer. Whatever goes
//! wrong on that way is a [`Failure::Declined`]: rules do the work, and nothing is repeated.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Failure, ModelRequest, Response, Usage};
use crate::api::{SessionAnswer, SessionJob, SessionUsage};
use crate::clock;
use crate::model::Millis;

/// The provider.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) model: String,
    /// Longest wait for a session that asks for a job.
    pub(super) wait: Duration,
    /// Longest wait for its answer.
    pub(super) timeout: Duration,
    pub(super) jobs: SessionJobs,
}

/// The place where requests and sessions meet. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct SessionJobs(Arc<Exchange>);

#[derive(Debug, Default)]
struct Exchange {
    state: Mutex<State>,
    /// Wakes a request when a session asks.
    asked: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The sessions that ask, the longest first.
    asking: VecDeque<oneshot::Sender<oneshot::Receiver<SessionJob>>>,
    /// The requests that a session works on.
    taken: BTreeMap<u64, oneshot::Sender<SessionAnswer>>,
    last_id: u64,
    last_asked_at: Option<Millis>,
}

/// A session that asked for a job and waits for it now.
#[derive(Debug)]
pub struct Seat {
    session: Session,
    job: oneshot::Sender<SessionJob>,
}

impl SessionJobs {
    /// Waits for a request, on behalf of a session.
    pub async fn take(&self, wait: Duration) -> Option<SessionJob> {
        let (seat, invited) = oneshot::channel();
        {
            let mut state = self.state();
            state.last_asked_at = Some(clock::now());
            state.asking.retain(|other| !other.is_closed());
            state.asking.push_back(seat);
        }
        self.0.asked.notify_one();
        let job = timeout(wait, invited).await.ok()?.ok()?;
        // It is sent at once, or dropped because the ceiling forbids the call.
        job.await.ok()
    }

    /// Hands over the answer to a request. False if nothing waits for it any more.
    pub fn answer(&self, id: u64, answer: SessionAnswer) -> bool {
        let waiting = self.state().taken.remove(&id);
        waiting.is_some_and(|waiting| waiting.send(answer).is_ok())
    }

    /// Returns the time when a session last asked for a job.
    pub fn last_asked_at(&self) -> Option<Millis> {
        self.state().last_asked_at
    }

    /// Waits for a session that asks.
    async fn invite(&self, wait: Duration) -> Option<oneshot::Sender<SessionJob>> {
        let deadline = Instant::now() + wait;
        loop {
            let asked = self.0.asked.notified();
            while let Some(seat) = self.next_asking() {
                let (job, waiting) = oneshot::channel();
                // A session that has given up is gone.
                if seat.send(waiting).is_ok() {
                    return Some(job);
                }
            }
            timeout_at(deadline, asked).await.ok()?;
        }
    }

    fn next_asking(&self) -> Option<oneshot::Sender<oneshot::Receiver<SessionJob>>> {
        self.state().asking.pop_front()
    }

    fn register(&self) -> (u64, oneshot::Receiver<SessionAnswer>) {
        let (answer, waiting) = oneshot::channel();
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        // A cancelled request leaves its entry behind.
        state.taken.retain(|_, other| !other.is_closed());
        state.taken.insert(id, answer);
        (id, waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Waits for a session that asks for a job.
    pub(super) async fn seat(&self) -> Result<Seat, Failure> {
        match self.jobs.invite(self.wait).await {
            Some(job) => Ok(Seat { session: self.clone(), job }),
            None => Err(declined("no Claude Code session with the plugin asked for it".into(), None)),
        }
    }
}

impl Seat {
    /// Hands the request to the session, and waits for the answer.
    pub(super) async fn complete(self, request: &ModelRequest) -> Result<Response, Failure> {
        let Self { session, job } = self;
        let (id, answer) = session.jobs.register();
        let handed = job.send(SessionJob {
            id,
            model: session.model.clone(),
            system: request.system_with_form(),
            prompt: request.prompt.as_str().to_owned(),
            max_output_tokens: request.max_output_tokens,
            timeout_ms: u64::try_from(session.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        if handed.is_err() {
            return Err(declined("the Claude Code session ended before it took the request".into(), None));
        }
        let Ok(Ok(answer)) = timeout(session.timeout, answer).await else {
            let message =
                format!("the Claude Code session did not answer within {} s", session.timeout.as_secs());
            return Err(declined(message, Some(request.most_usage())));
        };
        let Some(text) = answer.text.filter(|text| !text.is_empty()) else {
            let why = answer.error.unwrap_or_else(|| "an empty answer".into());
            return Err(declined(
                format!("the Claude Code session could not call the model: {why}"),
                Some(usage(answer.usage)),
            ));
        };
        let mut usage = usage(answer.usage);
        if usage.tokens_in == 0 || usage.tokens_out == 0 {
            usage = Usage::at_most(request, &text);
        }
        Ok(Response { text, usage, model: session.model, truncated: false })
    }
}

fn usage(counted: SessionUsage) -> Usage {
    Usage {
        tokens_in: counted
            .input_tokens
            .saturating_add(counted.cache_read_input_tokens)
            .saturating_add(counted.cache_creation_input_tokens),
        tokens_out: counted.output_tokens,
        cost_usd: None,
    }
}

fn declined(message: String, usage: Option<Usage>) -> Failure {
    Failure::Declined { message, usage }
}
