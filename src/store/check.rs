//! Whether the database is whole.

use rusqlite::Connection;

use super::tables::Table;
use super::{StoreError, rows};

/// Looks at every page, which a database of some gigabytes makes slow. An error tells what is damaged.
///
/// On a connection that was just opened: on one that has searched before, SQLite takes what FTS5 remembers of the index for
/// what is there, and calls it damaged if somebody else has written meanwhile.
pub fn pages(database: &Connection) -> Result<(), StoreError> {
    ask(database, "quick_check(1)")?;
    rows::names_are_text(database)
}

/// The same, and whether every index has what its table has, which takes several times as long.
pub fn everything(database: &Connection) -> Result<(), StoreError> {
    ask(database, "integrity_check(1)")?;
    rows::names_are_text(database)
}

/// Whether one table is whole and its indexes have what it has.
pub fn table(database: &Connection, table: &Table) -> Result<(), StoreError> {
    ask(database, &format!("integrity_check({})", table.name))
}

fn ask(database: &Connection, check: &str) -> Result<(), StoreError> {
    let said: String = database.query_row(&format!("PRAGMA {check}"), [], |row| row.get(0))?;
    if said == "ok" { Ok(()) } else { Err(StoreError::Damaged(said)) }
}
