//! Reading the search index: its lists, and the rows behind them. What a query means and how hits are ranked is none of its
//! business; `index` keeps it up to date.

use std::collections::HashSet;

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::Millis;
use crate::store::StoreError;

/// The kinds of rows in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Kind {
    Observation,
    Summary,
    Prompt,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Observation, Self::Summary, Self::Prompt];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observation => "observation",
            Self::Summary => "summary",
            Self::Prompt => "prompt",
        }
    }

    pub(in crate::store) fn number(self) -> i64 {
        match self {
            Self::Observation => 0,
            Self::Summary => 1,
            Self::Prompt => 2,
        }
    }

    pub(in crate::store) fn table(self) -> &'static str {
        match self {
            Self::Observation => "observations",
            Self::Summary => "session_summaries",
            Self::Prompt => "user_prompts",
        }
    }
}

/// A row's place in the index: its project, its kind and its id in one number (migrations/0001_schema.sql).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub i64);

pub(in crate::store) const PROJECT_SHIFT: u32 = 44;
pub(in crate::store) const KIND_SHIFT: u32 = 42;

impl Place {
    /// The place of a row.
    pub fn new(project: i64, kind: Kind, id: i64) -> Self {
        Self(project << PROJECT_SHIFT | kind.number() << KIND_SHIFT | id)
    }

    /// The kind of the row.
    pub fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT & 3 {
            0 => Kind::Observation,
            1 => Kind::Summary,
            _ => Kind::Prompt,
        }
    }

    /// The row's id in its table.
    pub fn id(self) -> i64 {
        self.0 & ((1 << KIND_SHIFT) - 1)
    }
}

/// A range of places, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub from: Place,
    /// The last.
    pub to: Place,
}

impl Range {
    /// Everything.
    pub const ALL: Self = Self { from: Place(0), to: Place(i64::MAX) };

    /// One project.
    pub fn project(number: i64) -> Self {
        Self { from: Place(number << PROJECT_SHIFT), to: Place(((number + 1) << PROJECT_SHIFT) - 1) }
    }

    /// One kind of one project.
    pub fn kind(project: i64, kind: Kind) -> Self {
        Self::ids(project, kind, 0, (1 << KIND_SHIFT) - 1)
    }

    /// Those of one kind of one project, from one id to another.
    pub fn ids(project: i64, kind: Kind, from: i64, to: i64) -> Self {
        Self { from: Place::new(project, kind, from), to: Place::new(project, kind, to) }
    }
}

/// A project that has rows in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedProject {
    /// Its number there.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The number of its rows there.
    pub rows: i64,
    /// The directory where it was first seen; empty if unknown.
    pub path: String,
}

/// All projects that were ever indexed.
pub fn projects(database: &Connection) -> Result<Vec<IndexedProject>, StoreError> {
    let sql =
        "SELECT no, project, rows, coalesce((SELECT max(path) FROM projects p WHERE p.name = project), '')
               FROM search_projects";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(IndexedProject { number: row.get(0)?, name: row.get(1)?, rows: row.get(2)?, path: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The places that an expression of the index matches, in their order, at most `limit`. Backwards the index is read several times
/// as slowly.
pub fn matching(
    database: &Connection,
    expression: &str,
    range: Range,
    limit: usize,
) -> Result<Vec<Place>, StoreError> {
    let sql =
        "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3 LIMIT ?4";
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map(params![expression, range.from.0, range.to.0, limit], |row| row.get(0).map(Place))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// All places of a range.
pub fn places(database: &Connection, range: Range) -> Result<Vec<Place>, StoreError> {
    let sql = "SELECT id FROM search_index_docsize WHERE id BETWEEN ?1 AND ?2";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![range.from.0, range.to.0], |row| row.get(0).map(Place))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// True if a range has any.
pub fn has_places(database: &Connection, range: Range) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM search_index_docsize WHERE id BETWEEN ?1 AND ?2)";
    Ok(database.prepare_cached(sql)?.query_row([range.from.0, range.to.0], |row| row.get(0))?)
}

