//! Changed rows become records of this device's log, in one transaction with their version.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::super::StoreError;
use super::super::memory::new_uid;
use super::content::{self, RecordContent, RecordKind, SHAPES, Shares};
use super::hlc::Hlc;
use super::state::restamp;
use super::veto;
use super::{burial, forgotten};
use crate::config::Share;
use crate::model::{Digest, Millis, TurnLine};

/// A record that waits for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingRecord {
    /// Its number in this device's log.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// The number of its [`RecordKind`].
    pub kind: i16,
    /// The memory that it is about; empty for a tombstone.
    pub item: String,
    /// The project key.
    pub project: String,
    /// Its clock.
    pub hlc: i64,
    /// True if the whole team gets it.
    pub is_shared: bool,
    /// Readable JSON; empty if the memory was forgotten meanwhile.
    pub body: String,
}

/// Everything that collecting needs to know about the user's wishes and the time.
#[derive(Debug, Clone, Copy)]
pub struct Collector<'a> {
    /// The devices that get each project's memories.
    pub shares: &'a Shares,
    /// Removes secrets.
    pub redact: fn(&str) -> String,
    /// Rebuilds the digest of a session that loses a summary.
    pub digest: fn(&[TurnLine]) -> Digest,
    /// The current time.
    pub now: Millis,
    /// The server's time, if it is known.
    pub server_now: Option<Millis>,
}

/// The next step of sending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextBatch {
    /// The server has to remove these bodies first, up to these clocks. A device that has applied the
    /// tombstone of a project sends later memories of it, which must not be removed.
    Purges(Vec<(String, i64)>),
    /// These records are next; none if everything is sent.
    Records(Vec<OutgoingRecord>),
}

/// Returns the next step of sending, with up to a number of records and bytes after `sent`. Turns changed
/// items into records if there are none.
pub fn next_batch(
    database: &mut Connection,
    collector: Collector<'_>,
    sent: i64,
    (max_records, max_bytes): (u32, usize),
) -> Result<NextBatch, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = Vec::new();
    while batch.is_empty() {
        if let Some(server_now) = collector.server_now {
            restamp(&transaction, server_now)?;
        }
        // In the transaction that reads the records: `forget` adds both at any time.
        let purges = forgotten::purges(&transaction, max_records)?;
        if !purges.is_empty() {
            transaction.commit()?;
            return Ok(NextBatch::Purges(purges));
        }
        batch = outbox(&transaction, sent, max_records, max_bytes)?;
        if batch.is_empty() && collect(&transaction, collector, max_records)? == 0 {
            break;
        }
    }
    transaction.commit()?;
    Ok(NextBatch::Records(batch))
}

