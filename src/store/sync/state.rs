//! The identity of this device, its place in its own log, and in the logs of the others.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::super::StoreError;
use super::super::memory::new_uid;
use super::collect::enqueue_everything;
use super::forgotten;
use super::hlc::Hlc;
use crate::model::Millis;

const TABLES: &str = include_str!("tables.sql");

/// This device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceState {
    /// The team that it synchronises with.
    pub team: String,
    /// Its id.
    pub device: String,
    /// The fingerprint of the machine and directory that got this id.
    pub place: String,
    /// The last record of its log.
    pub seq: i64,
    /// The last record that the server is known to have.
    pub acked: i64,
    /// The id of that record; empty if there is none.
    pub acked_id: String,
    /// Time of the last complete cycle.
    pub synced_at: Option<Millis>,
    /// The reason why the last cycle failed.
    pub problem: Option<String>,
}

/// True if the database has the tables of synchronisation.
pub fn is_set_up(database: &Connection) -> Result<bool, StoreError> {
    Ok(database.table_exists(None, "sync_state")?)
}

/// Returns this device, if it synchronises.
pub fn state(database: &Connection) -> Result<Option<DeviceState>, StoreError> {
    if !is_set_up(database)? {
        return Ok(None);
    }
    let sql = "SELECT team, device, place, seq, acked, acked_id, synced_at, problem FROM sync_state";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(DeviceState {
            team: row.get(0)?,
            device: row.get(1)?,
            place: row.get(2)?,
            seq: row.get(3)?,
            acked: row.get(4)?,
            acked_id: row.get(5)?,
            synced_at: row.get(6)?,
            problem: row.get(7)?,
        })
    };
    Ok(database.prepare_cached(sql)?.query_row([], read).optional()?)
}

/// Creates the tables for a new device of this team, with every memory waiting to be sent. Replaces
/// those of an earlier membership. Returns the device's id.
pub fn set_up(database: &mut Connection, team: &str, place: &str, now: Millis) -> Result<String, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    drop_tables(&transaction)?;
    transaction.execute_batch(TABLES)?;
    let device = new_uid();
    let sql = "INSERT INTO sync_state (only_row, team, device, place) VALUES (1, ?1, ?2, ?3)";
    transaction.execute(sql, [team, &device, place])?;
    enqueue_everything(&transaction)?;
    forgotten::seed(&transaction, now)?;
    transaction.commit()?;
    Ok(device)
}

/// Drops the tables and triggers. The memories stay.
pub fn tear_down(database: &mut Connection) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    drop_tables(&transaction)?;
    Ok(transaction.commit()?)
}