/// A row as search looks at it: of any kind, in the same fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its kind.
    pub kind: Kind,
    /// Its id in its table.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The project's name.
    pub project: String,
    /// The turn that it belongs to.
    pub prompt_number: Option<i64>,
    /// An observation's type.
    pub type_word: Option<String>,
    /// Its title or request.
    pub title: String,
    /// Its text in short.
    pub summary: String,
    /// The rest of its text.
    pub detail: String,
    /// Single statements, as JSON.
    pub facts: String,
    /// Words to find it by, as JSON.
    pub concepts: String,
    /// Files that were changed, as JSON.
    pub files_modified: String,
    /// Files that were read, as JSON.
    pub files_read: String,
    /// When it was made.
    pub created_at: Millis,
}

impl Document {
    /// The texts that it is found by.
    pub fn texts(&self) -> [&String; 7] {
        [
            &self.title,
            &self.summary,
            &self.detail,
            &self.facts,
            &self.concepts,
            &self.files_modified,
            &self.files_read,
        ]
    }
}

const OBSERVATION: &str = "SELECT session_id, project, prompt_number, type, title, summary,
    detail, facts, concepts, files_modified, files_read, created_at, functions_changed FROM observations WHERE id = ?1 AND deleted_at IS NULL";
const SUMMARY: &str = "SELECT session_id, project, prompt_number, NULL, request, coalesce(summary, completed),
    coalesce(investigated || char(10), '') || coalesce(learned || char(10), '') || coalesce(completed || char(10), '')
    || coalesce(next_steps || char(10), '') || coalesce(notes, ''), key_decisions, NULL, files_edited, files_read, created_at
    FROM session_summaries WHERE id = ?1";
const PROMPT: &str = "SELECT p.session_id, s.project, p.prompt_number, NULL, NULL, substr(p.prompt, 1, 20000), NULL, NULL,
    NULL, NULL, NULL, p.created_at FROM user_prompts p JOIN sessions s ON s.id = p.session_id WHERE p.id = ?1 AND p.is_raw = 0";

/// The row of that id, unless it is gone.
pub fn document(database: &Connection, kind: Kind, id: i64) -> Result<Option<Document>, StoreError> {
    let sql = match kind {
        Kind::Observation => OBSERVATION,
        Kind::Summary => SUMMARY,
        Kind::Prompt => PROMPT,
    };
    let read = |row: &Row<'_>| {
        Ok(Document {
            kind,
            id,
            session_id: row.get(0)?,
            project: row.get(1)?,
            prompt_number: row.get(2)?,
            type_word: row.get(3)?,
            title: or_empty(row, 4)?,
            summary: or_empty(row, 5)?,
            detail: match kind {
                Kind::Observation => with_functions(or_empty(row, 6)?, or_empty(row, 12)?),
                Kind::Summary | Kind::Prompt => or_empty(row, 6)?,
            },
            facts: or_empty(row, 7)?,
            concepts: or_empty(row, 8)?,
            files_modified: or_empty(row, 9)?,
            files_read: or_empty(row, 10)?,
            created_at: row.get(11)?,
        })
    };
    Ok(database.prepare_cached(sql)?.query_row([id], read).optional()?)
}

/// The text of an observation, and the functions that it is about, which are stored as a list in JSON.
fn with_functions(detail: String, functions: String) -> String {
    let names: Vec<String> = serde_json::from_str(&functions).unwrap_or_default();
    match (detail.is_empty(), names.is_empty()) {
        (_, true) => detail,
        (true, false) => names.join(", "),
        (false, false) => format!("{detail}\n{}", names.join(", ")),
    }
}

/// The columns that filters need, without a row's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// An observation's type.
    pub type_word: Option<String>,
    /// When it was made.
    pub created_at: Millis,
}

