//! Notes and learnings as the viewer lists them.

use rusqlite::{Connection, OptionalExtension, params};

use super::{NOTE, events_of_note, injections, note_line};
use crate::api::{LearningRow, NoteHistory, NoteLine, ObservationRow, StaleNote};
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::corrections;
use crate::store::memory::learnings as table;
use crate::store::memory::{OBSERVATION, observation_row};

/// Reads a note with everything around it, also a forgotten one.
pub fn note(database: &Connection, id: i64) -> Result<Option<NoteHistory>, StoreError> {
    let sql = format!(
        "SELECT {OBSERVATION}, coalesce(tokens_in, 0), coalesce(tokens_out, 0), coalesce(raw_bytes, 0), edited_at, pinned_at,
           deleted_at, (SELECT k.id FROM observations k WHERE k.uid = o.superseded_by)
         FROM observations o WHERE id = ?1"
    );
    let read = |row: &rusqlite::Row<'_>| {
        Ok(NoteHistory {
            note: observation_row(row)?,
            tokens: [row.get(18)?, row.get(19)?],
            raw_bytes: row.get(20)?,
            edited_at: row.get(21)?,
            pinned_at: row.get(22)?,
            deleted_at: row.get(23)?,
            merged_into: row.get(24)?,
            ..NoteHistory::default()
        })
    };
    let Some(found) = database.prepare_cached(&sql)?.query_row([id], read).optional()? else {
        return Ok(None);
    };
    let mut files = found.note.files_modified.clone();
    files.extend(found.note.files_read.iter().cloned());
    Ok(Some(NoteHistory {
        versions: corrections::versions(database, id)?,
        events: events_of_note(database, id)?,
        injections: injections(database, id, &files, found.note.created_at)?,
        ..found
    }))
}

/// Reads notes by id, in this order; missing and forgotten ones are left out.
pub fn notes_by_id(database: &Connection, ids: &[i64]) -> Result<Vec<NoteLine>, StoreError> {
    let sql = format!("SELECT {NOTE} FROM observations o WHERE o.id = ?1 AND o.deleted_at IS NULL");
    let mut statement = database.prepare_cached(&sql)?;
    let found = ids.iter().map(|id| statement.query_row([id], note_line).optional());
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Reads the notes of a session with all columns, oldest first.
pub fn notes_of_session(database: &Connection, session: &str) -> Result<Vec<ObservationRow>, StoreError> {
    let sql = format!(
        "SELECT {OBSERVATION} FROM observations WHERE session_id = ?1 AND deleted_at IS NULL ORDER BY id"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([session], observation_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists pinned notes, latest pin first.
pub fn pinned(database: &Connection, project: Option<&str>) -> Result<Vec<NoteLine>, StoreError> {
    let condition = "o.pinned_at IS NOT NULL AND o.deleted_at IS NULL AND (?1 IS NULL OR o.project = ?1)
                     ORDER BY o.pinned_at DESC";
    lines(database, condition, project)
}

/// Lists the notes whose code has changed or is gone, the latter first.
pub fn stale(database: &Connection, project: Option<&str>) -> Result<Vec<StaleNote>, StoreError> {
    let sql = format!(
        "SELECT {NOTE}, c.standing FROM stale_notes c JOIN observations o ON o.id = c.observation_id
         WHERE o.deleted_at IS NULL AND o.superseded_by IS NULL AND (?1 IS NULL OR o.project = ?1)
         ORDER BY c.standing DESC, o.created_at DESC LIMIT 200"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement
        .query_map([project], |row| Ok(StaleNote { note: note_line(row)?, standing: row.get(9)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists the notes that were forgotten last.
pub fn forgotten(database: &Connection, project: Option<&str>) -> Result<Vec<NoteLine>, StoreError> {
    let condition = "o.id IN (SELECT id FROM observations WHERE deleted_at IS NOT NULL ORDER BY deleted_at DESC LIMIT 500)
                     AND (?1 IS NULL OR o.project = ?1) AND coalesce(o.title, o.summary, '') <> '' ORDER BY o.deleted_at DESC";
    lines(database, condition, project)
}

fn lines(database: &Connection, condition: &str, project: Option<&str>) -> Result<Vec<NoteLine>, StoreError> {
    let sql = format!("SELECT {NOTE} FROM observations o WHERE {condition} LIMIT 50");
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([project], note_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists the active learnings of a project and the global ones, or all, most confident first.
pub fn learnings(
    database: &Connection,
    project: Option<&str>,
    now: Millis,
) -> Result<Vec<LearningRow>, StoreError> {
    let sql = "SELECT id, pinned_at IS NOT NULL FROM learnings
               WHERE is_active = 1 AND (?1 IS NULL OR project = ?1 OR project IS NULL)
               ORDER BY pinned_at IS NULL, confidence DESC, times_seen DESC, id DESC LIMIT 200";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (id, pinned): (i64, bool) = row?;
        let Some(learning) = table::get(database, id)? else { continue };
        let confidence = if pinned { 1.0 } else { learning.confidence_at(now) };
        found.push(LearningRow {
            id,
            pinned,
            category: learning.category.as_str().to_owned(),
            confidence: (confidence * 100.0).round() as i64,
            project: learning.project,
            content: learning.content,
            times_seen: learning.times_seen,
            source: learning.source_observation_id,
        });
    }
    Ok(found)
}
