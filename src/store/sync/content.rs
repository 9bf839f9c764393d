//! The content of a memory as a record carries it: the columns of its row, and the marks that
//! change independently of them.
//!
//! A new kind of memory is a [`SyncedTable`]; a new independent property is a [`Mark`].

use std::collections::BTreeMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::super::StoreError;
use super::super::projects::{self, NameClaim};
use crate::config::Share;
use crate::model::Millis;

/// The kind of a record. The numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum RecordKind {
    Observation = 1,
    Summary = 2,
    Learning = 3,
    Session = 4,
    Mark = 5,
    Forget = 6,
    Veto = 7,
}

impl RecordKind {
    /// Returns the kind with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        use RecordKind::{Forget, Learning, Mark, Observation, Session, Summary, Veto};
        let all = [Observation, Summary, Learning, Session, Mark, Forget, Veto];
        all.into_iter().find(|kind| *kind as i16 == code)
    }

    /// True if a later version may follow one that was forgotten: a session goes on, and a statement
    /// may be vetoed again.
    pub(super) fn may_return(self) -> bool {
        matches!(self, Self::Session | Self::Veto)
    }
}

/// The user's choice for each project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// For all projects that are not listed.
    pub default: Share,
    /// By project key.
    pub projects: BTreeMap<String, Share>,
}

impl Shares {
    /// Returns the devices that get this project's memories.
    pub fn of(&self, project: &str) -> Share {
        self.projects.get(project).copied().unwrap_or(self.default)
    }
}

/// A table whose rows are synchronised.
#[derive(Debug)]
pub(super) struct SyncedTable {
    pub kind: RecordKind,
    pub letter: char,
    pub table: &'static str,
    /// The column that identifies a row on every device.
    pub key: &'static str,
    /// The columns that a record carries.
    pub columns: &'static [&'static str],
    /// The time that a tombstone of its session or project is compared with.
    pub at: &'static str,
}

pub(super) const SHAPES: [SyncedTable; 5] = [
    SyncedTable {
        kind: RecordKind::Observation,
        letter: 'o',
        table: "observations",
        key: "uid",
        columns: &[
            "session_id",
            "prompt_number",
            "type",
            "title",
            "summary",
            "detail",
            "facts",
            "concepts",
            "files_read",
            "files_modified",
            "functions_changed",
            "provider",
            "model",
            "prompt_version",
            "agent_type",
            "branch",
            "created_at",
            "edited_at",
            "superseded_by",
        ],
        at: "created_at",
    },
    SyncedTable {
        kind: RecordKind::Summary,
        letter: 's',
        table: "session_summaries",
        key: "uid",
        columns: &[
            "session_id",
            "prompt_number",
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
            "provider",
            "model",
            "prompt_version",
            "created_at",
        ],
        at: "created_at",
    },
    SyncedTable {
        kind: RecordKind::Learning,
        letter: 'l',
        table: "learnings",
        key: "uid",
        columns: &["category", "content", "confidence", "times_seen", "created_at", "updated_at"],
        at: "created_at",
    },
    SyncedTable {
        kind: RecordKind::Session,
        letter: 'd',
        table: "sessions",
        key: "id",
        columns: &["agent", "branch", "title", "outcome", "open_items", "started_at", "last_activity_at"],
        at: "last_activity_at",
    },
    SyncedTable {
        kind: RecordKind::Veto,
        letter: 'v',
        table: "sync_vetoes",
        key: "uid",
        columns: &["statement", "created_at"],
        at: "created_at",
    },
];

/// Returns the shape of an item.
pub(super) fn shape_of(item: &str) -> Option<&'static SyncedTable> {
    SHAPES.iter().find(|shape| item.starts_with(shape.letter) && item[1..].starts_with(':'))
}

/// Returns the identity in an item, without its letter.
pub(super) fn uid_of(item: &str) -> &str {
    item.get(2..).unwrap_or_default()
}

/// One part of a memory: its row, or a mark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordContent {
    pub kind: RecordKind,
    pub item: String,
    /// The project key; empty for a learning that holds everywhere.
    pub project: String,
    /// The project's name here, a proposal for devices that do not have it.
    pub name: String,
    pub session: Option<String>,
    pub at: Millis,
    pub row: Map<String, Value>,
    pub refers: Option<String>,
    /// True for a mark in the state that every memory begins with, and a session without a digest.
    pub is_default: bool,
}

