//! From claimed rows to a settlement: what is routine is skipped, the rest becomes observations; a marker closes the
//! turn with a summary. By a model where there is one and the day's ceiling allows it, else by rules.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::clock;
use super::compressor::{Asked, Plan, when_mended, with_response};
use super::state::Running;
use super::{learning, transcript};
use crate::compress::functions::Edited;
use crate::compress::parse::{self, SummaryAnswer};
use crate::compress::prompt::{self, Noted};
use crate::compress::routine::{SeenFiles, Verdict, judge};
use crate::compress::turn::{Turn, TurnEvent};
use crate::compress::{functions, local, redacted};
use crate::config::Verbosity;
use crate::llm::Llm;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::learnings::{self, Learning};
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

/// The most events that a summary looks back at.
const MOST_EVENTS_OF_A_TURN: u32 = 200;
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
        Kind::Summarize | Kind::Flush => close_turn(running, work, place).await,
    };
    match made {
        Ok(outcome) => Ok(outcome),
        Err(Unmade::Stumbled(what)) => {
            Ok(Outcome::Failed(format!("the rules stumbled over it: {what}"), Vec::new()))
        }
        Err(Unmade::Store(error)) => Err(error),
    }
}

/// Why nothing could be made of it.
enum Unmade {
    Store(StoreError),
    Stumbled(String),
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
    let closing = closing_message(marker.as_deref()).await;
    let turn = Arc::new(turn(place, closing, kept));
    let read = turn.clone();
    let edited = blocking(move || functions::changed(&read)).await?;
    let outcome = match running.compressor.plan() {
        Plan::Wait => return Ok(Outcome::Postponed(when_mended())),
        Plan::Local => observe_by_rules(settlement, turn).await?,
        Plan::Model(llm) => match ask_for_observations(running, &llm, &settlement, &turn).await? {
            Asked::Postponed(time) => return Ok(Outcome::Postponed(time)),
            Asked::Failed(message, entry) => {
                return Ok(Outcome::Failed(message, entry.into_iter().collect()));
            }
            Asked::OverCeiling => observe_by_rules(beyond_ceiling(running, settlement), turn).await?,
            Asked::Answered(response, origin, entry) => match parse::observations(&response.text) {
                Ok(drafts) => {
                    settlement.observations =
                        drafts.into_iter().map(|draft| of_whole_turn(draft, &turn)).collect();
                    settlement.origin = origin;
                    settlement.log.push(entry);
                    settlement
                }
                Err(unusable) => {
                    let message = with_response(&unusable.reason, Some(&response.text));
                    return Ok(Outcome::Failed(message, vec![entry]));
                }
            },
        },
    };
    Ok(settled(with_entry(with_functions(outcome, edited))))
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
    running: &Arc<Running>,
    llm: &Llm,
    settlement: &Settlement,
    turn: &Arc<Turn>,
) -> Result<Asked, Unmade> {
    let session = settlement.session.clone();
    let earlier = running
        .database
        .read(move |database| memory::recent_titles(database, &session, EARLIER_TITLES))
        .await?;
    let (turn, settings) = (turn.clone(), running.config.compress.clone());
    let request = blocking(move || prompt::for_observations(&turn, &earlier, &settings)).await?;
    let version = prompt::OBSERVATIONS_VERSION;
    Ok(running.compressor.ask(running, llm, &settlement.session, request, version).await?)
}

async fn observe_by_rules(mut settlement: Settlement, turn: Arc<Turn>) -> Result<Settlement, Unmade> {
    settlement.observations = blocking(move || observe_locally(&turn)).await?;
    settlement.origin = local_origin();
    Ok(settlement)
}

/// What the user asked for costs more than the day allows: rules do it, and `queue redo` can repeat it.
fn beyond_ceiling(running: &Running, mut settlement: Settlement) -> Settlement {
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
    settlement
}

