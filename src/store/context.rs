//! What a context is made of, read from the tables: changed code, learnings, observations, and what was shown already.
//! The hook links it.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{StoreError, listed};
use crate::model::{Millis, SessionId, confidence_left};

/// An observation as the context looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its id, by which it can be shown in full.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// Its type.
    pub kind: String,
    /// What it is called.
    pub title: String,
    /// What it says in short.
    pub summary: String,
    /// Single statements.
    pub facts: Vec<String>,
    /// Files that were changed.
    pub files_modified: Vec<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
    /// The branch that it was made on.
    pub branch: Option<String>,
    /// When it was made.
    pub created_at: Millis,
}

/// Of a text nobody reads more than this here.
const MEMORY: &str = "SELECT o.id, o.session_id, o.type, coalesce(substr(o.title, 1, 400), ''),
    coalesce(substr(coalesce(o.summary, o.detail), 1, 2000), ''), o.facts, o.files_modified, o.files_read, o.branch, o.created_at
    FROM observations o JOIN sessions s ON s.id = o.session_id
    WHERE o.id = ?1 AND s.project_path = ?2 AND o.deleted_at IS NULL";

impl Memory {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let list = |index| listed(row, index);
        Ok(Self {
            id: row.get(0)?,
            session_id: row.get(1)?,
            kind: row.get(2)?,
            title: row.get(3)?,
            summary: row.get(4)?,
            facts: list(5)?,
            files_modified: list(6)?,
            files_read: list(7)?,
            branch: row.get(8)?,
            created_at: row.get(9)?,
        })
    }
}

/// The observations of these ids that are there and of this project, in the order asked for.
pub fn memories(database: &Connection, project_path: &str, ids: &[i64]) -> Result<Vec<Memory>, StoreError> {
    let mut statement = database.prepare_cached(MEMORY)?;
    let found = ids.iter().map(|id| statement.query_row(params![id, project_path], Memory::read).optional());
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The newest observations of a project's latest sessions, newest first. Sessions in which nothing was asked do not count.
pub fn newest_observations(
    database: &Connection,
    project_path: &str,
    sessions: u32,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT o.id FROM observations o WHERE o.session_id IN
                 (SELECT id FROM sessions WHERE project_path = ?1 AND prompt_count > 0 ORDER BY started_at DESC LIMIT ?2)
               ORDER BY o.id DESC LIMIT ?3";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project_path, sessions, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A part of what the index holds of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Title, concepts, files.
    Head,
    /// What it says.
    Body,
}

/// The newest observations of a project of that name that have this phrase in some part. Nothing in the phrase is an
/// operator.
pub fn observations_with(
    database: &Connection,
    project: &str,
    part: Part,
    phrase: &str,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    // A project's observations are one range of the index (migrations/0002_search.sql).
    let sql = "SELECT rowid & ((1 << 42) - 1) FROM search_index
               WHERE search_index MATCH ?1
                 AND rowid BETWEEN (SELECT no << 44 FROM search_projects WHERE project = ?2)
                           AND (SELECT (no << 44) + (1 << 42) - 1 FROM search_projects WHERE project = ?2)
               ORDER BY rowid DESC LIMIT ?3";
    let phrase: String = phrase.chars().map(|c| if c == '"' || c == '\0' { ' ' } else { c }).collect();
    if !phrase.chars().any(char::is_alphanumeric) {
        return Ok(Vec::new());
    }
    let column = match part {
        Part::Head => "head",
        Part::Body => "body",
    };
    let mut statement = database.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![format!("{column} : \"{phrase}\""), project, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// How many of a project's observations have a word, counted up to `most`.
#[cfg(feature = "service")]
pub fn observations_having(
    database: &Connection,
    project: &str,
    word: &str,
    most: u32,
) -> Result<u32, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM search_index WHERE search_index MATCH ?1
                 AND rowid BETWEEN (SELECT no << 44 FROM search_projects WHERE project = ?2)
                           AND (SELECT (no << 44) + (1 << 42) - 1 FROM search_projects WHERE project = ?2) LIMIT ?3)";
    let word = format!("\"{}\"", word.replace('"', ""));
    Ok(database.prepare_cached(sql)?.query_row(params![word, project, most], |row| row.get(0))?)
}

/// A change to some code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeChange {
    /// The file.
    pub file_path: String,
    /// What was changed, by its whole name.
    pub qualified_name: String,
    /// As it is declared, or was.
    pub signature: Option<String>,
    /// Where it begins.
    pub line_start: Option<i64>,
    /// new, modified, deleted.
    pub change_type: String,
    /// When.
    pub snapshot_at: Millis,
}

