//! The database: the only module with SQL.
//!
//! One file in WAL mode; everything that belongs together is one transaction. Does not depend on
//! HTTP, models or prompts.

#[cfg(feature = "service")]
pub mod browse;
pub mod context;
pub mod corrections;
#[cfg(feature = "service")]
pub mod files;
#[cfg(feature = "service")]
pub mod index;
mod ingest;
pub mod log;
pub mod maintenance;
#[cfg(feature = "service")]
pub mod memory;
#[cfg(feature = "service")]
pub mod queue;
pub mod schema;
pub mod sessions;
#[cfg(feature = "service")]
pub mod sync;

use std::io;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

#[cfg(feature = "service")]
pub use browse::{overview, statistics};
#[cfg(feature = "service")]
pub use files::connections::{
    Readers, open_for_worker, open_reader, open_readers, release_cache, set_busy_timeout,
};
#[cfg(feature = "service")]
pub use ingest::record_all;
pub use ingest::{
    Recorded, count_observations, ends_nothing, note_ignored_setting, oldest_waiting, record, show_once,
    take_notice,
};
#[cfg(feature = "service")]
pub use schema::tables;
pub use schema::{CURRENT as SCHEMA_VERSION, SchemaVersion};
pub use sessions::projects;
#[cfg(feature = "service")]
pub use sessions::{backfill, prompts};

use crate::paths::{Home, HomeError};

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process held the lock for longer than the busy timeout.
    #[error("the database is busy")]
    Busy,
    /// The file is not a database, or it is damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(rusqlite::Error),
    /// A check of the whole file found this.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// The database was damaged and is being replaced.
    #[error("the database was damaged and is being recovered")]
    Recovering,
    /// A newer version of claude-mem created it.
    #[error(
        "a newer claude-mem created the database (schema {found}, this one supports {known}): upgrade claude-mem"
    )]
    Newer {
        /// Its schema version.
        found: i64,
        /// Our schema version.
        known: i64,
    },
    /// The database needs a migration, which only the worker does.
    #[error("the database has the older schema {0}: start the worker, which migrates it")]
    Older(i64),
    /// The file at our path belongs to another program.
    #[error("the database belongs to another program")]
    Foreign,
    /// There is no database, and the caller must not create one.
    #[error("no memories yet")]
    Missing,
    /// The opened file is no longer the one at its path.
    #[error("the database file was removed or replaced")]
    Replaced,
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// Deferrable work would take the disk space that new events need.
    #[cfg(feature = "service")]
    #[error(transparent)]
    NoRoom(#[from] crate::files::disk::NoRoom),
    /// This row or value cannot be stored or read: a retry does not help, and other rows are not
    /// affected.
    #[error("the database rejected this: {0}")]
    Refused(rusqlite::Error),
    /// The user does not want this statement to be stored.
    #[cfg(feature = "service")]
    #[error("this statement is vetoed; lift the veto first (claude-mem open, Memory)")]
    Vetoed,
    /// The database thread has ended, or panicked on this request.
    #[error("the database thread did not respond")]
    Gone,
    /// The data directory cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A file system error.
    #[error("cannot access the data directory: {0}")]
    Io(#[from] io::Error),
    /// Any other SQLite error.
    #[error("database error: {0}")]
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt(error),
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) | None => {
                Self::Refused(error)
            }
            Some(_) => Self::Sql(error),
        }
    }
}

impl StoreError {
    /// True for errors that go away while the database stays as it is (busy, disk full): worth
    /// waiting for.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy | Self::Full)
    }

    /// True if the file may be damaged. Our own statements fit the schema: if one does not, the
    /// schema is not the one we created.
    #[cfg(feature = "service")]
    pub fn may_be_damage(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::Unknown),
            other => other.is_damage(),
        }
    }

    /// Returns the cause, without the words that all damage errors share.
    #[cfg(feature = "service")]
    pub fn cause(&self) -> String {
        match self {
            Self::Corrupt(error) | Self::Refused(error) | Self::Sql(error) => error.to_string(),
            Self::Damaged(damage) => damage.clone(),
            other => other.to_string(),
        }
    }

    /// True if the file itself is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Damaged(_))
    }
}

/// Opens the database for a hook's single transaction. Creates it if it is missing; does not
/// migrate it, because that can take long.
pub fn open_for_hook(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    home.prepare()?;
    if home.recovering().exists() {
        return Err(StoreError::Recovering);
    }
    let patience = Duration::from_millis(busy_ms.into());
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(home.database(), flags)?;
    prepare(&database, patience)?;
    leave_checkpoints_to_the_worker(&database, home)?;
    match schema::version(&database)? {
        SchemaVersion::Current => {}
        SchemaVersion::Older(found) => return Err(StoreError::Older(found)),
        SchemaVersion::Empty => schema::create(&mut database, patience)?,
    }
    Ok(database)
}

