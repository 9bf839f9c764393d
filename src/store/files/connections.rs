//! The worker's connections: one writer and a few readers.

use std::sync::Arc;
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::model::Millis;
use crate::paths::Home;
use crate::store::{SchemaVersion, StoreError, keep_plans, prepare, queue, schema};

/// Read-only connections. They never block the writer.
pub type Readers = r2d2::Pool<SqliteConnectionManager>;

/// Busy timeout of the writer. Hooks hold the lock for a millisecond; a backup or a user's SQLite
/// shell may hold it longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Busy timeout after another process has held the lock for longer than `PATIENCE`.
const SHORT_PATIENCE: Duration = Duration::from_millis(250);

/// Sets how long the connection waits for a lock from now on.
pub fn set_busy_timeout(database: &Connection, is_patient: bool) -> Result<(), StoreError> {
    Ok(database.busy_timeout(if is_patient { PATIENCE } else { SHORT_PATIENCE })?)
}

/// Opens the writer: creates and migrates the database, and releases the claims of dead workers.
pub fn open_for_worker(home: &Home, now: Millis) -> Result<Connection, StoreError> {
    home.prepare()?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(home.database(), flags)?;
    prepare(&database, PATIENCE)?;
    match schema::version(&database)? {
        SchemaVersion::Empty => schema::create(&mut database, PATIENCE)?,
        SchemaVersion::Older(_) => schema::migrate(&mut database, &home.backups(), now)?,
        SchemaVersion::Current => {}
    }
    // The worker decides when to checkpoint (worker/background/maintenance.rs).
    database.pragma_update(None, "wal_autocheckpoint", 0)?;
    keep_log_on_close(&database)?;
    // A claim rewrites a raw row: the bytes that it frees, in its page or in pages of their own, may be a secret.
    database.pragma_update(None, "secure_delete", true)?;
    database.pragma_update(None, "cache_size", CACHE_KIB)?;
    database.set_prepared_statement_cache_capacity(STATEMENTS);
    queue::release_orphans(&database)?;
    Ok(database)
}

/// Size of the statement cache. It holds all statements of one context: with a smaller cache each
/// would evict the next one.
const STATEMENTS: usize = 48;

/// Page cache; negative values are KiB. Small, because the operating system caches the file anyway.
const CACHE_KIB: i64 = -1024;

const READING: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

fn make_reader(database: &Connection) -> rusqlite::Result<()> {
    keep_log_on_close(database)?;
    keep_plans(database)?;
    database.busy_timeout(PATIENCE)?;
    database.pragma_update(None, "query_only", true)?;
    database.pragma_update(None, "wal_autocheckpoint", 0)?;
    database.set_prepared_statement_cache_capacity(STATEMENTS);
    database.pragma_update(None, "cache_size", CACHE_KIB)
}

/// Opens a reader outside the pool. The database must exist and be up to date.
pub fn open_reader(home: &Home) -> Result<Connection, StoreError> {
    let database = Connection::open_with_flags(home.database(), READING)?;
    make_reader(&database)?;
    Ok(database)
}

/// Creates a pool of readers, which open on demand. The database must exist and be up to date.
pub fn open_readers(home: &Home) -> Result<Readers, StoreError> {
    let manager = SqliteConnectionManager::file(home.database())
        .with_flags(READING)
        .with_init(|database| make_reader(database));
    let pool = r2d2::Pool::builder()
        .max_size(4)
        .min_idle(Some(0))
        // No reaper: it would wake an idle worker twice a minute.
        .idle_timeout(None)
        .max_lifetime(None)
        .test_on_check_out(false)
        .connection_timeout(PATIENCE)
        .error_handler(Box::new(r2d2::NopErrorHandler))
        .thread_pool(Arc::new(scheduled_thread_pool::ScheduledThreadPool::new(1)))
        .build_unchecked(manager);
    Ok(pool)
}

/// Frees the connection's page cache and other memory that it does not need at the moment.
pub fn release_cache(database: &Connection) -> Result<(), StoreError> {
    Ok(database.release_memory()?)
}

/// Keeps the WAL on close. Closing the last connection of a database removes its WAL by name; if
/// the file was replaced in the meantime, that is the WAL of the new database.
fn keep_log_on_close(database: &Connection) -> rusqlite::Result<()> {
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}
