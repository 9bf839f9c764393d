//! Damage in a file whose pages are all well: indexes, rows and lists of tables that do not fit together. A quick look finds
//! none of it.

use std::fs;

use rusqlite::Connection;

use crate::damage::{count, database, is_whole, mem, recovered, remembered};
use crate::sandbox::Sandbox;
use crate::service::{PATIENCE, Worker};

/// Three sessions, and what does not belong into a database done to it. No backup of the day, which checks everything, is
/// made yet.
fn broken_by(sql: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    remembered(&sandbox, 3);
    fs::remove_dir_all(sandbox.data().join("backups")).ok();
    break_by(&sandbox, sql);
    sandbox
}

fn break_by(sandbox: &Sandbox, sql: &str) {
    let database = Connection::open(database(sandbox)).unwrap();
    for (switch, is_on) in
        [("writable_schema", true), ("ignore_check_constraints", true), ("foreign_keys", false)]
    {
        database.pragma_update(None, switch, is_on).unwrap();
    }
    database.execute_batch(sql).unwrap();
}

#[test]
fn an_index_that_lacks_rows_of_its_table_is_damage_and_the_table_is_kept() {
    // Emptied as if nothing belonged into it, and then told the truth again.
    let tell = |from: &str, to: &str| {
        format!("UPDATE sqlite_schema SET sql = replace(sql, '{from}', '{to}') WHERE name = 'queue_finished'")
    };
    let (truth, lie) = ("finished_at IS NOT NULL", "id < 0");
    let sandbox = broken_by(&tell(truth, lie));
    let before = count(&sandbox, "pending_queue");
    break_by(&sandbox, "REINDEX queue_finished");
    break_by(&sandbox, &tell(lie, truth));
    assert_eq!(sandbox.get::<String>("PRAGMA quick_check"), "ok");
    let (worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("queue_finished"), "{report:#}");
    assert_eq!(count(&sandbox, "pending_queue"), before, "{report:#}");
    worker.wait_for_health("well", |health| health["status"] == "ok");
    is_whole(&sandbox);
}

#[test]
fn rows_that_contradict_the_schema_are_damage_and_no_session_is_made_of_them() {
    let sandbox = broken_by(
        "UPDATE pending_queue SET status = 'processing', claimed_at = 5 WHERE id = 1;
         INSERT INTO pending_queue (event_key, session_id, kind, status, created_at)
         VALUES ('a key', 'a ghost', 'observation', 'done', 7)",
    );
    let (_worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("CHECK constraint failed"), "{report:#}");
    assert_eq!(report["refused"], 2, "{report:#}");
    assert_eq!(count(&sandbox, "sessions"), 3, "{report:#}");
    assert_eq!(count(&sandbox, "observations"), 3, "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn a_table_that_the_list_of_tables_lacks_is_found_where_it_lies() {
    let sandbox =
        broken_by("DELETE FROM sqlite_schema WHERE tbl_name IN ('observations', 'session_summaries')");
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(report["salvaged"]["observations"], 3, "{report:#}");
    assert_eq!(report["salvaged"]["session_summaries"], 3, "{report:#}");
    assert_eq!(report["incomplete"].as_array().map(Vec::len), Some(0), "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn a_search_index_of_no_known_format_is_damage() {
    let sandbox = broken_by("UPDATE search_index_config SET v = 0 WHERE k = 'version'");
    let (_worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("fts5"), "{report:#}");
    assert_eq!(report["salvaged"]["observations"], 3, "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn a_broken_search_index_is_made_anew_and_the_tables_are_left_alone() {
    let sandbox = broken_by("DELETE FROM search_index_data WHERE id > 10");
    let worker = Worker::start(&sandbox);
    let has_backup =
        || fs::read_dir(sandbox.data().join("backups")).is_ok_and(|mut backups| backups.next().is_some());
    let deadline = std::time::Instant::now() + PATIENCE;
    while !has_backup() {
        assert!(std::time::Instant::now() < deadline, "{}", sandbox.logged());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    worker.wait_for_health("well", |health| health["status"] == "ok");
    assert!(sandbox.logged().contains("the search index is made anew"), "{}", sandbox.logged());
    assert_eq!(count(&sandbox, "event_log WHERE event_type = 'recovery'"), 0, "{}", sandbox.logged());
    let found = mem(&sandbox, &["search", "greeting"]);
    assert!((0..3).all(|number| found.stdout.contains(&format!("session-{number}"))), "{found:?}");
    is_whole(&sandbox);
}
