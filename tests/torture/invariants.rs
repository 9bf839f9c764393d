//! Invariants: at any instant, and once all work is done.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use claude_mem::spool;
use claude_mem::store::index::differences;
use rusqlite::Connection;

use crate::ledger::{Fate, Ledger, plain, without_time};

struct Row {
    id: i64,
    key: String,
    session: Option<String>,
    status: String,
}

impl Row {
    fn is_open(&self) -> bool {
        matches!(self.status.as_str(), "raw" | "processing")
    }
}

/// Checks the invariants that hold at any instant. `ledger` must be older than the reading of the files, and `newer_ledger`
/// returns a newer one, because clients continue meanwhile. `spools` are the directories of spool files.
pub fn check_always(data: &Path, spools: &[PathBuf], ledger: &Ledger, newer_ledger: impl FnOnce() -> Ledger) {
    // The spool first: an event that leaves it meanwhile is in the database by then.
    let spooled: HashSet<String> = spools.iter().flat_map(|folder| spooled(folder)).collect();
    let database = open(data);
    let snapshot = database.unchecked_transaction().unwrap();
    let rows = rows(&snapshot);
    check_kept(&rows, &spooled, ledger);
    check_once(&rows, &newer_ledger());
    check_order(&rows, ledger);
    check_nothing(&snapshot, &ALWAYS);
}

/// Checks the invariants that hold once all work is done. Returns the number of events.
pub fn check_settled(data: &Path, ledger: &Ledger) -> u64 {
    let database = open(data);
    let rows = rows(&database);
    let settled: HashSet<&str> =
        rows.iter().filter(|row| !row.is_open()).map(|row| without_time(&row.key)).collect();
    for entry in ledger.accepted() {
        let is_settled = settled.contains(entry.key.as_str()) || ledger.retired.contains(&entry.key);
        assert!(is_settled, "accepted and not settled: {entry:?}");
    }
    check_nothing(&database, &SETTLED);
    assert_eq!(differences(&database).unwrap(), Default::default(), "the search index and the tables differ");
    assert_eq!(one::<String>(&database, "PRAGMA integrity_check"), "ok");
    ledger.accepted().count() as u64
}

fn check_kept(rows: &[Row], spooled: &HashSet<String>, ledger: &Ledger) {
    let stored: HashSet<&str> = rows.iter().map(|row| without_time(&row.key)).collect();
    for entry in ledger.accepted() {
        let is_there = stored.contains(entry.key.as_str())
            || spooled.contains(&entry.key)
            || ledger.retired.contains(&entry.key);
        assert!(is_there, "a hook accepted it and it is lost: {entry:?}");
    }
}

fn check_once(rows: &[Row], ledger: &Ledger) {
    let known: HashMap<&str, bool> = ledger
        .entries
        .iter()
        .map(|entry| (entry.key.as_str(), entry.may_be_twice || !entry.is_over))
        .collect();
    let mut seen = HashSet::new();
    for row in rows {
        // Markers of the worker.
        if row.key.starts_with("silent:") {
            continue;
        }
        let key = without_time(&row.key);
        match known.get(key) {
            None => panic!("no client sent {}", row.key),
            Some(may_be_twice) => {
                assert!(seen.insert(key) || *may_be_twice, "it is there twice: {}", row.key)
            }
        }
    }
}

/// Checks that the rows of one writer are in its order, and that a session is settled in its order.
fn check_order(rows: &[Row], ledger: &Ledger) {
    let ids: HashMap<&str, i64> = rows.iter().map(|row| (without_time(&row.key), row.id)).collect();
    let mut last: HashMap<usize, (i64, &str)> = HashMap::new();
    for entry in ledger.entries.iter().filter(|entry| entry.fate == Fate::Stored && !entry.may_be_twice) {
        let Some(id) = ids.get(entry.key.as_str()) else { continue };
        let before = last.insert(entry.writer, (*id, &entry.key));
        assert!(before.is_none_or(|(earlier, _)| earlier < *id), "{before:?} came after {}", entry.key);
    }
    let mut first_open: HashMap<&str, i64> = HashMap::new();
    for row in rows.iter().filter(|row| row.is_open()) {
        let session = row.session.as_deref().unwrap();
        first_open.entry(session).and_modify(|id| *id = row.id.min(*id)).or_insert(row.id);
    }
    for row in rows.iter().filter(|row| !row.is_open()) {
        let open = row.session.as_deref().and_then(|session| first_open.get(session));
        assert!(
            open.is_none_or(|open| row.id < *open),
            "{} was settled before the open row {open:?} of its session",
            row.key
        );
    }
}