/// The hash of every session without a digest.
pub(super) const UNTITLED: i64 = 1;

impl RecordContent {
    /// True for a session without a digest.
    pub fn is_untitled(&self) -> bool {
        self.kind == RecordKind::Session && !self.row.contains_key("title")
    }

    /// Returns a hash of the parts that a change of the memory changes.
    pub fn hash(&self) -> i64 {
        if self.is_untitled() {
            return UNTITLED;
        }
        let row = serde_json::to_string(&self.row).unwrap_or_default();
        // The evidence of a learning may be missing here; its other columns change with it.
        let refers = self.refers.as_deref().filter(|_| self.kind == RecordKind::Mark).unwrap_or_default();
        xxh3_64(format!("{refers}\n{row}").as_bytes()).cast_signed()
    }

    /// Returns the part of it that `sync_items` keeps.
    pub fn kept_value(&self) -> Option<String> {
        match self.kind {
            RecordKind::Mark => serde_json::to_string(&self.row).ok(),
            RecordKind::Veto => Some(self.at.to_string()),
            _ => None,
        }
    }

    /// Renders the body of its record.
    pub fn body(&self, redact: fn(&str) -> String) -> String {
        let row: Map<String, Value> =
            self.row.iter().map(|(name, value)| (name.clone(), redacted(value, redact))).collect();
        json!({
            "item": self.item, "project": self.project, "name": self.name, "session": self.session, "at": self.at,
            "row": row, "refers": self.refers,
        })
        .to_string()
    }
}

fn redacted(value: &Value, redact: fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        other => other.clone(),
    }
}

/// Reads the parts of an item: its row first, then its marks. Empty if there is no such row.
pub(super) fn read(database: &Connection, item: &str) -> Result<Vec<RecordContent>, StoreError> {
    let Some(shape) = shape_of(item) else { return Ok(Vec::new()) };
    let columns: Vec<String> = shape.columns.iter().map(|column| format!("t.{column}")).collect();
    let (session, join) = match shape.kind {
        RecordKind::Session => ("t.id, t.project_key", ""),
        RecordKind::Learning | RecordKind::Veto => ("NULL, ''", ""),
        _ => ("t.session_id, s.project_key", "JOIN sessions s ON s.id = t.session_id"),
    };
    let sql = format!(
        "SELECT {session}, t.project, t.{}, {} FROM {} t {join} WHERE t.{} = ?1",
        shape.at,
        columns.join(", "),
        shape.table,
        shape.key
    );
    let read = |row: &Row<'_>| {
        let mut values = Map::new();
        for (at, column) in shape.columns.iter().enumerate() {
            let value = match row.get_ref(at + 4)? {
                ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Integer(number) => json!(number),
                ValueRef::Real(number) => json!(number),
                ValueRef::Null | ValueRef::Blob(_) => continue,
            };
            values.insert((*column).to_owned(), value);
        }
        let project: Option<String> = row.get(2)?;
        Ok((row.get(0)?, row.get::<_, String>(1)?, project, row.get(3)?, values))
    };
    let found = database.prepare_cached(&sql)?.query_row([uid_of(item)], read).optional()?;
    let Some((session, session_key, project, at, row)) = found else { return Ok(Vec::new()) };
    let key = match &project {
        Some(name) => project_key(database, session_key, name)?,
        None => String::new(),
    };
    let mut content = RecordContent {
        kind: shape.kind,
        item: item.to_owned(),
        project: key,
        name: project.unwrap_or_default(),
        session,
        at,
        row,
        refers: evidence(database, shape, item)?,
        is_default: false,
    };
    content.is_default = content.is_untitled();
    let mut parts = marks(database, shape, &content)?;
    parts.insert(0, content);
    Ok(parts)
}

/// Returns the observation that supports a learning.
fn evidence(database: &Connection, shape: &SyncedTable, item: &str) -> Result<Option<String>, StoreError> {
    if shape.kind != RecordKind::Learning {
        return Ok(None);
    }
    let sql = "SELECT 'o:' || o.uid FROM learnings l JOIN observations o ON o.id = l.source_observation_id WHERE l.uid = ?1";
    Ok(database.prepare_cached(sql)?.query_row([uid_of(item)], |row| row.get(0)).optional()?)
}

