//! Vetoes as records: a veto or its lifting is a version of the same item on every device.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use super::super::StoreError;
use super::super::corrections::vetoes;
use super::content::{RecordContent, RecordKind, uid_of};
use crate::model::Millis;

/// Splits an item into the statement's hash and the project key.
fn split(item: &str) -> Option<(i64, &str)> {
    let (key, project) = item.strip_prefix("v:")?.split_once(':')?;
    Some((key.parse().ok()?, project))
}

/// True if the item is a veto in this project.
pub(super) fn is_valid(item: &str, project: &str) -> bool {
    split(item).is_some_and(|(_, named)| named == project)
}

/// Returns the lifting of a veto that was sent or received, and is not here any more.
pub(super) fn lifted(database: &Connection, item: &str) -> Result<Option<RecordContent>, StoreError> {
    let Some((_, project)) = split(item) else { return Ok(None) };
    let sql = "SELECT value FROM sync_items WHERE item = ?1";
    let made_at = database.prepare_cached(sql)?.query_row([item], |row| row.get(0)).optional()?;
    let made_at: Option<String> = made_at.flatten();
    Ok(made_at.map(|at| RecordContent {
        kind: RecordKind::Veto,
        item: item.to_owned(),
        project: project.to_owned(),
        name: String::new(),
        session: None,
        at: at.parse().unwrap_or_default(),
        row: Map::new(),
        refers: None,
        is_default: false,
    }))
}

/// Stores a veto of another device, or lifts it.
pub(super) fn store(transaction: &Connection, part: &RecordContent, project: &str) -> Result<(), StoreError> {
    let Some((key, _)) = split(&part.item) else { return Ok(()) };
    let Some(statement) = part.row.get("statement").and_then(Value::as_str) else {
        let sql = "DELETE FROM vetoes WHERE project = ?1 AND key = ?2";
        transaction.prepare_cached(sql)?.execute(params![project, key])?;
        return Ok(());
    };
    let sql = "UPDATE vetoes SET statement = ?3, created_at = ?4 WHERE project = ?1 AND key = ?2";
    let values = params![project, key, statement, part.at];
    if transaction.prepare_cached(sql)?.execute(values)? == 0 {
        let sql = "INSERT INTO vetoes (project, key, statement, created_at) VALUES (?1, ?2, ?3, ?4)";
        transaction.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// Hides a memory of another device that states something vetoed, unless its mark has arrived: then
/// somebody decided about it.
pub(super) fn enforce(
    transaction: &Connection,
    part: &RecordContent,
    project: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    let (columns, mark, sql): (&[&str], _, _) = match part.kind {
        RecordKind::Observation => {
            (&["title", "summary"], 'h', "UPDATE observations SET deleted_at = ?2 WHERE uid = ?1")
        }
        RecordKind::Learning => {
            (&["content"], 'a', "UPDATE learnings SET is_active = 0 WHERE uid = ?1 AND ?2 IS ?2")
        }
        _ => return Ok(()),
    };
    for statement in columns.iter().filter_map(|column| part.row.get(*column)?.as_str()) {
        let uid = uid_of(&part.item);
        let marked = "SELECT 1 FROM sync_items WHERE item = ?1";
        if vetoes::is_vetoed(transaction, project, statement)?
            && !transaction.prepare_cached(marked)?.exists([format!("{mark}:{uid}")])?
        {
            transaction.prepare_cached(sql)?.execute(params![uid, now])?;
        }
    }
    Ok(())
}
