//! Records of other devices become rows here: in one transaction per batch, each record alone, so
//! that one that cannot be applied is set aside and the rest goes on.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params, params_from_iter};
use serde_json::{Map, Value};

use super::super::StoreError;
use super::burial;
use super::collect::{Collector, collect_item, is_dirty};
use super::content::{
    self, MARKS, RecordContent, RecordKind, SyncedTable, mark_of, row_of, shape_of, uid_of,
};
use super::forgotten::{self, Tombstone};
use super::hlc::{Hlc, MAX_AHEAD_MS};
use super::refused::refuse;
use super::state::{mark_cursor, restamp};
use super::veto;
use crate::model::Millis;
use crate::store::corrections::vetoes;

/// A record of another device's log.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Its number in that log.
    pub seq: i64,
    /// The number of its kind.
    pub kind: i16,
    /// Its clock.
    pub hlc: i64,
    /// True if the whole team gets it.
    pub is_shared: bool,
    /// True if another member made it: it must not change what is private here.
    pub is_foreign: bool,
    /// The hash of the memory that it is about.
    pub refers: String,
    /// The server's time when it arrived there.
    pub received_at: Millis,
    /// The readable body, `None` if it was purged, or the reason why it cannot be read.
    pub body: Result<Option<String>, String>,
}

/// The result of applying a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Records that changed something, or were known.
    pub applied: usize,
    /// Records that were set aside.
    pub refused: usize,
}

/// Applies a batch of one device's log in order, and moves its cursor to `cursor`.
pub fn apply(
    database: &mut Connection,
    device: &str,
    records: &[Incoming],
    cursor: i64,
    collector: Collector<'_>,
) -> Result<ApplyReport, StoreError> {
    let mut transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(server_now) = collector.server_now {
        // First: a tombstone with a wrong clock would cover digests that it does not cover elsewhere.
        restamp(&transaction, server_now)?;
    }
    let mut outcome = ApplyReport::default();
    for record in records {
        let savepoint = transaction.savepoint()?;
        match apply_record(&savepoint, device, record, collector) {
            Ok(None) => {
                savepoint.commit()?;
                outcome.applied += 1;
            }
            Ok(Some(reason)) => {
                drop(savepoint);
                refuse(&transaction, device, record.seq, &reason, collector.now)?;
                outcome.refused += 1;
            }
            Err(StoreError::Refused(error)) => {
                drop(savepoint);
                refuse(&transaction, device, record.seq, &error.to_string(), collector.now)?;
                outcome.refused += 1;
            }
            Err(error) => return Err(error),
        }
    }
    if records.iter().any(|record| record.kind == RecordKind::Veto as i16) {
        vetoes::enforce(&transaction, collector.now)?;
    }
    mark_cursor(&transaction, device, cursor)?;
    transaction.commit()?;
    Ok(outcome)
}

/// Applies one record. Returns the reason if it has to be set aside.
fn apply_record(
    transaction: &Connection,
    device: &str,
    record: &Incoming,
    collector: Collector<'_>,
) -> Result<Option<String>, StoreError> {
    let body = match &record.body {
        Ok(Some(body)) => body,
        Ok(None) => return Ok(None),
        Err(reason) => return Ok(Some(reason.clone())),
    };
    let Some(kind) = RecordKind::from_code(record.kind) else {
        return Ok(Some(format!(
            "its kind {} is unknown to this version: upgrade claude-mem, then run `claude-mem sync repair`",
            record.kind
        )));
    };
    if Hlc(record.hlc).millis() > record.received_at + MAX_AHEAD_MS {
        return Ok(Some("its clock is more than an hour ahead of the server's".into()));
    }
    let Ok(body) = serde_json::from_str::<Value>(body) else {
        return Ok(Some("its body is not JSON".into()));
    };
    let sql =
        "UPDATE sync_state SET clock = max(clock, ?1), seen = max(seen, ?1) WHERE clock < ?1 OR seen < ?1";
    transaction.prepare_cached(sql)?.execute([record.hlc])?;
    if kind == RecordKind::Forget {
        let Ok(tombstones) = serde_json::from_value::<Vec<Tombstone>>(body["forget"].clone()) else {
            return Ok(Some("its body is not a list of tombstones".into()));
        };
        burial::apply(transaction, &tombstones, record, collector)?;
        return Ok(None);
    }
    let Some(part) = parse(kind, &body) else {
        return Ok(Some("its body does not describe a memory of its kind".into()));
    };
    if record.is_shared && !record.is_foreign {
        // Another device of ours shared it: from now on it is the team's.
        let sql = "UPDATE sync_items SET shared = 2 WHERE item = ?1 AND shared = 0";
        transaction.prepare_cached(sql)?.execute([&part.item])?;
    }
    if forgotten::is_forgotten(transaction, &part, Hlc(record.hlc), record.is_shared)? {
        if !forgotten::is_forgotten(transaction, &part, Hlc(record.hlc), false)? {
            // It was private here when another member's tombstone came.
            burial::erase_again(transaction, &part, true, collector)?;
        }
        let limit = if kind.may_return() { record.hlc } else { i64::MAX };
        forgotten::purge_record(transaction, &record.refers, Hlc(limit))?;
        return Ok(None);
    }
    if is_dirty(transaction, &part.item)? {
        // The change made here gets its place in the order first.
        collect_item(transaction, collector, &row_of(&part.item))?;
    }
    if record.is_foreign && is_private(transaction, &part)? {
        return Ok(None);
    }
    if !is_newer(transaction, &part.item, record.hlc, device)? {
        return Ok(None);
    }
    match shape_of(&part.item).filter(|shape| shape.kind == kind) {
        Some(shape) => apply_row(transaction, shape, &part, (record, device), collector.now),
        None => apply_mark(transaction, &part, (record, device)),
    }
}

