//! Model calls: chooses the provider, enforces the breaker and the cost ceiling, and records the
//! cost.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};

use serde_json::json;

use super::state::{ProviderHealth, Running, Shared};
use crate::clock;
use crate::llm::breaker::{Admission, Breaker, BreakerState};
use crate::llm::budget::{BudgetDecision, decide};
use crate::llm::{self, Choice, Failure, Llm, ModelRequest, Response, SessionJobs, Usage, guard};
use crate::model::{Millis, SessionId};
use crate::paths::Home;
use crate::store::StoreError;
use crate::store::log::{self, LogEntry, spent_since};
use crate::store::memory::Origin;

/// The worker's access to models.
#[derive(Debug)]
pub struct Compressor {
    choice: RwLock<Choice>,
    breaker: Breaker,
    own_program: PathBuf,
    session_jobs: SessionJobs,
    /// The credentials file as it was when the provider was chosen.
    keys: Mutex<KeyFile>,
    /// The time since which the configured provider cannot be used.
    unusable_since: Mutex<Option<Millis>>,
}

/// File metadata that changes when the file is written or replaced; `None` if it does not exist.
type KeyFile = Option<(u64, u64, i64, i64)>;

/// The way to process the next job.
#[derive(Debug)]
pub enum ProviderPlan {
    /// With rules.
    Local,
    /// With this model.
    Model(Box<Llm>),
    /// Not at all until the user fixes the provider.
    Wait,
}

/// The result of a model call.
#[derive(Debug)]
pub enum ModelOutcome {
    /// A response, and its origin.
    Answered(Response, Origin),
    /// The daily ceiling does not allow the call.
    OverCeiling,
    /// The provider has a problem: retry no earlier than this.
    Postponed(Millis),
    /// The request itself failed.
    Failed(String),
    /// Nobody answered, for this reason; it is not repeated.
    Declined(String),
}

/// Interval for checking whether the user has fixed the provider.
const PROVIDER_CHECK_INTERVAL: Millis = 60_000;

