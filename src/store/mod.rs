//! The database: the only place with SQL.
//!
//! One file, WAL, one transaction for everything that belongs together. Knows nothing of HTTP, models or prompts.

#[cfg(feature = "service")]
pub mod backup;
mod capture;
#[cfg(feature = "service")]
pub mod check;
pub mod context;
#[cfg(feature = "service")]
pub mod curate;
#[cfg(feature = "service")]
pub mod forget;
#[cfg(feature = "service")]
mod function_map;
#[cfg(feature = "service")]
pub mod index;
#[cfg(feature = "service")]
pub mod learnings;
pub mod limits;
pub mod log;
#[cfg(feature = "service")]
pub mod memory;
#[cfg(feature = "service")]
pub mod overview;
#[cfg(feature = "service")]
mod pool;
#[cfg(feature = "service")]
pub mod predecessor;
#[cfg(feature = "service")]
pub mod queue;
#[cfg(feature = "service")]
pub mod queue_admin;
#[cfg(feature = "service")]
pub mod recovery;
#[cfg(feature = "service")]
pub mod restore;
#[cfg(feature = "service")]
pub mod rows;
#[cfg(feature = "service")]
mod salvage;
mod schema;
#[cfg(feature = "service")]
pub mod search;
pub mod sessions;
#[cfg(feature = "service")]
pub mod statistics;
#[cfg(feature = "service")]
pub mod tables;
#[cfg(feature = "service")]
pub mod upkeep;
#[cfg(feature = "service")]
pub mod vectors;
#[cfg(feature = "service")]
mod write_ahead;

use std::io;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

#[cfg(feature = "service")]
pub use capture::record_all;
pub use capture::{Recorded, note_ignored_setting, record, take_notice};
#[cfg(feature = "service")]
pub use pool::{Readers, be_patient, open_for_worker, open_reader, open_readers};
pub use schema::{CURRENT as SCHEMA_VERSION, Version};
pub use sessions::{RecentSession, recent_sessions};

use crate::paths::{Home, HomeError};

/// Why the database did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else holds the lock for longer than we may wait.
    #[error("the database is busy")]
    Busy,
    /// It is not a database, or damaged.
    #[error("the database is damaged: {0}")]
    Corrupt(rusqlite::Error),
    /// A check of the whole file found this.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// It was damaged, and is being replaced.
    #[error("the database was damaged and is being recovered")]
    Recovering,
    /// A newer version of claude-mem made it.
    #[error(
        "the database was made by a newer claude-mem (schema {found}, this one knows {known}): upgrade claude-mem"
    )]
    Newer {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It needs a migration, which is the worker's to do.
    #[error("the database has the older schema {0}: the worker brings it up to date when it starts")]
    Older(i64),
    /// Another program's database lies at our place.
    #[error("the database belongs to another program")]
    Foreign,
    /// There is none yet, and none is to be made.
    #[error("there is no database yet")]
    Missing,
    /// The file that was opened is no longer the one at its place.
    #[error("the database file was removed or replaced")]
    Replaced,
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// This very thing cannot be stored, or read: trying again will not help, and other things are not concerned.
    #[error("the database does not take this: {0}")]
    Refused(rusqlite::Error),
    /// The thread that does the work is gone, or died of this piece of it.
    #[error("the database's thread gave no answer")]
    Gone,
    /// The data directory cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The file system said no.
    #[error("cannot write beside the database: {0}")]
    Io(#[from] io::Error),
    /// SQLite said no.
    #[error("the database: {0}")]
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
    /// Whether it passes by itself while the database stays as it is: then it is worth waiting for.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Busy | Self::Full)
    }

    /// Whether the file may be broken. Our own statements fit the schema: where one does not, what it works on is not as we
    /// made it.
    #[cfg(feature = "service")]
    pub fn hints_at_damage(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::Unknown),
            other => other.is_damage(),
        }
    }

    /// What is wrong, without the words that every damage has in common.
    #[cfg(feature = "service")]
    pub fn cause(&self) -> String {
        match self {
            Self::Corrupt(error) | Self::Refused(error) | Self::Sql(error) => error.to_string(),
            Self::Damaged(damage) => damage.clone(),
            other => other.to_string(),
        }
    }

    /// Whether the file itself is broken.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Damaged(_))
    }
}

