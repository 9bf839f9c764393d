//! What time does to the database: sessions that went silent, rows that are too old, a file that should shrink.

use rusqlite::{Connection, TransactionBehavior, params};

use super::StoreError;
use crate::config::Retention;
use crate::model::Millis;

const DAY: Millis = 24 * 60 * 60_000;

/// Rows that one transaction of housekeeping touches, so that no hook waits long for it.
const AT_ONCE: i64 = 500;

/// Deals with sessions that were silent for a day. What such a session left over is summarised first: a marker is
/// queued for it, and only a session without open work is called interrupted. True if markers were queued.
pub fn interrupt_silent_sessions(database: &mut Connection, now: Millis) -> Result<bool, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "INSERT OR IGNORE INTO pending_queue (event_key, session_id, kind, prompt_number, created_at)
               SELECT 'silent:' || s.id || '@' || s.last_activity_at, s.id, 'flush', s.prompt_count, ?1
               FROM sessions s
               WHERE s.status = 'active' AND s.last_activity_at < ?2
                 AND EXISTS (SELECT 1 FROM pending_queue q WHERE q.session_id = s.id AND q.kind = 'observation'
                             AND q.id > coalesce((SELECT max(m.id) FROM pending_queue m
                                                  WHERE m.session_id = s.id AND m.kind <> 'observation'), 0))";
    let queued = transaction.execute(sql, [now, now - DAY])?;
    let sql = "UPDATE sessions SET status = 'interrupted', ended_at = last_activity_at
               WHERE status = 'active' AND last_activity_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM pending_queue q
                                 WHERE q.session_id = sessions.id AND q.status IN ('raw', 'processing'))";
    transaction.execute(sql, [now - DAY])?;
    transaction.commit()?;
    Ok(queued > 0)
}

/// Drops what is too old, a little at a time. True if there is more to do.
pub fn drop_old(database: &Connection, retention: &Retention, now: Millis) -> Result<bool, StoreError> {
    let before = |days: u64| now - i64::try_from(days).unwrap_or(i64::MAX / DAY).saturating_mul(DAY);
    let mut more = false;
    for status in ["done", "skipped", "error"] {
        let sql = "UPDATE pending_queue SET payload = NULL WHERE id IN (
                     SELECT id FROM pending_queue WHERE status = ?1 AND finished_at < ?2 AND payload IS NOT NULL LIMIT ?3)";
        more |= at_once(database, sql, status, before(retention.raw_days))?;
        let sql = "DELETE FROM pending_queue WHERE id IN (
                     SELECT id FROM pending_queue WHERE status = ?1 AND finished_at < ?2 LIMIT ?3)";
        more |= at_once(database, sql, status, before(retention.queue_days))?;
    }
    let sql = "DELETE FROM event_log WHERE id IN (
                 SELECT id FROM event_log WHERE ?1 = '' AND created_at < ?2 LIMIT ?3)";
    more |= at_once(database, sql, "", before(retention.event_log_days))?;
    Ok(more)
}

fn at_once(database: &Connection, sql: &str, status: &str, before: Millis) -> Result<bool, StoreError> {
    let changed = database.prepare_cached(sql)?.execute(params![status, before, AT_ONCE])?;
    Ok(i64::try_from(changed).unwrap_or_default() == AT_ONCE)
}

/// Gives pages that nothing uses back to the file system, a little at a time. True if there is more to do.
pub fn shrink(database: &Connection) -> Result<bool, StoreError> {
    let free: i64 = database.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    // Some are kept: the next events want them.
    if free < 2 * AT_ONCE {
        return Ok(false);
    }
    database.execute_batch(&format!("PRAGMA incremental_vacuum({AT_ONCE})"))?;
    Ok(true)
}

/// Writes the log back into the database and empties it.
pub fn checkpoint(database: &Connection) -> Result<(), StoreError> {
    // Most of it without holding anybody up, then the rest with everybody waiting for a moment.
    database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
