//! Nothing is lost and nothing is done twice: kills, stops, the spool, retention.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, tool_payload};
use crate::harness::worker::{Worker, edit_payload};

const DAY: i64 = 86_400_000;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A turn with events so large that processing takes a while.
fn large_turn(sandbox: &Sandbox, session: &str) {
    for number in 0..8 {
        let payload = edit_payload(session, &format!("{session}-{number}"), sandbox.path(), 500_000);
        sandbox.hook("save", payload).assert_unnoticed();
    }
    sandbox.end_turn(session);
}

fn wait_until_claimed(sandbox: &Sandbox, session: &str) {
    let sql = format!(
        "SELECT NOT EXISTS (SELECT 1 FROM pending_queue WHERE session_id = '{session}' AND kind = 'observation'
         AND status = 'raw')"
    );
    sandbox.wait_for("claimed", &sql);
}

#[test]
fn claims_of_a_killed_worker_are_done_once_by_the_next() {
    let sandbox = Sandbox::new();
    let mut worker = Worker::start(&sandbox);
    let mut hit = false;
    for attempt in 0..30 {
        let session = format!("s{attempt}");
        large_turn(&sandbox, &session);
        wait_until_claimed(&sandbox, &session);
        worker.kill();
        let claimed = sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE status = 'processing'");
        hit |= claimed > 0;
        worker = Worker::start(&sandbox);
        if hit {
            break;
        }
    }
    assert!(hit, "the worker was never killed between claim and commit");
    sandbox.wait_until_settled();
    let twice =
        "SELECT count(*) FROM (SELECT queue_id FROM observation_sources GROUP BY 1 HAVING count(*) > 1)";
    assert_eq!(sandbox.get::<i64>(twice), 0);
    let lost = "SELECT count(*) FROM pending_queue WHERE kind = 'observation' AND status = 'done'
                AND id NOT IN (SELECT queue_id FROM observation_sources)";
    assert_eq!(sandbox.get::<i64>(lost), 0);
    assert_eq!(sandbox.get::<i64>("SELECT sum(attempts) FROM pending_queue"), 0);
}

#[test]
fn a_stopped_session_stays_stopped_during_its_job() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    for attempt in 0..30 {
        let session = format!("s{attempt}");
        large_turn(&sandbox, &session);
        wait_until_claimed(&sandbox, &session);
        let answer = worker.delete(&format!("/api/sessions/{session}"));
        assert_eq!(answer.status, 200);
        if answer.json()["skipped"].as_i64().unwrap() < 9 {
            continue;
        }
        // A later job proves that the one in flight has ended.
        large_turn(&sandbox, "later");
        sandbox.wait_until_settled();
        let count = |what: &str| sandbox.get::<i64>(&format!("SELECT count(*) FROM {what} = '{session}'"));
        assert_eq!(count("observations WHERE session_id"), 0);
        assert_eq!(count("session_summaries WHERE session_id"), 0);
        assert_eq!(
            count("pending_queue WHERE status = 'skipped' AND last_error = 'stopped' AND session_id"),
            9
        );
        assert_eq!(worker.get(&format!("/api/sessions/{session}/status")).json()["raw"], 0);
        return;
    }
    panic!("the worker was always faster");
}

#[test]
fn order_within_a_session_is_the_order_of_arrival() {
    let sandbox = Sandbox::new();
    sandbox.configure("[batch]\nenabled = false\n[worker]\nconcurrency = 8");
    for number in 0..10 {
        for session in ["a", "b", "c"] {
            sandbox.prompt(session, &format!("Correct the greeting in module {number}"));
            sandbox.edit(session, &format!("{session}{number}"));
            sandbox.end_turn(session);
        }
    }
    let _worker = Worker::start(&sandbox);
    sandbox.wait_until_settled();
    let out_of_order =
        "SELECT count(*) FROM observations o JOIN observation_sources s ON s.observation_id = o.id
                        JOIN observations p ON p.session_id = o.session_id AND p.id > o.id
                        JOIN observation_sources t ON t.observation_id = p.id WHERE t.queue_id < s.queue_id";
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 30);
    assert_eq!(sandbox.get::<i64>(out_of_order), 0);
}

#[test]
fn the_spool_is_drained_in_order_and_bad_files_are_set_aside() {
    let sandbox = Sandbox::new();
    sandbox.edit("s", "first");
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..5 {
        sandbox.edit("s", &format!("spooled{number}"));
    }
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(sandbox.spooled().len(), 5);
    let spool = sandbox.data().join("spool");
    fs::write(spool.join("000000000000001-0000000001-000000.json"), "{\"key\":").unwrap();
    // It parses as an event, but the database rejects it.
    let homeless =
        json!({"key": {"Exact": "x"}, "at": 1, "session": null, "body": {"End": {"reason": null}}});
    fs::write(spool.join("000000000000002-0000000001-000000.json"), homeless.to_string()).unwrap();
    fs::create_dir(spool.join("000000000000003-a-directory.json")).unwrap();
    let worker = Worker::start(&sandbox);
    sandbox.wait_for("taken in", "SELECT count(*) = 6 FROM pending_queue");
    let order = "SELECT group_concat(tool_use_id) FROM (SELECT tool_use_id FROM pending_queue ORDER BY id)";
    assert_eq!(sandbox.get::<String>(order), "first,spooled0,spooled1,spooled2,spooled3,spooled4");
    let health = worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert_eq!(health["queue_depth"], 6);
    assert!(sandbox.spooled().is_empty());
    assert_eq!(fs::read_dir(spool.join("rejected")).unwrap().count(), 3);
}