/// Opens the database for a user's own changes: commits are synced, because the user may wait for
/// the disk and relies on the reported result.
#[cfg(feature = "service")]
pub fn open_to_change(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    let database = open_for_hook(home, busy_ms)?;
    sync_every_commit(&database)?;
    Ok(database)
}

/// Opens the database for thousands of changes: every statement stays prepared, and the WAL stays
/// small without a worker, also when it is closed.
#[cfg(feature = "service")]
pub fn open_for_bulk_change(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    let database = open_to_change(home, busy_ms)?;
    database.set_prepared_statement_cache_capacity(BULK_STATEMENTS);
    database.pragma_update(None, "cache_size", BULK_CACHE_KIB)?;
    database.pragma_update(None, "wal_autocheckpoint", BULK_WAL_PAGES)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(database)
}

/// Statement cache of a bulk change: applying records of other devices uses about 30.
#[cfg(feature = "service")]
const BULK_STATEMENTS: usize = 64;
/// Page cache of a bulk change; negative values are KiB.
#[cfg(feature = "service")]
const BULK_CACHE_KIB: i64 = -16 * 1024;
/// Pages in the WAL after which a bulk change writes them back.
#[cfg(feature = "service")]
const BULK_WAL_PAGES: i64 = 4000;

/// Makes each commit return only when it, and all earlier commits of any process, are on disk.
pub fn sync_every_commit(database: &Connection) -> Result<(), StoreError> {
    if cfg!(target_os = "macos") {
        database.pragma_update(None, "fullfsync", true)?;
    }
    Ok(database.pragma_update(None, "synchronous", "FULL")?)
}

/// Maximum WAL size in bytes while no worker checkpoints: every hook reads the whole WAL when it
/// opens the database.
const MAX_UNATTENDED_WAL_BYTES: u64 = 1 << 20;

/// Leaves checkpoints to the worker, because one costs twice as much as an insert. Only if no
/// worker runs does a hook checkpoint, when it closes the last connection and the WAL has grown.
fn leave_checkpoints_to_the_worker(database: &Connection, home: &Home) -> Result<(), StoreError> {
    database.pragma_update(None, "wal_autocheckpoint", 0)?;
    let log = std::fs::metadata(home.wal()).map_or(0, |meta| meta.len());
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, log < MAX_UNATTENDED_WAL_BYTES)?;
    Ok(())
}

/// Ends the use of a hook's connection. The end of the process releases memory, files and locks faster than closing does, which
/// is only needed for a checkpoint.
pub fn leave_open_until_exit(database: Connection) {
    if database.db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE).unwrap_or(false) {
        std::mem::forget(database);
    }
}

/// Opens the database read-only. Never creates or changes it.
pub fn open_to_read(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    home.check_local()?;
    if home.recovering().exists() {
        return Err(StoreError::Recovering);
    }
    let path = home.database();
    // A file that may not be examined exists; opening it reports the reason.
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Err(StoreError::Missing);
    }
    // Readers of a WAL database must be able to write the -shm file; query_only protects the
    // tables.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    prepare(&database, Duration::from_millis(busy_ms.into()))?;
    leave_checkpoints_to_the_worker(&database, home)?;
    database.pragma_update(None, "query_only", true)?;
    match schema::version(&database)? {
        SchemaVersion::Current => Ok(database),
        SchemaVersion::Older(found) => Err(StoreError::Older(found)),
        SchemaVersion::Empty => Err(StoreError::Missing),
    }
}

/// Opens the database for search, which may also index pending rows.
#[cfg(feature = "service")]
pub fn open_to_recall(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    let database = open_to_read(home, busy_ms)?;
    database.pragma_update(None, "query_only", false)?;
    Ok(database)
}

/// Checkpoints and removes the WAL, so that the database is complete in one file. The caller makes
/// sure that no other process uses it.
#[cfg(feature = "service")]
pub fn checkpoint_into_one_file(home: &Home) -> Result<(), StoreError> {
    let database = open_to_recall(home, 1000)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Applies the settings that every connection needs.
fn prepare(database: &Connection, patience: Duration) -> Result<(), StoreError> {
    database.busy_timeout(patience)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    keep_plans(database)?;
    // In WAL mode a commit survives a crash of the process without its own sync; the worker syncs a
    // moment later.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    if cfg!(target_os = "macos") {
        // On macOS, fsync leaves the data in the disk's cache, which is lost in a power cut.
        database.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    Ok(())
}

/// Keeps SQLite from planning a statement again for other values, which takes as long as most of
/// our statements run.
fn keep_plans(database: &Connection) -> rusqlite::Result<()> {
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Reads a column with a JSON list; an unreadable one is empty.
fn listed(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Vec<String>> {
    let json = row.get_ref(index)?.as_str_or_null().ok().flatten();
    Ok(json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default())
}