/// Turns up to `limit` changed items into records. Returns the number of items, 0 if none is left.
fn collect(transaction: &Connection, collector: Collector<'_>, limit: u32) -> Result<usize, StoreError> {
    let items: Vec<String> = {
        let mut statement = transaction.prepare_cached("SELECT item FROM sync_dirty LIMIT ?1")?;
        let rows = statement.query_map([limit], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    for item in &items {
        collect_item(transaction, collector, item)?;
    }
    Ok(items.len())
}

/// Turns one changed item into records, if its content really changed.
pub(super) fn collect_item(
    transaction: &Connection,
    collector: Collector<'_>,
    item: &str,
) -> Result<(), StoreError> {
    let mut parts = content::read(transaction, item)?;
    if parts.is_empty() {
        parts.extend(veto::lifted(transaction, item)?);
    }
    let (mut is_forgotten, mut is_foreign) = (false, false);
    if let Some(part) = parts.first() {
        let hlc = version(transaction, collector, part)?;
        is_forgotten = forgotten::is_forgotten(transaction, part, hlc, false)?;
        is_foreign = !is_forgotten
            && forgotten::is_of_team(transaction, item)?
            && forgotten::is_forgotten(transaction, part, hlc, true)?;
    }
    if let Some(part) = parts.first().filter(|_| is_forgotten || is_foreign) {
        // An import or a restored backup brought it back.
        burial::erase_again(transaction, part, is_foreign, collector)?;
    } else {
        for part in &parts {
            send(transaction, collector, part)?;
        }
    }
    transaction.prepare_cached("DELETE FROM sync_dirty WHERE item = ?1")?.execute([item])?;
    Ok(())
}

fn send(transaction: &Connection, collector: Collector<'_>, part: &RecordContent) -> Result<(), StoreError> {
    let share = collector.shares.of(&part.project);
    if share == Share::None {
        return Ok(());
    }
    let hlc = version(transaction, collector, part)?;
    // Another member's tombstone keeps the team from getting it, and not us from having it.
    let is_shared = share == Share::Team && !forgotten::is_forgotten(transaction, part, hlc, true)?;
    let sql = "SELECT hash, shared FROM sync_items WHERE item = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? == 1));
    let known = transaction.prepare_cached(sql)?.query_row([&part.item], read).optional()?;
    let hash = part.hash();
    let is_known = known.is_some_and(|(known, was_shared)| known == hash && was_shared >= is_shared);
    if is_known || (known.is_none() && part.is_default) {
        return Ok(());
    }
    let outgoing = OutgoingRecord {
        seq: 0,
        id: new_uid(),
        kind: part.kind as i16,
        item: part.item.clone(),
        project: part.project.clone(),
        hlc: hlc.0,
        is_shared,
        body: part.body(collector.redact),
    };
    enqueue(transaction, &outgoing)?;
    let sql = "INSERT INTO sync_items (item, hlc, device, hash, shared, value, refers)
               SELECT ?1, ?2, device, ?3, ?4, ?5, ?6 FROM sync_state WHERE true
               ON CONFLICT (item) DO UPDATE SET hlc = excluded.hlc, device = excluded.device, hash = excluded.hash,
                 shared = iif(excluded.shared = 0 AND shared > 0, 2, excluded.shared), value = excluded.value, refers = excluded.refers";
    let row = params![part.item, hlc.0, hash, is_shared, part.kept_value(), part.refers];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

/// Returns the version that a change made here gets. A memory's first version has the time of the
/// memory: the same one on two devices, or on a device that comes back after a long time, must not
/// win over a later change.
fn version(database: &Connection, collector: Collector<'_>, part: &RecordContent) -> Result<Hlc, StoreError> {
    let sql = "SELECT 1 FROM sync_items WHERE item = ?1";
    if part.kind != RecordKind::Mark && !database.prepare_cached(sql)?.exists([&part.item])? {
        return Ok(Hlc::at(part.at));
    }
    let clock =
        Hlc(database.prepare_cached("SELECT clock FROM sync_state")?.query_row([], |row| row.get(0))?);
    Ok(clock.next(collector.now))
}

/// Appends a record to this device's log.
pub(super) fn enqueue(transaction: &Connection, outgoing: &OutgoingRecord) -> Result<(), StoreError> {
    let sql = "UPDATE sync_state SET seq = seq + 1, clock = max(clock, ?1) RETURNING seq";
    let seq: i64 = transaction.prepare_cached(sql)?.query_row([outgoing.hlc], |row| row.get(0))?;
    let sql = "INSERT INTO sync_outbox (seq, id, kind, item, project, hlc, shared, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let OutgoingRecord { id, kind, item, project, hlc, is_shared, body, .. } = outgoing;
    transaction.prepare_cached(sql)?.execute(params![seq, id, kind, item, project, hlc, is_shared, body])?;
    Ok(())
}

/// Returns the oldest records after `seq`, up to these limits, but at least one.
pub fn outbox(
    database: &Connection,
    after: i64,
    max_records: u32,
    max_bytes: usize,
) -> Result<Vec<OutgoingRecord>, StoreError> {
    let sql = "SELECT seq, id, kind, item, project, hlc, shared, body FROM sync_outbox WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![after, max_records], |row| {
        Ok(OutgoingRecord {
            seq: row.get(0)?,
            id: row.get(1)?,
            kind: row.get(2)?,
            item: row.get(3)?,
            project: row.get(4)?,
            hlc: row.get(5)?,
            is_shared: row.get(6)?,
            body: row.get(7)?,
        })
    })?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += row.body.len();
        if !batch.is_empty() && bytes > max_bytes {
            break;
        }
        batch.push(row);
    }
    Ok(batch)
}

/// Drops the records that the server has, up to this one.
pub fn acknowledge(database: &mut Connection, seq: i64, id: &str) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Other devices may have these by now: `restamp` must not go back behind them.
    let sql = "UPDATE sync_state SET seen = max(seen, coalesce((SELECT max(hlc) FROM sync_outbox WHERE seq <= ?1), 0))";
    transaction.prepare_cached(sql)?.execute([seq])?;
    transaction.prepare_cached("DELETE FROM sync_outbox WHERE seq <= ?1")?.execute([seq])?;
    let sql = "UPDATE sync_state SET acked = ?1, acked_id = ?2 WHERE acked < ?1";
    transaction.prepare_cached(sql)?.execute(params![seq, id])?;
    Ok(transaction.commit()?)
}

/// Lists every memory as changed: those whose content the server has are not sent again.
pub fn enqueue_everything(database: &Connection) -> Result<(), StoreError> {
    for shape in &SHAPES {
        let sql = format!(
            "INSERT OR IGNORE INTO sync_dirty SELECT '{}:' || {} FROM {}",
            shape.letter, shape.key, shape.table
        );
        database.execute(&sql, [])?;
    }
    Ok(())
}

/// Sets an unsendable record aside: its place in the log stays, without a body.
pub fn withhold(
    database: &mut Connection,
    record: &OutgoingRecord,
    reason: &str,
    now: Millis,
) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.prepare_cached("UPDATE sync_outbox SET body = '' WHERE seq = ?1")?.execute([record.seq])?;
    let sql = "INSERT OR REPLACE INTO sync_refused (place, device, reason, at) SELECT ?1, device, ?2, ?3 FROM sync_state";
    transaction.prepare_cached(sql)?.execute(params![record.item, reason, now])?;
    Ok(transaction.commit()?)
}

/// True if the item's row changed here since its last record.
pub(super) fn is_dirty(database: &Connection, item: &str) -> Result<bool, StoreError> {
    let row = content::row_of(item);
    Ok(database.prepare_cached("SELECT 1 FROM sync_dirty WHERE item = ?1")?.exists([row])?)
}
