//! The function map: the net effect of each session on the functions and types of a project.
//!
//! One row per function and session: a function created and then changed is new; one created and
//! deleted again leaves no row. Readers of the map are elsewhere.

use rusqlite::{Connection, Transaction, params};

use crate::model::{ChangeKind, FunctionChange, Millis, SessionId};
use crate::store::StoreError;

/// Number of latest sessions of a project whose changes are kept, whatever their age.
const SESSIONS_KEPT: i64 = 20;

/// Merges the changes of an edit into the session's earlier changes.
pub(in crate::store) fn record(
    transaction: &Transaction<'_>,
    session: &SessionId,
    project: &str,
    changes: &[FunctionChange],
    now: Millis,
) -> Result<(), StoreError> {
    let mut files: Vec<&str> = changes.iter().map(|change| change.file_path.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let mut known = of_file(transaction, session, file)?;
        for change in changes.iter().filter(|change| change.file_path == file) {
            add(&mut known, change);
        }
        for row in known {
            write(transaction, session, project, &row, now)?;
        }
    }
    Ok(())
}

/// A row of the table, stored or to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    /// Row id, if it is stored.
    id: Option<i64>,
    /// The merged change; `None` if the row is to be deleted.
    change: Option<FunctionChange>,
    /// True if it differs from the stored row.
    touched: bool,
}

impl Row {
    fn is_called(&self, name: &str) -> bool {
        self.change.as_ref().is_some_and(|change| change.qualified_name == name)
    }

    fn take(&mut self) -> Option<FunctionChange> {
        self.touched = true;
        self.change.take()
    }
}

/// Merges one change into those of the same file and session.
fn add(known: &mut Vec<Row>, next: &FunctionChange) {
    let mut next = next.clone();
    // The row under its earlier name, and the row of a function that had the new name before.
    let was = next.renamed_from.clone().unwrap_or_else(|| next.qualified_name.clone());
    let mut slot = known.iter_mut().find(|row| row.is_called(&was));
    let earlier = slot.as_mut().and_then(|row| row.take());
    if let Some(earlier) = &earlier {
        // The name at the start of the session.
        next.renamed_from = earlier.renamed_from.clone().or(next.renamed_from);
        next.renamed_from = next.renamed_from.filter(|name| *name != next.qualified_name);
    }
    let result = match (earlier.as_ref().map(|earlier| earlier.change), next.change) {
        // Created and deleted within the session.
        (Some(ChangeKind::New), ChangeKind::Deleted) => None,
        (Some(ChangeKind::New), _) => {
            Some(FunctionChange { change: ChangeKind::New, renamed_from: None, ..next })
        }
        (Some(ChangeKind::Deleted), ChangeKind::New) => {
            Some(FunctionChange { change: ChangeKind::Modified, ..next })
        }
        // A deleted function is listed under its earlier name.
        (_, ChangeKind::Deleted) => {
            let name = next.renamed_from.take();
            Some(FunctionChange { qualified_name: name.unwrap_or(next.qualified_name), ..next })
        }
        _ => Some(next),
    };
    let Some(result) = result else { return };
    // A new function with the name of a deleted one: the name existed before.
    let name = result.qualified_name.clone();
    let place = known.iter().position(|row| row.is_called(&name));
    let place = place.or_else(|| known.iter().position(|row| row.change.is_none()));
    let id = place.and_then(|place| known.swap_remove(place).id);
    known.push(Row { id, change: Some(result), touched: true });
}

