//! Statements that the user has vetoed: neither stored again by a turn, a model or an import, nor shown.
//!
//! A veto is by value: the same words with other case, punctuation or white space are the same statement. Lines of a context
//! that are no single statement are vetoed by their own key. The hook links it, for the contexts that it builds itself.

use std::collections::HashMap;

use rusqlite::Connection;
#[cfg(feature = "service")]
use rusqlite::{OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(feature = "service")]
use crate::api::Veto;
use crate::model::Millis;
use crate::store::StoreError;
#[cfg(feature = "service")]
use crate::store::memory::manual::Forgettable;

/// The vetoes that hold in a project, each with its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VetoSet(HashMap<i64, Millis>);

impl VetoSet {
    /// Reads the vetoes of a project, and those that hold everywhere.
    pub fn of(database: &Connection, project: &str) -> Result<Self, StoreError> {
        let sql = "SELECT key, max(created_at) FROM vetoes WHERE project IN (?1, '') GROUP BY key";
        let mut statement = database.prepare_cached(sql)?;
        let keys = statement.query_map([project], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self(keys.collect::<Result<_, _>>()?))
    }

    /// True if a statement is vetoed.
    pub fn blocks(&self, statement: &str) -> bool {
        !self.0.is_empty() && self.blocks_key(key(statement))
    }

    /// True if a context's line with this key is vetoed.
    pub fn blocks_key(&self, key: i64) -> bool {
        self.0.contains_key(&key)
    }

    /// True if a statement was vetoed after the user restored it.
    #[cfg(feature = "service")]
    fn blocks_restored(&self, statement: &str, restored_at: Option<Millis>) -> bool {
        let since = self.0.get(&key(statement));
        since.is_some_and(|since| restored_at.is_none_or(|restored_at| *since > restored_at))
    }
}

/// Hashes a statement without case, punctuation and white space.
pub fn key(statement: &str) -> i64 {
    let mut words = String::with_capacity(statement.len());
    for word in statement.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    xxh3_64(words.as_bytes()).cast_signed()
}

/// Lists all vetoes, newest first.
#[cfg(feature = "service")]
pub fn list(database: &Connection) -> Result<Vec<Veto>, StoreError> {
    let sql = "SELECT id, project, statement, created_at, key FROM vetoes ORDER BY created_at DESC, id DESC LIMIT 1000";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(Veto {
            id: row.get(0)?,
            project: row.get(1)?,
            statement: row.get(2)?,
            created_at: row.get(3)?,
            key: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// True if a statement is vetoed in a project, or everywhere. A statement without a project holds in
/// all of them, so that a veto in any of them counts.
#[cfg(feature = "service")]
pub fn is_vetoed(database: &Connection, project: Option<&str>, statement: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM vetoes WHERE key = ?1 AND (?2 IS NULL OR project IN (?2, ''))";
    Ok(database.prepare_cached(sql)?.exists(params![key(statement), project])?)
}

/// Adds a veto, and hides the notes and learnings that state it.
#[cfg(feature = "service")]
pub fn add(
    database: &mut Connection,
    project: String,
    statement: String,
    line_key: Option<i64>,
    now: Millis,
) -> Result<Veto, StoreError> {
    let transaction = database.transaction()?;
    let sql = "INSERT INTO vetoes (project, key, statement, created_at) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (project, key) DO UPDATE SET statement = excluded.statement RETURNING id";
    let key = line_key.unwrap_or_else(|| key(&statement));
    let id = transaction
        .prepare_cached(sql)?
        .query_row(params![project, key, statement, now], |row| row.get(0))?;
    enforce(&transaction, now)?;
    transaction.commit()?;
    Ok(Veto { id, project, statement, key, created_at: now })
}

/// A statement that is compared with the vetoes by its words and meaning.
#[cfg(feature = "service")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedStatement {
    /// The note or learning that makes it.
    pub of: Forgettable,
    /// Its project; empty if it holds everywhere.
    pub project: String,
    /// Its text.
    pub text: String,
    /// The time at which the user restored it.
    pub restored_at: Option<Millis>,
}

/// The progress of a comparison: the last veto, note and change of a learning.
#[cfg(feature = "service")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    veto: i64,
    note: i64,
    learned_at: Millis,
}

/// Number of notes that a new veto, and a worker that starts, is compared with, the newest.
#[cfg(feature = "service")]
const NEWEST: i64 = 500;

/// Returns the statements that were made since the last comparison, at most `limit` of each kind, the progress after them, and the
/// vetoes. A new veto begins again with the newest notes and all learnings. Without vetoes there is nothing to compare.
#[cfg(feature = "service")]
pub fn not_compared(
    database: &Connection,
    since: Compared,
    limit: u32,
) -> Result<(Compared, Vec<ComparedStatement>, Vec<Veto>), StoreError> {
    let known = list(database)?;
    let Some(newest) = known.iter().map(|veto| veto.id).max() else {
        return Ok((Compared::default(), Vec::new(), known));
    };
    let mut next = since;
    if newest != since.veto {
        let sql = "SELECT coalesce(max(id), 0) FROM observations";
        let last: i64 = database.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        next = Compared { veto: newest, note: last - NEWEST, learned_at: 0 };
    }
    let mut statements = Vec::new();
    let sql = "SELECT id, project, coalesce(title, ''), coalesce(summary, ''), restored_at FROM observations
               WHERE id > ?1 AND deleted_at IS NULL ORDER BY id LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![next.note, limit])?;
    while let Some(row) = rows.next()? {
        next.note = row.get(0)?;
        for column in 2..4 {
            let of = Forgettable::Observation(next.note);
            let (text, restored_at) = (row.get(column)?, row.get(4)?);
            statements.push(ComparedStatement { of, project: row.get(1)?, text, restored_at });
        }
    }
    let sql = "SELECT id, coalesce(project, ''), content, updated_at, restored_at FROM learnings
               WHERE updated_at > ?1 AND is_active = 1 ORDER BY updated_at LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![next.learned_at, limit])?;
    while let Some(row) = rows.next()? {
        next.learned_at = row.get(3)?;
        let of = Forgettable::Learning(row.get(0)?);
        let (text, restored_at) = (row.get(2)?, row.get(4)?);
        statements.push(ComparedStatement { of, project: row.get(1)?, text, restored_at });
    }
    statements.retain(|statement| !statement.text.trim().is_empty());
    Ok((next, statements, known))
}

