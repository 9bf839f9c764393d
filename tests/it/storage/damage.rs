//! A damaged database: the service recovers on its own, with everything that can be saved, and reports it.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::wait::wait_for;
use crate::harness::worker::Worker;

/// A sandbox with this many sessions of one turn each, all of it processed, and the WAL checkpointed.
pub fn remembered(sandbox: &Sandbox, sessions: usize) {
    let mut worker = Worker::start(sandbox);
    for number in 0..sessions {
        turn(sandbox, &format!("session-{number}"));
    }
    sandbox.wait_until_settled();
    worker.stop();
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

pub fn turn(sandbox: &Sandbox, session: &str) {
    sandbox.prompt(session, &format!("Repair the greeting of {session}"));
    sandbox.edit(session, &format!("{session}-edit"));
    sandbox.end_turn(session);
}

/// Makes the next worker close a turn after a second of silence: damage can destroy the end marker of a turn, and then only
/// silence closes it.
fn close_turns_soon(sandbox: &Sandbox) {
    sandbox.configure("[batch]\nmax_wait_s = 1\n");
}

pub fn count(sandbox: &Sandbox, table: &str) -> i64 {
    sandbox.get(&format!("SELECT count(*) FROM {table}"))
}

pub fn database(sandbox: &Sandbox) -> PathBuf {
    sandbox.data().join("claude-mem.db")
}

fn overwrite(file: &PathBuf, from: u64, bytes: usize) {
    let mut file = OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![0xa5; bytes]).unwrap();
}

pub fn mem(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments).env("PATH", "/usr/bin:/bin");
    run(command, b"")
}

/// Starts a worker and waits until it is healthy. Returns its record of the recovery.
pub fn recovered(sandbox: &Sandbox) -> (Worker, Value) {
    let worker = Worker::start(sandbox);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    let sql = "SELECT data FROM event_log WHERE event_type = 'recovery'";
    let recorded = || sandbox.database().query_row(sql, [], |row| row.get::<_, String>(0)).ok();
    let recorded = wait_for(|| format!("a recovery is recorded\n{}", sandbox.logged()), recorded);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    (worker, serde_json::from_str(&recorded).unwrap())
}

pub fn is_whole(sandbox: &Sandbox) {
    assert_eq!(sandbox.get::<String>("PRAGMA integrity_check"), "ok");
    assert!(!sandbox.data().join("recovering").exists());
}

/// Checks that the next session reports the recovery once, and that `status` shows it.
fn is_reported(sandbox: &Sandbox) {
    let start = json!({"session_id": "next", "cwd": sandbox.path(), "source": "startup"});
    let printed: Value = serde_json::from_str(&sandbox.hook("context", start.to_string()).stdout).unwrap();
    let message = printed["systemMessage"].as_str().unwrap();
    assert!(message.contains("damaged and has been recovered"), "{message}");
    let status = mem(sandbox, &["status"]);
    assert!(status.stdout.contains("recovered just now"), "{}", status.stdout);
    assert!(sandbox.logged().contains("has been recovered"), "{}", sandbox.logged());
}

#[test]
fn an_overwritten_header_loses_nothing() {
    for bytes in [100, 4096] {
        let sandbox = Sandbox::new();
        remembered(&sandbox, 3);
        let before =
            (count(&sandbox, "observations"), count(&sandbox, "user_prompts"), count(&sandbox, "sessions"));
        overwrite(&database(&sandbox), 0, bytes);
        // Events that arrive meanwhile wait in the spool.
        turn(&sandbox, "late");
        assert_eq!(sandbox.spooled().len(), 3);
        let (_worker, report) = recovered(&sandbox);
        sandbox.wait_until_settled();
        let after =
            (count(&sandbox, "observations"), count(&sandbox, "user_prompts"), count(&sandbox, "sessions"));
        assert_eq!(after, (before.0 + 1, before.1 + 1, before.2 + 1), "{bytes}: {report:#}");
        assert_eq!(report["salvaged"]["observations"], before.0, "{report:#}");
        assert!(PathBuf::from(report["damaged"].as_str().unwrap()).exists());
        is_whole(&sandbox);
        is_reported(&sandbox);
    }
}

#[test]
fn overwritten_pages_are_restored_from_the_backup() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 12);
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    remembered_more(&sandbox);
    let before = (count(&sandbox, "observations"), count(&sandbox, "user_prompts"));
    let pages = fs::metadata(database(&sandbox)).unwrap().len() / 4096;
    // The roots of the tables come first; overwrite the pages after them.
    overwrite(&database(&sandbox), pages / 2 * 4096, ((pages - pages / 2) * 4096) as usize);
    let (_worker, report) = recovered(&sandbox);
    assert!(report["backup"].is_string(), "{report:#}");
    let sum =
        |part: &str| -> u64 { report[part].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum() };
    assert!(sum("salvaged") > 0 && !report["incomplete"].as_array().unwrap().is_empty(), "{report:#}");
    let after = (count(&sandbox, "observations"), count(&sandbox, "user_prompts"));
    assert!(after.0 >= 12 && after.0 <= before.0 && after.1 >= 12, "{after:?} of {before:?}: {report:#}");
    is_whole(&sandbox);
    is_reported(&sandbox);
    // Search finds every remaining row.
    let found = mem(&sandbox, &["search", "greeting", "--json"]);
    assert_eq!(found.code, Some(0), "{found:?}");
}

