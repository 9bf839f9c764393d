//! From claimed rows to a settlement: what is routine is skipped, the rest becomes observations; a marker closes the
//! turn with a summary.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::clock;
use super::state::Running;
use super::transcript;
use crate::compress::routine::{SeenFiles, Verdict, judge};
use crate::compress::turn::{Turn, TurnEvent};
use crate::compress::{local, redacted};
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::{NewObservation, Origin, Settlement};
use crate::store::queue::{self, Ending, Kind, QueueRow, Work};
use crate::store::sessions::{TurnPlace, turn_place};

/// What became of some work.
#[derive(Debug)]
pub enum Outcome {
    /// This is to be stored.
    Settled(Box<Settlement>),
    /// The rows themselves are at fault.
    Failed(String),
}

/// The most events that a summary looks back at.
const MOST_EVENTS_OF_A_TURN: u32 = 200;

/// Makes memory of claimed rows.
pub async fn observe(running: &Arc<Running>, work: Work) -> Result<Outcome, StoreError> {
    let Some(first) = work.rows.first() else {
        return Ok(Outcome::Failed("nothing was claimed".into()));
    };
    let (session, number) = (work.session.clone(), first.prompt_number);
    let place = running.read(move |database| turn_place(database, &session, number)).await?;
    let settlement = match first.kind {
        Kind::Observation => events(running, work, place).await?,
        Kind::Summarize | Kind::Flush => close_turn(running, work, place).await?,
    };
    Ok(Outcome::Settled(Box::new(settlement)))
}

/// Observations of a batch of events.
async fn events(running: &Arc<Running>, work: Work, place: TurnPlace) -> Result<Settlement, StoreError> {
    let mut settlement = begin(&work);
    let (session, last) = (work.session.clone(), work.rows.last().map_or(0, |row| row.id));
    let verbosity = running.config.compress.verbosity;
    let mut kept = Vec::new();
    running.with_seen_files(&work.session, |seen: &mut SeenFiles| {
        for row in work.rows {
            let id = row.id;
            let event = turn_event(row);
            match judge(&event, verbosity, seen) {
                Verdict::Keep => {
                    settlement.endings.push((id, Ending::Done));
                    kept.push(event);
                }
                Verdict::Routine(reason) => settlement.endings.push((id, Ending::Skipped(reason.to_owned()))),
            }
        }
    });
    if kept.is_empty() {
        return Ok(settlement);
    }
    let marker = running.read(move |database| queue::closing_payload(database, &session, last)).await?;
    let closing = closing_message(marker.as_deref()).await;
    let turn = turn(place, closing, kept);
    settlement.observations = blocking(move || observe_locally(&turn)).await;
    settlement.origin = local_origin();
    settlement.log.push(LogEntry {
        event_type: "observed",
        session: Some(settlement.session.clone()),
        data: json!({"events": settlement.endings.len(), "observations": settlement.observations.len(), "provider": "local"}),
        ..LogEntry::default()
    });
    Ok(settlement)
}

/// A summary of the turn that a marker closes, if there was anything in it.
async fn close_turn(running: &Arc<Running>, work: Work, place: TurnPlace) -> Result<Settlement, StoreError> {
    let mut settlement = begin(&work);
    settlement.endings = work.rows.iter().map(|row| (row.id, Ending::Done)).collect();
    let Some(marker) = work.rows.into_iter().next() else { return Ok(settlement) };
    let (session, before) = (work.session.clone(), marker.id);
    let rows = running
        .read(move |database| queue::turn_events(database, &session, before, MOST_EVENTS_OF_A_TURN))
        .await?;
    let closing = closing_message(marker.payload.as_deref()).await;
    // A marker of a new prompt, or of the end, closes a turn only if nothing has closed it before.
    if rows.is_empty() && (marker.kind == Kind::Flush || (closing.is_none() && place.prompt.is_none())) {
        return Ok(settlement);
    }
    let turn = turn(place, closing, rows.into_iter().map(turn_event).collect());
    let summary = blocking(move || redacted::summary(local::summarize(&turn))).await;
    settlement.summary = Some(summary);
    settlement.origin = local_origin();
    Ok(settlement)
}

fn begin(work: &Work) -> Settlement {
    let numbers = work.rows.iter().filter_map(|row| row.prompt_number);
    Settlement {
        session: work.session.clone(),
        prompt_number: numbers.max(),
        now: clock::now(),
        ..Settlement::default()
    }
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
    blocking(move || transcript::last_assistant_message(Path::new(&path))).await
}

/// Work that takes the processor, away from the asynchronous thread.
async fn blocking<T: Default + Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "the rules stumbled over an event: {error}");
        T::default()
    })
}
