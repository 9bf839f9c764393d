//! Damage in a file whose pages are all valid: indexes, rows and schema entries that contradict each other. A quick check
//! finds none of it.

use std::fs;

use rusqlite::Connection;

use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;
use crate::storage::damage::{count, database, is_whole, mem, recovered, remembered};

/// Three sessions in a database that this SQL corrupts. The daily backup, which checks everything, is not made yet.
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
fn an_index_that_lacks_rows_is_damage_and_its_table_is_kept() {
    // Empty the index by declaring it partial, then restore its definition.
    let redefine = |from: &str, to: &str| {
        format!("UPDATE sqlite_schema SET sql = replace(sql, '{from}', '{to}') WHERE name = 'queue_finished'")
    };
    let (original, partial) = ("finished_at IS NOT NULL", "id < 0");
    let sandbox = broken_by(&redefine(original, partial));
    let before = count(&sandbox, "pending_queue");
    break_by(&sandbox, "REINDEX queue_finished");
    break_by(&sandbox, &redefine(partial, original));
    assert_eq!(sandbox.get::<String>("PRAGMA quick_check"), "ok");
    let (worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("queue_finished"), "{report:#}");
    assert_eq!(count(&sandbox, "pending_queue"), before, "{report:#}");
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    is_whole(&sandbox);
}

#[test]
fn rows_that_violate_the_schema_are_damage_and_are_dropped() {
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
fn a_table_missing_from_the_schema_is_found_by_its_pages() {
    let sandbox =
        broken_by("DELETE FROM sqlite_schema WHERE tbl_name IN ('observations', 'session_summaries')");
    let (_worker, report) = recovered(&sandbox);
    assert_eq!(report["salvaged"]["observations"], 3, "{report:#}");
    assert_eq!(report["salvaged"]["session_summaries"], 3, "{report:#}");
    assert_eq!(report["incomplete"].as_array().map(Vec::len), Some(0), "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn a_search_index_of_an_unknown_format_is_damage() {
    let sandbox = broken_by("UPDATE search_index_config SET v = 0 WHERE k = 'version'");
    let (_worker, report) = recovered(&sandbox);
    assert!(report["reason"].as_str().unwrap().contains("fts5"), "{report:#}");
    assert_eq!(report["salvaged"]["observations"], 3, "{report:#}");
    is_whole(&sandbox);
}

#[test]
fn a_broken_search_index_is_rebuilt_and_the_tables_are_kept() {
    let sandbox = broken_by("DELETE FROM search_index_data WHERE id > 10");
    let worker = Worker::start(&sandbox);
    let has_backup =
        || fs::read_dir(sandbox.data().join("backups")).is_ok_and(|mut backups| backups.next().is_some());
    sandbox.wait_until("there is a backup", has_backup);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert!(sandbox.logged().contains("rebuilding the search index"), "{}", sandbox.logged());
    assert_eq!(count(&sandbox, "event_log WHERE event_type = 'recovery'"), 0, "{}", sandbox.logged());
    let found = mem(&sandbox, &["search", "greeting"]);
    // The note of the last session stands for its prompt, and for the notes that are like it.
    assert!(
        found.stdout.contains("Corrected the greeting") && found.stdout.contains("2 more like it"),
        "{found:?}"
    );
    assert!((0..2).all(|number| found.stdout.contains(&format!("session-{number}"))), "{found:?}");
    is_whole(&sandbox);
}