fn remembered_more(sandbox: &Sandbox) {
    let mut worker = Worker::start(sandbox);
    for number in 0..4 {
        turn(sandbox, &format!("after-the-backup-{number}"));
    }
    sandbox.wait_until_settled();
    worker.stop();
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn column_names_that_are_not_text_are_damage_and_no_panic() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    let before = count(&sandbox, "observations");
    // Corrupt one letter of a name in the schema, as a bad disk would. No check of SQLite detects that.
    let mut bytes = fs::read(database(&sandbox)).unwrap();
    let name = b"raw_bytes       INTEGER";
    let places: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at + 3] = 0xe8);
    fs::write(database(&sandbox), bytes).unwrap();
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(count(&sandbox, "observations"), before, "{report:#}");
    is_whole(&sandbox);
    assert!(!sandbox.logged().contains("panicked"), "{}", sandbox.logged());
}

#[test]
fn a_truncated_file_keeps_its_readable_rows() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 12);
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    let before = count(&sandbox, "observations");
    let file = OpenOptions::new().write(true).open(database(&sandbox)).unwrap();
    file.set_len(file.metadata().unwrap().len() / 4096 * 3 / 4 * 4096 + 1000).unwrap();
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(count(&sandbox, "observations"), before, "{report:#}");
    assert!(report["salvaged"]["sessions"].as_u64().unwrap() > 0, "{report:#}");
    is_whole(&sandbox);
    is_reported(&sandbox);
}

#[test]
fn an_emptied_file_is_restored_from_the_backup() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    let before = count(&sandbox, "observations");
    for file in ["claude-mem.db-wal", "claude-mem.db-shm"] {
        let _ = fs::remove_file(sandbox.data().join(file));
    }
    fs::write(database(&sandbox), "").unwrap();
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(report["restored"]["observations"], before, "{report:#}");
    assert_eq!(count(&sandbox, "observations"), before);
    is_whole(&sandbox);
}

/// Three sessions in the file, six more in its WAL, and a killed worker. Returns the path of the WAL.
fn with_a_log(sandbox: &Sandbox) -> PathBuf {
    remembered(sandbox, 3);
    let mut worker = Worker::start(sandbox);
    for number in 0..6 {
        turn(sandbox, &format!("in-the-log-{number}"));
    }
    sandbox.wait_until_settled();
    worker.kill();
    let log = sandbox.data().join("claude-mem.db-wal");
    assert!(fs::metadata(&log).unwrap().len() > 100_000);
    log
}

#[test]
fn a_cut_wal_loses_only_what_follows_the_cut_and_is_reported() {
    for has_index in [false, true] {
        let sandbox = Sandbox::new();
        let log = with_a_log(&sandbox);
        let file = OpenOptions::new().write(true).open(&log).unwrap();
        let frames = (file.metadata().unwrap().len() - 32) / 4120;
        // In the middle of a page; or between two, where only the WAL index shows that something is missing.
        file.set_len(32 + frames / 2 * 4120 + if has_index { 0 } else { 123 }).unwrap();
        if !has_index {
            fs::remove_file(sandbox.data().join("claude-mem.db-shm")).unwrap();
        }
        close_turns_soon(&sandbox);
        let (_worker, report) = recovered(&sandbox);
        assert!(report["reason"].as_str().unwrap().starts_with("the WAL is truncated"), "{report:#}");
        let after = count(&sandbox, "user_prompts");
        assert!(after > 3 && after < 9, "{after}: {report:#}");
        assert_eq!(report["salvaged"]["user_prompts"], after, "{report:#}");
        is_whole(&sandbox);
        turn(&sandbox, "afterwards");
        sandbox.wait_until_settled();
        is_reported(&sandbox);
    }
}