/// Sessions that are looked through for changed code; of those that have some, [`CODE_SESSIONS`] count.
const LOOKED_THROUGH: u32 = 40;
const CODE_SESSIONS: u32 = 5;
/// More changes than this are not one context's matter.
const MOST_CHANGES: u32 = 2_000;

/// The code that a project's last sessions changed, oldest change first.
pub fn code_changes(database: &Connection, project_path: &str) -> Result<Vec<CodeChange>, StoreError> {
    let sql = "
        SELECT file_path, qualified_name, signature, line_start, change_type, snapshot_at FROM (
          SELECT * FROM function_map WHERE change_type <> 'unchanged' AND session_id IN (
            SELECT id FROM (SELECT id, started_at FROM sessions WHERE project_path = ?1 AND prompt_count > 0
                            ORDER BY started_at DESC LIMIT ?2) s
            WHERE EXISTS (SELECT 1 FROM function_map f WHERE f.session_id = s.id AND f.change_type <> 'unchanged')
            ORDER BY started_at DESC LIMIT ?3)
          ORDER BY snapshot_at DESC, id DESC LIMIT ?4)
        ORDER BY snapshot_at, id";
    let mut statement = database.prepare_cached(sql)?;
    let parameters = params![project_path, LOOKED_THROUGH, CODE_SESSIONS, MOST_CHANGES];
    let rows = statement.query_map(parameters, |row| {
        Ok(CodeChange {
            file_path: row.get(0)?,
            qualified_name: row.get(1)?,
            signature: row.get(2)?,
            line_start: row.get(3)?,
            change_type: row.get(4)?,
            snapshot_at: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Something that holds beyond one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// architecture, convention, gotcha, preference, command, dependency.
    pub category: String,
    /// What it is.
    pub content: String,
}

/// What is known of a project and of all, best first: neither forgotten, nor superseded, nor doubtful by now.
pub fn learned(
    database: &Connection,
    project: &str,
    limit: u32,
    now: Millis,
) -> Result<Vec<Learned>, StoreError> {
    let sql = "SELECT category, substr(content, 1, 2000), confidence, times_seen, updated_at, id FROM learnings
               WHERE is_active = 1 AND superseded_by IS NULL AND confidence >= 0.5 AND (project = ?1 OR project IS NULL)
               ORDER BY confidence DESC, times_seen DESC, updated_at DESC, id DESC LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    // Some may have faded since they were last seen.
    let rows = statement.query_map(params![project, 4 * limit], |row| {
        let (seen, at, id): (i64, Millis, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let left = confidence_left(row.get(2)?, at, now);
        Ok((left, seen, at, id, Learned { category: row.get(0)?, content: row.get(1)? }))
    })?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.retain(|(left, ..)| *left >= 0.5);
    found.sort_by(|one, other| {
        let rank = |row: &(f64, i64, Millis, i64, Learned)| (row.1, row.2, row.3);
        other.0.total_cmp(&one.0).then_with(|| rank(other).cmp(&rank(one)))
    });
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(.., learned)| learned).collect())
}

/// The entries of the event log that say what a session was shown: at its start, which comes first, and later.
pub const SHOWN_EVENTS: [&str; 4] = ["context", "context_prompt", "context_file", "context_failure"];

/// What a session has been shown since its context was last built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Observations.
    pub ids: Vec<i64>,
    /// Files that were spoken of.
    pub files: Vec<String>,
}

/// What a session has been shown. A context at its start, or after a compaction, begins anew: what was said before it
/// is no longer there.
pub fn shown(database: &Connection, session: &SessionId) -> Result<Shown, StoreError> {
    let mut shown = Shown::default();
    let began: Option<Millis> = database
        .prepare_cached("SELECT started_at FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let mut statement = database.prepare_cached(
        "SELECT data ->> 'shown', data ->> 'file', created_at FROM event_log
         WHERE event_type = ?2 AND created_at >= ?3 AND session_id = ?1 ORDER BY created_at, id",
    )?;
    let mut since = began.unwrap_or_default();
    for event in SHOWN_EVENTS {
        let mut rows = statement.query(params![session.as_str(), event, since])?;
        while let Some(row) = rows.next()? {
            if event == SHOWN_EVENTS[0] {
                shown = Shown::default();
                since = row.get(2)?;
            }
            let ids = row
                .get::<_, Option<String>>(0)?
                .and_then(|json| serde_json::from_str::<Vec<i64>>(&json).ok());
            shown.ids.extend(ids.unwrap_or_default());
            shown.files.extend(row.get::<_, Option<String>>(1)?);
        }
    }
    Ok(shown)
}
