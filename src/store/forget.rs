//! Takes out what the user does not want remembered: from the tables, from the search index, and from the bytes of the file.
//!
//! What was forgotten is noted by its keys, never by its content, so that recovering a damaged database from an older backup
//! does not bring it back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde_json::json;

use super::log::{LogEntry, log};
use super::rows::{self, Row};
use super::tables::Table;
use super::{StoreError, index, upkeep};
use crate::model::Millis;

/// How the event log calls it.
pub const EVENT: &str = "forget";

/// What is to be forgotten: everything that one of these names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// By number.
    pub observations: Vec<i64>,
    /// By number.
    pub summaries: Vec<i64>,
    /// By number.
    pub prompts: Vec<i64>,
    /// Sessions, with everything that was made of them.
    pub sessions: Vec<String>,
    /// Projects, by name or path.
    pub projects: Vec<String>,
    /// Whatever holds this text, in any case of its letters.
    pub texts: Vec<String>,
    /// Everything.
    pub all: bool,
}

/// Rows that go, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doomed {
    sessions: BTreeSet<String>,
    rows: BTreeMap<&'static str, BTreeSet<i64>>,
}

impl Doomed {
    /// How many rows of each table.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let rows = self.rows.iter().map(|(table, rows)| (*table, rows.len()));
        rows.chain([("sessions", self.sessions.len())]).filter(|(_, count)| *count > 0).collect()
    }

    /// What was named by its number or its id, and is not there.
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

    /// Whether nothing goes.
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

/// Tables of which rows can go one by one, and the columns that hold text.
const TEXTS: [(&str, &[&str]); 7] = [
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
    ("learnings", &["content"]),
    ("function_map", &["file_path", "qualified_name", "signature", "renamed_from"]),
    ("event_log", &["data"]),
];

/// Finds what the selection names.
pub fn find(database: &Connection, selection: &Selection) -> Result<Doomed, StoreError> {
    let mut doomed = Doomed::default();
    let numbers = [
        ("observations", &selection.observations),
        ("session_summaries", &selection.summaries),
        ("user_prompts", &selection.prompts),
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
        for table in ["observations", "session_summaries", "learnings", "function_map"] {
            doomed.add(database, table, "project = ?1", [project])?;
        }
    }
    add_what_hangs_on_it(database, &mut doomed)?;
    if selection.all {
        for (table, _) in TEXTS {
            doomed.add(database, table, unless_money(table), [])?;
        }
    }
    doomed.rows.retain(|_, rows| !rows.is_empty());
    Ok(doomed)
}

/// What was spent counts for the ceiling, and says nothing of what it was spent on.
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
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let in_json = quoted.trim_matches('"');
    let has = |column: &&str| {
        format!("instr(lower({column}), lower(?1)) > 0 OR instr(lower({column}), lower(?2)) > 0")
    };
    let any = columns.iter().map(has).collect::<Vec<_>>().join(" OR ");
    let condition = format!("({any}) AND {}", unless_money(table));
    doomed.add(database, table, &condition, [text, in_json])
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
        add("project = ?1 OR project_path = ?1", project)?;
    }
    if selection.all {
        add("?1 = ''", "")?;
    }
    Ok(())
}

/// The rows of the sessions, the events that the observations came from, and what was learnt from them.
fn add_what_hangs_on_it(database: &Connection, doomed: &mut Doomed) -> Result<(), StoreError> {
    for session in doomed.sessions.clone() {
        for (table, _) in TEXTS.iter().filter(|(table, _)| *table != "learnings") {
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

/// Takes it out. The caller then calls [`wipe`].
pub fn forget(database: &mut Connection, selection: &Selection, now: Millis) -> Result<Doomed, StoreError> {
    database.pragma_update(None, "secure_delete", true)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let doomed = find(&transaction, selection)?;
    let keys = keys(&transaction, &doomed, selection)?;
    delete(&transaction, &doomed)?;
    index::forget_gone(&transaction)?;
    // The worker learns the words of what is left again.
    transaction.execute("DELETE FROM search_words", [])?;
    transaction.execute("DELETE FROM search_progress WHERE what LIKE 'words %'", [])?;
    let data = json!({"keys": keys, "all": selection.all, "at": now});
    log(&transaction, &LogEntry { event_type: EVENT, data, ..LogEntry::default() }, now)?;
    transaction.commit()?;
    Ok(doomed)
}

fn delete(transaction: &Transaction<'_>, doomed: &Doomed) -> Result<(), StoreError> {
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

/// What a row is known by, after it is gone.
pub fn keys_of(table: &'static Table, row: &Row) -> Vec<String> {
    let mut keys = Vec::new();
    let session_column = if table.name == "sessions" { "id" } else { "session_id" };
    keys.extend(rows::text(row, session_column).map(|session| format!("session:{session}")));
    keys.extend(rows::text(row, "uid").map(|uid| format!("uid:{uid}")));
    keys.extend(rows::text(row, "event_key").map(|key| format!("event:{key}")));
    if let (Some(session), Some(rusqlite::types::Value::Integer(number))) = (
        rows::text(row, "session_id"),
        rows::value(row, "prompt_number").filter(|_| table.name == "user_prompts"),
    ) {
        keys.push(format!("prompt:{session}:{number}"));
    }
    keys
}

/// The keys of what goes; a session's stands for all of its rows.
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

/// Makes sure that nothing is left between the rows either: what was deleted before without care, the log, free pages. False
/// if somebody reads for so long that the log cannot be emptied now.
pub fn wipe(database: &Connection, patience: Duration) -> Result<bool, StoreError> {
    database.pragma_update(None, "secure_delete", true)?;
    upkeep::checkpoint(database, patience)?;
    database.execute_batch("VACUUM")?;
    database.busy_timeout(patience)?;
    let is_busy: bool = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(!is_busy)
}