fn of_file(database: &Connection, session: &SessionId, file: &str) -> Result<Vec<Row>, StoreError> {
    let sql = "SELECT id, qualified_name, kind, signature, line_start, line_end, body_hash, change_type, renamed_from
               FROM function_map WHERE session_id = ?1 AND file_path = ?2 ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![session.as_str(), file], |row| {
        let text = |column| row.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
        let line = |column| row.get::<_, Option<u32>>(column).map(Option::unwrap_or_default);
        let change = ChangeKind::from_word(&row.get::<_, String>(7)?);
        let change = change
            .map(|change| {
                Ok::<_, rusqlite::Error>(FunctionChange {
                    file_path: file.to_owned(),
                    qualified_name: row.get(1)?,
                    kind: text(2)?,
                    signature: text(3)?,
                    line_start: line(4)?,
                    line_end: line(5)?,
                    body_hash: text(6)?,
                    change,
                    renamed_from: row.get(8)?,
                })
            })
            .transpose()?;
        Ok(Row { id: Some(row.get(0)?), change, touched: false })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn write(
    transaction: &Transaction<'_>,
    session: &SessionId,
    project: &str,
    row: &Row,
    now: Millis,
) -> Result<(), StoreError> {
    if !row.touched {
        return Ok(());
    }
    let Some(change) = &row.change else {
        transaction.prepare_cached("DELETE FROM function_map WHERE id = ?1")?.execute([row.id])?;
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO function_map (id, session_id, project, file_path, qualified_name, kind, signature,
                 line_start, line_end, body_hash, change_type, renamed_from, snapshot_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    transaction.prepare_cached(sql)?.execute(params![
        row.id,
        session.as_str(),
        project,
        change.file_path,
        change.qualified_name,
        change.kind,
        change.signature,
        change.line_start,
        change.line_end,
        change.body_hash,
        change.change.as_str(),
        change.renamed_from,
        now,
    ])?;
    Ok(())
}

/// Deletes rows older than `before`, a limited number at once, but keeps the latest sessions of a
/// project: after a year without work the last changes are still known. True if there is more to
/// do.
pub(in crate::store) fn drop_old(
    database: &Connection,
    before: Millis,
    at_once: i64,
) -> Result<bool, StoreError> {
    let mut more = false;
    for project in projects(database, before)? {
        let sql = "SELECT min(first) FROM (
                     SELECT min(snapshot_at) AS first FROM function_map WHERE project = ?1
                     GROUP BY session_id ORDER BY max(snapshot_at) DESC LIMIT ?2)";
        let kept: Option<Millis> =
            database.prepare_cached(sql)?.query_row(params![project, SESSIONS_KEPT], |row| row.get(0))?;
        let before = before.min(kept.unwrap_or(before));
        let sql = "DELETE FROM function_map WHERE id IN (
                     SELECT id FROM function_map WHERE project = ?1 AND snapshot_at < ?2 LIMIT ?3)";
        let dropped = database.prepare_cached(sql)?.execute(params![project, before, at_once])?;
        more |= i64::try_from(dropped).unwrap_or_default() == at_once;
    }
    Ok(more)
}

/// Returns the projects that have older rows: one index lookup per project.
fn projects(database: &Connection, before: Millis) -> Result<Vec<String>, StoreError> {
    let sql = "WITH RECURSIVE each (project, first) AS (
                 SELECT * FROM (SELECT project, snapshot_at FROM function_map ORDER BY project, snapshot_at LIMIT 1)
                 UNION ALL
                 SELECT (SELECT project FROM function_map n WHERE n.project > each.project ORDER BY project LIMIT 1),
                        (SELECT snapshot_at FROM function_map n WHERE n.project > each.project
                         ORDER BY project, snapshot_at LIMIT 1)
                 FROM each WHERE each.project IS NOT NULL)
               SELECT project FROM each WHERE project IS NOT NULL AND first < ?1";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([before], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::schema;

    fn change(name: &str, change: ChangeKind, from: Option<&str>) -> FunctionChange {
        FunctionChange {
            file_path: "src/lib.rs".into(),
            qualified_name: name.into(),
            kind: "function".into(),
            signature: format!("fn {name}()"),
            line_start: 1,
            line_end: 3,
            body_hash: "0".into(),
            change,
            renamed_from: from.map(str::to_owned),
        }
    }

    fn database(folder: &tempfile::TempDir) -> Connection {
        let mut database = Connection::open(folder.path().join("x.db")).unwrap();
        schema::create(&mut database, Duration::from_secs(1)).unwrap();
        let sql =
            "INSERT INTO sessions (id, project, project_path, cwd, status, started_at, last_activity_at)
                   VALUES ('s', 'p', '/p', '/p', 'active', 1, 1)";
        database.execute(sql, []).unwrap();
        database
    }

    fn changes(database: &Connection) -> Vec<String> {
        let sql = "SELECT change_type || ' ' || qualified_name || coalesce(' from ' || renamed_from, '')
                   FROM function_map ORDER BY qualified_name";
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn edits_of_a_session_are_merged() {
        use ChangeKind::{Deleted, Modified, New};
        let cases: [(&[FunctionChange], &[&str]); 9] = [
            (&[change("a", New, None), change("a", Modified, None)], &["new a"]),
            (&[change("a", New, None), change("a", Deleted, None)], &[]),
            (&[change("a", Modified, None), change("a", Deleted, None)], &["deleted a"]),
            (&[change("a", Deleted, None), change("a", New, None)], &["modified a"]),
            (&[change("b", Modified, Some("a")), change("b", Modified, None)], &["modified b from a"]),
            (&[change("b", Modified, Some("a")), change("c", Modified, Some("b"))], &["modified c from a"]),
            (&[change("b", Modified, Some("a")), change("a", Modified, Some("b"))], &["modified a"]),
            (&[change("a", New, None), change("b", Modified, Some("a"))], &["new b"]),
            (&[change("b", Modified, Some("a")), change("b", Deleted, None)], &["deleted a"]),
        ];
        for (steps, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let mut database = database(&folder);
            for (at, step) in steps.iter().enumerate() {
                let transaction = database.transaction().unwrap();
                record(&transaction, &SessionId("s".into()), "p", std::slice::from_ref(step), at as i64)
                    .unwrap();
                transaction.commit().unwrap();
            }
            assert_eq!(changes(&database), expected, "{steps:?}");
            // One merge of all changes gives the same result.
            database.execute("DELETE FROM function_map", []).unwrap();
            let transaction = database.transaction().unwrap();
            record(&transaction, &SessionId("s".into()), "p", steps, 0).unwrap();
            transaction.commit().unwrap();
            assert_eq!(changes(&database), expected, "{steps:?} at once");
        }
    }

    #[test]
    fn old_rows_go_except_those_of_the_latest_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let mut database = database(&folder);
        for number in 0..30 {
            let sql =
                "INSERT INTO sessions (id, project, project_path, cwd, status, started_at, last_activity_at)
                       VALUES (?1, 'p', '/p', '/p', 'active', 1, 1)";
            let session = SessionId(format!("s{number:02}"));
            database.execute(sql, [session.as_str()]).unwrap();
            let transaction = database.transaction().unwrap();
            record(&transaction, &session, "p", &[change("a", ChangeKind::New, None)], number).unwrap();
            record(
                &transaction,
                &session,
                "q",
                &[FunctionChange { file_path: "q".into(), ..change("a", ChangeKind::New, None) }],
                number,
            )
            .unwrap();
            transaction.commit().unwrap();
        }
        assert!(drop_old(&database, 1_000, 5).unwrap(), "more to delete");
        assert!(!drop_old(&database, 1_000, 50).unwrap());
        let left = |project: &str| -> (i64, String) {
            let sql = "SELECT count(*), min(session_id) FROM function_map WHERE project = ?1";
            database.query_row(sql, [project], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        assert_eq!((left("p"), left("q")), ((20, "s10".into()), (20, "s10".into())));
        assert!(!drop_old(&database, 0, 50).unwrap());
    }
}
