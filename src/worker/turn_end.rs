//! The end of a turn: a summary of what was done in it, and what it taught.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::compressor::Plan;
use super::learning::{self, Told};
use super::observe::{Asking, Outcome, Unmade, begin, blocking, settled, turn, turn_event};
use super::state::Running;
use super::transcript;
use crate::compress::parse::{self, SummaryAnswer};
use crate::compress::prompt::{self, Noted};
use crate::compress::turn::Turn;
use crate::compress::{local, redacted};
use crate::llm::Request;
use crate::model::SummaryDraft;
use crate::store::StoreError;
use crate::store::learnings::{self, Learning};
use crate::store::memory;
use crate::store::queue::{self, Ending, Kind, Work};
use crate::store::sessions::TurnPlace;

/// The most events that a summary looks back at.
const MOST_EVENTS_OF_A_TURN: u32 = 200;

/// A summary of the turn that a marker closes, if there was anything in it.
pub(super) async fn close(running: &Arc<Running>, work: Work, place: TurnPlace) -> Result<Outcome, Unmade> {
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
    let told = Told::of(&turn, &known(running, &turn).await?, settlement.now);
    let noted = Noted { observations: noted, known: told.contents() };
    // Nothing was noted and nobody closed it: there is the request alone, and a model would be paid to repeat it.
    let is_request_alone = turn.last_assistant_message.is_none() && noted.observations.is_empty();
    let plan = if is_request_alone { Plan::Local } else { running.compressor.plan() };
    let asking = ask_for_summary(running, turn.clone(), noted);
    let asking = Asking { plan, asking, version: prompt::SUMMARY_VERSION };
    let read = |text: &str| Ok((parse::summary(text)?, parse::learnings(text)));
    let answer = asking.answered(running, &mut settlement, read).await?;
    // Meanwhile another session may have learnt something.
    let known = known(running, &turn).await?;
    (settlement.summary, settlement.learnings) = match answer {
        Some((summary, taught)) => (summary_of(summary, &turn), learning::by_model(taught, told, &known)),
        None => {
            let made =
                move || (Some(redacted::summary(local::summarize(&turn))), learning::by_rules(&turn, &known));
            blocking(made).await?
        }
    };
    Ok(settled(settlement))
}

async fn ask_for_summary(running: &Running, turn: Arc<Turn>, noted: Noted) -> Result<Request, Unmade> {
    let settings = running.config.compress.clone();
    blocking(move || prompt::for_summary(&turn, &noted, &[], &settings)).await
}

/// What is known of the turn's project.
async fn known(running: &Running, turn: &Turn) -> Result<Vec<Learning>, StoreError> {
    let project = turn.project.clone();
    running.database.read(move |database| learnings::known(database, &project)).await
}

/// The model's summary; which files were touched the events know better.
fn summary_of(answer: SummaryAnswer, turn: &Turn) -> Option<SummaryDraft> {
    let SummaryAnswer::Summary(mut draft) = answer else { return None };
    let by_rules = local::summarize(turn);
    draft.files_read = by_rules.files_read;
    draft.files_edited = by_rules.files_edited;
    draft.request = draft.request.or(by_rules.request);
    Some(redacted::summary(draft))
}

/// The assistant's last words, from the hook or, for clients that do not send them, from the transcript.
pub(super) async fn closing_message(payload: Option<&str>) -> Option<String> {
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
