//! The search index: reading its lists, keeping up what triggers leave to the worker, and rebuilding it. What a query means
//! and how hits are ranked is none of its business.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::StoreError;
use crate::model::Millis;

/// What a row of the index stands for.
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

    fn number(self) -> i64 {
        match self {
            Self::Observation => 0,
            Self::Summary => 1,
            Self::Prompt => 2,
        }
    }
}

/// A row's place in the index: its project, its kind and its id in one number (migrations/0002_search.sql).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub i64);

const PROJECT_SHIFT: u32 = 44;
const KIND_SHIFT: u32 = 42;

impl Place {
    /// The place of a row.
    pub fn new(project: i64, kind: Kind, id: i64) -> Self {
        Self(project << PROJECT_SHIFT | kind.number() << KIND_SHIFT | id)
    }

    /// What the row is.
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
        let from = Place::new(project, kind, 0);
        Self { from, to: Place(from.0 + (1 << KIND_SHIFT) - 1) }
    }
}

/// A project that has rows in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedProject {
    /// Its number there.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// How many rows it has there.
    pub rows: i64,
}

/// All projects that were ever indexed.
pub fn projects(database: &Connection) -> Result<Vec<IndexedProject>, StoreError> {
    let mut statement = database.prepare_cached("SELECT no, project, rows FROM search_projects")?;
    let rows = statement.query_map([], |row| {
        Ok(IndexedProject { number: row.get(0)?, name: row.get(1)?, rows: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The order in which places are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Order {
    OldestFirst,
    NewestFirst,
}

/// The places that an expression of the index matches, at most `limit`.
pub fn matching(
    database: &Connection,
    expression: &str,
    range: Range,
    order: Order,
    limit: usize,
) -> Result<Vec<Place>, StoreError> {
    let sql = match order {
        Order::OldestFirst => {
            "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3 LIMIT ?4"
        }
        Order::NewestFirst => {
            "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3
             ORDER BY rowid DESC LIMIT ?4"
        }
    };
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map(params![expression, range.from.0, range.to.0, limit], |row| row.get(0).map(Place))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest places of a range.
pub fn newest(database: &Connection, range: Range, limit: usize) -> Result<Vec<Place>, StoreError> {
    let sql = "SELECT id FROM search_index_docsize WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3";
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![range.from.0, range.to.0, limit], |row| row.get(0).map(Place))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A row as search looks at it: of any kind, in the same fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What it is.
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
    /// What it is called: a title, a request.
    pub title: String,
    /// What it says in short.
    pub summary: String,
    /// What it says beyond that.
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

const OBSERVATION: &str = "SELECT session_id, project, prompt_number, type, title, summary,
    coalesce(detail, '') || coalesce(char(10) || functions_changed, ''), facts, concepts, files_modified, files_read, created_at
    FROM observations WHERE id = ?1 AND deleted_at IS NULL";
const SUMMARY: &str = "SELECT session_id, project, prompt_number, NULL, request, coalesce(summary, completed),
    coalesce(investigated || char(10), '') || coalesce(learned || char(10), '') || coalesce(completed || char(10), '')
    || coalesce(next_steps || char(10), '') || coalesce(notes, ''), key_decisions, NULL, files_edited, files_read, created_at
    FROM session_summaries WHERE id = ?1";
const PROMPT: &str = "SELECT p.session_id, s.project, p.prompt_number, NULL, NULL, substr(p.prompt, 1, 20000), NULL, NULL,
    NULL, NULL, NULL, p.created_at FROM user_prompts p JOIN sessions s ON s.id = p.session_id WHERE p.id = ?1";

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
            detail: or_empty(row, 6)?,
            facts: or_empty(row, 7)?,
            concepts: or_empty(row, 8)?,
            files_modified: or_empty(row, 9)?,
            files_read: or_empty(row, 10)?,
            created_at: row.get(11)?,
        })
    };
    Ok(database.prepare_cached(sql)?.query_row([id], read).optional()?)
}

fn or_empty<T: FromSql + Default>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    Ok(row.get::<_, Option<T>>(index)?.unwrap_or_default())
}

/// The observations of a session around one of them: how far away, and which.
pub fn neighbours(
    database: &Connection,
    session: &str,
    id: i64,
    reach: u32,
) -> Result<Vec<(u32, i64)>, StoreError> {
    let before = "SELECT id FROM observations WHERE session_id = ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?3";
    let after = "SELECT id FROM observations WHERE session_id = ?1 AND id > ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3";
    let mut found = Vec::new();
    for sql in [before, after] {
        let mut statement = database.prepare_cached(sql)?;
        let rows = statement.query_map(params![session, id, reach], |row| row.get(0))?;
        for (distance, id) in (1..).zip(rows) {
            found.push((distance, id?));
        }
    }
    Ok(found)
}

/// The newest prompts that are not in the index yet.
pub fn pending_prompts(database: &Connection, limit: u32) -> Result<Vec<i64>, StoreError> {
    let mut statement = database.prepare_cached("SELECT id FROM search_pending ORDER BY id DESC LIMIT ?1")?;
    let rows = statement.query_map([limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
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

/// Takes prompts that wait into the index. True if more wait.
pub fn index_pending(database: &mut Connection, limit: u32) -> Result<bool, StoreError> {
    let ids = pending_prompts(database, limit)?;
    if ids.is_empty() {
        return Ok(false);
    }
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in &ids {
        let sql = "INSERT INTO search_feed_prompt (id, project, prompt)
                   SELECT p.id, s.project, p.prompt FROM search_pending w JOIN user_prompts p ON p.id = w.id
                   JOIN sessions s ON s.id = p.session_id WHERE w.id = ?1";
        transaction.prepare_cached(sql)?.execute([id])?;
        transaction.prepare_cached("DELETE FROM search_pending WHERE id = ?1")?.execute([id])?;
    }
    transaction.commit()?;
    Ok(ids.len() == limit as usize)
}

/// How far something has come.
pub fn progress(database: &Connection, what: &str) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT id FROM search_progress WHERE what = ?1";
    Ok(database.prepare_cached(sql)?.query_row([what], |row| row.get(0)).optional()?)
}

/// Adds words, and notes how far that came.
pub fn add_words<'a>(
    database: &mut Connection,
    words: impl Iterator<Item = &'a str>,
    what: &str,
    id: i64,
) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction
            .prepare_cached("INSERT INTO search_words (word) VALUES (?1) ON CONFLICT DO NOTHING")?;
        for word in words {
            statement.execute([word])?;
        }
    }
    set_progress(&transaction, what, id)?;
    Ok(transaction.commit()?)
}

