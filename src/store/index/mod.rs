//! Keeping the search index: which rows wait for it, putting their texts in, taking them out, and rebuilding it. How a text is
//! cut into words is none of its business.

pub mod search;
pub mod vectors;

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::StoreError;
use search::{Document, KIND_SHIFT, Kind, PROJECT_SHIFT, Place, document};

/// A row's text as it goes into the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Its title, concepts and files.
    pub head: String,
    /// Its text.
    pub body: String,
    /// Its surroundings: neighbours, prompt, date.
    pub context: String,
}

/// Rows that wait for the index, at most `limit`: observations first, then summaries, then prompts.
pub fn waiting(database: &Connection, limit: u32) -> Result<Vec<(Kind, i64)>, StoreError> {
    let mut statement = database.prepare_cached("SELECT item FROM search_pending ORDER BY item LIMIT ?1")?;
    let rows =
        statement.query_map([limit], |row| row.get(0).map(|item| (Place(item).kind(), Place(item).id())))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest rows of a kind that wait for the index.
pub fn newest_waiting(database: &Connection, kind: Kind, limit: u32) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT item FROM search_pending WHERE item BETWEEN ?1 AND ?2 ORDER BY item DESC LIMIT ?3";
    let first = kind.number() << KIND_SHIFT;
    let last = first + (1 << KIND_SHIFT) - 1;
    let mut statement = database.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![first, last, limit], |row| row.get(0).map(|item| Place(item).id()))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// True if rows wait that this connection may take up.
pub fn may_index(database: &Connection) -> Result<bool, StoreError> {
    let only_reads: bool = database.pragma_query_value(None, "query_only", |row| row.get(0))?;
    Ok(!only_reads && database.is_autocommit() && !waiting(database, 1)?.is_empty())
}

/// Counts the rows that wait for the index.
pub fn count_waiting(database: &Connection) -> Result<i64, StoreError> {
    Ok(database.query_row("SELECT count(*) FROM search_pending", [], |row| row.get(0))?)
}

/// Takes waiting rows up, in a transaction of the caller's. `text_of` makes the indexed text of a row and of its surroundings.
/// Returns the number of rows.
pub fn index_waiting(
    transaction: &Connection,
    limit: u32,
    text_of: impl Fn(&Document, &str) -> Text,
) -> Result<usize, StoreError> {
    let rows = waiting(transaction, limit)?;
    let mut beside = BTreeSet::new();
    for (kind, id) in &rows {
        let item = kind.number() << KIND_SHIFT | id;
        take_out(transaction, item)?;
        if let Some(document) = document(transaction, *kind, *id)? {
            let place = Place::new(project_number(transaction, &document.project)?, *kind, *id);
            put_in(transaction, place, &text_of(&document, &surroundings(transaction, &document)?))?;
            count(transaction, place, 1)?;
            note_stale(transaction, place)?;
        }
        transaction.prepare_cached("DELETE FROM search_pending WHERE item = ?1")?.execute([item])?;
        if *kind == Kind::Observation {
            beside.extend(beside_in_session(transaction, *id)?);
        }
    }
    for id in beside.into_iter().filter(|id| !rows.contains(&(Kind::Observation, *id))) {
        refresh(transaction, id, &text_of)?;
    }
    Ok(rows.len())
}

/// Neighbours before a row whose text belongs to its context, and those after it.
const CONTEXT_BEFORE: u32 = 2;
const CONTEXT_AFTER: u32 = 1;

