//! Keeps the size of raw events below `retention.max_mb` and below the free disk space, whatever a
//! session sends. Space is freed in this order: payloads of finished events, finished events,
//! payloads of failed events, the middle of waiting payloads in the session with the most waiting
//! data, and finally that session's oldest tool events, which end as skipped. Memories and prompts
//! are never deleted and do not count.

use std::fs;

use crate::files::disk::Space;
use crate::paths::Home;

/// Bytes of an event that a hook keeps while the database is over its limit.
pub const KEPT_OF_AN_EVENT: u64 = 4096;

/// True if the database, without memories, is over its limit. 0 means no limit.
pub fn is_over(home: &Home, max_mb: u64) -> bool {
    let most = max_mb.saturating_mul(1 << 20);
    let bytes = fs::metadata(home.database()).map_or(0, |meta| meta.len());
    most > 0 && bytes > most && bytes > most.saturating_add(memory_bytes(home))
}

/// True if only the reserve for new events is left on the disk.
pub fn is_disk_low(home: &Home) -> bool {
    Space::at(home.dir()).is_some_and(Space::is_low)
}

/// Returns the size of the memories; 0 before the worker has measured it.
fn memory_bytes(home: &Home) -> u64 {
    let text = fs::read_to_string(home.memory_bytes()).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

#[cfg(feature = "service")]
pub use relief::{Limit, Relief, measure_memories, relieve};

#[cfg(feature = "service")]
mod relief {
    use rusqlite::{Connection, ToSql, TransactionBehavior, params};
    use serde_json::json;

    use super::KEPT_OF_AN_EVENT;
    use crate::files::disk::Space;
    use crate::model::Millis;
    use crate::paths::Home;
    use crate::store::StoreError;
    use crate::store::log::{LogEntry, log, notice};
    use crate::store::maintenance::retention;

    /// Maximum rows per transaction, so that no hook waits long for it.
    const AT_ONCE: i64 = 200;

    /// A finished event stays this long, so that a second delivery is recognised as a duplicate.
    const RECOGNISED_MS: Millis = 5 * 60_000;

    /// Number of a session's oldest events that are scanned for large payloads. Events captured
    /// while the database is over its limit are small already, and scanning all of them every time
    /// would block hooks for longer than they wait.
    const LOOKED_AT: i64 = 2_000;

    /// Minimum time between two notices to the user.
    const NOTICE_INTERVAL_MS: Millis = crate::clock::DAY;

    /// Estimated size of a row without its payload, in bytes.
    const ROW_BYTES: i64 = 300;

    /// The limit on raw events.
    #[derive(Debug, Clone, Copy)]
    pub struct Limit {
        /// `retention.max_mb` in bytes; 0 means no limit.
        pub most: u64,
        /// Bytes of the database that are not raw events.
        pub memories: u64,
        /// Disk space, with the WAL counted as free.
        pub disk: Option<Space>,
    }

    impl Limit {
        /// Returns the number of bytes allowed for raw events that take `raw` now, with
        /// `free_pages` bytes free in the file. If other programs fill the disk, raw events give up
        /// at most the part above the reserve.
        fn allowed(&self, raw: u64, free_pages: u64) -> u64 {
            let most = if self.most == 0 { u64::MAX } else { self.most };
            let Some(disk) = self.disk else { return most };
            let reserve = disk.reserve();
            most.min((raw + free_pages + disk.free).saturating_sub(reserve).max(reserve))
        }
    }

    /// The result of one step.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Relief {
        /// True if there is more to do.
        pub more: bool,
        /// True if unprocessed events were cut or skipped.
        pub cost_events: bool,
    }

    /// Frees space if raw events exceed their limit, a limited amount at once.
    pub fn relieve(database: &mut Connection, limit: &Limit, now: Millis) -> Result<Relief, StoreError> {
        let (used, free_pages) = retention::file_bytes(database)?;
        let raw = used.saturating_sub(limit.memories);
        let allowed = limit.allowed(raw, free_pages);
        if raw <= allowed {
            return Ok(Relief { more: retention::shrink(database)?, cost_events: false });
        }
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let steps = [
            (finished_payloads as Step, false),
            (finished_events, false),
            (failed_payloads, true),
            (waiting, true),
        ];
        let mut relief = Relief::default();
        for (give_way, cost_events) in steps {
            if give_way(&transaction, now)? > 0 {
                relief = Relief { more: true, cost_events };
                break;
            }
        }
        if relief.more {
            notify_user(&transaction, allowed, now)?;
        }
        transaction.commit()?;
        relief.more |= retention::shrink(database)?;
        Ok(relief)
    }

    type Step = fn(&Connection, Millis) -> Result<usize, StoreError>;

    /// Measures the part of the database that is not raw events and records it for hooks. Reads
    /// every leaf of the queue.
    pub fn measure_memories(database: &Connection, home: &Home) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(octet_length(payload)), 0) + ?1 * count(*) FROM pending_queue";
        let raw: i64 = database.query_row(sql, [ROW_BYTES], |row| row.get(0))?;
        let memories =
            retention::file_bytes(database)?.0.saturating_sub(u64::try_from(raw).unwrap_or_default());
        // Best effort: without the file, hooks count memories as raw events.
        let _ = std::fs::write(home.memory_bytes(), format!("{memories}\n"));
        Ok(memories)
    }

    fn finished_payloads(database: &Connection, _now: Millis) -> Result<usize, StoreError> {
        Ok(payloads(database, "done")? + payloads(database, "skipped")?)
    }

    fn failed_payloads(database: &Connection, _now: Millis) -> Result<usize, StoreError> {
        payloads(database, "error")
    }

    fn payloads(database: &Connection, status: &str) -> Result<usize, StoreError> {
        let sql = "UPDATE pending_queue SET payload = NULL WHERE id IN (
                     SELECT id FROM pending_queue WHERE status = ?1 AND finished_at IS NOT NULL AND payload IS NOT NULL
                     ORDER BY finished_at LIMIT ?2)";
        Ok(database.prepare_cached(sql)?.execute(params![status, AT_ONCE])?)
    }

    fn finished_events(database: &Connection, now: Millis) -> Result<usize, StoreError> {
        let sql = "DELETE FROM pending_queue WHERE id IN (
                     SELECT id FROM pending_queue WHERE status = ?1 AND finished_at IS NOT NULL AND finished_at < ?2
                     ORDER BY finished_at LIMIT ?3)";
        let mut deleted = 0;
        for status in ["skipped", "done"] {
            deleted +=
                database.prepare_cached(sql)?.execute(params![status, now - RECOGNISED_MS, AT_ONCE])?;
        }
        Ok(deleted)
    }

    // The partial index of waiting events has the condition `status IN …`; without the same
    // condition SQLite does not use that index.

    const LARGE_OF_WAITING: &str = "SELECT id FROM (
          SELECT id, payload FROM pending_queue WHERE session_id = ?1 AND status IN ('raw', 'processing')
          AND status = 'raw' AND kind = 'observation' ORDER BY id LIMIT ?4)
        WHERE octet_length(payload) > ?2 + 256 LIMIT ?3";

    const OLDEST_OF_WAITING: &str = "SELECT id FROM pending_queue WHERE session_id = ?1
        AND status IN ('raw', 'processing') AND status = 'raw' AND kind = 'observation' ORDER BY id LIMIT ?2";

    const FULLEST_SESSIONS: &str =
        "SELECT session_id FROM pending_queue WHERE status IN ('raw', 'processing')
        GROUP BY session_id ORDER BY count(*) DESC LIMIT 5";

    /// Frees space in the session with the most waiting events. Continues with the next session
    /// only if that one has nothing to free.
    fn waiting(database: &Connection, now: Millis) -> Result<usize, StoreError> {
        let mut statement = database.prepare_cached(FULLEST_SESSIONS)?;
        let sessions = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        for session in sessions {
            for give_way in [middle_of_waiting, oldest_of_waiting] {
                let given = give_way(database, &session, now)?;
                if given > 0 {
                    return Ok(given);
                }
            }
        }
        Ok(0)
    }

    /// Truncates large payloads to their beginning, followed by a marker.
    fn middle_of_waiting(database: &Connection, session: &str, _now: Millis) -> Result<usize, StoreError> {
        let kept = i64::try_from(KEPT_OF_AN_EVENT).unwrap_or(i64::MAX);
        let change = "UPDATE temp.giving_way SET payload = json_object('text', substr(payload, 1, ?1 / 4) ||
                      '[claude-mem: ' || (octet_length(payload) - ?1 / 4) || ' bytes cut]')";
        let which = params![session, kept, AT_ONCE, LOOKED_AT];
        rewrite(database, (LARGE_OF_WAITING, which), (change, params![kept]))
    }

    fn oldest_of_waiting(database: &Connection, session: &str, now: Millis) -> Result<usize, StoreError> {
        let change = "UPDATE temp.giving_way SET status = 'skipped', payload = NULL, finished_at = ?1,
                      last_error = 'the database is at its limit (retention.max_mb), and this session has the most events'";
        rewrite(database, (OLDEST_OF_WAITING, params![session, AT_ONCE]), (change, params![now]))
    }

    /// Deletes the chosen rows, changes them and inserts them again: a row that shrinks in place
    /// leaves its page half empty, and other sessions would lose data although there is space.
    fn rewrite(
        database: &Connection,
        (chosen, which): (&str, &[&dyn ToSql]),
        (change, how): (&str, &[&dyn ToSql]),
    ) -> Result<usize, StoreError> {
        database.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS giving_way AS SELECT * FROM pending_queue WHERE 0;
             DELETE FROM temp.giving_way;",
        )?;
        let take = format!("INSERT INTO temp.giving_way SELECT * FROM pending_queue WHERE id IN ({chosen})");
        let count = database.execute(&take, which)?;
        if count > 0 {
            database
                .execute_batch("DELETE FROM pending_queue WHERE id IN (SELECT id FROM temp.giving_way)")?;
            database.execute(change, how)?;
            database.execute_batch(
                "INSERT INTO pending_queue SELECT * FROM temp.giving_way ORDER BY id;
                 DELETE FROM temp.giving_way;",
            )?;
        }
        Ok(count)
    }

    fn notify_user(database: &Connection, most: u64, now: Millis) -> Result<(), StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM event_log WHERE event_type = 'limit' AND created_at > ?1)";
        if database.prepare_cached(sql)?.query_row([now - NOTICE_INTERVAL_MS], |row| row.get(0))? {
            return Ok(());
        }
        let entry = LogEntry { event_type: "limit", data: json!({"bytes": most}), ..LogEntry::default() };
        log(database, &entry, now)?;
        let message = format!(
            "claude-mem: raw events have reached their limit of {} MB (retention.max_mb, or the free disk space). The \
             oldest ones are cut or dropped; memories stay.",
            most >> 20
        );
        notice(database, &message, now)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::model::{Event, EventBody, EventKey, Payload, SessionId, SessionStamp, ToolUse};
        use crate::paths::Home;
        use crate::store;

        fn event(session: &str, number: usize, bytes: usize) -> Event {
            let stamp = SessionStamp {
                id: SessionId(session.into()),
                project_key: String::new(),
                is_alias: false,
                project: "p".into(),
                project_path: "/p".into(),
                cwd: "/p".into(),
                branch: None,
                agent: Default::default(),
            };
            let json = format!("{{\"text\":\"{}\"}}", "ä".repeat(bytes / 2));
            let tool = ToolUse { payload: Payload { json, raw_bytes: 1 }, ..ToolUse::default() };
            let key = EventKey::Exact(format!("{session}:{number}"));
            Event { key, at: 1_000, session: Some(stamp), body: EventBody::Tool(tool) }
        }

        fn count(database: &Connection, sql: &str) -> i64 {
            database.query_row(sql, [], |row| row.get(0)).unwrap()
        }

        fn limit(most: u64, memories: u64) -> Limit {
            Limit { most, memories, disk: None }
        }

        #[test]
        fn memories_do_not_count_towards_the_limit() {
            let scratch = tempfile::tempdir().unwrap();
            let home = Home::at(scratch.path());
            let mut database = store::open_for_hook(&home, 1000).unwrap();
            let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                        INSERT INTO event_log (event_type, data, created_at)
                        SELECT 'x', json_quote(hex(randomblob(1000))), i FROM n";
            database.execute(many, []).unwrap();
            for number in 0..30 {
                store::record(&mut database, &event("s", number, 20_000)).unwrap();
            }
            let most = 2 << 20;
            assert!(retention::file_bytes(&database).unwrap().0 > 3 * most);
            database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            assert!(super::super::is_over(&home, 2), "not measured yet");
            let memories = measure_memories(&database, &home).unwrap();
            assert!(!super::super::is_over(&home, 2));
            assert_eq!(relieve(&mut database, &limit(most, memories), 10_000).unwrap(), Relief::default());
            let whole =
                "SELECT count(*) FROM pending_queue WHERE status = 'raw' AND octet_length(payload) > 20000";
            assert_eq!(count(&database, whole), 30);
        }

        #[test]
        fn a_disk_filled_by_others_costs_only_bytes_above_the_reserve() {
            const MB: u64 = 1 << 20;
            let disk = |free: u64| Limit {
                most: 0,
                memories: 0,
                disk: Some(Space { free: free * MB, total: 90 * MB }),
            };
            assert_eq!(disk(40).allowed(20 * MB, 0), 30 * MB, "10 MB more");
            assert_eq!(disk(20).allowed(50 * MB, 5 * MB), 45 * MB, "5 MB less");
            assert_eq!(disk(0).allowed(25 * MB, 0), 30 * MB, "not our data to free");
        }

        #[test]
        fn a_flooding_session_is_cut_first_and_keeps_its_rows() {
            let scratch = tempfile::tempdir().unwrap();
            let home = Home::at(scratch.path());
            let mut database = store::open_for_hook(&home, 1000).unwrap();
            for number in 0..30 {
                store::record(&mut database, &event("quiet", number, 20_000)).unwrap();
            }
            for number in 0..400 {
                store::record(&mut database, &event("flood", number, 20_000)).unwrap();
            }
            let most = 2 << 20;
            let mut rounds = 0;
            while relieve(&mut database, &limit(most, 0), 10_000).unwrap().more {
                rounds += 1;
                assert!(rounds < 1000, "must terminate");
            }
            assert!(retention::file_bytes(&database).unwrap().0 <= most);
            assert_eq!(count(&database, "SELECT count(*) FROM pending_queue"), 430);
            let whole = "SELECT count(*) FROM pending_queue WHERE session_id = 'quiet' AND status = 'raw'
                         AND octet_length(payload) > 20000";
            assert_eq!(count(&database, whole), 30);
            assert_eq!(
                count(&database, "SELECT count(*) FROM pending_queue WHERE NOT json_valid(payload)"),
                0
            );
            let cut = "SELECT count(*) FROM pending_queue WHERE session_id = 'flood' AND payload LIKE '%bytes cut%'";
            assert!(count(&database, cut) > 0);
            assert_eq!(count(&database, "SELECT count(*) FROM event_log WHERE event_type = 'notice'"), 1);
        }

        #[test]
        fn making_room_does_not_scan_the_whole_queue() {
            let scratch = tempfile::tempdir().unwrap();
            let database = store::open_for_hook(&Home::at(scratch.path()), 1000).unwrap();
            for sql in [LARGE_OF_WAITING, OLDEST_OF_WAITING, FULLEST_SESSIONS] {
                let mut plan = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
                let nulls = vec![rusqlite::types::Null; plan.parameter_count()];
                let steps = plan.query_map(rusqlite::params_from_iter(nulls), |row| row.get(3)).unwrap();
                let steps: Vec<String> = steps.map(Result::unwrap).collect();
                assert!(steps.iter().any(|step| step.contains("queue_open")), "{sql}: {steps:?}");
            }
        }

        #[test]
        fn a_database_of_memories_only_is_never_cut() {
            let scratch = tempfile::tempdir().unwrap();
            let mut database = store::open_for_hook(&Home::at(scratch.path()), 1000).unwrap();
            assert!(!relieve(&mut database, &limit(1, 0), 10_000).unwrap().more);
        }
    }
}
