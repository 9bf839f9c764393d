//! The latest events and notes, and the activity by day.

use rusqlite::{Connection, params};

use super::evidence::{event_line, event_sql};
use super::{NOTE, note_line};
use crate::api::{DayCount, EventLine, NoteLine};
use crate::clock::Day;
use crate::model::Millis;
use crate::store::StoreError;

/// The newest rows that a live feed has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Id of the newest event.
    pub event: i64,
    /// Id of the newest note.
    pub note: i64,
}

/// Returns the current position.
pub fn position(database: &Connection) -> Result<Position, StoreError> {
    let sql = "SELECT coalesce((SELECT max(id) FROM pending_queue), 0), coalesce((SELECT max(id) FROM observations), 0)";
    let read = |row: &rusqlite::Row<'_>| Ok(Position { event: row.get(0)?, note: row.get(1)? });
    Ok(database.prepare_cached(sql)?.query_row([], read)?)
}

/// The latest events in some states, newest first, without their payloads.
pub fn latest_events(
    database: &Connection,
    is_error: bool,
    limit: u32,
) -> Result<Vec<EventLine>, StoreError> {
    let condition = if is_error {
        "WHERE q.status = 'error' AND q.finished_at IS NOT NULL ORDER BY q.finished_at DESC LIMIT ?1"
    } else {
        "ORDER BY q.id DESC LIMIT ?1"
    };
    events(database, &event_sql(condition), params![limit])
}

/// Events after a position, newest first.
pub fn events_since(database: &Connection, after: i64, limit: u32) -> Result<Vec<EventLine>, StoreError> {
    events(database, &event_sql("WHERE q.id > ?1 ORDER BY q.id DESC LIMIT ?2"), params![after, limit])
}

fn events(
    database: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<EventLine>, StoreError> {
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, event_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The latest notes, newest first.
pub fn latest_notes(database: &Connection, limit: u32) -> Result<Vec<NoteLine>, StoreError> {
    notes_since(database, 0, limit)
}

/// Notes after a position, newest first.
pub fn notes_since(database: &Connection, after: i64, limit: u32) -> Result<Vec<NoteLine>, StoreError> {
    let sql = format!(
        "SELECT {NOTE} FROM observations o WHERE o.id > ?1 AND o.deleted_at IS NULL ORDER BY o.id DESC LIMIT ?2"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![after, limit], note_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Counts the notes of each of these days, oldest first; days without notes are left out. A count for each day walks the
/// index in its order: a GROUP BY would sort a whole year.
pub fn days(
    database: &Connection,
    project: Option<&str>,
    days: impl Iterator<Item = Day>,
    date: impl Fn(Millis) -> String,
) -> Result<Vec<DayCount>, StoreError> {
    let sql = match project {
        None => {
            "SELECT count(*) FROM observations WHERE created_at >= ?1 AND created_at < ?2 AND deleted_at IS NULL AND ?3 IS NULL"
        }
        Some(_) => {
            "SELECT count(*) FROM observations WHERE project = ?3 AND created_at >= ?1 AND created_at < ?2"
        }
    };
    let mut statement = database.prepare_cached(sql)?;
    let mut counts = Vec::new();
    for day in days {
        let notes = statement.query_row(params![day.start, day.end, project], |row| row.get(0))?;
        if notes > 0 {
            counts.push(DayCount { date: date(day.start), notes });
        }
    }
    Ok(counts)
}
