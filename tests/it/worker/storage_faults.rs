//! Storage faults under a running worker: files that vanish or turn to garbage, a full disk, a clock set back.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::harness::sandbox::{Sandbox, Tmpfs};
use crate::harness::worker::{Worker, edit_payload};

fn database_files(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    ["", "-wal", "-shm"].map(|end| sandbox.data().join(format!("claude-mem.db{end}"))).to_vec()
}

/// Checks that a turn is recorded and settled.
fn assert_it_works(sandbox: &Sandbox, session: &str) {
    sandbox.prompt(session, "Fix the greeting");
    sandbox.edit(session, &format!("{session}-edit"));
    sandbox.end_turn(session);
    let settled = format!(
        "SELECT (SELECT count(*) FROM session_summaries WHERE session_id = '{session}') = 1
            AND NOT EXISTS (SELECT 1 FROM pending_queue WHERE session_id = '{session}' AND finished_at IS NULL)"
    );
    sandbox.wait_for("settled", &settled);
    let made = format!("SELECT count(*) FROM observations WHERE session_id = '{session}'");
    assert_eq!(sandbox.get::<i64>(&made), 1);
}

#[test]
fn a_deleted_database_is_recreated() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    database_files(&sandbox).iter().for_each(|file| fs::remove_file(file).unwrap());
    assert_it_works(&sandbox, "after");
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
}

#[test]
fn posts_to_a_deleted_database_are_not_reported_as_stored() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    database_files(&sandbox).iter().for_each(|file| fs::remove_file(file).unwrap());
    let event = serde_json::json!({"tool_name": "Bash", "tool_use_id": "t", "tool_response": "x"});
    let mut answer = worker.post("/api/sessions/s/observations", &event);
    for _ in 0..300 {
        if answer.status == 202 {
            break;
        }
        assert_eq!(answer.error_code(), "degraded");
        std::thread::sleep(Duration::from_millis(100));
        answer = worker.post("/api/sessions/s/observations", &event);
    }
    assert_eq!((answer.status, answer.json()["queued"].as_i64()), (202, Some(1)));
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE event_key = 'tool:s:t'"), 1);
}

#[test]
fn a_database_replaced_by_garbage_is_set_aside() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    let files = database_files(&sandbox);
    let garbage = sandbox.path().join("garbage");
    fs::write(&garbage, b"this is no database, but it is long enough to be taken for one. ".repeat(200))
        .unwrap();
    files[1..].iter().for_each(|file| fs::remove_file(file).unwrap());
    fs::rename(&garbage, &files[0]).unwrap();
    sandbox.edit("s", "spooled");
    assert_eq!(sandbox.spooled().len(), 1);
    sandbox.wait_until("the spool is empty", || sandbox.spooled().is_empty());
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    sandbox.wait_for("taken in", "SELECT count(*) = 1 FROM pending_queue WHERE event_key = 'tool:s:spooled'");
    let aside = fs::read_dir(sandbox.data().join("damaged")).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> =
        aside.filter(|file| fs::read(file).unwrap().starts_with(b"this is no database")).collect();
    assert_eq!(kept.len(), 1, "it is kept as it was");
    assert_it_works(&sandbox, "after");
}

#[test]
fn a_database_overwritten_in_place_is_survived_too() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    let files = database_files(&sandbox);
    let saved = sandbox.path().join("saved.db");
    sandbox.database().execute("VACUUM INTO ?1", [saved.to_str().unwrap()]).unwrap();
    for file in &files[..2] {
        let length = fs::metadata(file).unwrap().len() as usize;
        fs::write(file, b"garbage!".repeat(length / 8)).unwrap();
    }
    sandbox.edit("s", "unlucky");
    worker.post("/api/nudge", &serde_json::Value::Null);
    worker.wait_for_health("degraded", |health| health["status"] == "degraded");
    // Repair it like a user would.
    files.iter().for_each(|file| drop(fs::remove_file(file)));
    fs::copy(&saved, &files[0]).unwrap();
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert_it_works(&sandbox, "after");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations WHERE session_id = 'before'"), 1);
}

