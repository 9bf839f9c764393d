//! Observations and summaries: stored together with the end of the events that they came from.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::learnings::{self, Occasion, Step};
use super::log::{self, LogEntry, log};
use super::queue::{self, ClaimId, Ending};
use super::{StoreError, function_map, listed};
use crate::model::{FunctionChange, Millis, ObservationDraft, ObservationType, SessionId, SummaryDraft};

/// Who made something, and what it took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// local, anthropic, openai, claude-cli.
    pub provider: String,
    /// The model, where there was one.
    pub model: Option<String>,
    /// The version of the prompt, or of the rules.
    pub prompt_version: String,
    /// Tokens that went in.
    pub tokens_in: i64,
    /// Tokens that came out.
    pub tokens_out: i64,
}

/// An observation that is to be stored.
#[derive(Debug, Clone, Default)]
pub struct NewObservation {
    /// What it says.
    pub draft: ObservationDraft,
    /// The rows that it came from.
    pub sources: Vec<i64>,
    /// How large they were.
    pub raw_bytes: i64,
    /// The kind of subagent that did it, if one did all of it.
    pub agent_type: Option<String>,
}

/// The end of some work: everything that becomes true at once.
#[derive(Debug, Clone, Default)]
pub struct Settlement {
    /// Whose work it was.
    pub session: SessionId,
    /// What its rows are held by.
    pub claim: ClaimId,
    /// The prompt that it belongs to.
    pub prompt_number: Option<i64>,
    /// How each row ended.
    pub endings: Vec<(i64, Ending)>,
    /// What came of it.
    pub observations: Vec<NewObservation>,
    /// What the events did to functions and types.
    pub functions: Vec<FunctionChange>,
    /// The turn's summary.
    pub summary: Option<SummaryDraft>,
    /// What the turn taught.
    pub learnings: Vec<Step>,
    /// The turn's events, whose observations show what it taught.
    pub turn_events: Vec<i64>,
    /// Who made it.
    pub origin: Origin,
    /// What is to be logged about it.
    pub log: Vec<LogEntry>,
    /// What the user is to be told, once a day.
    pub notice: Option<String>,
    /// The present.
    pub now: Millis,
}

/// Stores the settlement as a whole, or nothing of it if the rows are no longer the caller's; what is left of the claim
/// is then given back. True if it was stored.
///
/// `index` brings what was written into the search index, in the same transaction.
pub fn settle(
    database: &mut Connection,
    settlement: &Settlement,
    index: impl FnOnce(&Connection) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !queue::finish(&transaction, &settlement.endings, settlement.claim, settlement.now)? {
        transaction.rollback()?;
        queue::release(database, settlement.claim)?;
        return Ok(false);
    }
    let place = Place::of(&transaction, &settlement.session)?;
    for observation in &settlement.observations {
        insert_observation(&transaction, settlement, &place, observation)?;
    }
    function_map::note(
        &transaction,
        &settlement.session,
        &place.project,
        &settlement.functions,
        settlement.now,
    )?;
    if let Some(summary) = &settlement.summary {
        insert_summary(&transaction, settlement, &place, summary)?;
    }
    for step in &settlement.learnings {
        learn(&transaction, settlement, &place, step)?;
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

/// What an observation takes over from its session.
struct Place {
    project: String,
    branch: Option<String>,
}

impl Place {
    fn of(database: &Connection, session: &SessionId) -> Result<Self, StoreError> {
        let sql = "SELECT project, branch FROM sessions WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok(Self { project: row.get(0)?, branch: row.get(1)? });
        Ok(database.prepare_cached(sql)?.query_row([session.as_str()], read)?)
    }
}

/// Stores what the turn taught, with what shows it: the observation of its events, or of the turn. Where there is none,
/// because words were all there was, what was said is observed.
fn learn(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &Place,
    step: &Step,
) -> Result<(), StoreError> {
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
                ..ObservationDraft::default()
            };
            let observation = NewObservation { draft, ..NewObservation::default() };
            // The summary has what it cost.
            let origin = Origin { tokens_in: 0, tokens_out: 0, ..settlement.origin.clone() };
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
        now: settlement.now,
    };
    learnings::take(transaction, step, occasion)?;
    Ok(())
}

