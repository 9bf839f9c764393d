//! User operations on the queue: list, retry, redo, purge.

use rusqlite::{Connection, TransactionBehavior, params};

use super::WITHOUT_MODEL;
use crate::model::Millis;
use crate::store::StoreError;

/// A row as `queue list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ListedRow {
    /// Its id.
    pub id: i64,
    /// The session's id.
    pub session_id: Option<String>,
    /// observation, summarize, flush.
    pub kind: String,
    /// The tool that was used.
    pub tool_name: Option<String>,
    /// raw, processing, done, skipped, error.
    pub status: String,
    /// Number of attempts so far.
    pub attempts: i64,
    /// Time of the next attempt.
    pub next_attempt_at: Option<Millis>,
    /// The last error, or the reason for skipping it.
    pub last_error: Option<String>,
    /// Arrival time.
    pub created_at: Millis,
}

/// Lists rows in these states, newest first.
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

/// Requeues rows that failed or were stopped: one row, or all. Rows whose payload could not be
/// parsed stay.
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

/// Requeued rows belong to finished turns, so they need not wait for silence.
fn close_batches(database: &Connection, now: Millis) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO pending_queue (event_key, session_id, kind, prompt_number, created_at)
               SELECT 'again:' || session_id || '@' || ?1, session_id, 'flush', max(prompt_number), ?1
               FROM pending_queue WHERE status IN ('raw', 'processing') AND kind = 'observation' GROUP BY session_id";
    database.execute(sql, [now])?;
    Ok(())
}

/// Requeues whole turns, events and end marker, that rules settled because the model failed. Their
/// notes stay until the model's replace them. Only turns that still have all payloads qualify.
pub fn redo(database: &mut Connection, now: Millis) -> Result<usize, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "UPDATE pending_queue SET status = 'raw', attempts = 0, last_error = NULL, finished_at = NULL
               WHERE finished_at IS NOT NULL AND status = 'done'
                 AND last_error >= ?1 AND last_error < ?1 || char(0x10ffff)
                 AND (payload IS NOT NULL OR kind = 'flush')";
    let redone = transaction.execute(sql, [WITHOUT_MODEL])?;
    close_batches(&transaction, now)?;
    transaction.commit()?;
    Ok(redone)
}

/// Deletes finished rows with their payloads. The memories made of them stay.
pub fn purge(database: &Connection) -> Result<usize, StoreError> {
    Ok(database.execute("DELETE FROM pending_queue WHERE finished_at IS NOT NULL", [])?)
}
