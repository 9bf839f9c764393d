//! Deletes memories for good: from the tables, from the search index, and from the bytes of the
//! file.
//!
//! A deleted row is recorded by its keys, never by its content, so that recovering a damaged
//! database from an older backup does not restore it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::retention;
use crate::files::disk;
use crate::model::{Digest, Millis, SessionId, TurnLine};
use crate::store::files::row_copy::{self, Row};
use crate::store::log::{LogEntry, log};
use crate::store::sync::{self, Forgetting};
use crate::store::tables::PrimaryTable;
use crate::store::{StoreError, index, memory, projects};

/// Name of this event in the event log.
pub const EVENT: &str = "forget";

/// Data of this event.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogData {
    /// Keys of the deleted rows.
    pub keys: Vec<String>,
    /// True if everything was deleted.
    pub all: bool,
    /// Time of the deletion.
    pub at: Option<Millis>,
}

/// A selection of rows to delete: every row that one of these fields matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Observation ids.
    pub observations: Vec<i64>,
    /// Summary ids.
    pub summaries: Vec<i64>,
    /// Prompt ids.
    pub prompts: Vec<i64>,
    /// Learning ids.
    pub learnings: Vec<i64>,
    /// Veto ids.
    pub vetoes: Vec<i64>,
    /// Session ids; everything made of a session goes with it.
    pub sessions: Vec<String>,
    /// Project names.
    pub projects: Vec<String>,
    /// Every row that contains this text, case-insensitive.
    pub texts: Vec<String>,
    /// Everything.
    pub all: bool,
}

/// Rows to delete, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doomed {
    sessions: BTreeSet<String>,
    rows: BTreeMap<&'static str, BTreeSet<i64>>,
}

impl Doomed {
    /// Returns the number of rows of each table.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let rows = self.rows.iter().map(|(table, rows)| (*table, rows.len()));
        rows.chain([("sessions", self.sessions.len())]).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the ids in the selection that do not exist.
    pub fn missing(&self, selection: &Selection) -> Vec<String> {
        let named = [
            ("observations", "", &selection.observations),
            ("session_summaries", "S", &selection.summaries),
            ("user_prompts", "P", &selection.prompts),
        ];
        let mut missing = Vec::new();
        for (table, letter, ids) in named {
            let known = self.rows.get(table);
            let is_missing = |id: &&i64| !known.is_some_and(|known| known.contains(id));
            missing.extend(ids.iter().filter(is_missing).map(|id| format!("{letter}{id}")));
        }
        missing.extend(selection.sessions.iter().filter(|id| !self.sessions.contains(*id)).cloned());
        missing
    }

    /// True if there is nothing to delete.
    pub fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    fn add(
        &mut self,
        database: &Connection,
        table: &'static str,
        condition: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<(), StoreError> {
        let mut statement = database.prepare_cached(&format!("SELECT id FROM {table} WHERE {condition}"))?;
        let found = statement.query_map(parameters, |row| row.get(0))?;
        let rows = self.rows.entry(table).or_default();
        for id in found {
            rows.insert(id?);
        }
        Ok(())
    }
}

/// Tables whose rows can be deleted one by one, and their text columns.
const TEXTS: [(&str, &[&str]); 12] = [
    ("user_prompts", &["prompt"]),
    ("pending_queue", &["payload", "last_error"]),
    (
        "observations",
        &[
            "title",
            "summary",
            "detail",
            "facts",
            "concepts",
            "files_read",
            "files_modified",
            "functions_changed",
        ],
    ),
    (
        "session_summaries",
        &[
            "summary",
            "request",
            "investigated",
            "learned",
            "completed",
            "next_steps",
            "notes",
            "files_read",
            "files_edited",
            "key_decisions",
        ],
    ),
    ("observation_edits", &["title", "summary", "detail", "facts"]),
    ("learnings", &["content"]),
    ("vetoes", &["statement"]),
    ("branches", &["name"]),
    ("function_map", &["file_path", "qualified_name", "signature", "renamed_from"]),
    ("edit_traces", &["file_path"]),
    ("repairs", &["command", "files"]),
    ("event_log", &["data"]),
];

/// Those of them that belong to no session; edits are deleted with their observation.
const WITHOUT_SESSION: [&str; 4] = ["observation_edits", "learnings", "vetoes", "branches"];

/// Finds the rows that the selection matches.
pub fn find(database: &Connection, selection: &Selection) -> Result<Doomed, StoreError> {
    let mut doomed = Doomed::default();
    let numbers = [
        ("observations", &selection.observations),
        ("session_summaries", &selection.summaries),
        ("user_prompts", &selection.prompts),
        ("learnings", &selection.learnings),
        ("vetoes", &selection.vetoes),
    ];
    for (table, ids) in numbers {
        for id in ids {
            doomed.add(database, table, "id = ?1", [id])?;
        }
    }
    for text in &selection.texts {
        for (table, columns) in TEXTS {
            holding(database, &mut doomed, table, columns, text)?;
        }
    }
    find_sessions(database, selection, &mut doomed)?;
    for project in &selection.projects {
        for table in [
            "observations",
            "session_summaries",
            "learnings",
            "vetoes",
            "branches",
            "function_map",
            "edit_traces",
            "repairs",
        ] {
            doomed.add(database, table, "project = ?1", [project])?;
        }
    }
    add_dependents(database, &mut doomed)?;
    if selection.all {
        for (table, _) in TEXTS {
            doomed.add(database, table, unless_money(table), [])?;
        }
    }
    doomed.rows.retain(|_, rows| !rows.is_empty());
    Ok(doomed)
}

/// Entries with a cost stay: they count towards the daily ceiling and do not contain any content.
fn unless_money(table: &str) -> &'static str {
    if table == "event_log" { "event_type NOT IN ('llm_call', 'forget')" } else { "1" }
}

