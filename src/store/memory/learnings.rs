//! Learnings: facts about a project, with their confidence and evidence.
//!
//! A learning is active, superseded by another, or forgotten by the user; forgotten ones stay
//! stored so that they are not learned again. The latest text about a learning is its evidence.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::new_uid;
use crate::model::{Category, LearningDraft, Millis, SessionId, confidence_left};
use crate::store::StoreError;
use crate::store::corrections::vetoes::VetoSet;
use crate::store::queue::json_ids;

/// A learning.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[allow(missing_docs, reason = "the columns' own names")]
pub struct Learning {
    pub id: i64,
    pub uid: String,
    pub project: Option<String>,
    pub category: Category,
    pub content: String,
    /// Confidence when it was last seen.
    pub confidence: f64,
    pub times_seen: i64,
    pub is_active: bool,
    pub superseded_by: Option<i64>,
    pub source_observation_id: Option<i64>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

/// The state of a learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum LearningState {
    Active,
    Superseded,
    Forgotten,
}

impl Learning {
    /// Returns whether it is active, superseded or forgotten.
    pub fn standing(&self) -> LearningState {
        match (self.is_active, self.superseded_by) {
            (true, _) => LearningState::Active,
            (false, Some(_)) => LearningState::Superseded,
            (false, None) => LearningState::Forgotten,
        }
    }

    /// Returns the confidence at a given time.
    pub fn confidence_at(&self, now: Millis) -> f64 {
        confidence_left(self.confidence, self.updated_at, now)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let category: String = row.get(3)?;
        Ok(Self {
            id: row.get(0)?,
            uid: row.get(1)?,
            project: row.get(2)?,
            category: Category::from_word(&category).unwrap_or(Category::Gotcha),
            content: row.get(4)?,
            confidence: row.get(5)?,
            times_seen: row.get(6)?,
            is_active: row.get(7)?,
            superseded_by: row.get(8)?,
            source_observation_id: row.get(9)?,
            created_at: row.get(10)?,
            updated_at: row.get(11)?,
        })
    }
}

const COLUMNS: &str = "id, uid, project, category, content, confidence, times_seen, is_active, superseded_by,
                       source_observation_id, created_at, updated_at";

/// Maximum number of stored learnings that a new one is compared with.
const MOST_KNOWN: u32 = 2_000;

/// Returns all learnings of a project and the global ones, including inactive ones, newest first.
pub fn known(database: &Connection, project: &str) -> Result<Vec<Learning>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM learnings WHERE project = ?1 OR project IS NULL ORDER BY id DESC LIMIT {MOST_KNOWN}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([project], Learning::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns one learning.
pub fn get(database: &Connection, id: i64) -> Result<Option<Learning>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM learnings WHERE id = ?1");
    Ok(database.prepare_cached(&sql)?.query_row([id], Learning::read).optional()?)
}

/// The decision about a draft.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningDecision {
    /// The new learning.
    pub draft: LearningDraft,
    /// An existing learning with the same content.
    pub seen: Option<i64>,
    /// Existing learnings that it supersedes.
    pub supersedes: Vec<i64>,
}

/// The session and project in which something was learned.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Occasion<'a> {
    /// The session; `None` if the user added it.
    pub session: Option<&'a SessionId>,
    /// The project.
    pub project: &'a str,
    /// The observation that supports it.
    pub evidence: Option<i64>,
    /// The current time.
    pub now: Millis,
}

/// Maximum confidence of a learning that the user did not write, however often it is seen.
const MOST_CONFIDENCE: f64 = 0.95;
/// Share of the missing confidence that each sighting adds.
const RISE: f64 = 0.25;

/// Stores a decision, in the transaction of its source.
pub(in crate::store) fn take(
    transaction: &Transaction<'_>,
    step: &LearningDecision,
    occasion: Occasion<'_>,
) -> Result<i64, StoreError> {
    if VetoSet::of(transaction, occasion.project)?.blocks(&step.draft.content) {
        return Err(StoreError::Vetoed);
    }
    let seen = step.seen.map(|id| get(transaction, id)).transpose()?.flatten();
    let id = match seen {
        // It was forgotten in the meantime.
        Some(learning) if learning.standing() == LearningState::Forgotten && occasion.session.is_some() => {
            return Ok(learning.id);
        }
        Some(learning) => {
            see(transaction, &learning, step, occasion)?;
            learning.id
        }
        None => insert(transaction, &step.draft, occasion)?,
    };
    let sql = "UPDATE learnings SET is_active = 0, superseded_by = ?2, updated_at = ?3
               WHERE id = ?1 AND id <> ?2 AND is_active = 1";
    for old in &step.supersedes {
        transaction.prepare_cached(sql)?.execute(params![old, id, occasion.now])?;
    }
    Ok(id)
}

/// Returns the confidence after more sightings.
fn risen(confidence: f64, sightings: i64) -> f64 {
    (0..sightings).fold(confidence, |risen, _| risen + (MOST_CONFIDENCE - risen).max(0.0) * RISE)
}

