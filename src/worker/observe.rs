//! From claimed rows to a settlement: what is routine is skipped, the rest becomes observations; a marker closes the
//! turn (`turn_end`). By a model where there is one and the day's ceiling allows it, else by rules.

use std::sync::Arc;

use serde_json::json;

use super::clock;
use super::compressor::{Asked, Plan, when_mended, with_response};
use super::state::Running;
use super::turn_end;
use crate::compress::functions::Edited;
use crate::compress::parse::{self, Unusable};
use crate::compress::prompt;
use crate::compress::routine::{SeenFiles, Verdict, judge};
use crate::compress::turn::{Turn, TurnEvent};
use crate::compress::{functions, local, redacted};
use crate::config::Verbosity;
use crate::llm::Request;
use crate::model::{Millis, SessionId};
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::{self, NewObservation, Origin, Settlement};
use crate::store::queue::{self, Ending, Kind, QueueRow, Work};
use crate::store::sessions::{TurnPlace, turn_place};

/// What became of some work.
#[derive(Debug)]
pub enum Outcome {
    /// This is to be stored.
    Settled(Box<Settlement>),
    /// The rows themselves are at fault: why, and what the attempt cost.
    Failed(String, Vec<LogEntry>),
    /// Nothing is wrong with the rows; not before this time.
    Postponed(Millis),
}

/// The most titles of earlier observations that a model is told.
const EARLIER_TITLES: u32 = 10;

/// Makes memory of claimed rows.
pub async fn observe(running: &Arc<Running>, work: Work) -> Result<Outcome, StoreError> {
    let Some(first) = work.rows.first() else {
        return Ok(Outcome::Failed("nothing was claimed".into(), Vec::new()));
    };
    let (session, number) = (work.session.clone(), first.prompt_number);
    let place = running.database.read(move |database| turn_place(database, &session, number)).await?;
    let made = match first.kind {
        Kind::Observation => observe_events(running, work, place).await,
        Kind::Summarize | Kind::Flush => turn_end::close(running, work, place).await,
    };
    match made {
        Ok(outcome) => Ok(outcome),
        Err(Unmade::Stumbled(what)) => {
            Ok(Outcome::Failed(format!("the rules stumbled over it: {what}"), Vec::new()))
        }
        Err(Unmade::Ended(outcome)) => Ok(outcome),
        Err(Unmade::Store(error)) => Err(error),
    }
}

/// Why nothing could be made of it.
pub(super) enum Unmade {
    Store(StoreError),
    Stumbled(String),
    Ended(Outcome),
}

