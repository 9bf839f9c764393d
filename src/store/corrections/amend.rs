//! Edits, pins and merges.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::api::NoteVersion;
use crate::model::Millis;
use crate::store::memory::manual::{ChangeOutcome, Forgettable};
use crate::store::memory::{anchors, json_list};
use crate::store::{StoreError, listed};

/// New text of a note. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amendment {
    /// Its title.
    pub title: Option<String>,
    /// Its summary.
    pub summary: Option<String>,
    /// Its detail.
    pub detail: Option<String>,
    /// Its facts.
    pub facts: Option<Vec<String>>,
}

/// Changes the text of a note and keeps the earlier version. Returns `None` if the note does not exist.
pub fn edit(
    database: &mut Connection,
    id: i64,
    amendment: &Amendment,
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(title) = title_of(&transaction, id)? else { return Ok(None) };
    let facts = amendment.facts.as_deref().map(|facts| json_list(facts).unwrap_or_else(|| "[]".into()));
    let changed = replace(
        &transaction,
        id,
        "UPDATE observations SET title = coalesce(?2, title), summary = coalesce(?3, summary),
           detail = coalesce(?4, detail), facts = coalesce(?5, facts), edited_at = ?6
         WHERE id = ?1 AND (title, summary, detail, facts) IS NOT
           (coalesce(?2, title), coalesce(?3, summary), coalesce(?4, detail), coalesce(?5, facts))",
        params![id, amendment.title, amendment.summary, amendment.detail, facts, now],
        now,
    )?;
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title: amendment.title.clone().unwrap_or(title), changed }))
}

/// Makes an earlier version current again. Returns `None` if the note has no such version.
pub fn revert(
    database: &mut Connection,
    id: i64,
    version: i64,
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "SELECT 1 FROM observation_edits WHERE id = ?1 AND observation_id = ?2";
    if !transaction.prepare_cached(sql)?.exists([version, id])? {
        return Ok(None);
    }
    let sql = "UPDATE observations SET (title, summary, detail, facts) =
                 (SELECT title, summary, detail, facts FROM observation_edits WHERE id = ?2), edited_at = ?3 WHERE id = ?1";
    let changed = replace(&transaction, id, sql, params![id, version, now], now)?;
    let title = title_of(&transaction, id)?.unwrap_or_default();
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title, changed }))
}

/// Runs an update and stores the version before it, if it changed anything.
fn replace(
    transaction: &Transaction<'_>,
    id: i64,
    update: &str,
    parameters: impl rusqlite::Params,
    now: Millis,
) -> Result<bool, StoreError> {
    let keep = "INSERT INTO observation_edits (observation_id, title, summary, detail, facts, created_at)
                SELECT id, title, summary, detail, facts, ?2 FROM observations WHERE id = ?1";
    transaction.prepare_cached(keep)?.execute([id, now])?;
    let kept = transaction.last_insert_rowid();
    let changed = transaction.prepare_cached(update)?.execute(parameters)? > 0;
    if !changed {
        transaction.prepare_cached("DELETE FROM observation_edits WHERE id = ?1")?.execute([kept])?;
    }
    Ok(changed)
}

/// Lists the earlier versions of a note, newest first.
pub fn versions(database: &Connection, id: i64) -> Result<Vec<NoteVersion>, StoreError> {
    let sql = "SELECT id, coalesce(title, ''), coalesce(summary, ''), coalesce(detail, ''), facts, created_at FROM observation_edits
               WHERE observation_id = ?1 ORDER BY id DESC LIMIT 50";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([id], |row| {
        Ok(NoteVersion {
            id: row.get(0)?,
            title: row.get(1)?,
            summary: row.get(2)?,
            detail: row.get(3)?,
            facts: listed(row, 4)?,
            replaced_at: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Pins a note or a learning, or unpins it. Returns `None` if it does not exist.
pub fn pin(
    database: &mut Connection,
    what: Forgettable,
    is_pinned: bool,
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    let (table, title, id) = match what {
        Forgettable::Observation(id) => ("observations", "coalesce(title, summary, '')", id),
        Forgettable::Learning(id) => ("learnings", "content", id),
    };
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = format!("SELECT {title} FROM {table} WHERE id = ?1");
    let title = transaction.prepare_cached(&sql)?.query_row([id], |row| row.get(0)).optional()?;
    let Some(title) = title else { return Ok(None) };
    let sql = format!(
        "UPDATE {table} SET pinned_at = iif(?2, ?3, NULL) WHERE id = ?1 AND (pinned_at IS NOT NULL) <> ?2"
    );
    let changed = transaction.prepare_cached(&sql)?.execute(params![id, is_pinned, now])? > 0;
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title, changed }))
}