impl Compressor {
    /// Chooses the provider from the current state.
    pub fn new(shared: &Shared, config: &crate::config::Config) -> Self {
        let own_program = guard::own_program().unwrap_or_else(|_| PathBuf::from("claude-mem"));
        let session_jobs = SessionJobs::default();
        let choice = llm::choose(config, &shared.home, &shared.environment, &own_program);
        let choice = choice.meeting_at(&session_jobs);
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
            Choice::Unusable { why } => tracing::error!(why, "cannot compress: {why}"),
        }
        let unusable_since = matches!(choice, Choice::Unusable { .. }).then(clock::now);
        Self {
            choice: RwLock::new(choice),
            breaker: Breaker::new(),
            own_program,
            session_jobs,
            keys: Mutex::new(key_file(&shared.home)),
            unusable_since: Mutex::new(unusable_since),
        }
    }

    /// Chooses the provider again if the credentials file changed. True if so: then everything
    /// known about the provider is outdated.
    pub fn notice_new_keys(&self, shared: &Shared, config: &crate::config::Config) -> bool {
        let now = key_file(&shared.home);
        let before = std::mem::replace(&mut *locked(&self.keys), now);
        if before == now {
            return false;
        }
        tracing::info!("the credentials file changed: reading it again");
        self.choose_again(shared, config);
        self.breaker.reset();
        true
    }

    /// Chooses the provider again if there is no model or it has a problem: a key or a login may
    /// have appeared.
    pub fn recheck_provider(&self, shared: &Shared, config: &crate::config::Config) {
        let has_model = matches!(*self.choice.read().unwrap_or_else(PoisonError::into_inner), Choice::Llm(_));
        if !has_model || self.refused_since().is_some() {
            self.choose_again(shared, config);
        }
    }

    /// Returns the time since which the provider refuses us or cannot be used.
    fn refused_since(&self) -> Option<Millis> {
        match self.breaker.state() {
            BreakerState::Open { kind, since, .. } if kind.is_refusal() => Some(since),
            _ => *locked(&self.unusable_since),
        }
    }

    /// True if rules take over, because the user has not fixed the provider within the configured
    /// time.
    pub fn is_given_up(&self, config: &crate::config::Config) -> bool {
        let patience = Millis::try_from(config.compress.fallback_after_s).unwrap_or(Millis::MAX / 1000);
        self.refused_since().is_some_and(|since| clock::now() - since >= patience.saturating_mul(1000))
    }

    fn choose_again(&self, shared: &Shared, config: &crate::config::Config) {
        let found = llm::choose(config, &shared.home, &shared.environment, &self.own_program);
        let found = found.meeting_at(&self.session_jobs);
        match &found {
            Choice::Unusable { .. } => drop(locked(&self.unusable_since).get_or_insert_with(clock::now)),
            _ => *locked(&self.unusable_since) = None,
        }
        if let Choice::Llm(llm) = &found {
            tracing::debug!(provider = llm.name(), model = llm.model(), "calling {}", llm.name());
        }
        *self.choice.write().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Returns the way to process the next job.
    pub fn plan(&self) -> ProviderPlan {
        match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Choice::Llm(llm) => ProviderPlan::Model(Box::new(llm.clone())),
            Choice::Local { .. } => ProviderPlan::Local,
            Choice::Unusable { .. } => ProviderPlan::Wait,
        }
    }

    /// Returns the place where sessions get requests, if they are the provider.
    pub fn session_jobs(&self) -> Option<&SessionJobs> {
        let choice = self.choice.read().unwrap_or_else(PoisonError::into_inner);
        matches!(&*choice, Choice::Llm(Llm::Session(_))).then_some(&self.session_jobs)
    }

    /// Returns the provider's health.
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

    /// Calls the model, if the breaker and the ceiling allow it.
    pub async fn ask(
        &self,
        running: &Running,
        llm: &Llm,
        session: &SessionId,
        request: ModelRequest,
        prompt_version: &str,
    ) -> Result<ModelOutcome, StoreError> {
        let prices = &running.config.prices;
        let began = std::time::Instant::now();
        let entry = |usage: &Usage, model: &str, cost_usd: f64| LogEntry {
            event_type: "llm_call",
            session: Some(session.clone()),
            data: json!({"provider": llm.name(), "model": model}),
            duration_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
            tokens_in: Some(tokens(usage.tokens_in)),
            tokens_out: Some(tokens(usage.tokens_out)),
            cost_usd: Some(cost_usd),
        };
        let (most, at_most) = (request.most_usage(), llm.cost_at_most(prices, &request));
        let ceiling = running.config.cost.max_usd_per_day;
        let may_spend = move |spent: f64| decide(spent, at_most, ceiling) == BudgetDecision::Allowed;
        let day = clock::day_start(clock::now());
        if !may_spend(running.database.read(move |database| spent_since(database, day)).await?) {
            return Ok(ModelOutcome::OverCeiling);
        }
        let pass = match self.breaker.admit(clock::now()) {
            Admission::Go(pass) => pass,
            Admission::WaitUntil(time) => return Ok(ModelOutcome::Postponed(time)),
        };
        let ready = match llm.ready().await {
            Ok(ready) => ready,
            Err(failure) => return Ok(ModelOutcome::Declined(failure.to_string())),
        };
        // Book the maximum cost before the call: a call without a response, or during which we die,
        // may be billed.
        let booked = entry(&most, llm.model(), at_most);
        let book = move |database: &mut _| log::book(database, &booked, day, clock::now(), may_spend);
        let Some(booking) = running.database.write(book).await? else { return Ok(ModelOutcome::OverCeiling) };
        let answer = ready.complete(&request).await;
        let taken = match &answer {
            Ok(response) => Some(entry(&response.usage, &response.model, llm.cost(prices, &response.usage))),
            Err(Failure::Item { usage, .. } | Failure::Declined { usage, .. }) => {
                usage.as_ref().map(|usage| entry(usage, llm.model(), llm.cost(prices, usage)))
            }
            Err(Failure::Provider(failure)) if failure.may_cost => Some(entry(&most, llm.model(), at_most)),
            Err(Failure::Provider(_)) => None,
        };
        let was_refused = self.refused_since().is_some();
        let is_answered = matches!(answer, Ok(_) | Err(Failure::Item { .. }));
        let correct = move |database: &mut rusqlite::Connection| {
            log::correct(database, booking, taken.as_ref())?;
            if was_refused && is_answered { log::withdraw_notices(database, REFUSED) } else { Ok(()) }
        };
        running.database.write(correct).await?;
        Ok(match answer {
            Ok(response) => {
                pass.answered();
                let origin = Origin {
                    provider: llm.name().into(),
                    model: Some(response.model.clone()),
                    prompt_version: prompt_version.into(),
                    tokens_in: tokens(response.usage.tokens_in),
                    tokens_out: tokens(response.usage.tokens_out),
                };
                ModelOutcome::Answered(response, origin)
            }
            Err(Failure::Item { message, response, .. }) => {
                pass.answered();
                ModelOutcome::Failed(with_response(&message, response.as_deref()))
            }
            Err(Failure::Declined { message, .. }) => ModelOutcome::Declined(message),
            Err(Failure::Provider(failure)) => {
                tracing::warn!(
                    provider = llm.name(),
                    error = failure.message,
                    "{} failed: {}",
                    llm.name(),
                    failure.message
                );
                if failure.kind.is_refusal() {
                    self.note_refusal(running, &failure.message).await?;
                }
                pass.failed(clock::now(), &failure);
                ModelOutcome::Postponed(self.next_try())
            }
        })
    }

    fn next_try(&self) -> Millis {
        match self.breaker.state() {
            BreakerState::Open { next_probe_at, .. } => next_probe_at,
            BreakerState::Closed => clock::now(),
        }
    }

    /// Leaves a notice for the user, who alone can fix it.
    pub async fn note_refusal(&self, running: &Running, why: &str) -> Result<(), StoreError> {
        let minutes = running.config.compress.fallback_after_s.div_ceil(60);
        let message = format!(
            "{REFUSED} {why} Turns wait; after {minutes} minutes they are processed without a model, and `claude-mem queue redo` \
             repeats them later."
        );
        running.database.write(move |database| log::notice(database, &message, clock::now())).await
    }

    /// Returns the reason why no model can be used.
    pub fn unusable(&self) -> Option<String> {
        match &*self.choice.read().unwrap_or_else(PoisonError::into_inner) {
            Choice::Unusable { why } => Some(why.clone()),
            _ => None,
        }
    }
}

/// Prefix of the notice about a provider that refuses us.
const REFUSED: &str = "claude-mem: cannot use the model.";

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_file(home: &Home) -> KeyFile {
    let meta = std::fs::metadata(home.credentials()).ok()?;
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

/// Returns the time of the next attempt for work that waits for the user.
pub fn next_provider_check() -> Millis {
    clock::now() + PROVIDER_CHECK_INTERVAL
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Appends the start of an unusable response to a message, for diagnosis.
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