fn holding(
    database: &Connection,
    doomed: &mut Doomed,
    table: &'static str,
    columns: &[&str],
    text: &str,
) -> Result<(), StoreError> {
    let condition = format!("({}) AND {}", text_condition(columns), unless_money(table));
    doomed.add(database, table, &condition, [text, &in_json(text)])
}

/// SQL condition: a column contains the text `?1`, or its JSON-escaped form `?2`.
fn text_condition(columns: &[&str]) -> String {
    let has = |column: &&str| {
        format!("instr(lower({column}), lower(?1)) > 0 OR instr(lower({column}), lower(?2)) > 0")
    };
    columns.iter().map(has).collect::<Vec<_>>().join(" OR ")
}

fn in_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.trim_matches('"').to_owned()
}

fn find_sessions(
    database: &Connection,
    selection: &Selection,
    doomed: &mut Doomed,
) -> Result<(), StoreError> {
    let mut add = |condition: &str, value: &str| -> Result<(), StoreError> {
        let mut statement = database.prepare_cached(&format!("SELECT id FROM sessions WHERE {condition}"))?;
        for id in statement.query_map([value], |row| row.get(0))? {
            doomed.sessions.insert(id?);
        }
        Ok(())
    };
    for session in &selection.sessions {
        add("id = ?1", session)?;
    }
    for project in &selection.projects {
        add("project = ?1", project)?;
    }
    if selection.all {
        add("?1 = ''", "")?;
    }
    Ok(())
}

/// Adds the rows of the sessions, the events behind the observations, and the learnings drawn from
/// them.
fn add_dependents(database: &Connection, doomed: &mut Doomed) -> Result<(), StoreError> {
    for session in doomed.sessions.clone() {
        for (table, _) in TEXTS.iter().filter(|(table, _)| !WITHOUT_SESSION.contains(table)) {
            let condition = format!("session_id = ?1 AND {}", unless_money(table));
            doomed.add(database, table, &condition, [&session])?;
        }
    }
    for id in doomed.rows.get("observations").cloned().unwrap_or_default() {
        let condition = "id IN (SELECT queue_id FROM observation_sources WHERE observation_id = ?1)";
        doomed.add(database, "pending_queue", condition, [id])?;
        doomed.add(database, "learnings", "source_observation_id = ?1", [id])?;
    }
    Ok(())
}

