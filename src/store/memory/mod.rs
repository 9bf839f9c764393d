//! Observations and summaries, stored in one transaction with the end of their events.

pub mod anchors;
pub mod branches;
pub(in crate::store) mod function_map;
pub mod learnings;
pub mod manual;
mod repeats;
pub mod sightings;
pub mod traces;

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::corrections::vetoes::VetoSet;
use super::log::{self, LogEntry, log};
use super::queue::{self, ClaimId, Ending};
use super::{StoreError, listed};
use crate::api::ObservationRow;
use crate::model::{
    Digest, FunctionChange, Millis, ObservationDraft, ObservationType, SessionId, SummaryDraft, TurnLine,
};
use learnings::{LearningDecision, Occasion};
use sightings::Sighting;
use traces::{EditTrace, Repair};

/// The origin of a memory, and its cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// local, anthropic, openai, claude-cli.
    pub provider: String,
    /// The model, if one was used.
    pub model: Option<String>,
    /// The version of the prompt or of the rules.
    pub prompt_version: String,
    /// Input tokens.
    pub tokens_in: i64,
    /// Output tokens.
    pub tokens_out: i64,
}

/// An observation to be stored.
#[derive(Debug, Clone, Default)]
pub struct NewObservation {
    /// The content.
    pub draft: ObservationDraft,
    /// The queue rows that it was made of.
    pub sources: Vec<i64>,
    /// The size of those rows in bytes.
    pub raw_bytes: i64,
    /// The type of subagent, if one did all of the work.
    pub agent_type: Option<String>,
}

/// The results of a job, stored in one transaction.
#[derive(Debug, Clone, Default)]
pub struct Settlement {
    /// The session.
    pub session: SessionId,
    /// The claim on the rows.
    pub claim: ClaimId,
    /// The number of the prompt that began the turn.
    pub prompt_number: Option<i64>,
    /// The ending of each row.
    pub endings: Vec<(i64, Ending)>,
    /// The notes of the turn.
    pub observations: Vec<NewObservation>,
    /// True if the notes cover the whole turn and replace all of its existing notes, including
    /// those of a model.
    pub is_whole_turn: bool,
    /// Facts to add to the notes that a model made of this turn earlier.
    pub later_facts: Vec<String>,
    /// Changes to functions and types.
    pub functions: Vec<FunctionChange>,
    /// Lines that the events removed and added.
    pub edits: Vec<EditTrace>,
    /// Subjects of commits that a commit of the turn reverts.
    pub reverted: Vec<String>,
    /// Failures that the turn repaired.
    pub repairs: Vec<Repair>,
    /// The turn's summary.
    pub summary: Option<SummaryDraft>,
    /// Learnings from the turn.
    pub learnings: Vec<LearningDecision>,
    /// Commands and repairs that become learnings when other sessions have them, too.
    pub sightings: Vec<Sighting>,
    /// The turn's events; their observations are the evidence of its learnings.
    pub turn_events: Vec<i64>,
    /// The origin of the results.
    pub origin: Origin,
    /// Entries for the event log.
    pub log: Vec<LogEntry>,
    /// A message for the user, at most once a day.
    pub notice: Option<String>,
    /// The present, at which the rows end.
    pub now: Millis,
    /// The time of the turn, which its memory bears.
    pub at: Millis,
}