/// Hides the notes and learnings that make these statements. Pinned and edited ones stay.
#[cfg(feature = "service")]
pub fn hide(
    database: &mut Connection,
    statements: &[ComparedStatement],
    now: Millis,
) -> Result<(), StoreError> {
    let transaction = database.transaction()?;
    for statement in statements {
        let (sql, id) = match statement.of {
            Forgettable::Observation(id) => (
                "UPDATE observations SET deleted_at = ?2 WHERE id = ?1 AND pinned_at IS NULL AND edited_at IS NULL",
                id,
            ),
            Forgettable::Learning(id) => (
                "UPDATE learnings SET is_active = 0, superseded_by = NULL, updated_at = ?2
                 WHERE id = ?1 AND pinned_at IS NULL",
                id,
            ),
        };
        transaction.prepare_cached(sql)?.execute([id, now])?;
    }
    Ok(transaction.commit()?)
}

/// Lifts a veto; returns its statement. What it hid stays forgotten until it is restored.
#[cfg(feature = "service")]
pub fn lift(database: &Connection, id: i64) -> Result<Option<String>, StoreError> {
    let sql = "DELETE FROM vetoes WHERE id = ?1 RETURNING statement";
    Ok(database.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
}

/// Hides every note and learning that states something vetoed and was not restored since. Called after a veto and an import.
#[cfg(feature = "service")]
pub fn enforce(database: &Connection, now: Millis) -> Result<(), StoreError> {
    let sql = "SELECT DISTINCT project FROM vetoes";
    let mut statement = database.prepare_cached(sql)?;
    let projects: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for project in projects {
        let vetoes = VetoSet::of(database, &project)?;
        let rows = [
            (
                "SELECT id, restored_at, title, summary FROM observations WHERE (project = ?1 OR ?1 = '') AND deleted_at IS NULL",
                "UPDATE observations SET deleted_at = ?2 WHERE id = ?1",
            ),
            (
                "SELECT id, restored_at, content, NULL FROM learnings WHERE (project = ?1 OR project IS NULL OR ?1 = '') AND is_active = 1",
                "UPDATE learnings SET is_active = 0, superseded_by = NULL, updated_at = ?2 WHERE id = ?1",
            ),
        ];
        for (find, hide) in rows {
            let mut statement = database.prepare_cached(find)?;
            let mut found = statement.query([&project])?;
            while let Some(row) = found.next()? {
                let blocks = |index| {
                    let text: Option<String> = row.get(index)?;
                    let restored_at = row.get(1)?;
                    Ok::<_, rusqlite::Error>(
                        text.is_some_and(|text| vetoes.blocks_restored(&text, restored_at)),
                    )
                };
                if blocks(2)? || blocks(3)? {
                    database.prepare_cached(hide)?.execute([row.get::<_, i64>(0)?, now])?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;
    use crate::paths::Home;

    #[test]
    fn a_statement_is_the_same_whatever_its_case_and_punctuation() {
        assert_eq!(key("Use `tabs`,  not spaces."), key("use tabs not Spaces"));
        assert_ne!(key("Use tabs"), key("Use no tabs"));
        assert_eq!(key("日本語。"), key("日本語"));
    }

    #[test]
    fn a_veto_hides_what_states_it_in_its_project_only() {
        let scratch = tempfile::tempdir().unwrap();
        let mut database = crate::store::open_for_worker(&Home::at(scratch.path().join("mem")), 0).unwrap();
        let sql = "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES ('s', 'p', 1, 1);
            INSERT INTO observations (id, uid, session_id, project, title, created_at) VALUES
              (1, 'a', 's', 'p', 'Use tabs.', 1), (2, 'b', 's', 'q', 'use tabs', 2), (3, 'c', 's', 'p', 'Use tabs often', 3);
            INSERT INTO learnings (uid, project, category, content, created_at, updated_at) VALUES
              ('l', 'p', 'convention', 'use TABS!', 1, 1)";
        database.execute_batch(sql).unwrap();
        let id = add(&mut database, "p".into(), "Use tabs".into(), None, 9).unwrap().id;
        let hidden = |database: &Connection| -> (i64, i64) {
            let sql = "SELECT (SELECT sum(id) FROM observations WHERE deleted_at = 9), (SELECT count(*) FROM learnings WHERE is_active = 0)";
            database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        assert_eq!(hidden(&database), (1, 1));
        assert!(VetoSet::of(&database, "p").unwrap().blocks("USE TABS"));
        assert!(!VetoSet::of(&database, "q").unwrap().blocks("USE TABS"));
        assert_eq!(
            add(&mut database, "p".into(), "use tabs!".into(), None, 10).unwrap().id,
            id,
            "the same veto"
        );
        assert_eq!(lift(&database, id).unwrap().as_deref(), Some("use tabs!"));
        assert!(!VetoSet::of(&database, "p").unwrap().blocks("use tabs"));
        assert_eq!(lift(&database, id).unwrap(), None);
    }
}