/// The beginnings of a row's neighbours in its session and of the prompt of its turn. Only observations have neighbours.
fn surroundings(database: &Connection, document: &Document) -> Result<String, StoreError> {
    if document.kind != Kind::Observation {
        return Ok(String::new());
    }
    let sql = "SELECT coalesce(title, '') || ' ' || substr(coalesce(summary, ''), 1, 200) FROM
                 (SELECT title, summary FROM observations WHERE session_id = ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id DESC LIMIT ?4)
               UNION ALL SELECT coalesce(title, '') || ' ' || substr(coalesce(summary, ''), 1, 200) FROM
                 (SELECT title, summary FROM observations WHERE session_id = ?1 AND id > ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?5)
               UNION ALL SELECT substr(prompt, 1, 200) FROM user_prompts WHERE session_id = ?1 AND prompt_number = ?3 AND is_raw = 0";
    let mut statement = database.prepare_cached(sql)?;
    let Document { session_id, id, prompt_number, .. } = document;
    let texts = statement
        .query_map(params![session_id, id, prompt_number, CONTEXT_BEFORE, CONTEXT_AFTER], |row| {
            row.get::<_, String>(0)
        })?;
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// The observations whose context an observation is part of, deleted or not.
fn beside_in_session(database: &Connection, id: i64) -> Result<Vec<i64>, StoreError> {
    let sql = "WITH this AS (SELECT session_id FROM observations WHERE id = ?1)
               SELECT id FROM (SELECT id FROM observations WHERE session_id = (SELECT session_id FROM this) AND id < ?1
                               AND deleted_at IS NULL ORDER BY id DESC LIMIT ?2)
               UNION ALL SELECT id FROM (SELECT id FROM observations WHERE session_id = (SELECT session_id FROM this) AND id > ?1
                               AND deleted_at IS NULL ORDER BY id LIMIT ?3)";
    let mut statement = database.prepare_cached(sql)?;
    let ids = statement.query_map(params![id, CONTEXT_AFTER, CONTEXT_BEFORE], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Indexes an observation again where it is, because its surroundings changed. Its vector stays.
fn refresh(
    transaction: &Connection,
    id: i64,
    text_of: &impl Fn(&Document, &str) -> Text,
) -> Result<(), StoreError> {
    let Some(document) = document(transaction, Kind::Observation, id)? else { return Ok(()) };
    let place = Place::new(project_number(transaction, &document.project)?, Kind::Observation, id);
    let sql = "DELETE FROM search_index WHERE rowid = ?1 AND EXISTS (SELECT 1 FROM search_index_docsize WHERE id = ?1)";
    if transaction.prepare_cached(sql)?.execute([place.0])? > 0 {
        put_in(transaction, place, &text_of(&document, &surroundings(transaction, &document)?))?;
    }
    Ok(())
}

/// Takes the observations of a session out until the worker indexes them again: the index has words of a deleted row at
/// its neighbours too.
pub fn renew_session(transaction: &Connection, session: &str) -> Result<(), StoreError> {
    let sql = "SELECT id FROM observations WHERE session_id = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let ids: Vec<i64> = statement.query_map([session], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for id in ids {
        let item = Kind::Observation.number() << KIND_SHIFT | id;
        take_out(transaction, item)?;
        transaction
            .prepare_cached("INSERT OR IGNORE INTO search_pending (item) VALUES (?1)")?
            .execute([item])?;
    }
    Ok(())
}

/// Takes the rows out that are gone, down to the last of their words: the index otherwise drops those when it next tidies up.
pub fn forget_gone(transaction: &Connection) -> Result<(), StoreError> {
    for (kind, id) in waiting(transaction, u32::MAX)? {
        if document(transaction, kind, id)?.is_none() {
            let item = kind.number() << KIND_SHIFT | id;
            take_out(transaction, item)?;
            transaction.prepare_cached("DELETE FROM search_pending WHERE item = ?1")?.execute([item])?;
        }
    }
    transaction.execute("INSERT INTO search_index (search_index) VALUES ('optimize')", [])?;
    Ok(())
}

/// Takes a row out wherever it is: its project may have been another one.
fn take_out(transaction: &Connection, item: i64) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT p.no << {PROJECT_SHIFT} | ?1 FROM search_projects p
         WHERE EXISTS (SELECT 1 FROM search_index_docsize WHERE id = (p.no << {PROJECT_SHIFT} | ?1))"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    let places: Vec<i64> = statement.query_map([item], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for place in &places {
        transaction.prepare_cached("DELETE FROM search_index WHERE rowid = ?1")?.execute([place])?;
        vectors::remove(transaction, Place(*place))?;
        count(transaction, Place(*place), -1)?;
    }
    Ok(())
}

fn put_in(transaction: &Connection, place: Place, text: &Text) -> Result<(), StoreError> {
    let sql = "INSERT INTO search_index (rowid, head, body, context) VALUES (?1, ?2, ?3, ?4)";
    transaction.prepare_cached(sql)?.execute(params![place.0, text.head, text.body, text.context])?;
    Ok(())
}

fn count(transaction: &Connection, place: Place, rows: i64) -> Result<(), StoreError> {
    let sql = "UPDATE search_projects SET rows = rows + ?2 WHERE no = ?1";
    transaction.prepare_cached(sql)?.execute([place.0 >> PROJECT_SHIFT, rows])?;
    Ok(())
}