/// Stores the whole settlement, or nothing if the caller no longer holds the rows; the rest of the
/// claim is then released. True if it was stored.
///
/// `digest` builds the session's digest from its turns, and `index` adds the new rows to the search
/// index, both in the same transaction.
pub fn settle(
    database: &mut Connection,
    settlement: &Settlement,
    digest: fn(&[TurnLine]) -> Digest,
    index: impl FnOnce(&Connection) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !queue::finish(&transaction, &settlement.endings, settlement.claim, settlement.now)? {
        transaction.rollback()?;
        queue::release(database, settlement.claim)?;
        return Ok(false);
    }
    let place = SessionColumns::of(&transaction, &settlement.session)?;
    let notes = store_notes(&transaction, settlement, &place)?;
    function_map::record(
        &transaction,
        &settlement.session,
        &place.project,
        &settlement.functions,
        settlement.at,
    )?;
    traces::record(
        &transaction,
        &settlement.session,
        &place.project,
        settlement.prompt_number,
        (&settlement.edits, &settlement.repairs),
        settlement.now,
    )?;
    anchor_notes(&transaction, settlement, &place, &notes)?;
    if let Some(summary) = &settlement.summary {
        store_summary(&transaction, settlement, &place, summary)?;
        store_digest(&transaction, &settlement.session, digest)?;
    }
    for step in &settlement.learnings {
        learn(&transaction, settlement, &place, step)?;
    }
    if !settlement.sightings.is_empty() {
        let occasion = Occasion {
            session: Some(&settlement.session),
            project: &place.project,
            evidence: learnings::evidence(&transaction, &settlement.turn_events)?,
            now: settlement.at,
        };
        sightings::record(&transaction, &settlement.sightings, occasion)?;
    }
    let Origin { tokens_in, tokens_out, .. } = settlement.origin;
    if tokens_in + tokens_out > 0 {
        let sql =
            "UPDATE sessions SET tokens_in = tokens_in + ?2, tokens_out = tokens_out + ?3 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            settlement.session.as_str(),
            tokens_in,
            tokens_out
        ])?;
    }
    for entry in &settlement.log {
        log(&transaction, entry, settlement.now)?;
    }
    if let Some(notice) = &settlement.notice {
        log::notice(&transaction, notice, settlement.now)?;
    }
    index(&transaction)?;
    transaction.commit()?;
    Ok(true)
}

/// Columns that an observation takes from its session.
struct SessionColumns {
    project: String,
    branch: Option<String>,
}

impl SessionColumns {
    fn of(database: &Connection, session: &SessionId) -> Result<Self, StoreError> {
        let sql = "SELECT project, branch FROM sessions WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok(Self { project: row.get(0)?, branch: row.get(1)? });
        Ok(database.prepare_cached(sql)?.query_row([session.as_str()], read)?)
    }
}

/// Stores the learnings of a turn with their evidence: the observation of their events, or of the
/// turn. If there is none, because the turn was conversation only, an observation of the statement
/// is stored.
fn learn(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &SessionColumns,
    step: &LearningDecision,
) -> Result<(), StoreError> {
    if VetoSet::of(transaction, &place.project)?.blocks(&step.draft.content) {
        return Ok(());
    }
    let mut evidence = learnings::evidence(transaction, &step.draft.sources)?;
    if evidence.is_none() {
        evidence = learnings::evidence(transaction, &settlement.turn_events)?;
    }
    let evidence = match evidence {
        Some(id) => id,
        None => {
            let draft = ObservationDraft {
                kind: ObservationType::Decision,
                title: Some(step.draft.content.clone()),
                summary: Some(step.draft.content.clone()),
                ..ObservationDraft::default()
            };
            let observation = NewObservation { draft, ..NewObservation::default() };
            // The summary carries the cost.
            let prompt_version = EVIDENCE.to_owned();
            let origin = Origin { tokens_in: 0, tokens_out: 0, prompt_version, ..settlement.origin.clone() };
            insert_observation(
                transaction,
                &Settlement { origin, ..settlement.clone() },
                place,
                &observation,
            )?
        }
    };
    let occasion = Occasion {
        session: Some(&settlement.session),
        project: &place.project,
        evidence: Some(evidence),
        now: settlement.at,
    };
    learnings::take(transaction, step, occasion)?;
    Ok(())
}

/// Anchors the notes in the code of their turn, and marks the notes that the turn reverses.
fn anchor_notes(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &SessionColumns,
    notes: &[(i64, &ObservationDraft)],
) -> Result<(), StoreError> {
    for (note, draft) in notes {
        let (session, number) = (&settlement.session, settlement.prompt_number);
        anchors::record(
            transaction,
            *note,
            session,
            number,
            &draft.files_modified,
            &draft.functions_changed,
        )?;
        anchors::supersede_reversed(transaction, *note, session, number, &place.project)?;
        for subject in &settlement.reverted {
            anchors::supersede_reverted(transaction, *note, &place.project, subject)?;
        }
        repeats::merge(transaction, *note, settlement.now)?;
    }
    Ok(())
}