fn parse(kind: RecordKind, body: &Value) -> Option<RecordContent> {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let item = text("item").filter(|item| item.len() > 2 && item.as_bytes()[1] == b':')?;
    let is_its = match kind {
        RecordKind::Mark => mark_of(&item).is_some(),
        RecordKind::Veto => veto::is_valid(&item, body["project"].as_str()?),
        _ => shape_of(&item).is_some_and(|shape| shape.kind == kind),
    };
    if !is_its {
        return None;
    }
    let mut row = body["row"].as_object()?.clone();
    if let Some(shape) = shape_of(&item) {
        // A later version may have more columns.
        row.retain(|column, value| shape.columns.contains(&column.as_str()) && !value.is_null());
    }
    Some(RecordContent {
        kind,
        item,
        project: text("project")?,
        name: text("name").unwrap_or_default(),
        session: text("session"),
        at: body["at"].as_i64()?,
        row,
        refers: text("refers"),
        is_default: false,
    })
}

/// True if another member's record would change a memory that the team does not have, or block a
/// statement in all projects.
fn is_private(database: &Connection, part: &RecordContent) -> Result<bool, StoreError> {
    if part.kind == RecordKind::Veto && part.project.is_empty() {
        return Ok(true);
    }
    let row = row_of(&part.item);
    // A session is the team's if one of its memories is: its digest may come later.
    let sql = "SELECT 1 FROM sync_items WHERE shared > 0 AND item IN
                 (SELECT 'o:' || uid FROM observations WHERE session_id = ?1
                  UNION ALL SELECT 's:' || uid FROM session_summaries WHERE session_id = ?1)";
    let is_of_team = forgotten::is_of_team(database, &row)?
        || (part.kind == RecordKind::Session
            && database.prepare_cached(sql)?.exists([uid_of(&part.item)])?);
    Ok(!is_of_team && !content::read(database, &row)?.is_empty())
}

/// True if this version comes after the one that is here. The device breaks ties.
fn is_newer(database: &Connection, item: &str, hlc: i64, device: &str) -> Result<bool, StoreError> {
    let sql = "SELECT hlc, device FROM sync_items WHERE item = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let known = database.prepare_cached(sql)?.query_row([item], read).optional()?;
    Ok(known.is_none_or(|(known, by)| (hlc, device) > (known, by.as_str())))
}

