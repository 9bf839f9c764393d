//! Asking a model: who is asked, whether it may be asked now, and what it cost.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use serde_json::json;

use super::clock;
use super::state::{ProviderHealth, Running, Shared};
use crate::llm::breaker::{Admission, Breaker, BreakerState};
use crate::llm::budget::{Verdict, decide};
use crate::llm::{self, Choice, Failure, Llm, Request, Response, Usage, guard};
use crate::model::{Millis, SessionId};
use crate::store::StoreError;
use crate::store::log::{LogEntry, spent_since};
use crate::store::memory::Origin;

/// The worker's side of the models.
#[derive(Debug)]
pub struct Compressor {
    choice: RwLock<Choice>,
    breaker: Breaker,
    /// What calls under way may cost at most.
    reserved: Mutex<f64>,
    own_program: PathBuf,
}

/// Who does the next piece of work.
#[derive(Debug)]
pub enum Plan {
    /// Rules.
    Local,
    /// This model.
    Model(Box<Llm>),
    /// Nobody, until the user mends something.
    Wait,
}

/// What came of asking.
#[derive(Debug)]
pub enum Asked {
    /// An answer, who gave it, and the entry about the call.
    Answered(Response, Origin, LogEntry),
    /// The day's ceiling does not allow the call.
    OverCeiling,
    /// The provider is in trouble: not before this time.
    Postponed(Millis),
    /// The request itself is at fault.
    Failed(String, Option<LogEntry>),
}

/// How soon it is looked whether the user has mended what only the user can mend.
const LOOK_AGAIN: Millis = 60_000;

impl Compressor {
    /// Chooses who compresses, as things are now.
    pub fn new(shared: &Shared, config: &crate::config::Config) -> Self {
        let own_program = guard::own_program().unwrap_or_else(|_| PathBuf::from("claude-mem"));
        let choice = llm::choose(config, &shared.home, &shared.environment, &own_program);
        match &choice {
            Choice::Llm(llm) => {
                tracing::info!(
                    provider = llm.name(),
                    model = llm.model(),
                    "compressing with {}, {}",
                    llm.name(),
                    llm.model()
                )
            }
            Choice::Local { why } => tracing::info!(why, "compressing without a model: {why}"),
            Choice::Unusable { why } => tracing::error!(why, "nothing can be compressed: {why}"),
        }
        Self { choice: RwLock::new(choice), breaker: Breaker::new(), reserved: Mutex::new(0.0), own_program }
    }

    /// Chooses again if there is no model now: a key may have appeared.
    pub fn look_again(&self, shared: &Shared, config: &crate::config::Config) {
        let has_model = matches!(*self.choice.read().unwrap_or_else(PoisonError::into_inner), Choice::Llm(_));
        if has_model {
            return;
        }
        let found = llm::choose(config, &shared.home, &shared.environment, &self.own_program);
        if let Choice::Llm(llm) = &found {
            tracing::info!(
                provider = llm.name(),
                model = llm.model(),
                "compressing with {} from now on",
                llm.name()
            );
        }
        *self.choice.write().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Who does the next piece of work.
    pub fn plan(&self) -> Plan {
        match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Choice::Llm(llm) => Plan::Model(Box::new(llm.clone())),
            Choice::Local { .. } => Plan::Local,
            Choice::Unusable { .. } => Plan::Wait,
        }
    }

    /// How the provider is.
    pub fn health(&self) -> ProviderHealth {
        let (name, mut problem) = match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Choice::Llm(llm) => (llm.name(), None),
            Choice::Local { .. } => ("local", None),
            Choice::Unusable { why } => ("none", Some(why.clone())),
        };
        let breaker = match self.breaker.state() {
            BreakerState::Closed => "closed",
            BreakerState::Open { message, probing, .. } => {
                problem = Some(message);
                if probing { "half-open" } else { "open" }
            }
        };
        ProviderHealth { name, breaker, problem }
    }

    /// Asks the model, if the breaker and the ceiling allow it.
    pub async fn ask(
        &self,
        running: &Running,
        llm: &Llm,
        session: &SessionId,
        request: Request,
        prompt_version: &str,
    ) -> Result<Asked, StoreError> {
        let prices = &running.config.prices;
        let at_most = llm.cost_at_most(prices, &request);
        let day = clock::day_start(clock::now());
        let spent = running.database.read(move |database| spent_since(database, day)).await?;
        let Some(_reservation) = self.reserve(spent, at_most, running.config.cost.max_usd_per_day) else {
            return Ok(Asked::OverCeiling);
        };
        let pass = match self.breaker.admit(clock::now()) {
            Admission::Go(pass) => pass,
            Admission::WaitUntil(time) => return Ok(Asked::Postponed(time)),
        };
        let began = std::time::Instant::now();
        let answer = llm.complete(&request).await;
        let entry = |usage: &Usage, model: &str| LogEntry {
            event_type: "llm_call",
            session: Some(session.clone()),
            data: json!({"provider": llm.name(), "model": model}),
            duration_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
            tokens_in: Some(tokens(usage.tokens_in)),
            tokens_out: Some(tokens(usage.tokens_out)),
            cost_usd: Some(llm.cost(prices, usage)),
        };
        Ok(match answer {
            Ok(response) => {
                pass.answered();
                let entry = entry(&response.usage, &response.model);
                let origin = Origin {
                    provider: llm.name().into(),
                    model: Some(response.model.clone()),
                    prompt_version: prompt_version.into(),
                    tokens_in: tokens(response.usage.tokens_in),
                    tokens_out: tokens(response.usage.tokens_out),
                };
                Asked::Answered(response, origin, entry)
            }
            Err(Failure::Item { message, response, usage }) => {
                pass.answered();
                let entry = usage.map(|usage| entry(&usage, llm.model()));
                Asked::Failed(with_response(&message, response.as_deref()), entry)
            }
            Err(Failure::Provider(failure)) => {
                tracing::warn!(
                    provider = llm.name(),
                    error = failure.message,
                    "{} is in trouble: {}",
                    llm.name(),
                    failure.message
                );
                pass.failed(clock::now(), &failure);
                Asked::Postponed(self.next_try())
            }
        })
    }

    fn next_try(&self) -> Millis {
        match self.breaker.state() {
            BreakerState::Open { next_probe_at, .. } => next_probe_at,
            BreakerState::Closed => clock::now(),
        }
    }

    /// Sets aside what a call may cost at most, for as long as it is under way.
    fn reserve(&self, spent: f64, at_most: f64, ceiling: f64) -> Option<Reservation<'_>> {
        let mut reserved = self.reserved();
        match decide(spent + *reserved, at_most, ceiling) {
            Verdict::Allowed => {
                *reserved += at_most;
                drop(reserved);
                Some(Reservation { of: self, amount: at_most })
            }
            Verdict::OverCeiling { .. } => None,
        }
    }

    fn reserved(&self) -> MutexGuard<'_, f64> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to try again what waits for the user.
pub fn when_mended() -> Millis {
    clock::now() + LOOK_AGAIN
}

/// Given back when the call ends, however it ends.
struct Reservation<'a> {
    of: &'a Compressor,
    amount: f64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.of.reserved() -= self.amount;
    }
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// As much of a useless response as helps to see what is wrong with it.
pub fn with_response(message: &str, response: Option<&str>) -> String {
    const KEPT: usize = 4_000;
    match response {
        None | Some("") => message.to_owned(),
        Some(response) => {
            let kept = &response[..response.floor_char_boundary(KEPT)];
            let redactor = crate::privacy::redact::Redactor::new();
            format!("{message}\nresponse: {}", redactor.redact(kept).as_str())
        }
    }
}