/// Replaces the earlier notes of a turn and reuses their ids. Rules do not replace a model's notes;
/// they only add later facts. Returns the notes that it stored.
fn store_notes<'a>(
    transaction: &Transaction<'_>,
    settlement: &'a Settlement,
    place: &SessionColumns,
) -> Result<Vec<(i64, &'a ObservationDraft)>, StoreError> {
    if has_edited_note(transaction, settlement)? {
        return Ok(Vec::new());
    }
    let (by_rules, by_model) = notes_of_turn(transaction, settlement)?;
    let vetoes = VetoSet::of(transaction, &place.project)?;
    let is_by_rules = settlement.origin.provider == LOCAL;
    if is_by_rules && let Some(note) = by_model.first() {
        add_facts(transaction, *note, &settlement.later_facts)?;
        return Ok(settlement.observations.first().map(|new| (*note, &new.draft)).into_iter().collect());
    }
    let replaced = if settlement.is_whole_turn { by_model } else { Vec::new() };
    let mut old = by_rules.into_iter().chain(replaced);
    let mut stored = Vec::new();
    for new in &settlement.observations {
        let Some(observation) = permitted(new, &vetoes) else { continue };
        let id = match old.next() {
            Some(id) => {
                repeats::undo(transaction, id)?;
                update_observation(transaction, settlement, id, &observation)?;
                id
            }
            None => insert_observation(transaction, settlement, place, &observation)?,
        };
        stored.push((id, &new.draft));
    }
    if !settlement.observations.is_empty() {
        let sql = "UPDATE observations SET deleted_at = ?2 WHERE id = ?1";
        for id in old {
            repeats::undo(transaction, id)?;
            transaction.prepare_cached(sql)?.execute(params![id, settlement.now])?;
        }
    }
    Ok(stored)
}

/// True if the user edited a note of this turn: it then stands for the turn.
fn has_edited_note(transaction: &Transaction<'_>, settlement: &Settlement) -> Result<bool, StoreError> {
    let sql =
        "SELECT 1 FROM observations WHERE session_id = ?1 AND prompt_number = ?2 AND edited_at IS NOT NULL
               AND deleted_at IS NULL";
    let turn = params![settlement.session.as_str(), settlement.prompt_number];
    Ok(transaction.prepare_cached(sql)?.exists(turn)?)
}

/// Returns the note without vetoed facts; nothing if the note itself is vetoed.
fn permitted<'a>(observation: &'a NewObservation, vetoes: &VetoSet) -> Option<Cow<'a, NewObservation>> {
    let draft = &observation.draft;
    let blocks = |text: &String| vetoes.blocks(text);
    if draft.title.as_ref().is_some_and(blocks) || draft.summary.as_ref().is_some_and(blocks) {
        return None;
    }
    if !draft.facts.iter().any(blocks) {
        return Some(Cow::Borrowed(observation));
    }
    let mut rest = observation.clone();
    rest.draft.facts.retain(|fact| !vetoes.blocks(fact));
    Some(Cow::Owned(rest))
}

/// The provider name of the rules, which use no model.
const LOCAL: &str = "local";
/// `prompt_version` of an observation that is only evidence of a learning.
const EVIDENCE: &str = "learning";

/// Returns the ids of the turn's notes: those made by rules, and those made by a model.
fn notes_of_turn(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
) -> Result<(Vec<i64>, Vec<i64>), StoreError> {
    let sql = "SELECT id, provider = ?3 FROM observations
               WHERE session_id = ?1 AND prompt_number = ?2 AND prompt_version <> ?4 AND deleted_at IS NULL ORDER BY id";
    let mut statement = transaction.prepare_cached(sql)?;
    let turn = params![settlement.session.as_str(), settlement.prompt_number, LOCAL, EVIDENCE];
    let rows = statement.query_map(turn, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)))?;
    let (by_rules, by_model): (Vec<_>, Vec<_>) =
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().partition(|(_, is_by_rules)| *is_by_rules);
    let ids = |notes: Vec<(i64, bool)>| notes.into_iter().map(|(id, _)| id).collect();
    Ok((ids(by_rules), ids(by_model)))
}

fn add_facts(transaction: &Transaction<'_>, id: i64, facts: &[String]) -> Result<(), StoreError> {
    let sql = "SELECT facts FROM observations WHERE id = ?1";
    let mut known: Vec<String> = transaction.prepare_cached(sql)?.query_row([id], |row| listed(row, 0))?;
    let before = known.len();
    for fact in facts {
        if !known.contains(fact) {
            known.push(fact.clone());
        }
    }
    if known.len() > before {
        let sql = "UPDATE observations SET facts = ?2 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![id, json_list(&known)])?;
    }
    Ok(())
}

