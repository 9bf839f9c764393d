//! Memories that users and Claude state themselves, and memories that they want forgotten.
//!
//! Forgetting here loses nothing: the row stays, hidden from every reader, until it is restored.
//! [`crate::manual_memories`] decides which statements are allowed; this module only stores them.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::json_list;
use crate::clock::DAY;
use crate::model::{Millis, ObservationDraft, SessionId};
use crate::store::StoreError;
use crate::store::corrections::vetoes::VetoSet;

/// The `provider` of memories that users state themselves.
pub const PROVIDER: &str = "user";

/// A memory that a user or Claude stated.
#[derive(Debug, Clone, Default)]
pub struct Stated {
    /// Identifies a second delivery of the same statement.
    pub uid: String,
    /// The project key, if known.
    pub project_key: String,
    /// The project's name.
    pub project: String,
    /// The main worktree, if known.
    pub project_path: String,
    /// The session in which it was stated.
    pub session: Option<SessionId>,
    /// The content.
    pub draft: ObservationDraft,
    /// The current time.
    pub now: Millis,
}

/// The title of a note, and the main worktree and the directory of its session.
pub fn place_of(database: &Connection, id: i64) -> Result<Option<(String, String, String)>, StoreError> {
    let sql =
        "SELECT coalesce(o.title, o.summary, ''), s.project_path, coalesce(s.cwd, '') FROM observations o
               JOIN sessions s ON s.id = o.session_id WHERE o.id = ?1 AND o.deleted_at IS NULL";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(database.prepare_cached(sql)?.query_row([id], read).optional()?)
}

/// The result of storing a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedMemory {
    /// Its id.
    pub id: i64,
    /// True if it was already stored.
    pub known: bool,
}

/// The same words within this time are the same memory.
const SAME_WITHIN: Millis = DAY;

/// Stores the memory, unless the same one was stored within `SAME_WITHIN`.
pub fn save(database: &mut Connection, stated: &Stated) -> Result<SavedMemory, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(id) = known_memory(&transaction, stated)? {
        return Ok(SavedMemory { id, known: true });
    }
    let vetoes = VetoSet::of(&transaction, &stated.project)?;
    if [&stated.draft.title, &stated.draft.summary].into_iter().flatten().any(|text| vetoes.blocks(text)) {
        return Err(StoreError::Vetoed);
    }
    let session = session_for(&transaction, stated)?;
    let sql =
        "INSERT INTO observations (uid, session_id, project, type, title, summary, detail, concepts, files_modified,
                 provider, branch, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, (SELECT branch FROM sessions WHERE id = ?2), ?11)";
    let draft = &stated.draft;
    transaction.prepare_cached(sql)?.execute(params![
        stated.uid,
        session,
        stated.project,
        draft.kind.as_str(),
        draft.title,
        draft.summary,
        draft.detail,
        json_list(&draft.concepts),
        json_list(&draft.files_modified),
        PROVIDER,
        stated.now,
    ])?;
    let id = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(SavedMemory { id, known: false })
}

fn known_memory(database: &Connection, stated: &Stated) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT id FROM observations WHERE uid = ?1";
    let by_uid = database.prepare_cached(sql)?.query_row([&stated.uid], |row| row.get(0)).optional()?;
    if by_uid.is_some() {
        return Ok(by_uid);
    }
    let sql = "SELECT id FROM observations WHERE project = ?1 AND created_at > ?2 AND provider = ?3 AND deleted_at IS NULL
               AND title IS ?4 AND summary IS ?5 AND detail IS ?6";
    let draft = &stated.draft;
    let same =
        params![stated.project, stated.now - SAME_WITHIN, PROVIDER, draft.title, draft.summary, draft.detail];
    Ok(database.prepare_cached(sql)?.query_row(same, |row| row.get(0)).optional()?)
}

/// Returns the session that a memory belongs to: the one that stated it, if it belongs to that
/// project; otherwise the session that holds all such memories of the project.
fn session_for(transaction: &Transaction<'_>, stated: &Stated) -> Result<String, StoreError> {
    if let Some(session) = &stated.session {
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND project = ?2";
        if transaction.prepare_cached(sql)?.exists(params![session.as_str(), stated.project])? {
            return Ok(session.0.clone());
        }
    }
    let id = format!("saved:{}", stated.project);
    let sql = "INSERT INTO sessions (id, project, project_path, source, status, started_at, last_activity_at, ended_at, project_key)
               VALUES (?1, ?2, ?3, 'saved', 'completed', ?4, ?4, ?4, ?5)
               ON CONFLICT (id) DO UPDATE SET last_activity_at = max(last_activity_at, ?4), ended_at = max(ended_at, ?4)";
    transaction.prepare_cached(sql)?.execute(params![
        id,
        stated.project,
        stated.project_path,
        stated.now,
        stated.project_key
    ])?;
    Ok(id)
}

/// A kind of item that can be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Forgettable {
    Observation(i64),
    Learning(i64),
}

/// The result of forgetting, restoring or editing an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// The item's title.
    pub title: String,
    /// True if the call changed it.
    pub changed: bool,
}