#[test]
fn a_long_spool_is_drained_completely() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data().join("spool")).unwrap();
    let began = now();
    for number in 0..1000 {
        let event = json!({
            "key": {"Exact": format!("tool:s:{number}")}, "at": began + number,
            "session": {"id": "s", "project": "p", "project_path": "/p", "cwd": "/p", "branch": null},
            "body": {"Tool": {"tool_name": "Bash", "tool_use_id": number.to_string(), "agent_id": null,
                              "agent_type": null, "failed": false, "payload": {"json": "{}", "raw_bytes": 2}}},
        });
        let name = format!("{:015}-0000000001-000000.json", began + number);
        fs::write(sandbox.data().join("spool").join(name), event.to_string()).unwrap();
    }
    let _worker = Worker::start(&sandbox);
    sandbox.wait_for("taken in", "SELECT count(*) = 1000 FROM pending_queue");
    let in_order = "SELECT count(*) FROM pending_queue WHERE id <> CAST(tool_use_id AS INTEGER) + 1";
    assert_eq!(sandbox.get::<i64>(in_order), 0);
}

#[test]
fn a_silent_session_is_summarised_and_can_resume() {
    let sandbox = Sandbox::new();
    sandbox.prompt("s", "Show a polite greeting on the landing page");
    sandbox.edit("s", "a");
    sandbox
        .hook("context", json!({"session_id": "empty", "cwd": sandbox.path()}).to_string())
        .assert_unnoticed();
    let long_ago = now() - DAY - 60_000;
    let database = sandbox.database();
    database.execute("UPDATE sessions SET last_activity_at = ?1, started_at = ?1", [long_ago]).unwrap();
    database.execute("UPDATE pending_queue SET created_at = ?1", [long_ago]).unwrap();
    let _worker = Worker::start(&sandbox);
    sandbox.wait_for("interrupted", "SELECT count(*) = 2 FROM sessions WHERE status = 'interrupted'");
    assert_eq!(sandbox.get::<i64>("SELECT ended_at FROM sessions WHERE id = 's'"), long_ago);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 1);
    assert_eq!(
        sandbox.get::<String>("SELECT request FROM session_summaries"),
        "Show a polite greeting on the landing page"
    );
    let resumed = json!({"session_id": "s", "cwd": sandbox.path(), "source": "resume"});
    sandbox.hook("context", resumed.to_string()).assert_unnoticed();
    assert_eq!(sandbox.get::<String>("SELECT status FROM sessions WHERE id = 's'"), "active");
    assert_eq!(sandbox.get::<Option<i64>>("SELECT ended_at FROM sessions WHERE id = 's'"), None);
}

#[test]
fn expired_rows_are_dropped_and_the_file_shrinks() {
    let sandbox = Sandbox::new();
    sandbox.hook("save", tool_payload("s", "t", sandbox.path(), &Value::Null)).assert_unnoticed();
    let database = sandbox.database();
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
                INSERT INTO pending_queue (event_key, session_id, kind, payload, status, created_at, finished_at)
                SELECT ?1 || i, 's', 'observation', hex(zeroblob(8000)), 'done', ?2, ?2 FROM n";
    database.execute(fill, rusqlite::params!["week", now() - 8 * DAY, 700]).unwrap();
    database.execute(fill, rusqlite::params!["month", now() - 31 * DAY, 700]).unwrap();
    database.execute(fill, rusqlite::params!["day", now() - DAY, 10]).unwrap();
    let log = "INSERT INTO event_log (event_type, created_at) VALUES ('x', ?1)";
    database.execute(log, [now() - 91 * DAY]).unwrap();
    database.execute(log, [now() - 89 * DAY]).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(database);
    let file = sandbox.data().join("claude-mem.db");
    let before = fs::metadata(&file).unwrap().len();
    let mut worker = Worker::start(&sandbox);
    sandbox.wait_for("dropped", "SELECT count(*) = 0 FROM pending_queue WHERE event_key LIKE 'month%'");
    let bare = "SELECT count(*) = 700 FROM pending_queue WHERE event_key LIKE 'week%' AND payload IS NULL";
    sandbox.wait_for("payloads dropped", bare);
    sandbox.wait_for("log dropped", "SELECT count(*) = 1 FROM event_log WHERE event_type = 'x'");
    let kept = "SELECT count(*) FROM pending_queue WHERE event_key LIKE 'day%' AND payload IS NOT NULL";
    assert_eq!(sandbox.get::<i64>(kept), 10);
    sandbox.wait_for("shrunk", "SELECT freelist_count < 1000 FROM pragma_freelist_count");
    assert!(worker.stop().success());
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let after = fs::metadata(&file).unwrap().len();
    assert!(after < before / 3, "{before} bytes, then {after}");
}

#[test]
fn the_wal_stays_short_in_a_flood_despite_readers() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let log = || fs::metadata(sandbox.data().join("claude-mem.db-wal")).map_or(0, |meta| meta.len());
    let (writer, stop) = (sandbox.database(), AtomicBool::new(false));
    writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = sandbox.database();
                while !stop.load(Ordering::Relaxed) {
                    reader.execute_batch("BEGIN; SELECT count(*) FROM event_log").unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                    reader.execute_batch("COMMIT").unwrap();
                }
            });
        }
        // The length depends on scheduling; the number of checkpoints does not.
        let (mut emptied, mut before) = (0, 0);
        for _ in 0..400 {
            let sql = "INSERT INTO event_log (event_type, data, created_at) VALUES ('x', json_quote(hex(zeroblob(500000))), ?1)";
            writer.execute(sql, [now()]).unwrap();
            worker.post("/api/nudge", &Value::Null);
            emptied += u32::from(log() < before);
            before = log();
            if emptied == 3 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(emptied, 3, "{before} bytes are left");
    });
    sandbox.wait_until("the WAL is short", || {
        worker.post("/api/nudge", &Value::Null);
        log() <= 8 << 20
    });
}