/// The label of the row of that id, unless it is gone.
pub fn label(database: &Connection, kind: Kind, id: i64) -> Result<Option<Label>, StoreError> {
    let sql = match kind {
        Kind::Observation => "SELECT type, created_at FROM observations WHERE id = ?1 AND deleted_at IS NULL",
        Kind::Summary => "SELECT NULL, created_at FROM session_summaries WHERE id = ?1",
        Kind::Prompt => "SELECT NULL, created_at FROM user_prompts WHERE id = ?1",
    };
    let read = |row: &Row<'_>| Ok(Label { type_word: row.get(0)?, created_at: row.get(1)? });
    Ok(database.prepare_cached(sql)?.query_row([id], read).optional()?)
}

/// The observations that were made between two times, the second not included, unless there are more than `most`.
pub fn made_between(
    database: &Connection,
    since: Millis,
    until: Millis,
    most: usize,
) -> Result<Option<HashSet<i64>>, StoreError> {
    let sql = "SELECT id FROM observations WHERE created_at >= ?1 AND created_at < ?2 AND deleted_at IS NULL LIMIT ?3";
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    let rows = statement.query_map(params![since, until, limit], |row| row.get(0))?;
    let ids: HashSet<i64> = rows.collect::<Result<_, _>>()?;
    Ok((ids.len() <= most).then_some(ids))
}

fn or_empty<T: FromSql + Default>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    Ok(row.get::<_, Option<T>>(index)?.unwrap_or_default())
}

/// The filters that [`newest`] applies.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the words say it")]
pub struct NewestFilter {
    pub project: Option<String>,
    pub types: Vec<String>,
    pub since: Option<Millis>,
    pub until: Option<Millis>,
}

/// The newest rows of a kind, at most `most`, as time, kind and id.
pub fn newest(
    database: &Connection,
    kind: Kind,
    filter: &NewestFilter,
    most: usize,
) -> Result<Vec<(Millis, Kind, i64)>, StoreError> {
    let types = serde_json::to_string(&filter.types).unwrap_or_default();
    let (table, project, and) = match kind {
        Kind::Observation => ("observations t", "t.project", "t.deleted_at IS NULL"),
        Kind::Summary => ("session_summaries t", "t.project", "true"),
        Kind::Prompt => {
            ("user_prompts t JOIN sessions s ON s.id = t.session_id", "s.project", "t.is_raw = 0")
        }
    };
    // Without a project the condition is left out, so that an index by time can be used.
    let project = if filter.project.is_some() { format!("{project} = ?1") } else { "?1 IS NULL".to_owned() };
    let types_of = if filter.types.is_empty() {
        "?2 IS NOT NULL"
    } else {
        "t.type IN (SELECT value FROM json_each(?2))"
    };
    let sql = format!(
        "SELECT t.created_at, t.id FROM {table} WHERE {and} AND {project} AND {types_of}
         AND t.created_at >= ?3 AND t.created_at < ?4 ORDER BY t.created_at DESC, t.id DESC LIMIT ?5"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let (since, until) = (filter.since.unwrap_or(Millis::MIN), filter.until.unwrap_or(Millis::MAX));
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![filter.project, types, since, until, limit], |row| {
        Ok((row.get(0)?, kind, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// True if a prompt belongs to a turn, or to any turn of a session if no number is given.
pub fn is_of_turn(
    database: &Connection,
    prompt: i64,
    session: &str,
    number: Option<i64>,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM user_prompts WHERE id = ?1 AND session_id = ?2 AND (?3 IS NULL OR prompt_number = ?3))";
    Ok(database.prepare_cached(sql)?.query_row(params![prompt, session, number], |row| row.get(0))?)
}

/// Shows every known word to `look`.
pub fn for_each_word(database: &Connection, mut look: impl FnMut(&str)) -> Result<(), StoreError> {
    let mut statement = database.prepare_cached("SELECT word FROM search_words")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        look(row.get_ref(0)?.as_str().unwrap_or_default());
    }
    Ok(())
}

/// The largest ids there are, by kind: what comes later is larger.
pub fn largest_ids(database: &Connection) -> Result<[i64; 3], StoreError> {
    let sql = "SELECT (SELECT coalesce(max(id), 0) FROM observations), (SELECT coalesce(max(id), 0) FROM session_summaries),
               (SELECT coalesce(max(id), 0) FROM user_prompts)";
    let read = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?]);
    Ok(database.prepare_cached(sql)?.query_row([], read)?)
}

/// Something that happened, as the timeline shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRow {
    /// Its kind.
    pub kind: Kind,
    /// Its id in its kind.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The project's name.
    pub project: String,
    /// An observation's type.
    pub type_word: Option<String>,
    /// Its title, or the beginning of a prompt.
    pub title: String,
    /// When it happened.
    pub created_at: Millis,
}