#[test]
fn a_cut_wal_is_completed_from_a_newer_backup() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    let mut worker = Worker::start(&sandbox);
    for number in 0..6 {
        turn(&sandbox, &format!("in-the-log-{number}"));
    }
    sandbox.wait_until_settled();
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    worker.kill();
    let file = OpenOptions::new().write(true).open(sandbox.data().join("claude-mem.db-wal")).unwrap();
    file.set_len(32 + 4120 / 2).unwrap();
    let (_worker, report) = recovered(&sandbox);
    assert_eq!((count(&sandbox, "user_prompts"), count(&sandbox, "observations")), (9, 9), "{report:#}");
    assert_eq!(report["restored"]["observations"], 6, "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn commits_after_a_broken_wal_page_are_salvaged() {
    let sandbox = Sandbox::new();
    let log = with_a_log(&sandbox);
    let frames = (fs::metadata(&log).unwrap().len() - 32) / 4120;
    overwrite(&log, 32 + frames / 4 * 4120 + 24, 4096);
    let (_worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("follow an invalid frame"), "{report:#}");
    let last = "SELECT count(*) FROM user_prompts WHERE session_id = 'in-the-log-5'";
    assert_eq!(sandbox.get::<i64>(last), 1, "{report:#}");
    let prompts = count(&sandbox, "user_prompts");
    assert!(prompts >= 8, "one page holds no more than that: {prompts} {report:#}");
    assert_eq!(report["salvaged"]["user_prompts"], prompts, "{report:#}");
    is_whole(&sandbox);
    is_reported(&sandbox);
}

#[test]
fn damage_found_while_running_is_recovered_without_loss() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    // A hook may reach the database while the one before it went to the spool: then the end of a turn comes first.
    close_turns_soon(&sandbox);
    let mut worker = Worker::start(&sandbox);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    overwrite(&database(&sandbox), 0, 4096);
    // Hooks now find an invalid database, and their nudge makes the worker check it.
    for number in 0..3 {
        turn(&sandbox, &format!("meanwhile-{number}"));
    }
    let sql = "SELECT (SELECT count(*) FROM user_prompts) = 6 AND NOT EXISTS
               (SELECT 1 FROM pending_queue WHERE status IN ('raw', 'processing'))";
    sandbox.wait_until("all is settled", || {
        assert_eq!(worker.ended(), None, "{}", sandbox.logged());
        crate::harness::worker::request(&sandbox.socket(), "POST", "/api/nudge", b"");
        let database = rusqlite::Connection::open(database(&sandbox)).unwrap();
        database.query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap_or(false)
    });
    is_whole(&sandbox);
}

#[test]
fn a_killed_recovery_is_completed_by_the_next_worker() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    let before = count(&sandbox, "observations");
    // The state after a kill right after the damaged file was moved.
    let aside = sandbox.data().join("damaged/claude-mem-1.db");
    fs::create_dir(sandbox.data().join("damaged")).unwrap();
    let begun = format!("{}\n{}", database(&sandbox).display(), aside.display());
    fs::write(sandbox.data().join("recovering"), begun).unwrap();
    overwrite(&database(&sandbox), 0, 100);
    fs::rename(database(&sandbox), &aside).unwrap();
    turn(&sandbox, "meanwhile");
    assert_eq!(sandbox.spooled().len(), 3, "hooks keep away");
    let (_worker, report) = recovered(&sandbox);
    sandbox.wait_until_settled();
    assert_eq!(count(&sandbox, "observations"), before + 1, "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn forgotten_memories_do_not_return_from_an_older_backup() {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    let forgotten = mem(&sandbox, &["forget", "--session", "session-1", "--yes"]);
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    let before = count(&sandbox, "observations");
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    overwrite(&database(&sandbox), 0, 4096);
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(count(&sandbox, "observations"), before, "{report:#}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions WHERE id = 'session-1'"), 0);
}

#[test]
fn recovery_leaves_another_programs_database_alone() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data()).unwrap();
    let theirs = sandbox.data().join("claude-mem.db");
    rusqlite::Connection::open(&theirs)
        .unwrap()
        .execute_batch("CREATE TABLE sdk_sessions (id INTEGER)")
        .unwrap();
    let before = fs::read(&theirs).unwrap();
    let ours = sandbox.data().join("claude-mem-rs.db");
    let count = |sql: &str| -> i64 {
        let database = rusqlite::Connection::open(&ours).unwrap();
        database.query_row(sql, [], |row| row.get(0)).unwrap_or(-1)
    };
    let wait_for = |sql: &str, wanted: i64| sandbox.wait_until(sql, || count(sql) == wanted);
    let mut worker = Worker::start(&sandbox);
    wait_for("SELECT count(*) FROM sessions", 0);
    turn(&sandbox, "one");
    wait_for("SELECT count(*) FROM session_summaries", 1);
    worker.stop();
    let database = rusqlite::Connection::open(&ours).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(database);
    overwrite(&ours, 0, 4096);
    let worker = Worker::start(&sandbox);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    wait_for("SELECT count(*) FROM event_log WHERE event_type = 'recovery'", 1);
    assert_eq!(count("SELECT count(*) FROM session_summaries"), 1);
    assert_eq!(fs::read(&theirs).unwrap(), before);
}