fn apply_row(
    transaction: &Connection,
    shape: &'static SyncedTable,
    part: &RecordContent,
    (record, device): (&Incoming, &str),
    now: Millis,
) -> Result<Option<String>, StoreError> {
    let project = content::local_name(transaction, &part.project, &part.name)?;
    let uid = uid_of(&part.item);
    match shape.kind {
        RecordKind::Veto => veto::store(transaction, part, project.as_deref().unwrap_or_default())?,
        RecordKind::Session => upsert_session(transaction, part, project.as_deref().unwrap_or_default())?,
        RecordKind::Learning => {
            upsert(transaction, shape, part, project.clone().map_or(Sql::Null, Sql::Text))?
        }
        _ => {
            let project = project.clone().unwrap_or_default();
            ensure_session(transaction, part, &project)?;
            upsert(transaction, shape, part, Sql::Text(project))?;
        }
    }
    note_version(transaction, part, record, device)?;
    apply_waiting(transaction, shape, uid)?;
    // The triggers noticed what this record did: it is no change to send.
    let sql = "DELETE FROM sync_dirty WHERE item = ?1";
    transaction.prepare_cached(sql)?.execute([&part.item])?;
    // A session of this machine keeps its other columns, so that its content is not the record's.
    if shape.kind == RecordKind::Session
        && let Some(read) = content::read(transaction, &part.item)?.first()
    {
        let sql = "UPDATE sync_items SET hash = ?2 WHERE item = ?1";
        transaction.prepare_cached(sql)?.execute(params![part.item, read.hash()])?;
    }
    veto::enforce(transaction, part, project.as_deref(), now)?;
    Ok(None)
}

/// Updates the row, or inserts it. Not as one upsert: its conflict clause would replace those of the
/// triggers.
fn upsert(
    transaction: &Connection,
    shape: &SyncedTable,
    part: &RecordContent,
    project: Sql,
) -> Result<(), StoreError> {
    let numbered = || shape.columns.iter().zip(3..);
    let values = [Sql::Text(uid_of(&part.item).to_owned()), project];
    let values = values.into_iter().chain(shape.columns.iter().map(|column| sql_value(&part.row, column)));
    let values: Vec<Sql> = values.collect();
    let sets: Vec<String> = numbered().map(|(column, at)| format!("{column} = ?{at}")).collect();
    let sql = format!("UPDATE {} SET {} WHERE uid = ?1 AND ?2 IS ?2", shape.table, sets.join(", "));
    if transaction.prepare_cached(&sql)?.execute(params_from_iter(&values))? == 0 {
        let places: Vec<String> = numbered().map(|(_, at)| format!("?{at}")).collect();
        let (columns, places) = (shape.columns.join(", "), places.join(", "));
        let sql = format!("INSERT INTO {} (uid, project, {columns}) VALUES (?1, ?2, {places})", shape.table);
        transaction.prepare_cached(&sql)?.execute(params_from_iter(&values))?;
    }
    Ok(())
}

fn sql_value(row: &Map<String, Value>, column: &str) -> Sql {
    match row.get(column) {
        Some(Value::String(text)) => Sql::Text(text.clone()),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(number) => Sql::Integer(number),
            None => Sql::Real(number.as_f64().unwrap_or_default()),
        },
        _ => Sql::Null,
    }
}

/// Stores a digest. A session of this machine keeps everything but its digest.
fn upsert_session(transaction: &Connection, part: &RecordContent, project: &str) -> Result<(), StoreError> {
    let columns = ["agent", "branch", "title", "outcome", "open_items", "started_at", "last_activity_at"];
    let identity = [uid_of(&part.item), &part.project, project].map(|text| Sql::Text(text.to_owned()));
    let values = identity.into_iter().chain(columns.map(|column| sql_value(&part.row, column)));
    let values: Vec<Sql> = values.collect();
    let sql = "UPDATE sessions SET title = ?6, outcome = ?7, open_items = ?8,
                 branch = iif(origin = 'sync', ?5, branch), agent = iif(origin = 'sync', coalesce(?4, agent), agent),
                 started_at = iif(origin = 'sync', ?9, started_at),
                 last_activity_at = iif(origin = 'sync', ?10, last_activity_at),
                 ended_at = iif(origin = 'sync', ?10, ended_at)
               WHERE id = ?1 AND ?2 = ?2 AND ?3 = ?3";
    let is_untitled = part.is_untitled();
    if transaction.prepare_cached(sql)?.execute(params_from_iter(&values))? == 0 && !is_untitled {
        let sql = "INSERT INTO sessions (id, project_key, project, agent, branch, title, outcome, open_items, started_at,
                     last_activity_at, ended_at, origin, status)
                   VALUES (?1, ?2, ?3, coalesce(?4, 'claude-code'), ?5, ?6, ?7, ?8, ?9, ?10, ?10, 'sync', 'completed')";
        transaction.prepare_cached(sql)?.execute(params_from_iter(&values))?;
    }
    Ok(())
}

/// Creates the session of a memory whose digest has not arrived.
fn ensure_session(transaction: &Connection, part: &RecordContent, project: &str) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO sessions (id, project_key, project, started_at, last_activity_at, ended_at, origin, status)
               VALUES (?1, ?2, ?3, ?4, ?4, ?4, 'sync', 'completed')";
    let session = part.row.get("session_id").and_then(Value::as_str);
    transaction.prepare_cached(sql)?.execute(params![session, part.project, project, part.at])?;
    Ok(())
}