impl From<StoreError> for Unmade {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Observations of a batch of events.
async fn observe_events(running: &Arc<Running>, work: Work, place: TurnPlace) -> Result<Outcome, Unmade> {
    let mut settlement = begin(&work);
    let (session, last) = (work.session.clone(), work.rows.last().map_or(0, |row| row.id));
    let (verbosity, mut seen) = (running.config.compress.verbosity, running.seen.of(&session));
    let judged = blocking(move || {
        let (endings, kept) = judge_all(work.rows, verbosity, &mut seen);
        (endings, kept, seen)
    });
    let (endings, kept, seen) = judged.await?;
    running.seen.propose(&session, seen);
    settlement.endings = endings;
    if kept.is_empty() {
        return Ok(settled(settlement));
    }
    let marker =
        running.database.read(move |database| queue::closing_payload(database, &session, last)).await?;
    let closing = turn_end::closing_message(marker.as_deref()).await;
    let turn = Arc::new(turn(place, closing, kept));
    let read = turn.clone();
    let edited = blocking(move || functions::changed(&read)).await?;
    let asking = ask_for_observations(running, settlement.session.clone(), turn.clone());
    let asking = Asking { plan: running.compressor.plan(), asking, version: prompt::OBSERVATIONS_VERSION };
    settlement.observations = match asking.answered(running, &mut settlement, parse::observations).await? {
        Some(drafts) => drafts.into_iter().map(|draft| of_whole_turn(draft, &turn)).collect(),
        None => blocking(move || observe_locally(&turn)).await?,
    };
    Ok(settled(with_entry(with_functions(settlement, edited))))
}

/// What a model is to be asked, if one is to be asked.
pub(super) struct Asking<R> {
    pub plan: Plan,
    /// Makes the request; not begun where no model is asked.
    pub asking: R,
    pub version: &'static str,
}

impl<R: Future<Output = Result<Request, Unmade>>> Asking<R> {
    /// What a model says, as `read` understands it, or nothing where rules have to do. The settlement is told who speaks.
    pub async fn answered<T>(
        self,
        running: &Running,
        settlement: &mut Settlement,
        read: impl FnOnce(&str) -> Result<T, Unusable>,
    ) -> Result<Option<T>, Unmade> {
        settlement.origin = local_origin();
        let llm = match self.plan {
            Plan::Wait => return Err(Unmade::Ended(Outcome::Postponed(when_mended()))),
            Plan::Local => return Ok(None),
            Plan::Model(llm) => llm,
        };
        let request = self.asking.await?;
        match running.compressor.ask(running, &llm, &settlement.session, request, self.version).await? {
            Asked::Postponed(time) => Err(Unmade::Ended(Outcome::Postponed(time))),
            Asked::Failed(message, entry) => {
                Err(Unmade::Ended(Outcome::Failed(message, entry.into_iter().collect())))
            }
            Asked::OverCeiling => {
                note_ceiling(running, settlement);
                Ok(None)
            }
            Asked::Answered(response, origin, entry) => match read(&response.text) {
                Ok(answer) => {
                    settlement.origin = origin;
                    settlement.log.push(entry);
                    Ok(Some(answer))
                }
                Err(unusable) => {
                    let message = with_response(&unusable.reason, Some(&response.text));
                    Err(Unmade::Ended(Outcome::Failed(message, vec![entry])))
                }
            },
        }
    }
}

/// What the edits did to functions, in the map and in the observations of them.
fn with_functions(mut settlement: Settlement, edited: Vec<Edited>) -> Settlement {
    let alone = settlement.observations.len() == 1;
    for observation in &mut settlement.observations {
        functions::name(&mut observation.draft, &observation.sources, &edited, alone);
    }
    settlement.functions = edited.into_iter().flat_map(|edited| edited.changes).collect();
    settlement
}

/// How each row ends, and the events that are worth telling.
fn judge_all(
    rows: Vec<QueueRow>,
    verbosity: Verbosity,
    seen: &mut SeenFiles,
) -> (Vec<(i64, Ending)>, Vec<TurnEvent>) {
    let (mut endings, mut kept) = (Vec::new(), Vec::new());
    for row in rows {
        let event = turn_event(row);
        match judge(&event, verbosity, seen) {
            Verdict::Keep => {
                endings.push((event.id, Ending::Done));
                kept.push(event);
            }
            Verdict::Routine(reason) => endings.push((event.id, Ending::Skipped(reason.to_owned()))),
        }
    }
    (endings, kept)
}

async fn ask_for_observations(
    running: &Running,
    session: SessionId,
    turn: Arc<Turn>,
) -> Result<Request, Unmade> {
    let earlier = running
        .database
        .read(move |database| memory::recent_titles(database, &session, EARLIER_TITLES))
        .await?;
    let settings = running.config.compress.clone();
    blocking(move || prompt::for_observations(&turn, &earlier, &settings)).await
}

/// What the user asked for costs more than the day allows: rules do it, and `queue redo` can repeat it.
fn note_ceiling(running: &Running, settlement: &mut Settlement) {
    for (_, ending) in &mut settlement.endings {
        if *ending == Ending::Done {
            *ending = Ending::DoneBeyondCeiling;
        }
    }
    settlement.notice = Some(format!(
        "claude-mem: today's ceiling of ${:.2} is reached. Events are compressed without a model until tomorrow; \
         `claude-mem queue redo` repeats them then. The ceiling is cost.max_usd_per_day.",
        running.config.cost.max_usd_per_day
    ));
}

pub(super) fn settled(settlement: Settlement) -> Outcome {
    Outcome::Settled(Box::new(settlement))
}

pub(super) fn begin(work: &Work) -> Settlement {
    let numbers = work.rows.iter().filter_map(|row| row.prompt_number);
    Settlement {
        session: work.session.clone(),
        claim: work.claim,
        prompt_number: numbers.max(),
        now: clock::now(),
        ..Settlement::default()
    }
}

fn with_entry(mut settlement: Settlement) -> Settlement {
    settlement.log.push(LogEntry {
        event_type: "observed",
        session: Some(settlement.session.clone()),
        data: json!({"events": settlement.endings.len(), "observations": settlement.observations.len(),
                     "provider": settlement.origin.provider}),
        ..LogEntry::default()
    });
    settlement
}

fn observe_locally(turn: &Turn) -> Vec<NewObservation> {
    let made = local::observe(turn).into_iter();
    made.map(|observation| NewObservation {
        raw_bytes: raw_bytes(turn, &observation.sources),
        agent_type: shared_agent(turn, &observation.sources),
        draft: redacted::observation(observation.draft),
        sources: observation.sources,
    })
    .collect()
}

/// A model saw the whole batch, and does not say which part of it an observation came from.
fn of_whole_turn(draft: crate::model::ObservationDraft, turn: &Turn) -> NewObservation {
    let sources: Vec<i64> = turn.events.iter().map(|event| event.id).collect();
    NewObservation {
        raw_bytes: raw_bytes(turn, &sources),
        agent_type: shared_agent(turn, &sources),
        draft: redacted::observation(draft),
        sources,
    }
}

fn raw_bytes(turn: &Turn, sources: &[i64]) -> i64 {
    let bytes: u64 =
        turn.events.iter().filter(|event| sources.contains(&event.id)).map(|event| event.raw_bytes).sum();
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The kind of subagent that did all of it.
fn shared_agent(turn: &Turn, sources: &[i64]) -> Option<String> {
    let mut agents =
        turn.events.iter().filter(|event| sources.contains(&event.id)).map(|event| &event.agent_type);
    let first = agents.next()?.clone()?;
    agents.all(|agent| agent.as_ref() == Some(&first)).then_some(first)
}

fn local_origin() -> Origin {
    Origin { provider: "local".into(), prompt_version: local::VERSION.into(), ..Origin::default() }
}

pub(super) fn turn(place: TurnPlace, closing: Option<String>, events: Vec<TurnEvent>) -> Turn {
    Turn {
        project: place.project,
        project_path: Some(place.project_path).filter(|path| !path.is_empty()),
        branch: place.branch,
        prompt: place.prompt,
        last_assistant_message: closing,
        events,
    }
}

pub(super) fn turn_event(row: QueueRow) -> TurnEvent {
    TurnEvent {
        id: row.id,
        tool_name: row.tool_name,
        payload: row.payload.unwrap_or_default(),
        failed: row.failed,
        cwd: row.cwd,
        agent_type: row.agent_type,
        raw_bytes: u64::try_from(row.raw_bytes).unwrap_or_default(),
    }
}

/// Work that takes the processor, away from the asynchronous thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unmade> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Unmade::Stumbled(error.to_string()))
}
