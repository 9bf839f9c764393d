//! Tombstones. A forgotten memory stays forgotten on every device, whatever arrives later: an older
//! record, an import, a restored backup.
//!
//! A memory is forgotten by its uid for ever, or by its session or project up to a time: the time of
//! the memory decides, which is the same on every device. `burial` deletes the rows that a tombstone
//! covers.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::super::StoreError;
use super::super::maintenance::forget::{self, LogData};
use super::super::memory::new_uid;
use super::collect::{OutgoingRecord, enqueue};
use super::content::{self, RecordContent, RecordKind, SHAPES, uid_of};
use super::hlc::Hlc;
use super::state::is_set_up;
use crate::model::Millis;

/// Maximum tombstones in one record.
const MAX_KEYS: usize = 400;

/// Memories that the user forgets here.
#[derive(Debug, Default)]
pub struct Forgetting {
    /// Uids of observations, summaries and learnings.
    pub uids: Vec<String>,
    /// Ids of vetoes.
    pub vetoes: Vec<i64>,
    /// Session ids.
    pub sessions: Vec<String>,
    /// Project names.
    pub projects: Vec<String>,
}

/// A tombstone: its key, and the time up to which it holds.
pub(super) type Tombstone = (String, Millis);

/// Records what the user forgets, before its rows are deleted, and queues the records that make all
/// devices forget it. Does nothing without synchronisation.
pub fn note(transaction: &Connection, forgetting: &Forgetting, now: Millis) -> Result<(), StoreError> {
    if !is_set_up(transaction)? {
        return Ok(());
    }
    let mut by_scope: BTreeMap<bool, Vec<Tombstone>> = BTreeMap::new();
    for uid in &forgetting.uids {
        let items: Vec<String> = ["o", "s", "l"].map(|letter| format!("{letter}:{uid}")).into();
        // Also if it was never sent: an export may have it.
        let is_shared = queue_purges(transaction, &items)?.unwrap_or_default();
        by_scope.entry(is_shared).or_default().push((format!("uid:{uid}"), Millis::MAX));
    }
    for id in &forgetting.vetoes {
        let sql = "SELECT uid, created_at FROM sync_vetoes WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Millis>(1)?));
        let (uid, at) = transaction.prepare_cached(sql)?.query_row([id], read)?;
        let is_shared = queue_purges(transaction, &[format!("v:{uid}")])?.unwrap_or_default();
        by_scope.entry(is_shared).or_default().push((format!("veto:{uid}"), at.max(now)));
    }
    for session in &forgetting.sessions {
        let mut items = items_of(transaction, "session_id = ?1", session)?;
        items.push(format!("d:{session}"));
        let is_shared = queue_purges(transaction, &items)?.unwrap_or_default();
        let until = latest(transaction, "session_id = ?1", session)?.max(now);
        by_scope.entry(is_shared).or_default().push((format!("session:{session}"), until));
    }
    for name in &forgetting.projects {
        let items = items_of(transaction, "project = ?1", name)?;
        let is_shared = queue_purges(transaction, &items)?.unwrap_or_default();
        let until = latest(transaction, "project = ?1", name)?.max(now);
        for key in keys_of(transaction, name)? {
            let what = format!("project:{key}");
            queue_purge(transaction, &what, Hlc(i64::MAX))?;
            by_scope.entry(is_shared).or_default().push((what, until));
        }
    }
    for (is_shared, tombstones) in by_scope {
        publish(transaction, &tombstones, is_shared, now)?;
    }
    Ok(())
}

/// Replaces digests that may quote a forgotten memory: the server drops the versions that it has, and
/// gets what is left.
pub fn note_digests<'a>(
    transaction: &Connection,
    sessions: impl IntoIterator<Item = &'a str>,
) -> Result<(), StoreError> {
    if !is_set_up(transaction)? {
        return Ok(());
    }
    for session in sessions {
        let item = format!("d:{session}");
        if queue_purges(transaction, std::slice::from_ref(&item))?.is_some() {
            transaction.prepare_cached("UPDATE sync_items SET hash = 0 WHERE item = ?1")?.execute([&item])?;
            transaction.prepare_cached("INSERT OR IGNORE INTO sync_dirty VALUES (?1)")?.execute([&item])?;
        }
    }
    Ok(())
}