/// Queries that must find nothing, each with the meaning of a hit.
const ALWAYS: [(&str, &str); 6] = [
    (
        "an event is in two observations",
        "SELECT queue_id FROM observation_sources s JOIN observations o ON o.id = s.observation_id
         WHERE o.deleted_at IS NULL GROUP BY 1 HAVING count(*) > 1",
    ),
    (
        "an event is in an observation and not settled",
        "SELECT q.id FROM observation_sources s JOIN pending_queue q ON q.id = s.queue_id
         WHERE q.status NOT IN ('done', 'skipped')",
    ),
    (
        // Rows whose payloads expired before the end of the turn may have none.
        "a turn changed a file, ended, and has no note",
        "SELECT q.id FROM pending_queue q WHERE q.tool_name = 'Edit' AND q.status = 'done' AND q.payload IS NOT NULL
         AND EXISTS (SELECT 1 FROM pending_queue m WHERE m.session_id = q.session_id AND m.prompt_number = q.prompt_number
                     AND m.id > q.id AND m.status = 'done'
                     AND (m.kind = 'flush' OR m.kind = 'summarize' AND json_valid(m.payload)
                                              AND m.payload ->> 'event' IS NOT 'PreCompact'))
         AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.session_id = q.session_id AND o.prompt_number = q.prompt_number)",
    ),
    (
        "a turn is summarised twice",
        "SELECT session_id FROM session_summaries GROUP BY 1
         HAVING count(*) > (SELECT count(*) FROM pending_queue q WHERE q.session_id = session_summaries.session_id
                            AND kind <> 'observation' AND status = 'done')",
    ),
    (
        "prompt numbers are not dense",
        "SELECT s.id FROM sessions s LEFT JOIN user_prompts p ON p.session_id = s.id GROUP BY s.id
         HAVING s.prompt_count <> count(p.id) OR s.prompt_count <> coalesce(max(p.prompt_number), 0)
             OR count(p.id) <> count(DISTINCT p.prompt_number)",
    ),
    (
        "a row belongs to nothing",
        "SELECT rowid FROM pragma_foreign_key_check",
    ),
];

const SETTLED: [(&str, &str); 3] = [
    ("a row is open", "SELECT id FROM pending_queue WHERE status IN ('raw', 'processing')"),
    (
        "an event that could be understood ended as an error",
        // An error caused by a faulty endpoint cannot be retried once its payload has expired.
        "SELECT id FROM pending_queue WHERE status = 'error' AND event_key NOT LIKE 'rejected:%' AND payload IS NOT NULL",
    ),
    ("a row waits for the index", "SELECT item FROM search_pending"),
];

fn check_nothing(database: &Connection, queries: &[(&str, &str)]) {
    for (what, sql) in queries {
        let found: Vec<String> = database
            .prepare(sql)
            .unwrap()
            .query_map([], |row| row.get_ref(0).map(|value| format!("{value:?}")))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

/// Opens the database read-only: blocks no other connection and creates no files.
pub fn open(data: &Path) -> Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let database = Connection::open_with_flags(data.join("claude-mem.db"), flags).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    database.pragma_update(None, "query_only", true).unwrap();
    let keep = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    database.set_db_config(keep, true).unwrap();
    database
}

pub fn one<T: rusqlite::types::FromSql>(database: &Connection, sql: &str) -> T {
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn rows(database: &Connection) -> Vec<Row> {
    let mut statement =
        database.prepare("SELECT id, event_key, session_id, status FROM pending_queue ORDER BY id").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Row { id: row.get(0)?, key: row.get(1)?, session: row.get(2)?, status: row.get(3)? })
    };
    statement.query_map([], read).unwrap().map(Result::unwrap).collect()
}

/// The keys of the events in a folder of spool files.
fn spooled(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = entries.map(|entry| entry.unwrap().path());
    let events = files.filter(|path| path.extension() == Some("json".as_ref()));
    // A file that is gone by now was drained.
    events.filter_map(|file| spool::read(&file).ok()).map(|event| plain(&event.key)).collect()
}