fn insert_observation(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &SessionColumns,
    observation: &NewObservation,
) -> Result<i64, StoreError> {
    let sql = "INSERT INTO observations (uid, session_id, project, prompt_number, branch, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    transaction.prepare_cached(sql)?.execute(params![
        new_uid(),
        settlement.session.as_str(),
        place.project,
        settlement.prompt_number,
        place.branch,
        settlement.at,
    ])?;
    let id = transaction.last_insert_rowid();
    update_observation(transaction, settlement, id, observation)?;
    Ok(id)
}

fn update_observation(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    id: i64,
    observation: &NewObservation,
) -> Result<(), StoreError> {
    let sql = "UPDATE observations SET type = ?2, title = ?3, summary = ?4, detail = ?5, facts = ?6, concepts = ?7,
                 files_read = ?8, files_modified = ?9, functions_changed = ?10, provider = ?11, model = ?12,
                 prompt_version = ?13, tokens_in = ?14, tokens_out = ?15, raw_bytes = ?16, agent_type = ?17 WHERE id = ?1";
    let draft = &observation.draft;
    let origin = &settlement.origin;
    // The call's tokens are divided among the observations, so that their sum is the real total.
    let shares = i64::try_from(settlement.observations.len()).unwrap_or(1).max(1);
    transaction.prepare_cached(sql)?.execute(params![
        id,
        draft.kind.as_str(),
        draft.title,
        draft.summary,
        draft.detail,
        json_list(&draft.facts),
        json_list(&draft.concepts),
        json_list(&draft.files_read),
        json_list(&draft.files_modified),
        json_list(&draft.functions_changed),
        origin.provider,
        origin.model,
        origin.prompt_version,
        origin.tokens_in / shares,
        origin.tokens_out / shares,
        observation.raw_bytes,
        observation.agent_type,
    ])?;
    // A rewritten note is about the events that it was made of now: another note may have taken over the rest.
    transaction.prepare_cached("DELETE FROM observation_sources WHERE observation_id = ?1")?.execute([id])?;
    let sql = "INSERT OR IGNORE INTO observation_sources (observation_id, queue_id) VALUES (?1, ?2)";
    let mut statement = transaction.prepare_cached(sql)?;
    for source in &observation.sources {
        statement.execute([id, *source])?;
    }
    Ok(())
}

/// Stores the turn's summary and replaces an earlier one. Rules do not replace a model's summary.
fn store_summary(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &SessionColumns,
    summary: &SummaryDraft,
) -> Result<(), StoreError> {
    let origin = &settlement.origin;
    let sql = "SELECT id, provider IS ?3 FROM session_summaries WHERE session_id = ?1 AND prompt_number = ?2
               ORDER BY id DESC LIMIT 1";
    let turn = params![settlement.session.as_str(), settlement.prompt_number, LOCAL];
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?));
    let id = match transaction.prepare_cached(sql)?.query_row(turn, read).optional()? {
        Some((_, false)) if origin.provider == LOCAL => return Ok(()),
        Some((id, _)) => id,
        None => {
            let sql = "INSERT INTO session_summaries (uid, session_id, project, prompt_number, created_at)
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let (session, number) = (settlement.session.as_str(), settlement.prompt_number);
            let row = params![new_uid(), session, place.project, number, settlement.at];
            transaction.prepare_cached(sql)?.execute(row)?;
            transaction.last_insert_rowid()
        }
    };
    let sql = "UPDATE session_summaries SET summary = ?2, request = ?3, investigated = ?4, learned = ?5, completed = ?6,
                 next_steps = ?7, notes = ?8, files_read = ?9, files_edited = ?10, key_decisions = ?11, provider = ?12,
                 model = ?13, prompt_version = ?14, tokens_in = ?15, tokens_out = ?16 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        summary.summary,
        summary.request,
        summary.investigated,
        summary.learned,
        summary.completed,
        summary.next_steps,
        summary.notes,
        json_list(&summary.files_read),
        json_list(&summary.files_edited),
        json_list(&summary.key_decisions),
        origin.provider,
        origin.model,
        origin.prompt_version,
        origin.tokens_in,
        origin.tokens_out,
    ])?;
    Ok(())
}