/// A row that lost its vector needs another one; new rows are found by their ids. Without a model there is nothing to note.
fn note_stale(transaction: &Connection, place: Place) -> Result<(), StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM search_models)
               AND EXISTS (SELECT 1 FROM search_progress WHERE what LIKE 'vectors % ' || ?1 AND id >= ?2)";
    let mut statement = transaction.prepare_cached(sql)?;
    let was_read: bool = statement.query_row(params![place.kind().as_str(), place.id()], |row| row.get(0))?;
    if was_read && !vectors::is_at(transaction, place)? {
        let sql = "INSERT OR IGNORE INTO search_stale (place) VALUES (?1)";
        transaction.prepare_cached(sql)?.execute([place.0])?;
    }
    Ok(())
}

fn project_number(transaction: &Connection, project: &str) -> Result<i64, StoreError> {
    let known = "SELECT no FROM search_projects WHERE project = ?1";
    let number = transaction.prepare_cached(known)?.query_row([project], |row| row.get(0)).optional()?;
    if let Some(number) = number {
        return Ok(number);
    }
    transaction.prepare_cached("INSERT INTO search_projects (project) VALUES (?1)")?.execute([project])?;
    Ok(transaction.last_insert_rowid())
}

/// The last id that a task has reached.
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

pub(super) fn set_progress(database: &Connection, what: &str, id: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO search_progress (what, id) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET id = excluded.id";
    database.prepare_cached(sql)?.execute(params![what, id])?;
    Ok(())
}

/// The ids of a kind that come after one, in order.
pub fn ids_after(database: &Connection, kind: Kind, id: i64, limit: u32) -> Result<Vec<i64>, StoreError> {
    let sql = format!("SELECT id FROM {} WHERE id > ?1 ORDER BY id LIMIT ?2", kind.table());
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![id, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Empties the index and lets every row wait for it.
pub fn begin_rebuild(database: &mut Connection) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "INSERT INTO search_index (search_index) VALUES ('delete-all');
         UPDATE search_projects SET rows = 0;
         DELETE FROM search_words;
         DELETE FROM search_progress WHERE what NOT LIKE 'vectors %';
         DELETE FROM search_pending;",
    )?;
    for kind in Kind::ALL {
        let sql = format!("INSERT INTO search_pending SELECT ?1 << {KIND_SHIFT} | id FROM {}", kind.table());
        transaction.execute(&sql, [kind.number()])?;
    }
    Ok(transaction.commit()?)
}

/// Merges the index's parts a little, so that reading it stays quick. True if there is more to merge.
pub fn merge_some(database: &Connection) -> Result<bool, StoreError> {
    let before = database.total_changes();
    database.execute("INSERT INTO search_index (search_index, rank) VALUES ('merge', 200)", [])?;
    // The command itself counts as one change.
    Ok(database.total_changes() - before > 1)
}

/// The differences between the index and the tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Differences {
    /// Rows that are not found.
    pub missing: i64,
    /// Rows of the index that stand for nothing.
    pub surplus: i64,
}

/// Compares the index with the tables, row by row; waiting rows are no difference.
pub fn differences(database: &Connection) -> Result<Differences, StoreError> {
    let items = "SELECT id AS item, project FROM observations WHERE deleted_at IS NULL
                 UNION ALL SELECT 1 << 42 | id, project FROM session_summaries
                 UNION ALL SELECT 2 << 42 | p.id, s.project FROM user_prompts p JOIN sessions s ON s.id = p.session_id WHERE p.is_raw = 0";
    let missing = format!(
        "SELECT count(*) FROM ({items}) r WHERE item NOT IN (SELECT item FROM search_pending)
         AND NOT EXISTS (SELECT 1 FROM search_projects p JOIN search_index_docsize d
                         ON d.id = (p.no << {PROJECT_SHIFT} | r.item))"
    );
    let surplus = format!(
        "SELECT count(*) FROM (SELECT id & ((1 << {PROJECT_SHIFT}) - 1) AS item FROM search_index_docsize)
         WHERE item NOT IN (SELECT item FROM ({items})) AND item NOT IN (SELECT item FROM search_pending)"
    );
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(Differences { missing: count(&missing)?, surplus: count(&surplus)? })
}
