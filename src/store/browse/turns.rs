//! A session and its turns.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::{NOTE, listed, note_line};
use crate::api::{SessionHistory, SessionTurn};
use crate::model::SessionId;
use crate::store::StoreError;
use crate::store::sessions::{session_by_id, whole_id};

/// Turns on a page.
const PAGE: i64 = 100;

/// Reads a session with its turns from a prompt number on. Returns `None` if it does not exist. The beginning of an id is
/// enough if only one session has it.
pub fn session(
    database: &Connection,
    id: &SessionId,
    from: i64,
) -> Result<Option<SessionHistory>, StoreError> {
    let id = &whole_id(database, id.as_str())?;
    let Some(session) = session_by_id(database, id)? else { return Ok(None) };
    let open_items = open_items(database, id)?;
    let sql = "SELECT max(prompt_number) FROM (SELECT prompt_number FROM user_prompts WHERE session_id = ?1
                 AND prompt_number >= ?2 ORDER BY prompt_number LIMIT ?3)";
    let last: Option<i64> =
        database.prepare_cached(sql)?.query_row(params![id.as_str(), from, PAGE], |row| row.get(0))?;
    let to = last.unwrap_or(i64::MAX);
    let sql = "SELECT min(prompt_number) FROM user_prompts WHERE session_id = ?1 AND prompt_number > ?2";
    let next_from = database.prepare_cached(sql)?.query_row(params![id.as_str(), to], |row| row.get(0))?;
    let neighbour = |sql: &str| {
        let parameters = params![session.project, session.started_at, id.as_str()];
        database.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()
    };
    let previous = neighbour(
        "SELECT id FROM sessions WHERE project = ?1 AND (started_at, id) < (?2, ?3) ORDER BY started_at DESC, id DESC LIMIT 1",
    )?;
    let next = neighbour(
        "SELECT id FROM sessions WHERE project = ?1 AND (started_at, id) > (?2, ?3) ORDER BY started_at, id LIMIT 1",
    )?;
    let turns = turns(database, id, from, to)?;
    Ok(Some(SessionHistory { session, open_items, turns, next_from, previous, next }))
}

/// Reads the points that a session has left open.
pub(super) fn open_items(database: &Connection, id: &SessionId) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT open_items FROM sessions WHERE id = ?1";
    Ok(database.prepare_cached(sql)?.query_row([id.as_str()], |row| listed(row, 0))?)
}

fn turns(database: &Connection, id: &SessionId, from: i64, to: i64) -> Result<Vec<SessionTurn>, StoreError> {
    let mut turns: BTreeMap<Option<i64>, SessionTurn> = BTreeMap::new();
    let range = params![id.as_str(), from, to];
    let sql =
        "SELECT prompt_number, iif(is_raw, NULL, substr(prompt, 1, 20000)), created_at FROM user_prompts
               WHERE session_id = ?1 AND prompt_number BETWEEN ?2 AND ?3";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        let turn = turns.entry(row.get(0)?).or_default();
        (turn.prompt, turn.created_at) = (row.get(1)?, row.get(2)?);
    }
    let sql = format!(
        "SELECT {NOTE}, o.prompt_number FROM observations o
         WHERE o.session_id = ?1 AND coalesce(o.prompt_number, ?2) BETWEEN ?2 AND ?3 AND o.deleted_at IS NULL
         ORDER BY o.id LIMIT 2000"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        turns.entry(row.get(9)?).or_default().notes.push(note_line(row)?);
    }
    let sql = "SELECT prompt_number, completed, learned, next_steps FROM session_summaries
               WHERE session_id = ?1 AND coalesce(prompt_number, ?2) BETWEEN ?2 AND ?3 ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        let turn = turns.entry(row.get(0)?).or_default();
        (turn.completed, turn.learned, turn.next_steps) = (row.get(1)?, row.get(2)?, row.get(3)?);
    }
    let sql = "SELECT prompt_number, count(*), count(payload) FROM pending_queue
               WHERE session_id = ?1 AND coalesce(prompt_number, ?2) BETWEEN ?2 AND ?3 AND finished_at IS NOT NULL
                 AND kind = 'observation'
               GROUP BY prompt_number";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        let turn = turns.entry(row.get(0)?).or_default();
        (turn.events, turn.payloads) = (row.get(1)?, row.get(2)?);
    }
    Ok(turns.into_iter().map(|(prompt_number, turn)| SessionTurn { prompt_number, ..turn }).collect())
}