fn set_progress(database: &Connection, what: &str, id: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO search_progress (what, id) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET id = excluded.id";
    database.prepare_cached(sql)?.execute(params![what, id])?;
    Ok(())
}

/// The ids of a kind that come after one, in order.
pub fn ids_after(database: &Connection, kind: Kind, id: i64, limit: u32) -> Result<Vec<i64>, StoreError> {
    let table = match kind {
        Kind::Observation => "observations",
        Kind::Summary => "session_summaries",
        Kind::Prompt => "user_prompts",
    };
    let mut statement =
        database.prepare_cached(&format!("SELECT id FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
    let rows = statement.query_map(params![id, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

const REBUILD: &str = "rebuild";

/// Empties the index. [`rebuild_some`] fills it again, now or whenever the worker finds the time.
pub fn begin_rebuild(database: &mut Connection) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "INSERT INTO search_index (search_index) VALUES ('delete-all');
         UPDATE search_projects SET rows = 0;
         DELETE FROM search_words;
         DELETE FROM search_progress;
         DELETE FROM search_prompts;
         DELETE FROM search_pending;
         INSERT INTO search_pending SELECT id FROM user_prompts;",
    )?;
    for kind in [Kind::Observation, Kind::Summary] {
        set_progress(&transaction, &format!("{REBUILD} {}", kind.as_str()), 0)?;
    }
    Ok(transaction.commit()?)
}

/// Goes on with a rebuild that was begun. True if there is more to do.
pub fn rebuild_some(database: &mut Connection, limit: u32) -> Result<bool, StoreError> {
    for kind in [Kind::Observation, Kind::Summary] {
        let what = format!("{REBUILD} {}", kind.as_str());
        let Some(from) = progress(database, &what)? else { continue };
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let ids = ids_after(&transaction, kind, from, limit)?;
        match ids.last() {
            Some(last) => {
                // A row that is there already (somebody wrote it meanwhile) is left alone.
                let sql = match kind {
                    Kind::Observation => {
                        "INSERT INTO search_feed_observation
                         SELECT NULL, id, project, title, summary, detail, facts, concepts, files_read, files_modified,
                           functions_changed FROM observations WHERE id > ?1 AND id <= ?2 AND deleted_at IS NULL"
                    }
                    _ => {
                        "INSERT INTO search_feed_summary
                         SELECT NULL, id, project, summary, request, investigated, learned, completed, next_steps, notes,
                           files_read, files_edited, key_decisions FROM session_summaries WHERE id > ?1 AND id <= ?2"
                    }
                };
                transaction.prepare_cached(sql)?.execute([from, *last])?;
                set_progress(&transaction, &what, *last)?;
            }
            None => {
                transaction.execute("DELETE FROM search_progress WHERE what = ?1", [&what])?;
            }
        }
        transaction.commit()?;
        return Ok(true);
    }
    Ok(false)
}

/// Merges the index's parts a little, so that reading it stays quick. Cheap when there is nothing to merge.
pub fn merge_some(database: &Connection) -> Result<(), StoreError> {
    database.execute("INSERT INTO search_index (search_index, rank) VALUES ('merge', 64)", [])?;
    Ok(())
}

/// How the index and the tables differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Differences {
    /// Rows that are not found.
    pub missing: i64,
    /// Rows of the index that stand for nothing.
    pub surplus: i64,
}

/// Compares the index with the tables, row by row.
pub fn differences(database: &Connection) -> Result<Differences, StoreError> {
    let expected = "
        SELECT p.no << 44 | o.id AS place FROM observations o JOIN search_projects p ON p.project = o.project
        WHERE o.deleted_at IS NULL
        UNION ALL
        SELECT p.no << 44 | 1 << 42 | m.id FROM session_summaries m JOIN search_projects p ON p.project = m.project
        UNION ALL
        SELECT place FROM search_prompts";
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0));
    let indexed = count("SELECT count(*) FROM search_index_docsize")?;
    let found = count(&format!(
        "SELECT count(*) FROM ({expected}) WHERE place IN (SELECT id FROM search_index_docsize)"
    ))?;
    let all = count(
        "SELECT (SELECT count(*) FROM observations WHERE deleted_at IS NULL) + (SELECT count(*) FROM session_summaries)
         + (SELECT count(*) FROM user_prompts WHERE id NOT IN (SELECT id FROM search_pending))",
    )?;
    Ok(Differences { missing: all - found, surplus: indexed - found })
}

/// Something that happened, as the timeline shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// What it is.
    pub kind: Kind,
    /// Its id in its kind.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The project's name.
    pub project: String,
    /// An observation's type.
    pub type_word: Option<String>,
    /// What it is called; the beginning of a prompt.
    pub title: String,
    /// When it happened.
    pub created_at: Millis,
}

/// What happened in the same project before and after something, oldest first, it included; nothing if it is not there.
pub fn timeline(
    database: &Connection,
    anchor: (Kind, i64),
    before: u32,
    after: u32,
) -> Result<Vec<Moment>, StoreError> {
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
fn order(moment: &Moment) -> (Millis, u8, i64) {
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
) -> Result<Vec<Moment>, StoreError> {
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
             WHERE s.project = ?1 AND p.created_at {side} ?2 ORDER BY p.created_at {direction}, p.id {direction}")),
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
            moments.push(Moment {
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