/// A property with a version of its own, so that hiding a memory and rewriting it at the same time
/// both take effect.
#[derive(Debug)]
pub(super) struct Mark {
    pub letter: char,
    pub of: RecordKind,
    /// The column that holds it.
    pub column: &'static str,
    /// The value that every memory begins with.
    default: Option<i64>,
}

pub(super) const MARKS: [Mark; 6] = [
    Mark { letter: 'h', of: RecordKind::Observation, column: "deleted_at", default: None },
    Mark { letter: 'p', of: RecordKind::Observation, column: "pinned_at", default: None },
    Mark { letter: 'a', of: RecordKind::Learning, column: "is_active", default: Some(1) },
    Mark { letter: 'q', of: RecordKind::Learning, column: "pinned_at", default: None },
    Mark { letter: 'r', of: RecordKind::Observation, column: "restored_at", default: None },
    Mark { letter: 't', of: RecordKind::Learning, column: "restored_at", default: None },
];

/// Returns the mark that an item is about.
pub(super) fn mark_of(item: &str) -> Option<&'static Mark> {
    MARKS.iter().find(|mark| item.starts_with(mark.letter) && item[1..].starts_with(':'))
}

/// Returns the item of the row that a mark belongs to; of a row, the item itself.
pub(super) fn row_of(item: &str) -> String {
    let shape = mark_of(item).and_then(|mark| SHAPES.iter().find(|shape| shape.kind == mark.of));
    shape.map_or_else(|| item.to_owned(), |shape| format!("{}:{}", shape.letter, uid_of(item)))
}

/// Reads the marks of a memory.
fn marks(
    database: &Connection,
    shape: &SyncedTable,
    content: &RecordContent,
) -> Result<Vec<RecordContent>, StoreError> {
    let uid = uid_of(&content.item);
    let mut marks = Vec::new();
    for mark in MARKS.iter().filter(|mark| mark.of == shape.kind) {
        let sql = format!("SELECT {} FROM {} WHERE uid = ?1", mark.column, shape.table);
        let value: Option<i64> = database.prepare_cached(&sql)?.query_row([uid], |row| row.get(0))?;
        let refers = if mark.letter == 'a' { superseding(database, uid)? } else { None };
        marks.push(RecordContent {
            kind: RecordKind::Mark,
            item: format!("{}:{uid}", mark.letter),
            row: Map::from_iter([("value".to_owned(), json!(value))]),
            is_default: value == mark.default && refers.is_none(),
            refers,
            ..content.clone()
        });
    }
    Ok(marks)
}

/// Returns the learning that supersedes this one, which may not have arrived.
fn superseding(database: &Connection, uid: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT coalesce('l:' || o.uid,
                 (SELECT i.refers FROM sync_items i WHERE i.item = 'a:' || l.uid
                  AND NOT EXISTS (SELECT 1 FROM learnings x WHERE x.uid = substr(i.refers, 3))))
               FROM learnings l LEFT JOIN learnings o ON o.id = l.superseded_by WHERE l.uid = ?1";
    Ok(database.prepare_cached(sql)?.query_row([uid], |row| row.get(0))?)
}

/// Returns the key of a row's project: its session's, else one that has its name.
fn project_key(database: &Connection, session_key: String, name: &str) -> Result<String, StoreError> {
    if !session_key.is_empty() {
        return Ok(session_key);
    }
    let sql = "SELECT key FROM projects WHERE name = ?1 ORDER BY key NOT LIKE 'git:%', key LIMIT 1";
    let key = database.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?;
    Ok(key.unwrap_or_else(|| format!("{NAMED}{name}")))
}

/// Prefix of the key of a project that has only a name.
const NAMED: &str = "name:";

/// Returns the name of a project here, and assigns one if it has none. `None` for what holds
/// everywhere.
pub(super) fn local_name(
    transaction: &Connection,
    key: &str,
    proposal: &str,
) -> Result<Option<String>, StoreError> {
    if key.is_empty() {
        return Ok(None);
    }
    if let Some(name) = key.strip_prefix(NAMED) {
        return Ok(Some(name.to_owned()));
    }
    let name = if proposal.is_empty() { key } else { proposal };
    projects::assign(transaction, &NameClaim { key, name, is_alias: false, path: "" }).map(Some)
}
