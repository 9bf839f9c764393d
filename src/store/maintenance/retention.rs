//! Housekeeping: ends silent sessions, deletes old rows, and shrinks the file.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::clock::{DAY, HOUR};
use crate::config::RetentionSettings;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::files::connections::set_busy_timeout;
use crate::store::files::scrub;
use crate::store::memory::{function_map, sightings, traces};

/// A session that went silent. One whose history is being read is old, and not silent.
const IS_SILENT: &str = "s.status = 'active' AND s.last_activity_at < ?1 - 86400000
                 AND NOT EXISTS (SELECT 1 FROM backfill_files f WHERE f.session_id = s.id AND f.is_done = 0
                                 AND f.read_at > ?1 - 300000)";

/// Rows, or pages, that one transaction of housekeeping touches, so that no hook waits long for it.
const AT_ONCE: i64 = 500;

/// Retention of the function map, in days. The repository's history shows older changes; only a
/// project's latest sessions are kept longer.
const FUNCTION_MAP_DAYS: u64 = 90;

/// Retention of edit traces, in days. Lines removed longer ago count as new when they return.
const TRACE_DAYS: u64 = 365;

/// Retention of sightings, in days. A command that no session repeats for this long is not a habit
/// of the project.
const SIGHTING_DAYS: u64 = 90;

/// Maximum payloads per transaction. Payloads can be large, and all of their pages are touched.
const PAYLOADS_AT_ONCE: i64 = 100;

/// Handles sessions that were silent for a day. First queues a marker for the rest of their work;
/// only a session without open work is marked as interrupted.
pub fn interrupt_silent_sessions(database: &mut Connection, now: Millis) -> Result<Silent, StoreError> {
    if !has_silent(database, now)? {
        return Ok(Silent::default());
    }
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = format!(
        "INSERT OR IGNORE INTO pending_queue (event_key, session_id, kind, prompt_number, created_at)
         SELECT 'silent:' || s.id || '@' || s.last_activity_at, s.id, 'flush', s.prompt_count, ?1
         FROM sessions s
         WHERE {IS_SILENT}
           AND (EXISTS (SELECT 1 FROM pending_queue q WHERE q.session_id = s.id AND q.status IN ('raw', 'processing'))
                OR (SELECT q.kind FROM pending_queue q WHERE q.session_id = s.id AND q.finished_at IS NOT NULL
                    ORDER BY q.id DESC LIMIT 1) = 'observation')"
    );
    let queued = transaction.execute(&sql, [now])?;
    let sql = format!(
        "UPDATE sessions AS s SET status = 'interrupted', ended_at = last_activity_at
         WHERE {IS_SILENT}
           AND NOT EXISTS (SELECT 1 FROM pending_queue q
                           WHERE q.session_id = s.id AND q.status IN ('raw', 'processing'))"
    );
    transaction.execute(&sql, [now])?;
    let waiting = has_silent(&transaction, now)?;
    transaction.commit()?;
    Ok(Silent { queued: queued > 0, waiting })
}

/// Deletes sessions without any activity, one hour after their end.
pub fn drop_empty_sessions(database: &Connection, now: Millis) -> Result<usize, StoreError> {
    let sql = "DELETE FROM sessions WHERE status = 'completed' AND prompt_count = 0 AND last_activity_at < ?1
                 AND NOT (origin = 'sync' AND title IS NOT NULL)
                 AND NOT EXISTS (SELECT 1 FROM user_prompts p WHERE p.session_id = sessions.id)
                 AND NOT EXISTS (SELECT 1 FROM pending_queue q WHERE q.session_id = sessions.id
                                 AND q.status IN ('raw', 'processing'))
                 AND NOT EXISTS (SELECT 1 FROM pending_queue q WHERE q.session_id = sessions.id
                                 AND q.finished_at IS NOT NULL AND q.kind <> 'flush')
                 AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.session_id = sessions.id)
                 AND NOT EXISTS (SELECT 1 FROM session_summaries s WHERE s.session_id = sessions.id)
                 AND NOT EXISTS (SELECT 1 FROM function_map f WHERE f.session_id = sessions.id)";
    Ok(database.execute(sql, [now - HOUR])?)
}

/// The result of handling silent sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Silent {
    /// True if markers were queued.
    pub queued: bool,
    /// True if some will be interrupted when their work is done.
    pub waiting: bool,
}

fn has_silent(database: &Connection, now: Millis) -> Result<bool, StoreError> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM sessions s WHERE {IS_SILENT})");
    Ok(database.prepare_cached(&sql)?.query_row([now], |row| row.get(0))?)
}