/// A summary of the turn that a marker closes, if there was anything in it.
async fn close_turn(running: &Arc<Running>, work: Work, place: TurnPlace) -> Result<Outcome, Unmade> {
    let mut settlement = begin(&work);
    settlement.endings = work.rows.iter().map(|row| (row.id, Ending::Done)).collect();
    let Some(marker) = work.rows.into_iter().next() else { return Ok(settled(settlement)) };
    let (session, before) = (work.session.clone(), marker.id);
    let (rows, noted) = running
        .database
        .read(move |database| {
            let rows = queue::turn_events(database, &session, before, MOST_EVENTS_OF_A_TURN)?;
            let sources: Vec<i64> = rows.iter().map(|row| row.id).collect();
            Ok((rows, memory::observed_from(database, &sources)?))
        })
        .await?;
    let closing = closing_message(marker.payload.as_deref()).await;
    // A marker of a new prompt, or of the end, closes a turn only if nothing has closed it before.
    if rows.is_empty() && (marker.kind == Kind::Flush || (closing.is_none() && place.prompt.is_none())) {
        return Ok(settled(settlement));
    }
    settlement.turn_events = rows.iter().map(|row| row.id).collect();
    let turn = Arc::new(turn(place, closing, rows.into_iter().map(turn_event).collect()));
    let told = learning::to_tell(&known(running, &turn).await?, settlement.now);
    let noted =
        Noted { observations: noted, known: told.iter().map(|learning| learning.content.clone()).collect() };
    // Nothing was noted and nobody closed it: there is the request alone, and a model would be paid to repeat it.
    let plan = match turn.last_assistant_message.is_none() && noted.observations.is_empty() {
        true => Plan::Local,
        false => running.compressor.plan(),
    };
    let summarized = match plan {
        Plan::Wait => return Ok(Outcome::Postponed(when_mended())),
        Plan::Local => summarize_by_rules(running, settlement, turn).await?,
        Plan::Model(llm) => match ask_for_summary(running, &llm, &settlement, &turn, noted).await? {
            Asked::Postponed(time) => return Ok(Outcome::Postponed(time)),
            Asked::Failed(message, entry) => {
                return Ok(Outcome::Failed(message, entry.into_iter().collect()));
            }
            Asked::OverCeiling => {
                summarize_by_rules(running, beyond_ceiling(running, settlement), turn).await?
            }
            Asked::Answered(response, origin, entry) => match parse::summary(&response.text) {
                Ok(answer) => {
                    settlement.summary = summary_of(answer, &turn);
                    // Meanwhile another session may have learnt something.
                    let known = known(running, &turn).await?;
                    settlement.learnings =
                        learning::by_model(parse::learnings(&response.text), &told, &known);
                    settlement.origin = origin;
                    settlement.log.push(entry);
                    settlement
                }
                Err(unusable) => {
                    let message = with_response(&unusable.reason, Some(&response.text));
                    return Ok(Outcome::Failed(message, vec![entry]));
                }
            },
        },
    };
    Ok(settled(summarized))
}

async fn ask_for_summary(
    running: &Arc<Running>,
    llm: &Llm,
    settlement: &Settlement,
    turn: &Arc<Turn>,
    noted: Noted,
) -> Result<Asked, Unmade> {
    let (turn, settings) = (turn.clone(), running.config.compress.clone());
    let request = blocking(move || prompt::for_summary(&turn, &noted, &[], &settings)).await?;
    let version = prompt::SUMMARY_VERSION;
    Ok(running.compressor.ask(running, llm, &settlement.session, request, version).await?)
}

async fn summarize_by_rules(
    running: &Running,
    mut settlement: Settlement,
    turn: Arc<Turn>,
) -> Result<Settlement, Unmade> {
    let known = known(running, &turn).await?;
    let made =
        blocking(move || (redacted::summary(local::summarize(&turn)), learning::by_rules(&turn, &known)));
    let (summary, learnings) = made.await?;
    settlement.summary = Some(summary);
    settlement.learnings = learnings;
    settlement.origin = local_origin();
    Ok(settlement)
}

/// What is known of the turn's project.
async fn known(running: &Running, turn: &Turn) -> Result<Vec<Learning>, StoreError> {
    let project = turn.project.clone();
    running.database.read(move |database| learnings::known(database, &project)).await
}

/// The model's summary; which files were touched the events know better.
fn summary_of(answer: SummaryAnswer, turn: &Turn) -> Option<crate::model::SummaryDraft> {
    let SummaryAnswer::Summary(mut draft) = answer else { return None };
    let by_rules = local::summarize(turn);
    draft.files_read = by_rules.files_read;
    draft.files_edited = by_rules.files_edited;
    draft.request = draft.request.or(by_rules.request);
    Some(redacted::summary(draft))
}

fn settled(settlement: Settlement) -> Outcome {
    Outcome::Settled(Box::new(settlement))
}

fn begin(work: &Work) -> Settlement {
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

fn turn(place: TurnPlace, closing: Option<String>, events: Vec<TurnEvent>) -> Turn {
    Turn {
        project: place.project,
        project_path: Some(place.project_path).filter(|path| !path.is_empty()),
        branch: place.branch,
        prompt: place.prompt,
        last_assistant_message: closing,
        events,
    }
}

fn turn_event(row: QueueRow) -> TurnEvent {
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

/// The assistant's last words, from the hook or, for clients that do not send them, from the transcript.
async fn closing_message(payload: Option<&str>) -> Option<String> {
    let payload: Value = serde_json::from_str(payload?).ok()?;
    // After a failure of the API its error text stands in this place.
    if payload.get("event").and_then(Value::as_str) == Some("StopFailure") {
        return None;
    }
    if let Some(message) = payload.get("last_assistant_message").and_then(Value::as_str) {
        return Some(message.to_owned());
    }
    let path = payload.get("transcript_path")?.as_str()?.to_owned();
    blocking(move || transcript::last_assistant_message(Path::new(&path))).await.ok().flatten()
}

/// Work that takes the processor, away from the asynchronous thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unmade> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Unmade::Stumbled(error.to_string()))
}
