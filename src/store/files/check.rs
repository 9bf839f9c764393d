//! Integrity checks of the database.

use rusqlite::Connection;

use super::row_copy;
use crate::store::StoreError;
use crate::store::tables::PrimaryTable;

/// Checks every page, which is slow for a database of several gigabytes. The error names the
/// damage.
///
/// Needs a freshly opened connection: on one that has searched before, SQLite compares the index
/// with the state that FTS5 has cached, and reports damage if another process has written since.
pub fn pages(database: &Connection) -> Result<(), StoreError> {
    run_pragma(database, "quick_check(1)")?;
    row_copy::names_are_text(database)
}

/// Like [`pages`], and also compares every index with its table, which takes several times as long.
pub fn everything(database: &Connection) -> Result<(), StoreError> {
    run_pragma(database, "integrity_check(1)")?;
    row_copy::names_are_text(database)
}

/// Checks one table and compares its indexes with it.
pub fn table(database: &Connection, table: &PrimaryTable) -> Result<(), StoreError> {
    run_pragma(database, &format!("integrity_check({})", table.name))
}

fn run_pragma(database: &Connection, check: &str) -> Result<(), StoreError> {
    let result: String = database.query_row(&format!("PRAGMA {check}"), [], |row| row.get(0))?;
    if result == "ok" { Ok(()) } else { Err(StoreError::Damaged(result)) }
}
