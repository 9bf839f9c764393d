//! Records that were set aside, with the reason.

use rusqlite::{Connection, TransactionBehavior, params};

use super::super::StoreError;
use crate::model::Millis;

/// A record that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// `device/seq` of a received record, or the item of one that was not sent.
    pub place: String,
    /// The device that made it.
    pub device: String,
    /// The reason.
    pub reason: String,
    /// The time.
    pub at: Millis,
}

/// Sets a received record aside.
pub(super) fn refuse(
    transaction: &Connection,
    device: &str,
    seq: i64,
    reason: &str,
    now: Millis,
) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO sync_refused (place, device, reason, at) VALUES (?1, ?2, ?3, ?4)";
    transaction.prepare_cached(sql)?.execute(params![format!("{device}/{seq}"), device, reason, now])?;
    Ok(())
}

/// Lists the records that were set aside.
pub fn list_refused(database: &Connection) -> Result<Vec<Refused>, StoreError> {
    let sql = "SELECT place, device, reason, at FROM sync_refused ORDER BY at, place";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(Refused { place: row.get(0)?, device: row.get(1)?, reason: row.get(2)?, at: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Forgets what was set aside, so that the next cycle tries it again: cursors go back to before the
/// first refused record of each device, and refused rows count as changed. Returns their number.
pub fn retry_refused(database: &mut Connection) -> Result<usize, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let refused = list_refused(&transaction)?;
    for record in &refused {
        match record
            .place
            .strip_prefix(&format!("{}/", record.device))
            .and_then(|seq| seq.parse::<i64>().ok())
        {
            Some(seq) => {
                let sql = "UPDATE sync_cursors SET seq = min(seq, ?2) WHERE device = ?1";
                transaction.prepare_cached(sql)?.execute(params![record.device, seq - 1])?;
            }
            None => {
                let sql = "UPDATE sync_items SET hash = 0 WHERE item = ?1";
                transaction.prepare_cached(sql)?.execute([&record.place])?;
                let sql = "INSERT OR IGNORE INTO sync_dirty VALUES (?1)";
                transaction.prepare_cached(sql)?.execute([&record.place])?;
            }
        }
    }
    transaction.execute("DELETE FROM sync_refused", [])?;
    transaction.commit()?;
    Ok(refused.len())
}