/// Credits a new learning with the sessions that had it before; `further` of them raise its
/// confidence.
pub(in crate::store) fn credit(
    transaction: &Transaction<'_>,
    id: i64,
    sessions: i64,
    further: i64,
) -> Result<(), StoreError> {
    let Some(learning) = get(transaction, id)? else { return Ok(()) };
    let sql = "UPDATE learnings SET times_seen = ?2, confidence = ?3 WHERE id = ?1";
    let row = params![id, sessions.max(1), risen(learning.confidence, further)];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Records a sighting. Several within one session count once.
fn see(
    transaction: &Transaction<'_>,
    learning: &Learning,
    step: &LearningDecision,
    occasion: Occasion<'_>,
) -> Result<(), StoreError> {
    let sql = "SELECT session_id FROM observations WHERE id = ?1";
    let last: Option<String> = transaction
        .prepare_cached(sql)?
        .query_row([learning.source_observation_id], |row| row.get(0))
        .optional()?;
    let is_repetition = occasion.session.is_some_and(|session| last.as_deref() == Some(session.as_str()));
    let (seen, confidence) = if is_repetition {
        (0, learning.confidence)
    } else {
        (1, risen(learning.confidence_at(occasion.now), 1))
    };
    let sql = "UPDATE learnings SET times_seen = times_seen + ?2, confidence = ?3, is_active = 1, superseded_by = NULL,
                      source_observation_id = coalesce(?4, source_observation_id), updated_at = max(updated_at, ?5) WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        learning.id,
        seen,
        confidence.max(step.draft.confidence).min(1.0),
        occasion.evidence,
        occasion.now,
    ])?;
    Ok(())
}

fn insert(
    transaction: &Transaction<'_>,
    draft: &LearningDraft,
    occasion: Occasion<'_>,
) -> Result<i64, StoreError> {
    let project = (!draft.everywhere).then_some(occasion.project);
    // Another session may have learned it at the same time.
    let sql = "SELECT id FROM learnings WHERE project IS ?1 AND content = ?2 AND is_active = 1";
    let twin = transaction.prepare_cached(sql)?.query_row(params![project, draft.content], |row| row.get(0));
    if let Some(id) = twin.optional()? {
        return Ok(id);
    }
    let sql = "INSERT INTO learnings (uid, project, category, content, confidence, source_observation_id, created_at,
                 updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)";
    transaction.prepare_cached(sql)?.execute(params![
        new_uid(),
        project,
        draft.category.as_str(),
        draft.content,
        draft.confidence.clamp(0.0, 1.0),
        occasion.evidence,
        occasion.now,
    ])?;
    Ok(transaction.last_insert_rowid())
}

/// Returns the latest observation made of one of these events.
pub(in crate::store) fn evidence(database: &Connection, events: &[i64]) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT max(o.id) FROM observation_sources s JOIN observations o ON o.id = s.observation_id
               WHERE o.deleted_at IS NULL AND s.queue_id IN (SELECT value FROM json_each(?1))";
    Ok(database.prepare_cached(sql)?.query_row([json_ids(events)], |row| row.get(0))?)
}

/// Stores a learning that the user wrote, even if it was forgotten: writing it again revokes that.
pub fn add(
    database: &mut Connection,
    step: &LearningDecision,
    project: &str,
    now: Millis,
) -> Result<Option<Learning>, StoreError> {
    let transaction = database.transaction()?;
    let id = take(&transaction, step, Occasion { session: None, project, evidence: None, now })?;
    let learning = get(&transaction, id)?;
    transaction.commit()?;
    Ok(learning)
}

/// Forgets a learning permanently. False if there is no active learning with that id.
pub fn forget(database: &Connection, id: i64, now: Millis) -> Result<bool, StoreError> {
    let sql = "UPDATE learnings SET is_active = 0, superseded_by = NULL, updated_at = ?2
               WHERE id = ?1 AND (is_active = 1 OR superseded_by IS NOT NULL)";
    Ok(database.prepare_cached(sql)?.execute([id, now])? > 0)
}

/// Deletes learnings that were never confident enough to be shown and have not been seen for so
/// long that their confidence has decayed to nothing.
pub fn drop_faded(database: &Connection, now: Millis, shown_from: f64) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM learnings WHERE is_active = 1 AND pinned_at IS NULL AND confidence < ?1"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let weak = statement.query_map([shown_from], Learning::read)?.collect::<Result<Vec<_>, _>>()?;
    for learning in weak.into_iter().filter(|learning| learning.confidence_at(now) <= 0.0) {
        // A learning that superseded another stays: without it, the other would look forgotten.
        let sql = "DELETE FROM learnings WHERE id = ?1
                   AND NOT EXISTS (SELECT 1 FROM learnings o WHERE o.superseded_by = ?1)";
        database.prepare_cached(sql)?.execute([learning.id])?;
    }
    Ok(())
}