/// The database for a hook's one transaction. Made if it is missing; not migrated, because that can take long.
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
    leave_log_alone(&database, home)?;
    match schema::version(&database)? {
        Version::Current => {}
        Version::Older(found) => return Err(StoreError::Older(found)),
        Version::Empty => schema::create(&mut database, patience)?,
    }
    Ok(database)
}

/// The same for a person's own changes, who may wait for the disk and believes what is said to be done.
#[cfg(feature = "service")]
pub fn open_to_change(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    let database = open_for_hook(home, busy_ms)?;
    sync_every_commit(&database)?;
    Ok(database)
}

/// From now on a commit returns when it is on the disk, and all commits before it, whoever made them.
pub fn sync_every_commit(database: &Connection) -> Result<(), StoreError> {
    Ok(database.pragma_update(None, "synchronous", "FULL")?)
}

/// Where nobody checkpoints, every hook reads the whole log when it opens the database: it may not grow beyond this.
const LOG_TO_WRITE_BACK: u64 = 1 << 20;

/// Writing the log back into the database is the worker's work: it costs twice what an insert does. Only where no worker
/// lives does a hook do it, when it closes as the last connection and the log has grown.
fn leave_log_alone(database: &Connection, home: &Home) -> Result<(), StoreError> {
    database.pragma_update(None, "wal_autocheckpoint", 0)?;
    let log = std::fs::metadata(home.log()).map_or(0, |meta| meta.len());
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, log < LOG_TO_WRITE_BACK)?;
    Ok(())
}

/// The database for reading only. Never made, never changed.
pub fn open_to_read(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    if home.recovering().exists() {
        return Err(StoreError::Recovering);
    }
    let path = home.database();
    // What may not be looked at is there; opening it tells why not.
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Err(StoreError::Missing);
    }
    // A reader of a WAL database must be able to write the -shm file; query_only keeps the tables safe.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    prepare(&database, Duration::from_millis(busy_ms.into()))?;
    leave_log_alone(&database, home)?;
    database.pragma_update(None, "query_only", true)?;
    match schema::version(&database)? {
        Version::Current => Ok(database),
        Version::Older(found) => Err(StoreError::Older(found)),
        Version::Empty => Err(StoreError::Missing),
    }
}

/// The same for searching: it may bring what waits for the index into it.
#[cfg(feature = "service")]
pub fn open_to_recall(home: &Home, busy_ms: u32) -> Result<Connection, StoreError> {
    let database = open_to_read(home, busy_ms)?;
    database.pragma_update(None, "query_only", false)?;
    Ok(database)
}

/// Writes the log back, so that the database is one file and whole without others beside it. For whoever has seen to it that
/// nobody uses it any more.
#[cfg(feature = "service")]
pub fn leave_one_file(home: &Home) -> Result<(), StoreError> {
    let database = open_to_recall(home, 1000)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// What every connection needs.
fn prepare(database: &Connection, patience: Duration) -> Result<(), StoreError> {
    database.busy_timeout(patience)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    keep_plans(database)?;
    // In WAL mode a commit survives a crash of the program without a sync of its own; the worker syncs a moment later.
    database.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(())
}

/// Otherwise SQLite plans a statement anew whenever it is given other values, which takes as long as most of ours run.
fn keep_plans(database: &Connection) -> rusqlite::Result<()> {
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// A column that holds a list as JSON. One that cannot be read is empty.
fn listed(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Vec<String>> {
    let json: Option<String> = row.get(index)?;
    Ok(json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default())
}