/// Deletes the rows, and rebuilds the digests of sessions that lose a summary. The caller then
/// calls [`wipe`].
pub fn forget(
    database: &mut Connection,
    selection: &Selection,
    digest: fn(&[TurnLine]) -> Digest,
    now: Millis,
) -> Result<Doomed, StoreError> {
    database.pragma_update(None, "secure_delete", true)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let doomed = find(&transaction, selection)?;
    let keys = keys(&transaction, &doomed, selection)?;
    let uids = keys.iter().filter_map(|key| key.strip_prefix("uid:")).map(str::to_owned);
    let forgetting = Forgetting {
        uids: if selection.all { learning_uids(&transaction)? } else { uids.collect() },
        vetoes: doomed.rows.get("vetoes").into_iter().flatten().copied().collect(),
        sessions: doomed.sessions.iter().cloned().collect(),
        projects: selection.projects.clone(),
    };
    sync::note_forgotten(&transaction, &forgetting, now)?;
    let digested = digested(&transaction, &doomed, selection)?;
    delete_all(&transaction, selection, &doomed, (digested, digest), keys, now)?;
    transaction.commit()?;
    Ok(doomed)
}

/// Deletes memories that another device forgot, in the caller's transaction. The digests of that
/// device's sessions arrive from it, and so do tombstones of the learnings that it deleted with them.
pub(in crate::store) fn erase(
    transaction: &Connection,
    selection: &Selection,
    digest: fn(&[TurnLine]) -> Digest,
    now: Millis,
) -> Result<(), StoreError> {
    let mut doomed = find(transaction, selection)?;
    if let Some(learnings) = doomed.rows.get_mut("learnings") {
        learnings.retain(|id| selection.learnings.contains(id));
    }
    if doomed.is_empty() {
        return Ok(());
    }
    let keys = keys(transaction, &doomed, selection)?;
    let mut own = BTreeSet::new();
    for session in digested(transaction, &doomed, selection)? {
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND origin <> 'sync'";
        if transaction.prepare_cached(sql)?.exists([session.as_str()])? {
            own.insert(session);
        }
    }
    delete_all(transaction, selection, &doomed, (own, digest), keys, now)
}