/// Merges notes into one: it gets their facts and files, and they are deleted. Restoring one of them undoes its part.
/// Returns `None` if the note does not exist; others that do not exist, or belong to another project, are left out.
pub fn merge(
    database: &mut Connection,
    id: i64,
    others: &[i64],
    now: Millis,
) -> Result<Option<ChangeOutcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(title) = title_of(&transaction, id)? else { return Ok(None) };
    let mut merged = read_lists(&transaction, id, id)?.unwrap_or_default();
    let mut gone = 0;
    for other in others.iter().filter(|other| **other != id) {
        let Some(lists) = read_lists(&transaction, *other, id)? else { continue };
        for (ours, theirs) in merged.iter_mut().zip(lists) {
            theirs.into_iter().for_each(|item| {
                if !ours.contains(&item) {
                    ours.push(item);
                }
            });
        }
        let sql = "UPDATE observations SET deleted_at = ?2, superseded_by = (SELECT uid FROM observations WHERE id = ?3)
                   WHERE id = ?1";
        gone += transaction.prepare_cached(sql)?.execute(params![other, now, id])?;
    }
    if gone > 0 {
        let [facts, read, modified, concepts] = merged.map(|list| json_list(&list));
        let sql = "UPDATE observations SET facts = ?2, files_read = ?3, files_modified = ?4, concepts = ?5, edited_at = ?6
                   WHERE id = ?1";
        replace(&transaction, id, sql, params![id, facts, read, modified, concepts, now], now)?;
    }
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title, changed: gone > 0 }))
}

/// Marks a note as replaced by another one, or undoes it. Returns `None` if one of them does not exist.
pub fn supersede(
    database: &mut Connection,
    id: i64,
    by: Option<i64>,
) -> Result<Option<ChangeOutcome>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(title) = title_of(&transaction, id)? else { return Ok(None) };
    let sql = "SELECT superseded_by FROM observations WHERE id = ?1";
    let link = || -> Result<Option<String>, StoreError> {
        Ok(transaction.prepare_cached(sql)?.query_row([id], |row| row.get(0))?)
    };
    let before = link()?;
    match by {
        Some(by) if by == id || title_of(&transaction, by)?.is_none() => return Ok(None),
        Some(by) => anchors::supersede(&transaction, id, by)?,
        None => {
            let sql =
                "UPDATE observations SET superseded_by = NULL WHERE id = ?1 AND superseded_by IS NOT NULL";
            transaction.prepare_cached(sql)?.execute([id])?;
        }
    }
    let changed = link()? != before;
    transaction.commit()?;
    Ok(Some(ChangeOutcome { title, changed }))
}

/// Facts, files read, files modified and concepts of a note of the same project as `kept`.
fn read_lists(
    transaction: &Transaction<'_>,
    id: i64,
    kept: i64,
) -> Result<Option<[Vec<String>; 4]>, StoreError> {
    let sql = "SELECT facts, files_read, files_modified, concepts FROM observations
               WHERE id = ?1 AND deleted_at IS NULL AND project = (SELECT project FROM observations WHERE id = ?2)";
    let read =
        |row: &rusqlite::Row<'_>| Ok([listed(row, 0)?, listed(row, 1)?, listed(row, 2)?, listed(row, 3)?]);
    Ok(transaction.prepare_cached(sql)?.query_row([id, kept], read).optional()?)
}