/// Deletes rows beyond their retention, a limited number at once. True if there is more to do.
pub fn drop_old(
    database: &Connection,
    retention: &RetentionSettings,
    now: Millis,
) -> Result<bool, StoreError> {
    let before = |days: u64| now - i64::try_from(days).unwrap_or(i64::MAX / DAY).saturating_mul(DAY);
    let mut more = false;
    // Failed rows stay until the user retries or purges them.
    for status in ["done", "skipped"] {
        let sql = format!(
            "UPDATE pending_queue SET payload = NULL WHERE id IN (
               SELECT id FROM pending_queue
               WHERE status = '{status}' AND finished_at IS NOT NULL AND payload IS NOT NULL AND finished_at < ?1
               LIMIT ?2)"
        );
        more |= at_most(PAYLOADS_AT_ONCE, database, &sql, before(retention.raw_days))?;
        let sql = format!(
            "DELETE FROM pending_queue WHERE id IN (
               SELECT id FROM pending_queue
               WHERE status = '{status}' AND finished_at IS NOT NULL AND finished_at < ?1 LIMIT ?2)"
        );
        more |= at_most(AT_ONCE, database, &sql, before(retention.queue_days))?;
    }
    let sql = "DELETE FROM event_log WHERE id IN (SELECT id FROM event_log WHERE created_at < ?1 LIMIT ?2)";
    more |= at_most(AT_ONCE, database, sql, before(retention.event_log_days))?;
    more |= function_map::drop_old(database, before(FUNCTION_MAP_DAYS), AT_ONCE)?;
    more |= traces::drop_old(database, before(TRACE_DAYS), AT_ONCE)?;
    more |= sightings::drop_old(database, before(SIGHTING_DAYS), AT_ONCE)?;
    Ok(more)
}

/// True if the limit was reached, so there may be more.
fn at_most(limit: i64, database: &Connection, sql: &str, before: Millis) -> Result<bool, StoreError> {
    let changed = database.prepare_cached(sql)?.execute(params![before, limit])?;
    Ok(i64::try_from(changed).unwrap_or_default() == limit)
}

/// Returns the used and the free bytes of the file.
pub fn file_bytes(database: &Connection) -> Result<(u64, u64), StoreError> {
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, free, size) = (pragma("page_count")?, pragma("freelist_count")?, pragma("page_size")?);
    let bytes = |pages: i64| u64::try_from(pages * size).unwrap_or_default();
    Ok((bytes(pages - free), bytes(free)))
}

/// Returns unused pages to the file system, a limited number at once. True if there is more to do.
pub fn shrink(database: &Connection) -> Result<bool, StoreError> {
    let free: i64 = database.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    // Keep some for the next events.
    if free < 2 * AT_ONCE {
        return Ok(false);
    }
    // Every step of this statement frees one page.
    let mut statement = database.prepare(&format!("PRAGMA incremental_vacuum({AT_ONCE})"))?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    Ok(true)
}

/// Checkpoints and empties the WAL, unless a reader holds it for longer than `patience`. Writers are blocked during that time.
/// Copies of moved rows are overwritten first: only the WAL shows which pages have them.
pub fn checkpoint(database: &Connection, patience: Duration) -> Result<(), StoreError> {
    // A lock or a full disk must not keep the WAL from being emptied.
    if let Err(error) = scrub::scrub(database)
        && !error.is_transient()
    {
        return Err(error);
    }
    // Does most of the work without blocking anyone.
    database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    database.busy_timeout(patience)?;
    let emptied = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    set_busy_timeout(database, true)?;
    match emptied.map_err(StoreError::from) {
        Err(StoreError::Busy) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;

    #[test]
    fn failed_rows_stay_until_retried_or_purged() {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap();
        database
            .execute_batch(
                "INSERT INTO sessions (id, started_at, last_activity_at) VALUES ('s', 1, 1);
                 INSERT INTO pending_queue (event_key, session_id, kind, status, finished_at, created_at, payload) VALUES
                   ('done', 's', 'observation', 'done', 1, 1, '{}'), ('skipped', 's', 'observation', 'skipped', 1, 1, '{}'),
                   ('failed', 's', 'observation', 'error', 1, 1, '{}'), ('garbage', NULL, 'observation', 'error', 1, 1, '{}')",
            )
            .unwrap();
        let retention = RetentionSettings { raw_days: 7, queue_days: 30, event_log_days: 90, max_mb: 0 };
        let left = |now: Millis| -> (i64, i64) {
            while drop_old(&database, &retention, now).unwrap() {}
            let sql = "SELECT count(*), count(payload) FROM pending_queue";
            database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        assert_eq!(left(8 * DAY), (4, 2));
        assert_eq!(left(400 * DAY), (2, 2));
    }

    #[test]
    fn empty_sessions_are_deleted_and_others_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap();
        database
            .execute_batch(
                "INSERT INTO sessions (id, status, started_at, last_activity_at, prompt_count) VALUES
                   ('looked', 'completed', 1, 1, 0), ('waits', 'active', 1, 1, 0), ('asked', 'completed', 1, 1, 1),
                   ('noted', 'completed', 1, 1, 0);
                 INSERT INTO observations (uid, session_id, created_at) VALUES ('u', 'noted', 1);
                 INSERT INTO pending_queue (event_key, session_id, kind, status, finished_at, created_at)
                   VALUES ('k', 'looked', 'flush', 'done', 1, 1)",
            )
            .unwrap();
        let left = |now: Millis| -> String {
            drop_empty_sessions(&database, now).unwrap();
            let sql = "SELECT group_concat(id) FROM (SELECT id FROM sessions ORDER BY id)";
            database.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(left(HOUR), "asked,looked,noted,waits");
        assert_eq!(left(HOUR + 2), "asked,noted,waits");
    }
}