/// Takes over what was forgotten here before synchronisation was set up.
pub(super) fn seed(transaction: &Connection, now: Millis) -> Result<(), StoreError> {
    let sql = "SELECT data, created_at FROM event_log WHERE event_type = ?1";
    let logged: Vec<(Option<String>, Millis)> = {
        let mut statement = transaction.prepare(sql)?;
        let rows = statement.query_map([forget::EVENT], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    let mut tombstones = Vec::new();
    for (data, at) in logged {
        let data: Option<LogData> = data.and_then(|data| serde_json::from_str(&data).ok());
        for key in data.into_iter().flat_map(|data| data.keys) {
            match key.split_once(':') {
                Some(("uid", _)) => tombstones.push((key, Millis::MAX)),
                Some(("session", _)) => tombstones.push((key, at)),
                _ => {}
            }
        }
    }
    publish(transaction, &tombstones, false, now)
}

/// Stores tombstones of this login's devices, or of another member.
pub(super) fn keep(
    transaction: &Connection,
    tombstones: &[Tombstone],
    hlc: Hlc,
    (is_shared, is_foreign): (bool, bool),
) -> Result<(), StoreError> {
    let sql = "INSERT INTO sync_forgotten (key, until, hlc, shared, is_foreign) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (key, is_foreign) DO UPDATE
               SET until = max(until, excluded.until), hlc = max(hlc, excluded.hlc), shared = max(shared, excluded.shared)";
    let mut statement = transaction.prepare_cached(sql)?;
    for (key, until) in tombstones {
        statement.execute(params![key, until, hlc.0, is_shared, is_foreign])?;
    }
    Ok(())
}

/// Queues all tombstones again: the server lost records.
pub(super) fn send_all(transaction: &Connection) -> Result<(), StoreError> {
    for is_shared in [false, true] {
        let tombstones: Vec<Tombstone> = {
            let sql = "SELECT key, until FROM sync_forgotten WHERE shared = ?1 AND NOT is_foreign";
            let mut statement = transaction.prepare(sql)?;
            let rows = statement.query_map([is_shared], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        publish(transaction, &tombstones, is_shared, 0)?;
    }
    Ok(())
}

/// Keeps tombstones of this device, and queues them for the others.
fn publish(
    transaction: &Connection,
    tombstones: &[Tombstone],
    is_shared: bool,
    now: Millis,
) -> Result<(), StoreError> {
    for chunk in tombstones.chunks(MAX_KEYS) {
        let clock = Hlc(transaction.query_row("SELECT clock FROM sync_state", [], |row| row.get(0))?);
        let hlc = clock.next(now);
        keep(transaction, chunk, hlc, (is_shared, false))?;
        let record = OutgoingRecord {
            seq: 0,
            id: new_uid(),
            kind: RecordKind::Forget as i16,
            item: String::new(),
            project: String::new(),
            hlc: hlc.0,
            is_shared,
            body: json!({"forget": chunk}).to_string(),
        };
        enqueue(transaction, &record)?;
    }
    Ok(())
}

/// Queues the bodies of these items for removal from the server and from the outbox. Returns true if
/// one of them is the team's, `None` if none of them is known.
pub(super) fn queue_purges(transaction: &Connection, items: &[String]) -> Result<Option<bool>, StoreError> {
    let mut is_shared = None;
    for item in items {
        let sql = "SELECT shared, hlc FROM sync_items WHERE item = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(1)?));
        let known = transaction.prepare_cached(sql)?.query_row([item], read);
        if let Some((shared, hlc)) = known.optional()? {
            is_shared = Some(is_shared.unwrap_or_default() || shared);
            // Later versions, as of the digest of a session that goes on, stay.
            let may_return = content::shape_of(item).is_some_and(|shape| shape.kind.may_return());
            let limit = if may_return { hlc } else { i64::MAX };
            queue_purge(transaction, item, Hlc(limit))?;
            let sql = "UPDATE sync_outbox SET body = '' WHERE item = ?1";
            transaction.prepare_cached(sql)?.execute([item])?;
        }
    }
    Ok(is_shared)
}

/// Returns the items of the rows in the tables with this column that the condition matches.
pub(super) fn items_of(
    database: &Connection,
    condition: &str,
    value: &str,
) -> Result<Vec<String>, StoreError> {
    let mut items = Vec::new();
    for shape in tables_with(condition) {
        let sql =
            format!("SELECT '{}:' || {} FROM {} WHERE {condition}", shape.letter, shape.key, shape.table);
        let mut statement = database.prepare_cached(&sql)?;
        for item in statement.query_map([value], |row| row.get(0))? {
            items.push(item?);
        }
    }
    Ok(items)
}

/// Returns the time of the latest row that the condition matches.
fn latest(database: &Connection, condition: &str, value: &str) -> Result<Millis, StoreError> {
    let mut latest = 0;
    for shape in tables_with(condition) {
        let sql = format!("SELECT coalesce(max({}), 0) FROM {} WHERE {condition}", shape.at, shape.table);
        latest = latest.max(database.prepare_cached(&sql)?.query_row([value], |row| row.get(0))?);
    }
    Ok(latest)
}

fn tables_with(condition: &str) -> impl Iterator<Item = &'static content::SyncedTable> {
    let by_session = condition.starts_with("session_id");
    SHAPES.iter().filter(move |shape| !by_session || shape.columns.contains(&"session_id"))
}

/// Returns the keys of the projects with this name; `None` if there are no memories of such a
/// project.
pub fn project_keys(database: &Connection, name: &str) -> Result<Option<Vec<String>>, StoreError> {
    let keys = keys_of(database, name)?;
    let is_known = keys.len() > 1 || !items_of(database, "project = ?1", name)?.is_empty();
    Ok(is_known.then_some(keys))
}

/// Returns the keys of the projects with this name.
fn keys_of(database: &Connection, name: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = database.prepare_cached("SELECT key FROM projects WHERE name = ?1")?;
    let rows = statement.query_map([name], |row| row.get(0))?;
    let mut keys = rows.collect::<Result<Vec<String>, _>>()?;
    keys.push(format!("name:{name}"));
    Ok(keys)
}

/// True if a tombstone covers this version of a memory. Those of other members cover only what the
/// team has.
pub(super) fn is_forgotten(
    database: &Connection,
    part: &RecordContent,
    hlc: Hlc,
    is_shared: bool,
) -> Result<bool, StoreError> {
    let uid = if part.kind == RecordKind::Veto { "veto" } else { "uid" };
    let uid = format!("{uid}:{}", uid_of(&part.item));
    let session = format!("session:{}", part.session.as_deref().unwrap_or_default());
    let project = format!("project:{}", part.project);
    let (limit, value) = if part.kind == RecordKind::Session { ("hlc", hlc.0) } else { ("until", part.at) };
    let sql = format!(
        "SELECT 1 FROM sync_forgotten WHERE key IN (?1, ?2, ?3) AND {limit} >= ?4 AND is_foreign <= ?5"
    );
    Ok(database.prepare_cached(&sql)?.exists(params![uid, session, project, value, is_shared])?)
}

/// True if the team has, or had, a version of this memory.
pub(super) fn is_of_team(database: &Connection, item: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM sync_items WHERE item = ?1 AND shared > 0";
    Ok(database.prepare_cached(sql)?.exists([item])?)
}

/// Queues the body of a received record about a forgotten memory for removal.
pub(super) fn purge_record(transaction: &Connection, refers: &str, hlc: Hlc) -> Result<(), StoreError> {
    queue_purge(transaction, &format!("ref:{refers}"), hlc)
}

fn queue_purge(transaction: &Connection, what: &str, hlc: Hlc) -> Result<(), StoreError> {
    let sql = "INSERT INTO sync_purges (what, hlc) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET hlc = max(hlc, excluded.hlc)";
    transaction.prepare_cached(sql)?.execute(params![what, hlc.0])?;
    Ok(())
}

/// Returns up to `limit` memories whose bodies the server has to remove, and the clock up to which.
pub(super) fn purges(database: &Connection, limit: u32) -> Result<Vec<(String, i64)>, StoreError> {
    let mut statement = database.prepare_cached("SELECT what, hlc FROM sync_purges LIMIT ?1")?;
    let rows = statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Records that the server removed these bodies.
pub fn purged(database: &Connection, what: &[(String, i64)]) -> Result<(), StoreError> {
    let mut statement = database.prepare_cached("DELETE FROM sync_purges WHERE what = ?1 AND hlc = ?2")?;
    for (what, hlc) in what {
        statement.execute(params![what, hlc])?;
    }
    Ok(())
}
