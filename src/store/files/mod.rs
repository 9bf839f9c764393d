//! The database as a file: backup, restore, check, recovery, and copies of rows between files.

pub mod backup;
pub mod check;
pub mod connections;
pub mod legacy_import;
pub mod recovery;
pub mod restore;
pub mod row_copy;
pub(in crate::store) mod salvage;
pub(in crate::store) mod scrub;
pub(in crate::store) mod wal_check;
