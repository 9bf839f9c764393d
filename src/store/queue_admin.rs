//! What people do to the queue: look at it, try again, do again, clear away.

use rusqlite::{Connection, TransactionBehavior, params};

use super::StoreError;
use super::queue::BEYOND_CEILING;
use crate::model::Millis;

/// A row as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ListedRow {
    /// Its id.
    pub id: i64,
    /// Whose it is.
    pub session_id: Option<String>,
    /// observation, summarize, flush.
    pub kind: String,
    /// The tool that was used.
    pub tool_name: Option<String>,
    /// raw, processing, done, skipped, error.
    pub status: String,
    /// How often it was tried.
    pub attempts: i64,
    /// When it is tried next.
    pub next_attempt_at: Option<Millis>,
    /// What went wrong, or why it was skipped.
    pub last_error: Option<String>,
    /// When it arrived.
    pub created_at: Millis,
}

/// Rows in these states, newest first.
pub fn list(database: &Connection, states: &[&str], limit: u32) -> Result<Vec<ListedRow>, StoreError> {
    let sql = "SELECT id, session_id, kind, tool_name, status, attempts, next_attempt_at, last_error, created_at
               FROM pending_queue WHERE status IN (SELECT value FROM json_each(?1)) ORDER BY id DESC LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let states = serde_json::to_string(states).unwrap_or_default();
    let rows = statement.query_map(params![states, limit], |row| {
        Ok(ListedRow {
            id: row.get(0)?,
            session_id: row.get(1)?,
            kind: row.get(2)?,
            tool_name: row.get(3)?,
            status: row.get(4)?,
            attempts: row.get(5)?,
            next_attempt_at: row.get(6)?,
            last_error: row.get(7)?,
            created_at: row.get(8)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Brings back what ended in an error or was stopped: one row, or all. A payload that could not be understood stays.
pub fn retry(database: &mut Connection, id: Option<i64>, now: Millis) -> Result<usize, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql =
        "UPDATE pending_queue SET status = 'raw', attempts = 0, next_attempt_at = NULL, finished_at = NULL
               WHERE session_id IS NOT NULL AND (?1 IS NULL OR id = ?1) AND finished_at IS NOT NULL
                 AND (status = 'error' OR (status = 'skipped' AND last_error = 'stopped'))
                 AND (kind <> 'observation' OR payload IS NOT NULL)";
    let retried = transaction.execute(sql, [id])?;
    close_batches(&transaction, now)?;
    transaction.commit()?;
    Ok(retried)
}

/// What was brought back belongs to turns that are over: it need not wait for silence.
fn close_batches(database: &Connection, now: Millis) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO pending_queue (event_key, session_id, kind, created_at)
               SELECT DISTINCT 'again:' || session_id || '@' || ?1, session_id, 'flush', ?1
               FROM pending_queue WHERE status IN ('raw', 'processing') AND kind = 'observation'";
    database.execute(sql, [now])?;
    Ok(())
}

/// Brings back what rules did because the day's ceiling was reached, and takes away what they made of it. Only events
/// whose payload is still there.
pub fn redo(database: &mut Connection, now: Millis) -> Result<usize, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "UPDATE observations SET deleted_at = ?1
               WHERE deleted_at IS NULL AND provider = 'local' AND id IN (
                 SELECT s.observation_id FROM observation_sources s JOIN pending_queue q ON q.id = s.queue_id
                 WHERE q.status = 'done' AND q.finished_at IS NOT NULL AND q.last_error = ?2 AND q.payload IS NOT NULL)";
    transaction.execute(sql, params![now, BEYOND_CEILING])?;
    let sql = "UPDATE pending_queue SET status = 'raw', attempts = 0, last_error = NULL, finished_at = NULL
               WHERE status = 'done' AND finished_at IS NOT NULL AND kind = 'observation' AND last_error = ?1
                 AND payload IS NOT NULL";
    let redone = transaction.execute(sql, [BEYOND_CEILING])?;
    close_batches(&transaction, now)?;
    transaction.commit()?;
    Ok(redone)
}

/// Deletes finished rows with their payloads. What was made of them stays.
pub fn purge(database: &Connection) -> Result<usize, StoreError> {
    Ok(database.execute("DELETE FROM pending_queue WHERE finished_at IS NOT NULL", [])?)
}
