//! The worker's connections: one that writes, and a few that read.

use std::sync::Arc;
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, Version, keep_plans, prepare, queue, schema};
use crate::model::Millis;
use crate::paths::Home;

/// Connections that read. They never block the writer.
pub type Readers = r2d2::Pool<SqliteConnectionManager>;

/// Hooks hold the lock for a millisecond; a backup or a person with a shell may hold it longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where somebody has held it for longer than that.
const NO_PATIENCE: Duration = Duration::from_millis(250);

/// How long the connection waits for a lock from now on.
pub fn be_patient(database: &Connection, is_patient: bool) -> Result<(), StoreError> {
    Ok(database.busy_timeout(if is_patient { PATIENCE } else { NO_PATIENCE })?)
}

/// The one connection that writes: made, migrated, and without claims of workers that are no more.
pub fn open_for_worker(home: &Home, now: Millis) -> Result<Connection, StoreError> {
    home.prepare()?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut database = Connection::open_with_flags(home.database(), flags)?;
    prepare(&database, PATIENCE)?;
    match schema::version(&database)? {
        Version::Empty => schema::create(&mut database, PATIENCE)?,
        Version::Older(_) => schema::migrate(&mut database, &home.backups(), now)?,
        Version::Current => {}
    }
    // Checkpoints are the worker's own decision (worker/upkeep.rs).
    database.pragma_update(None, "wal_autocheckpoint", 0)?;
    keep_log_on_close(&database)?;
    database.pragma_update(None, "cache_size", CACHE_KIB)?;
    database.set_prepared_statement_cache_capacity(STATEMENTS);
    queue::release_orphans(&database)?;
    Ok(database)
}

/// All that one context asks: with fewer, each of its statements would push out the one that comes next.
const STATEMENTS: usize = 48;

/// Negative: KiB. The operating system caches the file anyway.
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

/// A reader beside the pool, for a database that is there and up to date.
pub fn open_reader(home: &Home) -> Result<Connection, StoreError> {
    let database = Connection::open_with_flags(home.database(), READING)?;
    make_reader(&database)?;
    Ok(database)
}

/// A pool of readers for a database that is there and up to date. They are made when they are needed.
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

/// Closing the last connection of a database removes its log by name. If the file was replaced meanwhile, that log is the new
/// database's.
fn keep_log_on_close(database: &Connection) -> rusqlite::Result<()> {
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}