fn learning_uids(database: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = database.prepare("SELECT uid FROM learnings")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Builds a session's digest from its turns.
type Digester = fn(&[TurnLine]) -> Digest;

/// Deletes the rows and everything derived from them, and records their keys.
fn delete_all(
    transaction: &Connection,
    selection: &Selection,
    doomed: &Doomed,
    (digested, digest): (BTreeSet<SessionId>, Digester),
    keys: Vec<String>,
    now: Millis,
) -> Result<(), StoreError> {
    let torn = torn_sessions(transaction, doomed)?;
    delete(transaction, doomed)?;
    for session in torn {
        index::renew_session(transaction, &session)?;
    }
    sync::note_digests(transaction, digested.iter().map(SessionId::as_str))?;
    for session in digested {
        memory::store_digest(transaction, &session, digest)?;
    }
    delete_sightings(transaction, selection)?;
    projects::drop_unused(transaction)?;
    index::forget_gone(transaction)?;
    // The worker collects the words of the remaining rows again.
    transaction.execute("DELETE FROM search_words", [])?;
    transaction.execute("DELETE FROM search_progress WHERE what LIKE 'words %'", [])?;
    let data = json!(LogData { keys, all: selection.all, at: Some(now) });
    log(transaction, &LogEntry { event_type: EVENT, data, ..LogEntry::default() }, now)
}

fn delete(transaction: &Connection, doomed: &Doomed) -> Result<(), StoreError> {
    for (table, ids) in &doomed.rows {
        let mut statement = transaction.prepare(&format!("DELETE FROM {table} WHERE id = ?1"))?;
        for id in ids {
            statement.execute([id])?;
        }
    }
    for session in &doomed.sessions {
        transaction.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([session])?;
        let sql = "UPDATE event_log SET session_id = NULL WHERE session_id = ?1 AND event_type = 'llm_call'";
        transaction.prepare_cached(sql)?.execute([session])?;
    }
    Ok(())
}

/// Returns the remaining sessions that lose an observation or a prompt.
fn torn_sessions(database: &Connection, doomed: &Doomed) -> Result<BTreeSet<String>, StoreError> {
    let mut sessions = BTreeSet::new();
    for table in ["observations", "user_prompts"] {
        let mut statement = database.prepare(&format!("SELECT session_id FROM {table} WHERE id = ?1"))?;
        for id in doomed.rows.get(table).into_iter().flatten() {
            sessions.insert(statement.query_row([id], |row| row.get(0))?);
        }
    }
    sessions.retain(|session| !doomed.sessions.contains(session));
    Ok(sessions)
}

/// Returns the remaining sessions whose digest may quote a deleted row.
fn digested(
    database: &Connection,
    doomed: &Doomed,
    selection: &Selection,
) -> Result<BTreeSet<SessionId>, StoreError> {
    let mut sessions = BTreeSet::new();
    let mut statement = database.prepare("SELECT session_id FROM session_summaries WHERE id = ?1")?;
    for id in doomed.rows.get("session_summaries").into_iter().flatten() {
        sessions.insert(SessionId(statement.query_row([id], |row| row.get(0))?));
    }
    let condition = text_condition(&["title", "outcome", "open_items"]);
    let mut statement = database.prepare(&format!("SELECT id FROM sessions WHERE {condition}"))?;
    for text in &selection.texts {
        for id in statement.query_map([text, &in_json(text)], |row| row.get(0))? {
            sessions.insert(SessionId(id?));
        }
    }
    sessions.retain(|session| !doomed.sessions.contains(session.as_str()));
    Ok(sessions)
}

/// Sightings have no ids; those of a session are deleted with it.
fn delete_sightings(transaction: &Connection, selection: &Selection) -> Result<(), StoreError> {
    let by_text = "DELETE FROM sightings WHERE instr(lower(subject), lower(?1)) > 0";
    let by_project = "DELETE FROM sightings WHERE project = ?1";
    let texts = selection.texts.iter().map(|text| (by_text, text));
    for (sql, value) in texts.chain(selection.projects.iter().map(|project| (by_project, project))) {
        transaction.prepare_cached(sql)?.execute([value])?;
    }
    Ok(())
}

/// Returns the keys that identify a row after it is deleted.
pub fn keys_of(table: &'static PrimaryTable, row: &Row) -> Vec<String> {
    let mut keys = Vec::new();
    let session_column = if table.name == "sessions" { "id" } else { "session_id" };
    keys.extend(row_copy::text(row, session_column).map(|session| format!("session:{session}")));
    keys.extend(row_copy::text(row, "uid").map(|uid| format!("uid:{uid}")));
    keys.extend(row_copy::text(row, "event_key").map(|key| format!("event:{key}")));
    if let (Some(session), Some(rusqlite::types::Value::Integer(number))) = (
        row_copy::text(row, "session_id"),
        row_copy::value(row, "prompt_number").filter(|_| table.name == "user_prompts"),
    ) {
        keys.push(format!("prompt:{session}:{number}"));
    }
    keys
}

/// Returns the keys of the deleted rows; a session's key stands for all of its rows.
fn keys(database: &Connection, doomed: &Doomed, selection: &Selection) -> Result<Vec<String>, StoreError> {
    if selection.all {
        return Ok(Vec::new());
    }
    let mut keys: Vec<String> = doomed.sessions.iter().map(|session| format!("session:{session}")).collect();
    let key_columns = [
        ("observations", "'uid:' || uid", "session_id"),
        ("session_summaries", "'uid:' || uid", "session_id"),
        ("learnings", "'uid:' || uid", "NULL"),
        ("pending_queue", "'event:' || event_key", "session_id"),
        ("user_prompts", "'prompt:' || session_id || ':' || prompt_number", "session_id"),
    ];
    for (table, key, session) in key_columns {
        let mut statement =
            database.prepare(&format!("SELECT {key}, {session} FROM {table} WHERE id = ?1"))?;
        for id in doomed.rows.get(table).into_iter().flatten() {
            let (key, session): (String, Option<String>) =
                statement.query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if session.is_none_or(|session| !doomed.sessions.contains(&session)) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

/// Removes remains between the rows: earlier insecure deletions, the WAL, free pages. Returns false
/// if a long-running reader keeps the WAL from being emptied, or if the disk has no room for a
/// second file.
pub fn wipe(database: &Connection, patience: Duration) -> Result<bool, StoreError> {
    database.pragma_update(None, "secure_delete", true)?;
    retention::checkpoint(database, patience)?;
    let used = retention::file_bytes(database)?.0;
    let place = database.path().unwrap_or_default();
    // Room for the new file and for the WAL it is written through.
    if let Err(error) = disk::check_room(Path::new(place), 2 * used) {
        tracing::warn!(%error, "cannot rewrite the database file: {error}");
        return Ok(false);
    }
    database.execute_batch("VACUUM")?;
    database.busy_timeout(patience)?;
    let is_busy: bool = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(!is_busy)
}
