//! The database's size, held below `retention.max_mb` whatever a session sends. What gives way, in this order: payloads of
//! finished events, finished events, the middle of what waits in the session that has the most of it, and in the end the
//! oldest of that session's tool events, which are settled as skipped. Memories and prompts never do.

use std::fs;

use crate::paths::Home;

/// What a hook keeps of an event while the database is too large.
pub const KEPT_OF_AN_EVENT: u64 = 4096;

/// Whether the database has passed its limit. 0 is none.
pub fn is_over(home: &Home, max_mb: u64) -> bool {
    let most = max_mb.saturating_mul(1 << 20);
    most > 0 && fs::metadata(home.database()).is_ok_and(|meta| meta.len() > most)
}

#[cfg(feature = "service")]
pub use relief::relieve;

#[cfg(feature = "service")]
mod relief {
    use rusqlite::{Connection, ToSql, TransactionBehavior, params};
    use serde_json::json;

    use super::super::log::{LogEntry, log, notice};
    use super::super::{StoreError, upkeep};
    use super::KEPT_OF_AN_EVENT;
    use crate::model::Millis;

    /// Rows that one transaction touches, so that no hook waits long for it.
    const AT_ONCE: i64 = 200;

    /// A finished event stays this long, so that a second arrival of it is recognised.
    const RECOGNISED_MS: Millis = 5 * 60_000;

    /// How many of a session's oldest events are looked at for large ones. What came while the database was too large is small
    /// already, and a look at all of it, again and again, would hold hooks up for longer than they wait.
    const LOOKED_AT: i64 = 2_000;

    /// The user is told once in this time.
    const TOLD_EVERY_MS: Millis = 24 * 60 * 60_000;

    /// Makes room if more than `most` bytes are in use, a little at a time. True if there is more to do.
    pub fn relieve(database: &mut Connection, most: u64, now: Millis) -> Result<bool, StoreError> {
        if used(database)? <= most {
            return upkeep::shrink(database);
        }
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut made_room = false;
        for give_way in [finished_payloads, finished_events, waiting] {
            if give_way(&transaction, now)? > 0 {
                made_room = true;
                break;
            }
        }
        if made_room {
            tell(&transaction, most, now)?;
        }
        transaction.commit()?;
        Ok(upkeep::shrink(database)? || made_room)
    }

    fn used(database: &Connection) -> Result<u64, StoreError> {
        let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let pages = pragma("page_count")? - pragma("freelist_count")?;
        Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or_default())
    }

    fn finished_payloads(database: &Connection, _now: Millis) -> Result<usize, StoreError> {
        let sql = "UPDATE pending_queue SET payload = NULL WHERE id IN (
                     SELECT id FROM pending_queue WHERE finished_at IS NOT NULL AND payload IS NOT NULL
                     ORDER BY finished_at LIMIT ?1)";
        Ok(database.prepare_cached(sql)?.execute([AT_ONCE])?)
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

    // `status IN` is what the index of waiting events says of itself, and without it SQLite does not use that index.

    const LARGE_OF_WAITING: &str = "SELECT id FROM (
          SELECT id, payload FROM pending_queue WHERE session_id = ?1 AND status IN ('raw', 'processing')
          AND status = 'raw' AND kind = 'observation' ORDER BY id LIMIT ?4)
        WHERE octet_length(payload) > ?2 + 256 LIMIT ?3";

    const OLDEST_OF_WAITING: &str = "SELECT id FROM pending_queue WHERE session_id = ?1
        AND status IN ('raw', 'processing') AND status = 'raw' AND kind = 'observation' ORDER BY id LIMIT ?2";

    const FULLEST_SESSIONS: &str =
        "SELECT session_id FROM pending_queue WHERE status IN ('raw', 'processing')
        GROUP BY session_id ORDER BY count(*) DESC LIMIT 5";

    /// The session that has the most events waiting gives way. The next one does only where that one has nothing to give.
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

    /// Cuts large payloads down to their beginning, with a marker.
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

    /// Takes the chosen rows out, changes them, and puts them back: a row that shrinks in its place leaves its page as large as it
    /// was, and other sessions would have to give way for room that is there.
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

    fn tell(database: &Connection, most: u64, now: Millis) -> Result<(), StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM event_log WHERE event_type = 'limit' AND created_at > ?1)";
        if database.prepare_cached(sql)?.query_row([now - TOLD_EVERY_MS], |row| row.get(0))? {
            return Ok(());
        }
        let entry = LogEntry { event_type: "limit", data: json!({"bytes": most}), ..LogEntry::default() };
        log(database, &entry, now)?;
        let message = format!(
            "claude-mem: the database has reached its limit of {} MB (retention.max_mb). Raw events give way; memories stay.",
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
                project: "p".into(),
                project_path: "/p".into(),
                cwd: "/p".into(),
                branch: None,
            };
            let json = format!("{{\"text\":\"{}\"}}", "ä".repeat(bytes / 2));
            let tool = ToolUse { payload: Payload { json, raw_bytes: 1 }, ..ToolUse::default() };
            let key = EventKey::Exact(format!("{session}:{number}"));
            Event { key, at: 1_000, session: Some(stamp), body: EventBody::Tool(tool) }
        }

        fn count(database: &Connection, sql: &str) -> i64 {
            database.query_row(sql, [], |row| row.get(0)).unwrap()
        }

        #[test]
        fn a_flood_gives_way_before_anything_else_does_and_keeps_its_rows() {
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
            while relieve(&mut database, most, 10_000).unwrap() {
                rounds += 1;
                assert!(rounds < 1000, "it comes to an end");
            }
            assert!(used(&database).unwrap() <= most);
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
        fn making_room_does_not_look_at_the_whole_queue() {
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
        fn a_database_of_memories_alone_is_left_alone_whatever_its_size() {
            let scratch = tempfile::tempdir().unwrap();
            let mut database = store::open_for_hook(&Home::at(scratch.path()), 1000).unwrap();
            assert!(!relieve(&mut database, 1, 10_000).unwrap());
        }
    }
}