fn insert_observation(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &Place,
    observation: &NewObservation,
) -> Result<i64, StoreError> {
    let sql = "INSERT INTO observations (uid, session_id, project, prompt_number, type, title, summary, detail, facts,
                 concepts, files_read, files_modified, functions_changed, provider, model, prompt_version, tokens_in,
                 tokens_out, raw_bytes, agent_type, branch, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)";
    let draft = &observation.draft;
    let origin = &settlement.origin;
    // The call's tokens are shared out, so that a sum over observations is what was spent.
    let shares = i64::try_from(settlement.observations.len()).unwrap_or(1).max(1);
    transaction.prepare_cached(sql)?.execute(params![
        new_uid(),
        settlement.session.as_str(),
        place.project,
        settlement.prompt_number,
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
        place.branch,
        settlement.now,
    ])?;
    let id = transaction.last_insert_rowid();
    let sql = "INSERT OR IGNORE INTO observation_sources (observation_id, queue_id) VALUES (?1, ?2)";
    let mut statement = transaction.prepare_cached(sql)?;
    for source in &observation.sources {
        statement.execute([id, *source])?;
    }
    Ok(id)
}

fn insert_summary(
    transaction: &Transaction<'_>,
    settlement: &Settlement,
    place: &Place,
    summary: &SummaryDraft,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO session_summaries (uid, session_id, project, prompt_number, summary, request, investigated,
                 learned, completed, next_steps, notes, files_read, files_edited, key_decisions, provider, model,
                 prompt_version, tokens_in, tokens_out, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
    let origin = &settlement.origin;
    transaction.prepare_cached(sql)?.execute(params![
        new_uid(),
        settlement.session.as_str(),
        place.project,
        settlement.prompt_number,
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
        settlement.now,
    ])?;
    Ok(())
}

/// Ids that sort by time, so that exports and imports keep the order.
pub fn new_uid() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A list as JSON; nothing for an empty one.
pub(super) fn json_list(list: &[String]) -> Option<String> {
    if list.is_empty() { None } else { serde_json::to_string(list).ok() }
}

/// The titles of a session's latest observations, oldest first: what was already told.
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

/// Title and summary of what was made of these events.
pub fn observed_from(database: &Connection, events: &[i64]) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT coalesce(title, ''), coalesce(summary, '') FROM observations
               WHERE deleted_at IS NULL AND id IN (SELECT observation_id FROM observation_sources
                                                   WHERE queue_id IN (SELECT value FROM json_each(?1)))
               ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([queue::json_ids(events)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A session's latest summary in words, with the tokens that it took.
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

/// How many observations were made since then.
pub fn observations_since(database: &Connection, since: Millis) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM observations WHERE created_at >= ?1 AND deleted_at IS NULL";
    Ok(database.prepare_cached(sql)?.query_row([since], |row| row.get(0))?)
}

/// An observation in full, as the third step of recall shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the columns' own names")]
pub struct ObservationRow {
    pub id: i64,
    pub uid: String,
    pub session_id: String,
    pub project: String,
    pub prompt_number: Option<i64>,
    #[serde(rename = "type")]
    pub kind: String,
    pub title: Option<String>,
    pub summary: Option<String>,
    pub detail: Option<String>,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub functions_changed: Vec<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub branch: Option<String>,
    pub created_at: Millis,
}

impl ObservationRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let list = |index| listed(row, index);
        Ok(Self {
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
}

/// Observations by id, in the order asked for; those that are not there, or deleted, are left out.
pub fn observations_by_id(database: &Connection, ids: &[i64]) -> Result<Vec<ObservationRow>, StoreError> {
    let sql = "SELECT id, uid, session_id, project, prompt_number, type, title, summary, detail, facts, concepts, files_read,
                      files_modified, functions_changed, provider, model, branch, created_at
               FROM observations WHERE id = ?1 AND deleted_at IS NULL";
    let mut statement = database.prepare_cached(sql)?;
    let found = ids.iter().map(|id| statement.query_row([id], ObservationRow::read).optional());
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