fn drop_tables(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let sql = "SELECT 'DROP ' || type || ' ' || name FROM sqlite_schema
               WHERE name LIKE 'sync\\_%' ESCAPE '\\' AND type IN ('table', 'trigger', 'view') ORDER BY type DESC";
    let drops: Vec<String> = {
        let mut statement = transaction.prepare(sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    for drop in drops {
        transaction.execute(&drop, [])?;
    }
    Ok(())
}

/// Continues as a new device, because another one writes, or wrote, a log under the old id: the
/// database was copied, or restored from a backup. What was not acknowledged is sent again under the
/// new id; what the server has beyond that is received like another device's. With `resend`, the
/// server lost records: everything that was made here is sent again.
pub fn become_device(database: &mut Connection, place: &str, resend: bool) -> Result<String, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let device = new_uid();
    let sql = "INSERT INTO sync_cursors (device, seq) SELECT device, acked FROM sync_state WHERE true
               ON CONFLICT (device) DO UPDATE SET seq = excluded.seq";
    transaction.execute(sql, [])?;
    if resend {
        let sql = "UPDATE sync_items SET hash = 0 WHERE device = (SELECT device FROM sync_state)";
        transaction.execute(sql, [])?;
        enqueue_everything(&transaction)?;
        forgotten::send_all(&transaction)?;
    }
    let waiting: Vec<i64> = {
        let mut statement = transaction.prepare("SELECT seq FROM sync_outbox ORDER BY seq")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    // Ascending: a new number is never above the old one, so it is free.
    for (at, old) in (1_i64..).zip(&waiting) {
        let sql = "UPDATE sync_outbox SET seq = ?2, id = ?3 WHERE seq = ?1";
        transaction.prepare_cached(sql)?.execute(params![old, at, new_uid()])?;
    }
    let sql = "UPDATE sync_items SET device = ?1 WHERE item IN (SELECT item FROM sync_outbox)";
    transaction.execute(sql, [&device])?;
    let last = i64::try_from(waiting.len()).unwrap_or(i64::MAX);
    let sql = "UPDATE sync_state SET device = ?1, place = ?2, seq = ?3, acked = 0, acked_id = ''";
    transaction.execute(sql, params![device, place, last])?;
    transaction.commit()?;
    Ok(device)
}

/// Returns the last record of each other device that is here.
pub fn cursors(database: &Connection) -> Result<HashMap<String, i64>, StoreError> {
    let mut statement = database.prepare_cached("SELECT device, seq FROM sync_cursors")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Records that everything up to `seq` of a device is here.
pub fn mark_cursor(database: &Connection, device: &str, seq: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO sync_cursors (device, seq) VALUES (?1, ?2)
               ON CONFLICT (device) DO UPDATE SET seq = max(seq, excluded.seq)";
    database.prepare_cached(sql)?.execute(params![device, seq])?;
    Ok(())
}

/// Returns the number of rows and records that wait to be sent.
pub fn dirty(database: &Connection) -> Result<i64, StoreError> {
    if !is_set_up(database)? {
        return Ok(0);
    }
    let sql = "SELECT (SELECT count(*) FROM sync_dirty) + (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM sync_purges)";
    Ok(database.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Time within which a repeated success is not recorded again: an idle machine writes nothing.
const RECORDED_FOR: Millis = 10 * 60_000;

/// True if a complete cycle is worth recording.
pub fn is_cycle_news(database: &Connection, now: Millis) -> Result<bool, StoreError> {
    let sql =
        "SELECT problem IS NOT NULL OR synced_at IS NULL OR synced_at NOT BETWEEN ?1 AND ?2 FROM sync_state";
    Ok(database.prepare_cached(sql)?.query_row([now - RECORDED_FOR, now], |row| row.get(0))?)
}

/// Records a complete cycle.
pub fn finish_cycle(database: &Connection, now: Millis) -> Result<(), StoreError> {
    let sql = "UPDATE sync_state SET synced_at = ?1, problem = NULL";
    database.prepare_cached(sql)?.execute([now])?;
    Ok(())
}

/// Records why a cycle failed.
pub fn set_problem(database: &Connection, problem: &str) -> Result<(), StoreError> {
    if is_set_up(database)? {
        let sql = "UPDATE sync_state SET problem = ?1 WHERE problem IS NOT ?1";
        database.prepare_cached(sql)?.execute([problem])?;
    }
    Ok(())
}

/// Maximum lead of an unsent record over the server's clock before it gets another time.
const TOLERATED_AHEAD_MS: Millis = 10 * 60_000;

/// Gives unsent records that are ahead of the server's clock a time that other devices accept, in
/// the same order: this machine's clock was wrong when they were made.
pub(super) fn restamp(transaction: &Connection, server_now: Millis) -> Result<(), StoreError> {
    let limit = Hlc::at(server_now + TOLERATED_AHEAD_MS).0;
    let sql = "SELECT clock > ?1 OR EXISTS (SELECT 1 FROM sync_outbox WHERE hlc > ?1) FROM sync_state";
    if !transaction.prepare_cached(sql)?.query_row([limit], |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    // Later changes must come after the records that keep their time: the server may have them already.
    let sql =
        "SELECT max(seen, coalesce((SELECT max(hlc) FROM sync_outbox WHERE hlc <= ?1), 0)) FROM sync_state";
    let kept: i64 = transaction.query_row(sql, [limit], |row| row.get(0))?;
    let mut clock = Hlc::at(server_now).max(Hlc(kept));
    let ahead: Vec<(i64, String, i64)> = {
        let sql = "SELECT seq, item, hlc FROM sync_outbox WHERE hlc > ?1 ORDER BY hlc, seq";
        let mut statement = transaction.prepare(sql)?;
        let rows = statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    for (seq, item, old) in ahead {
        clock = Hlc(clock.0 + 1);
        let sql = "UPDATE sync_outbox SET hlc = ?2 WHERE seq = ?1";
        transaction.prepare_cached(sql)?.execute([seq, clock.0])?;
        let sql = "UPDATE sync_items SET hlc = ?2 WHERE item = ?1 AND hlc = ?3";
        transaction.prepare_cached(sql)?.execute(params![item, clock.0, old])?;
        if item.is_empty() {
            let sql = "UPDATE sync_forgotten SET hlc = ?1 WHERE hlc = ?2 AND NOT is_foreign";
            transaction.prepare_cached(sql)?.execute([clock.0, old])?;
            // Digests that the tombstone removed here (`burial::select_session`).
            let sql = "UPDATE sync_items SET hlc = ?1 WHERE hlc = ?2 AND device = ''";
            transaction.prepare_cached(sql)?.execute([clock.0, old])?;
        }
    }
    transaction.execute("UPDATE sync_state SET clock = ?1", [clock.0])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corrected_clock_stays_behind_no_record_that_keeps_its_time() {
        let database = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE sync_state (clock INTEGER, seen INTEGER);
            CREATE TABLE sync_items (item TEXT, hlc INTEGER, device TEXT);
            CREATE TABLE sync_outbox (seq INTEGER, item TEXT, hlc INTEGER);";
        database.execute_batch(tables).unwrap();
        let (server_now, day) = (1_000_000_000, 86_400_000);
        let (kept, ahead) = (Hlc::at(server_now + 17_000).0, Hlc::at(server_now + day).0);
        let sql = format!(
            "INSERT INTO sync_state VALUES ({ahead}, 0);
             INSERT INTO sync_outbox VALUES (1, 'l:a', {kept}), (2, 'l:b', {ahead});"
        );
        database.execute_batch(&sql).unwrap();
        restamp(&database, server_now).unwrap();
        let sql = "SELECT (SELECT hlc FROM sync_outbox WHERE seq = 1), (SELECT hlc FROM sync_outbox WHERE seq = 2), clock FROM sync_state";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: (i64, i64, i64) = database.query_row(sql, [], read).unwrap();
        assert_eq!(found, (kept, kept + 1, kept + 1));
    }
}
