//! The raw events behind a note or a turn, as long as they are kept. Only rows that a worker has finished are shown: before
//! that nobody has redacted them.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::api::EventLine;
use crate::model::SessionId;
use crate::store::StoreError;

/// Characters of a payload in a list, and of one that is shown alone.
const BEGINNING: u32 = 600;
const WHOLE: u32 = 200_000;

const EVENT: &str = "q.id, q.kind, q.tool_name, q.status, q.last_error, q.failed, q.raw_bytes, q.created_at,
    coalesce(s.project, ''), coalesce(q.session_id, '')";
const FROM: &str = "FROM pending_queue q LEFT JOIN sessions s ON s.id = q.session_id";

/// The most informative part of a payload, in the order of what tools have.
const GIST: &str = "iif(json_valid(q.payload), substr(coalesce('$ ' || (q.payload ->> '$.tool_input.command'),
    iif(q.cwd IS NULL, q.payload ->> '$.tool_input.file_path', replace(q.payload ->> '$.tool_input.file_path', q.cwd || '/', '')),
    q.payload ->> '$.tool_input.pattern', q.payload ->> '$.tool_input.url',
    q.payload ->> '$.tool_input.query', q.payload ->> '$.tool_input.description'), 1, 600), NULL)";

/// Columns and source of an event without its payload.
pub(super) fn event_sql(rest: &str) -> String {
    format!("SELECT {EVENT}, NULL, NULL {FROM} {rest}")
}

/// The same with a part of the payload.
fn with_payload(characters: u32, rest: &str) -> String {
    format!("SELECT {EVENT}, substr(q.payload, 1, {characters}), {GIST} {FROM} {rest}")
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
        gist: row.get(11)?,
    })
}

/// The events that a note was made of, in order.
pub fn events_of_note(database: &Connection, note: i64) -> Result<Vec<EventLine>, StoreError> {
    let rest = "WHERE q.id IN (SELECT queue_id FROM observation_sources WHERE observation_id = ?1)
                  AND q.finished_at IS NOT NULL ORDER BY q.id LIMIT 40";
    let sql = with_payload(BEGINNING, rest);
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
    let rest = "WHERE q.session_id = ?1 AND q.prompt_number IS ?2 AND q.finished_at IS NOT NULL ORDER BY q.id LIMIT 300";
    let sql = with_payload(BEGINNING, rest);
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![session.as_str(), prompt_number], event_line)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One event with its whole payload, up to a limit.
pub fn event(database: &Connection, id: i64) -> Result<Option<EventLine>, StoreError> {
    let sql = with_payload(WHOLE, "WHERE q.id = ?1 AND q.finished_at IS NOT NULL");
    Ok(database.prepare_cached(&sql)?.query_row([id], event_line).optional()?)
}