#[test]
fn a_full_disk_loses_no_accepted_event() {
    let Some(mount) = Tmpfs::new("size=6m") else { return };
    let sandbox = Sandbox::with_data(mount.path());
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    for number in 0..12 {
        let payload = edit_payload("s", &format!("t{number}"), sandbox.path(), 4_000);
        sandbox.hook("save", payload).assert_unnoticed();
    }
    let filler = mount.path().join("filler");
    let _ = fs::write(&filler, vec![0u8; 6 << 20]);
    sandbox.end_turn("s");
    for number in 12..20 {
        let payload = edit_payload("s", &format!("t{number}"), sandbox.path(), 40_000);
        sandbox.hook("save", payload).assert_unnoticed();
    }
    worker.post("/api/nudge", &serde_json::Value::Null);
    let accepted = 20 - i64::try_from(sandbox.dropped()).unwrap();
    fs::remove_file(&filler).unwrap();
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert!(sandbox.spooled().is_empty(), "{:?}", sandbox.spooled());
    let settled = "SELECT count(*) FROM pending_queue WHERE session_id = 's' AND kind = 'observation' AND status = 'done'";
    assert!(sandbox.get::<i64>(settled) >= accepted, "{} of {accepted}", sandbox.get::<i64>(settled));
    let twice = "SELECT count(*) - count(DISTINCT queue_id) FROM observation_sources";
    assert_eq!(sandbox.get::<i64>(twice), 0);
}

#[test]
fn a_result_waits_in_memory_while_the_disk_is_full() {
    let Some(mount) = Tmpfs::new("size=24m") else { return };
    let sandbox = Sandbox::with_data(mount.path());
    sandbox.configure("[batch]\nmax_size = 4");
    let worker = Worker::start(&sandbox);
    let filler = mount.path().join("filler");
    // Only the worker's own writes meet the full disk: all events were stored before.
    worker.freeze(&sandbox);
    for number in 0..8 {
        let payload = edit_payload("s", &format!("t{number}"), sandbox.path(), 100_000);
        sandbox.hook("save", payload).assert_unnoticed();
    }
    sandbox.end_turn("s");
    let _ = fs::write(&filler, vec![0u8; 24 << 20]);
    worker.signal(rustix::process::Signal::CONT);
    let health = worker.wait_for_health("degraded", |health| health["status"] == "degraded");
    assert!(health["reason"].as_str().unwrap().contains("full"), "{health}");
    assert_eq!(worker.get("/api/queue/stats").status, 200, "what can be read is still served");
    fs::remove_file(&filler).unwrap();
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    sandbox.wait_until_settled();
    assert_eq!((sandbox.rows("done"), sandbox.rows("error")), (9, 0));
    assert_eq!(sandbox.get::<i64>("SELECT sum(attempts) FROM pending_queue"), 0, "no attempt is counted");
}

/// Spools an event by holding the write lock.
fn spool_an_event(sandbox: &Sandbox, id: &str) -> std::path::PathBuf {
    sandbox.edit("s", "first");
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    sandbox.edit("s", id);
    sandbox.spooled().pop().expect("it is in the spool")
}

#[test]
fn a_temporarily_unreadable_spool_file_is_kept() {
    let sandbox = Sandbox::new();
    let file = spool_an_event(&sandbox, "unreadable");
    let kept = sandbox.path().join("kept");
    fs::rename(&file, &kept).unwrap();
    // Permissions do not stop root; a link to itself does.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let worker = Worker::start(&sandbox);
    sandbox.wait_until("it is logged", || sandbox.logged().contains("cannot read a spool file now"));
    fs::rename(&kept, &file).unwrap();
    worker.post("/api/nudge", &serde_json::Value::Null);
    let taken = "SELECT count(*) = 1 FROM pending_queue WHERE event_key = 'tool:s:unreadable'";
    sandbox.wait_for("taken in", taken);
}

#[test]
fn unfinished_files_of_killed_processes_are_removed() {
    let sandbox = Sandbox::new();
    sandbox.edit("s", "t");
    let left =
        ["backups/daily-1.tmp", "backups/daily-1.tmp-wal", "backups/daily-1.tmp-shm", "spool/.1-2-3.tmp"]
            .map(|name| sandbox.data().join(name));
    for file in &left {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "half of it").unwrap();
    }
    let _worker = Worker::start(&sandbox);
    sandbox.wait_until("all files are removed", || !left.iter().any(|file| file.exists()));
}

