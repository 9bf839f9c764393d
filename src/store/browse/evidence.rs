//! The raw events behind a note or a turn, as long as they are kept. Only rows that a worker has finished are shown: before
//! that nobody has redacted them.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::api::EventLine;
use crate::model::SessionId;
use crate::store::StoreError;

/// Characters of a payload in a list, and of one that is shown alone.
const BEGINNING: u32 = 600;
const WHOLE: u32 = 200_000;
/// Maximum events in a list.
const MOST: u32 = 300;

const EVENT: &str = "q.id, q.kind, q.tool_name, q.status, q.last_error, q.failed, q.raw_bytes, q.created_at,
    coalesce(s.project, ''), coalesce(q.session_id, '')";
const FROM: &str = "FROM pending_queue q LEFT JOIN sessions s ON s.id = q.session_id";

/// Columns and source of an event without its payload.
pub(super) fn event_sql(rest: &str) -> String {
    format!("SELECT {EVENT}, NULL {FROM} {rest}")
}

pub(super) fn event_line(row: &Row<'_>) -> rusqlite::Result<EventLine> {
    Ok(EventLine {
        id: row.get(0)?,
        kind: row.get(1)?,
        tool: row.get(2)?,
        status: row.get(3)?,
        reason: row.get(4)?,
        failed: row.get(5)?,
        raw_bytes: row.get(6)?,
        created_at: row.get(7)?,
        project: row.get(8)?,
        session_id: row.get(9)?,
        payload: row.get(10)?,
    })
}

/// The events that a note was made of, in order.
pub fn events_of_note(database: &Connection, note: i64) -> Result<Vec<EventLine>, StoreError> {
    let sql = format!(
        "SELECT {EVENT}, substr(q.payload, 1, {BEGINNING}) {FROM}
         WHERE q.id IN (SELECT queue_id FROM observation_sources WHERE observation_id = ?1) AND q.finished_at IS NOT NULL
         ORDER BY q.id LIMIT {MOST}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([note], event_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The events of a turn, in order.
pub fn events_of_turn(
    database: &Connection,
    session: &SessionId,
    prompt_number: Option<i64>,
) -> Result<Vec<EventLine>, StoreError> {
    let sql = format!(
        "SELECT {EVENT}, substr(q.payload, 1, {BEGINNING}) {FROM}
         WHERE q.session_id = ?1 AND q.prompt_number IS ?2 AND q.finished_at IS NOT NULL ORDER BY q.id LIMIT {MOST}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![session.as_str(), prompt_number], event_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One event with its whole payload, up to a limit.
pub fn event(database: &Connection, id: i64) -> Result<Option<EventLine>, StoreError> {
    let sql = format!(
        "SELECT {EVENT}, substr(q.payload, 1, {WHOLE}) {FROM} WHERE q.id = ?1 AND q.finished_at IS NOT NULL"
    );
    Ok(database.prepare_cached(&sql)?.query_row([id], event_line).optional()?)
}