fn title_of(database: &Connection, id: i64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT coalesce(title, summary, '') FROM observations WHERE id = ?1 AND deleted_at IS NULL";
    Ok(database.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;
    use crate::store;

    fn database() -> (tempfile::TempDir, Connection) {
        let scratch = tempfile::tempdir().unwrap();
        let database = store::open_for_worker(&Home::at(scratch.path().join("mem")), 0).unwrap();
        let sql = r#"INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES ('s', 'p', 1, 1);
            INSERT INTO observations (id, uid, session_id, project, title, summary, facts, files_modified, created_at) VALUES
              (1, 'a', 's', 'p', 'Old', 'as it was', '["x"]', '["f.rs"]', 1), (2, 'b', 's', 'p', 'Twin', NULL, '["x", "y"]', '["g.rs"]', 2),
              (3, 'c', 's', 'q', 'Other project', NULL, NULL, NULL, 3)"#;
        database.execute_batch(sql).unwrap();
        (scratch, database)
    }

    fn get(database: &Connection, sql: &str) -> String {
        database.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
    }

    #[test]
    fn an_edit_keeps_the_earlier_version_and_can_be_reverted() {
        let (_scratch, mut database) = database();
        let amendment = Amendment { title: Some("New".into()), facts: Some(vec![]), ..Amendment::default() };
        let outcome = edit(&mut database, 1, &amendment, 10).unwrap();
        assert_eq!(outcome, Some(ChangeOutcome { title: "New".into(), changed: true }));
        let summary = "SELECT title || '|' || summary || '|' || facts FROM observations WHERE id = 1";
        assert_eq!(get(&database, summary), "New|as it was|[]");
        let kept = versions(&database, 1).unwrap();
        assert_eq!((kept.len(), kept[0].title.as_str(), kept[0].replaced_at), (1, "Old", 10));
        assert!(!edit(&mut database, 1, &amendment, 11).unwrap().unwrap().changed);
        assert_eq!(versions(&database, 1).unwrap().len(), 1, "no version without a change");
        assert!(revert(&mut database, 1, kept[0].id, 12).unwrap().unwrap().changed);
        assert_eq!(get(&database, summary), r#"Old|as it was|["x"]"#);
        assert_eq!(versions(&database, 1).unwrap().len(), 2, "the revert itself can be reverted");
        assert_eq!(revert(&mut database, 2, kept[0].id, 12).unwrap(), None, "another note's version");
        assert_eq!(edit(&mut database, 99, &amendment, 1).unwrap(), None);
    }

    #[test]
    fn a_merge_joins_facts_and_files_within_a_project() {
        let (_scratch, mut database) = database();
        assert!(merge(&mut database, 1, &[1, 2, 3, 99], 10).unwrap().unwrap().changed);
        let sql = "SELECT facts || files_modified FROM observations WHERE id = 1";
        assert_eq!(get(&database, sql), r#"["x","y"]["f.rs","g.rs"]"#);
        assert_eq!(
            get(&database, "SELECT superseded_by FROM observations WHERE id = 2 AND deleted_at = 10"),
            "a"
        );
        assert_eq!(
            get(&database, "SELECT deleted_at FROM observations WHERE id = 3"),
            "",
            "another project's"
        );
        assert_eq!(versions(&database, 1).unwrap().len(), 1);
    }

    #[test]
    fn a_note_is_superseded_once_and_what_it_replaced_counts_again() {
        let (_scratch, mut database) = database();
        let link = |database: &Connection, id: i64| {
            get(database, &format!("SELECT coalesce(superseded_by, '') FROM observations WHERE id = {id}"))
        };
        assert!(supersede(&mut database, 1, Some(2)).unwrap().unwrap().changed);
        assert!(!supersede(&mut database, 1, Some(2)).unwrap().unwrap().changed);
        assert_eq!(link(&database, 1), "b");
        // The second is taken back: the first holds again.
        assert!(supersede(&mut database, 2, Some(3)).unwrap().unwrap().changed);
        assert_eq!((link(&database, 1), link(&database, 2)), (String::new(), "c".into()));
        assert!(supersede(&mut database, 2, None).unwrap().unwrap().changed);
        assert_eq!(link(&database, 2), "");
        assert_eq!(supersede(&mut database, 1, Some(1)).unwrap(), None);
        assert_eq!(supersede(&mut database, 1, Some(99)).unwrap(), None);
    }

    #[test]
    fn pins_are_set_once_and_removed() {
        let (_scratch, mut database) = database();
        let note = Forgettable::Observation(1);
        for (is_pinned, changed) in [(true, true), (true, false), (false, true), (false, false)] {
            assert_eq!(pin(&mut database, note, is_pinned, 5).unwrap().unwrap().changed, changed);
        }
        assert_eq!(pin(&mut database, Forgettable::Learning(1), true, 5).unwrap(), None);
    }
}