/// The rows of the same project before and after one, oldest first, itself included; nothing if it is not there.
pub fn timeline(
    database: &Connection,
    anchor: (Kind, i64),
    before: u32,
    after: u32,
) -> Result<Vec<TimelineRow>, StoreError> {
    let Some(document) = document(database, anchor.0, anchor.1)? else { return Ok(Vec::new()) };
    let mut moments = around(database, &document, "<=", "DESC", before.saturating_add(1))?;
    moments.extend(around(database, &document, ">=", "ASC", after.saturating_add(1))?);
    moments.sort_by_key(order);
    moments.dedup_by_key(|moment| order(moment));
    let Some(at) = moments.iter().position(|moment| (moment.kind, moment.id) == anchor) else {
        return Ok(Vec::new());
    };
    moments.truncate(at.saturating_add(after as usize).saturating_add(1));
    moments.drain(..at.saturating_sub(before as usize));
    Ok(moments)
}

/// A turn begins with its prompt and ends with its summary.
fn order(moment: &TimelineRow) -> (Millis, u8, i64) {
    let rank = match moment.kind {
        Kind::Prompt => 0,
        Kind::Observation => 1,
        Kind::Summary => 2,
    };
    (moment.created_at, rank, moment.id)
}

fn around(
    database: &Connection,
    anchor: &Document,
    side: &str,
    direction: &str,
    limit: u32,
) -> Result<Vec<TimelineRow>, StoreError> {
    // What shares the anchor's millisecond is read whole, whatever the limit: it may be any of them.
    let queries = [
        (Kind::Observation, format!(
            "SELECT id, session_id, project, type, coalesce(title, summary, ''), created_at FROM observations
             WHERE project = ?1 AND created_at {side} ?2 AND deleted_at IS NULL ORDER BY created_at {direction}, id {direction}")),
        (Kind::Summary, format!(
            "SELECT id, session_id, project, NULL, coalesce(request, summary, completed, ''), created_at FROM session_summaries
             WHERE project = ?1 AND created_at {side} ?2 ORDER BY created_at {direction}, id {direction}")),
        (Kind::Prompt, format!(
            "SELECT p.id, p.session_id, s.project, NULL, substr(p.prompt, 1, 400), p.created_at
             FROM sessions s JOIN user_prompts p ON p.session_id = s.id
             WHERE s.project = ?1 AND p.created_at {side} ?2 AND p.is_raw = 0 ORDER BY p.created_at {direction}, p.id {direction}")),
    ];
    let mut moments = Vec::new();
    for (kind, sql) in queries {
        let mut statement = database.prepare_cached(&sql)?;
        let mut rows = statement.query(params![anchor.project, anchor.created_at])?;
        let mut beyond = 0;
        while let Some(row) = rows.next()? {
            let created_at: Millis = row.get(5)?;
            beyond += u32::from(created_at != anchor.created_at);
            if beyond > limit {
                break;
            }
            moments.push(TimelineRow {
                kind,
                id: row.get(0)?,
                session_id: row.get(1)?,
                project: row.get(2)?,
                type_word: row.get(3)?,
                title: row.get(4)?,
                created_at,
            });
        }
    }
    Ok(moments)
}
