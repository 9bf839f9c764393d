//! What time does to the database: sessions that went silent, rows that are too old, a file that should shrink.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use super::pool::be_patient;
use super::{StoreError, function_map};
use crate::config::Retention;
use crate::model::Millis;

const DAY: Millis = 24 * 60 * 60_000;

/// Rows, or pages, that one transaction of housekeeping touches, so that no hook waits long for it.
const AT_ONCE: i64 = 500;

/// Who changed a function longer ago than this is told by the repository; only a project's latest sessions are kept longer.
const FUNCTION_MAP_DAYS: u64 = 90;

/// Payloads can be large, and all of their pages are touched.
const PAYLOADS_AT_ONCE: i64 = 100;

/// Deals with sessions that were silent for a day. What such a session left over is summarised first: a marker is
/// queued for it, and only a session without open work is called interrupted.
pub fn interrupt_silent_sessions(database: &mut Connection, now: Millis) -> Result<Silent, StoreError> {
    let before = now - DAY;
    if !has_silent(database, before)? {
        return Ok(Silent::default());
    }
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "INSERT OR IGNORE INTO pending_queue (event_key, session_id, kind, prompt_number, created_at)
               SELECT 'silent:' || s.id || '@' || s.last_activity_at, s.id, 'flush', s.prompt_count, ?1
               FROM sessions s
               WHERE s.status = 'active' AND s.last_activity_at < ?2
                 AND (EXISTS (SELECT 1 FROM pending_queue q WHERE q.session_id = s.id
                              AND q.status IN ('raw', 'processing'))
                      OR (SELECT q.kind FROM pending_queue q WHERE q.session_id = s.id AND q.finished_at IS NOT NULL
                          ORDER BY q.id DESC LIMIT 1) = 'observation')";
    let queued = transaction.execute(sql, [now, before])?;
    let sql = "UPDATE sessions SET status = 'interrupted', ended_at = last_activity_at
               WHERE status = 'active' AND last_activity_at < ?1
                 AND NOT EXISTS (SELECT 1 FROM pending_queue q
                                 WHERE q.session_id = sessions.id AND q.status IN ('raw', 'processing'))";
    transaction.execute(sql, [before])?;
    let waiting = has_silent(&transaction, before)?;
    transaction.commit()?;
    Ok(Silent { queued: queued > 0, waiting })
}

/// Sessions that were imported know their project's name and not where it is. Where only one project has that name, they are
/// its sessions.
pub fn adopt_imported(database: &Connection) -> Result<(), StoreError> {
    // The projects first: looked up for each session, tens of thousands of sessions took minutes.
    let sql = "UPDATE sessions SET project_path = known.path
               FROM (SELECT project, min(project_path) AS path FROM sessions WHERE project <> '' AND project_path <> ''
                     GROUP BY project HAVING min(project_path) = max(project_path)) AS known
               WHERE sessions.project_path = '' AND sessions.project = known.project";
    database.execute(sql, [])?;
    Ok(())
}

/// What was found out about silent sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Silent {
    /// Markers were queued.
    pub queued: bool,
    /// Some will be interrupted when their work is done.
    pub waiting: bool,
}

fn has_silent(database: &Connection, before: Millis) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE status = 'active' AND last_activity_at < ?1)";
    Ok(database.prepare_cached(sql)?.query_row([before], |row| row.get(0))?)
}

/// Drops what is too old, a little at a time. True if there is more to do.
pub fn drop_old(database: &Connection, retention: &Retention, now: Millis) -> Result<bool, StoreError> {
    let before = |days: u64| now - i64::try_from(days).unwrap_or(i64::MAX / DAY).saturating_mul(DAY);
    let sql = "UPDATE pending_queue SET payload = NULL WHERE id IN (
                 SELECT id FROM pending_queue
                 WHERE finished_at IS NOT NULL AND payload IS NOT NULL AND finished_at < ?1 LIMIT ?2)";
    let mut more = at_most(PAYLOADS_AT_ONCE, database, sql, before(retention.raw_days))?;
    for status in ["done", "skipped", "error"] {
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
    Ok(more)
}

/// True if so many were changed that there may be more.
fn at_most(limit: i64, database: &Connection, sql: &str, before: Millis) -> Result<bool, StoreError> {
    let changed = database.prepare_cached(sql)?.execute(params![before, limit])?;
    Ok(i64::try_from(changed).unwrap_or_default() == limit)
}

/// Gives pages that nothing uses back to the file system, a little at a time. True if there is more to do.
pub fn shrink(database: &Connection) -> Result<bool, StoreError> {
    let free: i64 = database.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    // Some are kept: the next events want them.
    if free < 2 * AT_ONCE {
        return Ok(false);
    }
    // Every step of this statement gives back one page.
    let mut statement = database.prepare(&format!("PRAGMA incremental_vacuum({AT_ONCE})"))?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    Ok(true)
}

/// Writes the log back into the database and empties it, unless somebody reads from it for longer than `patience`, during
/// which nobody can write.
pub fn checkpoint(database: &Connection, patience: Duration) -> Result<(), StoreError> {
    // Most of it without holding anybody up.
    database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    database.busy_timeout(patience)?;
    let emptied = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    be_patient(database, true)?;
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
    fn imported_sessions_go_where_the_only_project_of_their_name_is() {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap();
        database
            .execute_batch(
                "INSERT INTO sessions (id, project, project_path, started_at, last_activity_at) VALUES
                   ('a', 'harbor', '/w/harbor', 1, 1), ('b', 'harbor', '/w/harbor', 1, 1),
                   ('c', 'twins', '/w/twins', 1, 1), ('d', 'twins', '/v/twins', 1, 1),
                   ('harbor-imported', 'harbor', '', 1, 1), ('twins-imported', 'twins', '', 1, 1),
                   ('alone-imported', 'alone', '', 1, 1), ('nameless', '', '', 1, 1)",
            )
            .unwrap();
        adopt_imported(&database).unwrap();
        let path = |id: &str| -> String {
            database
                .query_row("SELECT project_path FROM sessions WHERE id = ?1", [id], |row| row.get(0))
                .unwrap()
        };
        assert_eq!(path("harbor-imported"), "/w/harbor");
        for id in ["twins-imported", "alone-imported", "nameless"] {
            assert_eq!(path(id), "", "{id}");
        }
    }
}
