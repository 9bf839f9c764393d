//! Key figures of the database for `status` and `doctor`.

use rusqlite::{Connection, params};

use crate::api::Overview;
use crate::model::{Millis, SessionId};
use crate::store::{StoreError, context, log};

/// Reads the figures. `day` is the start of today.
pub fn read(database: &Connection, day: Millis) -> Result<Overview, StoreError> {
    let sql = "SELECT
        (SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing')),
        (SELECT min(created_at) FROM pending_queue WHERE status IN ('raw', 'processing')),
        (SELECT count(*) FROM pending_queue WHERE status = 'error' AND finished_at IS NOT NULL),
        -- Finished rows are deleted after a while; what was made of them stays.
        nullif(max(
          coalesce((SELECT max(finished_at) FROM pending_queue WHERE status = 'done' AND finished_at IS NOT NULL), 0),
          coalesce((SELECT created_at FROM observations ORDER BY id DESC LIMIT 1), 0)), 0),
        (SELECT max(last_activity_at) FROM sessions),
        (SELECT count(*) FROM observations WHERE created_at >= ?1 AND deleted_at IS NULL),
        (SELECT coalesce(sum(tokens_in), 0) FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1),
        (SELECT coalesce(sum(tokens_out), 0) FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1),
        (SELECT coalesce(sum(cost_usd), 0.0) FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1),
        (SELECT count(*) FROM observations WHERE deleted_at IS NULL),
        (SELECT count(*) FROM sessions)";
    Ok(database.query_row(sql, [day], |row| {
        Ok(Overview {
            waiting: row.get(0)?,
            oldest_waiting_at: row.get(1)?,
            failed: row.get(2)?,
            last_success_at: row.get(3)?,
            last_event_at: row.get(4)?,
            observations_today: row.get(5)?,
            tokens_in_today: row.get(6)?,
            tokens_out_today: row.get(7)?,
            cost_usd_today: row.get(8)?,
            observations: row.get(9)?,
            sessions: row.get(10)?,
        })
    })?)
}

/// Figures for the line that a session shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionFigures {
    /// Memories that the session was shown.
    pub shown: i64,
    /// Rows that wait or are being processed.
    pub waiting: i64,
    /// Cost today in US dollars.
    pub cost_usd_today: f64,
}

/// Reads the figures of a session. `day` is the start of today.
pub fn of_session(
    database: &Connection,
    session: &SessionId,
    day: Millis,
) -> Result<SessionFigures, StoreError> {
    let mut ids = context::shown(database, session)?.ids;
    ids.sort_unstable();
    ids.dedup();
    let sql = "SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing')";
    Ok(SessionFigures {
        shown: i64::try_from(ids.len()).unwrap_or(i64::MAX),
        waiting: database.query_row(sql, [], |row| row.get(0))?,
        cost_usd_today: log::spent_since(database, day)?,
    })
}

/// Deletes a session with everything made of it, without a trace. Used for the test sessions of
/// `doctor`.
pub fn erase_session(database: &mut Connection, session: &SessionId) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let id = session.as_str();
    for sql in [
        "DELETE FROM event_log WHERE session_id = ?1 AND event_type <> 'llm_call'",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        transaction.execute(sql, params![id])?;
    }
    Ok(transaction.commit()?)
}