/// Maximum turns that a digest is made of; the title comes from the first ones.
const MOST_TURNS: u32 = 500;

/// Rebuilds the session's digest from its current summaries.
pub(super) fn store_digest(
    transaction: &Connection,
    session: &SessionId,
    digest: fn(&[TurnLine]) -> Digest,
) -> Result<(), StoreError> {
    let sql = "SELECT request, completed, learned, next_steps, notes FROM session_summaries
               WHERE session_id = ?1 ORDER BY prompt_number, id LIMIT ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let rows = statement.query_map(params![session.as_str(), MOST_TURNS], |row| {
        Ok(TurnLine {
            request: row.get(0)?,
            completed: row.get(1)?,
            learned: row.get(2)?,
            next_steps: row.get(3)?,
            notes: row.get(4)?,
        })
    })?;
    let turns = rows.collect::<Result<Vec<_>, _>>()?;
    let Digest { title, outcome, open_items } = digest(&turns);
    // The client's own title of a session that was read from its history.
    let sql = "SELECT title FROM backfill_files WHERE session_id = ?1 AND title IS NOT NULL LIMIT 1";
    let own = transaction.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0)).optional()?;
    let title = own.or(title);
    let sql = "UPDATE sessions SET title = ?2, outcome = ?3, open_items = ?4 WHERE id = ?1";
    let row = params![session.as_str(), title, outcome, json_list(&open_items)];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Returns an id that sorts by time, so that exports and imports keep the order.
pub fn new_uid() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Encodes a list as JSON; `None` for an empty list.
pub(crate) fn json_list(list: &[String]) -> Option<String> {
    if list.is_empty() { None } else { serde_json::to_string(list).ok() }
}

/// Returns the titles of a session's latest observations, oldest first.
pub fn recent_titles(
    database: &Connection,
    session: &SessionId,
    limit: u32,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT title FROM (SELECT id, title FROM observations
               WHERE session_id = ?1 AND title IS NOT NULL AND deleted_at IS NULL ORDER BY id DESC LIMIT ?2) ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![session.as_str(), limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the text of a session's latest summary, and its tokens.
pub fn latest_summary(
    database: &Connection,
    session: &SessionId,
) -> Result<Option<(String, i64)>, StoreError> {
    let sql =
        "SELECT coalesce(summary, completed, request, ''), coalesce(tokens_in, 0) + coalesce(tokens_out, 0)
               FROM session_summaries WHERE session_id = ?1 ORDER BY id DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    Ok(database.prepare_cached(sql)?.query_row([session.as_str()], read).optional()?)
}

/// Counts the observations made since a given time.
pub fn observations_since(database: &Connection, since: Millis) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM observations WHERE created_at >= ?1 AND deleted_at IS NULL";
    Ok(database.prepare_cached(sql)?.query_row([since], |row| row.get(0))?)
}

/// Columns of an [`ObservationRow`].
pub(super) const OBSERVATION: &str =
    "id, uid, session_id, project, prompt_number, type, title, summary, detail, facts, concepts,
    files_read, files_modified, functions_changed, provider, model, branch, created_at";

pub(super) fn observation_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<ObservationRow> {
    let list = |index| listed(row, index);
    Ok(ObservationRow {
        id: row.get(0)?,
        uid: row.get(1)?,
        session_id: row.get(2)?,
        project: row.get(3)?,
        prompt_number: row.get(4)?,
        kind: row.get(5)?,
        title: row.get(6)?,
        summary: row.get(7)?,
        detail: row.get(8)?,
        facts: list(9)?,
        concepts: list(10)?,
        files_read: list(11)?,
        files_modified: list(12)?,
        functions_changed: list(13)?,
        provider: row.get(14)?,
        model: row.get(15)?,
        branch: row.get(16)?,
        created_at: row.get(17)?,
    })
}

/// Returns observations by id, in the requested order; missing and deleted ones are left out.
pub fn observations_by_id(database: &Connection, ids: &[i64]) -> Result<Vec<ObservationRow>, StoreError> {
    let sql = format!("SELECT {OBSERVATION} FROM observations WHERE id = ?1 AND deleted_at IS NULL");
    let mut statement = database.prepare_cached(&sql)?;
    let found = ids.iter().map(|id| statement.query_row([id], observation_row).optional());
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