/// Hides an item; returns `None` if it does not exist.
pub fn forget(
    database: &mut Connection,
    what: Forgettable,
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    match what {
        Forgettable::Observation(id) => change(
            database,
            "UPDATE observations SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL",
            OBSERVATION_TITLE,
            (id, now),
        ),
        Forgettable::Learning(id) => change(
            database,
            "UPDATE learnings SET is_active = 0, updated_at = ?2 WHERE id = ?1 AND is_active = 1",
            LEARNING_TITLE,
            (id, now),
        ),
    }
}

/// Restores a forgotten item; returns `None` if it does not exist.
pub fn restore(
    database: &mut Connection,
    what: Forgettable,
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    match what {
        Forgettable::Observation(id) => change(
            database,
            "UPDATE observations SET deleted_at = NULL, superseded_by = NULL, restored_at = ?2
             WHERE id = ?1 AND deleted_at IS NOT NULL",
            OBSERVATION_TITLE,
            (id, now),
        ),
        Forgettable::Learning(id) => change(
            database,
            "UPDATE learnings SET is_active = 1, updated_at = ?2, restored_at = ?2
             WHERE id = ?1 AND is_active = 0 AND superseded_by IS NULL",
            LEARNING_TITLE,
            (id, now),
        ),
    }
}

const OBSERVATION_TITLE: &str = "SELECT coalesce(title, summary, '') FROM observations WHERE id = ?1";
const LEARNING_TITLE: &str = "SELECT content FROM learnings WHERE id = ?1";

fn change(
    database: &mut Connection,
    update: &str,
    title: &str,
    (id, now): (i64, Millis),
) -> Result<Option<ChangeOutcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let title: Option<String> =
        transaction.prepare_cached(title)?.query_row([id], |row| row.get(0)).optional()?;
    let Some(title) = title else { return Ok(None) };
    let changed = transaction.prepare_cached(update)?.execute(params![id, now])? > 0;
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title, changed }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;
    use crate::store;

    fn database() -> (tempfile::TempDir, Connection) {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path().join("mem"));
        let database = store::open_for_worker(&home, 0).unwrap();
        (scratch, database)
    }

    fn stated(uid: &str, title: &str) -> Stated {
        Stated {
            uid: uid.into(),
            project: "harborline".into(),
            draft: ObservationDraft { title: Some(title.into()), ..ObservationDraft::default() },
            now: 1_000_000_000_000,
            ..Stated::default()
        }
    }

    fn found(database: &Connection, word: &str) -> usize {
        crate::search::indexing::index_waiting(database).unwrap();
        let everywhere = store::index::search::Range::ALL;
        store::index::search::matching(database, word, everywhere, 10).unwrap().len()
    }

    #[test]
    fn a_repeated_statement_is_stored_once() {
        let (_scratch, mut database) = database();
        let first = save(&mut database, &stated("a", "Use zanzibar")).unwrap();
        assert_eq!(
            save(&mut database, &stated("a", "Use zanzibar")).unwrap(),
            SavedMemory { known: true, ..first }
        );
        assert_eq!(
            save(&mut database, &stated("b", "Use zanzibar")).unwrap(),
            SavedMemory { known: true, ..first }
        );
        let later = Stated { now: 1_000_000_000_000 + 2 * SAME_WITHIN, ..stated("c", "Use zanzibar") };
        assert!(!save(&mut database, &later).unwrap().known);
        assert_eq!(found(&database, "zanzibar"), 2);
    }

    #[test]
    fn a_forgotten_memory_is_hidden_until_restored() {
        let (_scratch, mut database) = database();
        let kept = save(&mut database, &stated("a", "Use zanzibar")).unwrap();
        let what = Forgettable::Observation(kept.id);
        for changed in [true, false] {
            let outcome = forget(&mut database, what, 5).unwrap();
            assert_eq!(outcome, Some(ChangeOutcome { title: "Use zanzibar".into(), changed }));
            assert_eq!(found(&database, "zanzibar"), 0);
        }
        for changed in [true, false] {
            assert_eq!(restore(&mut database, what, 6).unwrap().unwrap().changed, changed);
            assert_eq!(found(&database, "zanzibar"), 1);
        }
        assert_eq!(forget(&mut database, Forgettable::Observation(99), 5).unwrap(), None);
    }

    #[test]
    fn a_memory_joins_its_session_only_within_the_project() {
        let (_scratch, mut database) = database();
        let sql = "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES ('s', 'harborline', 1, 1)";
        database.execute_batch(sql).unwrap();
        let session = Some(SessionId("s".into()));
        let here = Stated { session: session.clone(), ..stated("a", "here") };
        let elsewhere = Stated { session, project: "other".into(), ..stated("b", "elsewhere") };
        save(&mut database, &here).unwrap();
        save(&mut database, &elsewhere).unwrap();
        let mut statement = database.prepare("SELECT session_id FROM observations ORDER BY id").unwrap();
        let sessions: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(sessions, ["s", "saved:other"]);
    }
}
