//! Schema versions: creates and migrates the schema, and rejects unknown versions.

#[cfg(feature = "service")]
pub mod tables;

#[cfg(feature = "service")]
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;
#[cfg(feature = "service")]
use super::files::backup::{self, Reason};
#[cfg(feature = "service")]
use crate::model::Millis;

/// Each migration leads from its index to the next version. A shipped one is never edited.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001_schema.sql")];

/// The schema version that this program reads and writes.
pub const CURRENT: i64 = MIGRATIONS.len() as i64;

/// The version of a database, compared with ours.
#[derive(Debug, PartialEq, Eq)]
pub enum SchemaVersion {
    /// The database is empty.
    Empty,
    /// Ours.
    Current,
    /// An earlier version of ours.
    Older(i64),
}

/// Returns the version of an open database; an error if a newer or another program created it.
pub fn version(database: &Connection) -> Result<SchemaVersion, StoreError> {
    let mut found = user_version(database)?;
    if found == 0 {
        if is_empty(database)? {
            return Ok(SchemaVersion::Empty);
        }
        // Another process may have created the schema between the two reads; tables and version are
        // committed together.
        found = user_version(database)?;
    }
    match found {
        0 => Err(StoreError::Foreign),
        _ if found == CURRENT => Ok(SchemaVersion::Current),
        _ if found > CURRENT => Err(StoreError::Newer { found, known: CURRENT }),
        _ => Ok(SchemaVersion::Older(found)),
    }
}

fn user_version(database: &Connection) -> Result<i64, StoreError> {
    Ok(database.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn is_empty(database: &Connection) -> Result<bool, StoreError> {
    Ok(database.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?)
}

/// Creates the schema in an empty database. Several processes may do so at once; one of them wins,
/// and all succeed.
pub fn create(database: &mut Connection, patience: Duration) -> Result<(), StoreError> {
    // auto_vacuum can only be set before the first table is created.
    database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    switch_to_wal(database, patience)?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&transaction)? == SchemaVersion::Empty {
        apply(&transaction, 0)?;
    }
    Ok(transaction.commit()?)
}

/// Retries, because SQLite does not wait for the lock that this switch needs.
fn switch_to_wal(database: &Connection, patience: Duration) -> Result<(), StoreError> {
    let deadline = Instant::now() + patience;
    loop {
        let outcome =
            database.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match outcome.map_err(StoreError::from) {
            Err(StoreError::Busy) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2))
            }
            other => return other.map(drop),
        }
    }
}

/// Migrates an older database, after a backup into `backups`. All or nothing.
#[cfg(feature = "service")]
pub fn migrate(database: &mut Connection, backups: &Path, now: Millis) -> Result<(), StoreError> {
    let SchemaVersion::Older(from) = version(database)? else { return Ok(()) };
    backup::make(database, backups, Reason::BeforeMigration(from), now, |_, _| {})?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let SchemaVersion::Older(from) = version(&transaction)? {
        apply(&transaction, from)?;
    }
    Ok(transaction.commit()?)
}

fn apply(database: &Connection, from: i64) -> Result<(), StoreError> {
    let first = usize::try_from(from).unwrap_or_default();
    for migration in &MIGRATIONS[first..] {
        database.execute_batch(migration)?;
    }
    Ok(database.pragma_update(None, "user_version", CURRENT)?)
}

#[cfg(feature = "service")]
#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Connection {
        let database = Connection::open(path).unwrap();
        database.busy_timeout(Duration::from_secs(5)).unwrap();
        database
    }

    #[test]
    fn a_new_database_has_every_specified_table() {
        let scratch = tempfile::tempdir().unwrap();
        let mut database = open(&scratch.path().join("x.db"));
        create(&mut database, Duration::from_secs(1)).unwrap();
        assert_eq!(version(&database).unwrap(), SchemaVersion::Current);
        let mut statement = database
            .prepare(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1",
            )
            .unwrap();
        let tables: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(
            tables,
            [
                "anchors",
                "backfill_files",
                "backfill_records",
                "branches",
                "edit_traces",
                "event_log",
                "function_map",
                "learnings",
                "observation_edits",
                "observation_sources",
                "observations",
                "pending_queue",
                "projects",
                "repairs",
                "search_index",
                "search_index_config",
                "search_index_data",
                "search_index_docsize",
                "search_index_idx",
                "search_models",
                "search_outlines",
                "search_pending",
                "search_progress",
                "search_projects",
                "search_stale",
                "search_vectors",
                "search_words",
                "session_summaries",
                "sessions",
                "sightings",
                "stale_notes",
                "user_prompts",
                "vetoes",
            ]
        );
        let auto_vacuum: i64 = database.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap();
        assert_eq!(auto_vacuum, 2, "incremental");
    }

    #[test]
    fn concurrent_creators_all_succeed() {
        for _ in 0..10 {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join("x.db");
            let barrier = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        barrier.wait();
                        let mut database = open(&path);
                        if version(&database).unwrap() == SchemaVersion::Empty {
                            create(&mut database, Duration::from_secs(5)).unwrap();
                        }
                    });
                }
            });
            assert_eq!(version(&open(&path)).unwrap(), SchemaVersion::Current);
        }
    }

    #[test]
    fn a_newer_database_is_rejected_unchanged() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.db");
        let mut database = open(&path);
        create(&mut database, Duration::from_secs(1)).unwrap();
        database.pragma_update(None, "user_version", CURRENT + 1).unwrap();
        let error = version(&database).unwrap_err();
        assert!(error.to_string().contains("newer"), "{error}");
    }

    #[test]
    fn another_programs_database_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(&scratch.path().join("x.db"));
        database.execute_batch("CREATE TABLE sdk_sessions (id INTEGER)").unwrap();
        assert!(matches!(version(&database), Err(StoreError::Foreign)));
    }

    #[test]
    fn a_migration_backs_up_first_and_is_atomic() {
        let scratch = tempfile::tempdir().unwrap();
        let mut database = open(&scratch.path().join("x.db"));
        // A database that claims to be older but has the tables already: the migration must fail as
        // a whole.
        create(&mut database, Duration::from_secs(1)).unwrap();
        database.pragma_update(None, "user_version", -1).unwrap();
        let backups = scratch.path().join("backups");
        migrate(&mut database, &backups, 7).unwrap_err();
        let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, -1);
        assert_eq!(std::fs::read_dir(&backups).unwrap().count(), 1);
    }
}