fn note_version(
    transaction: &Connection,
    part: &RecordContent,
    record: &Incoming,
    device: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO sync_items (item, hlc, device, hash, shared, value, refers) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT (item) DO UPDATE SET hlc = excluded.hlc, device = excluded.device, hash = excluded.hash,
                 shared = iif(excluded.shared = 0 AND shared > 0, 2, excluded.shared), value = excluded.value, refers = excluded.refers";
    let row =
        params![part.item, record.hlc, device, part.hash(), record.is_shared, part.kept_value(), part.refers];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Stores a mark, and applies it if its memory is here.
fn apply_mark(
    transaction: &Connection,
    part: &RecordContent,
    (record, device): (&Incoming, &str),
) -> Result<Option<String>, StoreError> {
    note_version(transaction, part, record, device)?;
    set_mark(transaction, &part.item, &part.row, part.refers.as_deref())?;
    let row = row_of(&part.item);
    transaction.prepare_cached("DELETE FROM sync_dirty WHERE item = ?1")?.execute([row])?;
    Ok(None)
}

/// Writes a mark into the row of its memory, if that is here.
fn set_mark(
    transaction: &Connection,
    item: &str,
    row: &Map<String, Value>,
    refers: Option<&str>,
) -> Result<(), StoreError> {
    let (Some(mark), Some(shape)) = (mark_of(item), shape_of(&row_of(item))) else { return Ok(()) };
    let (uid, value) = (uid_of(item), sql_value(row, "value"));
    let sql = format!("UPDATE {} SET {} = ?2 WHERE uid = ?1", shape.table, mark.column);
    transaction.prepare_cached(&sql)?.execute(params![uid, value])?;
    if mark.letter == 'a' {
        let sql =
            "UPDATE learnings SET superseded_by = (SELECT id FROM learnings WHERE uid = ?2) WHERE uid = ?1";
        transaction.prepare_cached(sql)?.execute(params![uid, refers.map(uid_of)])?;
    }
    Ok(())
}

/// Applies what arrived before the memory: its own marks, and references to it.
fn apply_waiting(transaction: &Connection, shape: &SyncedTable, uid: &str) -> Result<(), StoreError> {
    if !matches!(shape.kind, RecordKind::Observation | RecordKind::Learning) {
        return Ok(());
    }
    let item = format!("{}:{uid}", shape.letter);
    let sql = "SELECT 1 FROM sync_items WHERE refers = ?1
               UNION ALL SELECT 1 FROM sync_items WHERE item IN ('h:' || ?2, 'p:' || ?2, 'r:' || ?2)";
    if shape.kind == RecordKind::Observation
        && !transaction.prepare_cached(sql)?.exists(params![item, uid])?
    {
        return Ok(());
    }
    for mark in MARKS.iter().filter(|mark| mark.of == shape.kind) {
        let item = format!("{}:{uid}", mark.letter);
        let sql = "SELECT value, refers FROM sync_items WHERE item = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let known: Option<(Option<String>, Option<String>)> =
            transaction.prepare_cached(sql)?.query_row([&item], read).optional()?;
        if let Some((value, refers)) = known {
            let row = value.and_then(|value| serde_json::from_str(&value).ok()).unwrap_or_default();
            set_mark(transaction, &item, &row, refers.as_deref())?;
        }
    }
    if shape.kind == RecordKind::Learning {
        let sql = "UPDATE learnings SET source_observation_id =
                     (SELECT o.id FROM sync_items i JOIN observations o ON 'o:' || o.uid = i.refers WHERE i.item = 'l:' || ?1)
                   WHERE uid = ?1";
        transaction.prepare_cached(sql)?.execute([uid])?;
    }
    let (column, target) = match shape.kind {
        RecordKind::Observation => ("source_observation_id", "observations"),
        _ => ("superseded_by", "learnings"),
    };
    let sql = format!(
        "UPDATE learnings SET {column} = (SELECT id FROM {target} WHERE uid = ?1)
         WHERE uid IN (SELECT substr(item, 3) FROM sync_items WHERE refers = ?2)
           AND {column} IS NOT (SELECT id FROM {target} WHERE uid = ?1)"
    );
    transaction.prepare_cached(&sql)?.execute(params![uid, item])?;
    Ok(())
}
