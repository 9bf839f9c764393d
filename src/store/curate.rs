//! What people and Claude say themselves: memories that they state, and memories that they want forgotten.
//!
//! Nothing is lost by forgetting: the row stays, and everybody overlooks it, until it is brought back. What may be stored
//! is decided by [`crate::curate`]; here it is only stored.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::StoreError;
use super::memory::json_list;
use crate::model::{Millis, ObservationDraft, SessionId};

/// Who made what people state themselves.
pub const PROVIDER: &str = "user";

/// A memory that somebody stated.
#[derive(Debug, Clone, Default)]
pub struct Stated {
    /// Makes a second arrival of the same one known.
    pub uid: String,
    /// The project's name.
    pub project: String,
    /// What the project is found by, where that is known.
    pub project_path: String,
    /// The session in which it was said.
    pub session: Option<SessionId>,
    /// What it says.
    pub draft: ObservationDraft,
    /// The present.
    pub now: Millis,
}

/// Where a statement is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its id.
    pub id: i64,
    /// Whether it was there before.
    pub known: bool,
}

/// The same words said again within this are the same memory.
const SAME_WITHIN: Millis = 24 * 60 * 60_000;

/// Keeps the memory, unless the same one was kept a moment ago.
pub fn save(database: &mut Connection, stated: &Stated) -> Result<Kept, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(id) = known_memory(&transaction, stated)? {
        return Ok(Kept { id, known: true });
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
    Ok(Kept { id, known: false })
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

/// The session that a memory belongs to: the one that said so, if it is one of that project; else one that holds all such
/// memories of the project.
fn session_for(transaction: &Transaction<'_>, stated: &Stated) -> Result<String, StoreError> {
    if let Some(session) = &stated.session {
        let sql = "SELECT 1 FROM sessions WHERE id = ?1 AND project = ?2";
        if transaction.prepare_cached(sql)?.exists(params![session.as_str(), stated.project])? {
            return Ok(session.0.clone());
        }
    }
    let id = format!("saved:{}", stated.project);
    let sql = "INSERT INTO sessions (id, project, project_path, source, status, started_at, last_activity_at, ended_at)
               VALUES (?1, ?2, ?3, 'saved', 'completed', ?4, ?4, ?4)
               ON CONFLICT (id) DO UPDATE SET last_activity_at = max(last_activity_at, ?4), ended_at = max(ended_at, ?4)";
    transaction.prepare_cached(sql)?.execute(params![id, stated.project, stated.project_path, stated.now])?;
    Ok(id)
}

/// Something that can be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Forgettable {
    Observation(i64),
    Learning(i64),
}

/// What became of something that was to be forgotten, or brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What it is called.
    pub title: String,
    /// Whether it was not so before.
    pub changed: bool,
}

/// Forgets; nothing if there is no such thing.
pub fn forget(
    database: &mut Connection,
    what: Forgettable,
    now: Millis,
) -> Result<Option<Outcome>, StoreError> {
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

/// Brings back what was forgotten; nothing if there is no such thing.
pub fn restore(
    database: &mut Connection,
    what: Forgettable,
    now: Millis,
) -> Result<Option<Outcome>, StoreError> {
    match what {
        Forgettable::Observation(id) => change(
            database,
            "UPDATE observations SET deleted_at = NULL WHERE id = ?1 AND deleted_at IS NOT NULL AND ?2 > 0",
            OBSERVATION_TITLE,
            (id, now),
        ),
        Forgettable::Learning(id) => change(
            database,
            "UPDATE learnings SET is_active = 1, updated_at = ?2 WHERE id = ?1 AND is_active = 0 AND superseded_by IS NULL",
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
) -> Result<Option<Outcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let title: Option<String> =
        transaction.prepare_cached(title)?.query_row([id], |row| row.get(0)).optional()?;
    let Some(title) = title else { return Ok(None) };
    let changed = transaction.prepare_cached(update)?.execute(params![id, now])? > 0;
    transaction.commit()?;
    Ok(Some(Outcome { title, changed }))
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
        crate::search::upkeep::take_up(database).unwrap();
        let everywhere = store::search::Range::ALL;
        store::search::matching(database, word, everywhere, 10).unwrap().len()
    }

    #[test]
    fn what_is_said_twice_is_kept_once() {
        let (_scratch, mut database) = database();
        let first = save(&mut database, &stated("a", "Use zanzibar")).unwrap();
        assert_eq!(save(&mut database, &stated("a", "Use zanzibar")).unwrap(), Kept { known: true, ..first });
        assert_eq!(save(&mut database, &stated("b", "Use zanzibar")).unwrap(), Kept { known: true, ..first });
        let later = Stated { now: 1_000_000_000_000 + 2 * SAME_WITHIN, ..stated("c", "Use zanzibar") };
        assert!(!save(&mut database, &later).unwrap().known);
        assert_eq!(found(&database, "zanzibar"), 2);
    }

    #[test]
    fn what_is_forgotten_is_not_found_until_it_is_brought_back() {
        let (_scratch, mut database) = database();
        let kept = save(&mut database, &stated("a", "Use zanzibar")).unwrap();
        let what = Forgettable::Observation(kept.id);
        for changed in [true, false] {
            let outcome = forget(&mut database, what, 5).unwrap();
            assert_eq!(outcome, Some(Outcome { title: "Use zanzibar".into(), changed }));
            assert_eq!(found(&database, "zanzibar"), 0);
        }
        for changed in [true, false] {
            assert_eq!(restore(&mut database, what, 6).unwrap().unwrap().changed, changed);
            assert_eq!(found(&database, "zanzibar"), 1);
        }
        assert_eq!(forget(&mut database, Forgettable::Observation(99), 5).unwrap(), None);
    }

    #[test]
    fn a_memory_belongs_to_its_session_only_within_the_project() {
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