#[test]
fn a_long_held_write_lock_is_waited_for() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    sandbox.edit("s", "spooled");
    let health = worker.wait_for_health("degraded", |health| health["status"] == "degraded");
    assert!(health["reason"].as_str().unwrap().contains("busy"), "{health}");
    assert_eq!(worker.get("/api/sessions").status, 200, "what can be read is still served");
    holder.execute_batch("ROLLBACK").unwrap();
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert!(sandbox.spooled().is_empty());
}

#[test]
fn a_worker_stops_in_time_despite_writes_waiting_for_a_lock() {
    let sandbox = Sandbox::new();
    let mut worker = Worker::start(&sandbox);
    assert_it_works(&sandbox, "before");
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Each request first tries to update the index.
    let ask = || {
        let socket = sandbox.socket();
        std::thread::spawn(move || crate::harness::worker::get(&socket, "/api/search?q=greeting"))
    };
    let clients: Vec<_> = (0..20).map(|_| ask()).collect();
    sandbox.edit("s", "spooled");
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    assert!(worker.stop().success());
    // Five seconds for each would exceed a minute.
    assert!(asked.elapsed().as_secs() < 40, "{:?}\n{}", asked.elapsed(), sandbox.logged());
    clients.into_iter().for_each(|client| drop(client.join()));
    drop(holder);
    assert_eq!(sandbox.spooled().len(), 1, "what came meanwhile waits for the next");
}

#[test]
fn rows_dated_in_the_future_are_processed_now() {
    let sandbox = Sandbox::new();
    sandbox.edit("open-batch", "a");
    sandbox.edit("backed-off", "b");
    sandbox.end_turn("backed-off");
    let tomorrow = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 + 86_400_000;
    let database = sandbox.database();
    database.execute("UPDATE pending_queue SET created_at = ?1", [tomorrow]).unwrap();
    database.execute("UPDATE sessions SET started_at = ?1, last_activity_at = ?1", [tomorrow]).unwrap();
    let sql = "UPDATE pending_queue SET attempts = 1, next_attempt_at = ?1 WHERE event_key LIKE '%:b'";
    database.execute(sql, [tomorrow]).unwrap();
    let worker = Worker::start(&sandbox);
    sandbox.wait_until_settled();
    assert_eq!((sandbox.rows("done"), sandbox.rows("error")), (3, 0));
    let health = worker.get("/api/health").json();
    assert_eq!((&health["status"], &health["oldest_raw_age_s"]), (&"ok".into(), &serde_json::Value::Null));
}

#[test]
fn a_broken_row_does_not_stop_others() {
    let sandbox = Sandbox::new();
    sandbox.edit("good", "a");
    sandbox.edit("broken", "b");
    sandbox.edit("broken", "c");
    sandbox.end_turn("good");
    sandbox.end_turn("broken");
    let database = sandbox.database();
    // Not UTF-8, and not JSON.
    database
        .execute(
            "UPDATE pending_queue SET payload = CAST(x'7b22ff' AS TEXT) WHERE event_key = 'tool:broken:b'",
            [],
        )
        .unwrap();
    // A session deleted manually, with foreign keys off.
    database.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE id = 'broken'").unwrap();
    sandbox.configure("[queue]\nmax_attempts = 1");
    let worker = Worker::start(&sandbox);
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations WHERE session_id = 'good'"), 1);
    assert!(sandbox.rows("error") > 0);
    assert_eq!(worker.get("/api/health").json()["status"], "ok");
}

#[test]
fn a_database_from_the_future_is_left_alone_and_reported() {
    let sandbox = Sandbox::new();
    sandbox.edit("s", "a");
    sandbox.database().pragma_update(None, "user_version", 9999).unwrap();
    let worker = Worker::start(&sandbox);
    let health = worker.get("/api/health").json();
    assert_eq!(health["status"], "degraded");
    assert!(health["reason"].as_str().unwrap().contains("upgrade claude-mem"), "{health}");
    assert_eq!(sandbox.rows("raw"), 1, "it was not changed");
    assert_eq!(sandbox.get::<i64>("PRAGMA user_version"), 9999);
}
