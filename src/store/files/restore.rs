//! Replaces the database with a backup. The previous database is kept.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::backup::{self, Reason};
use super::recovery::{self, RecoveryMarker};
use crate::model::Millis;
use crate::paths::{Home, with_suffix};
use crate::store::log::{LogEntry, log};
use crate::store::{StoreError, schema};

/// The location of the previous database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviousDatabase {
    /// There was none.
    Nothing,
    /// It is in a backup.
    Backup(PathBuf),
    /// It was damaged and is kept as it was.
    Damaged(PathBuf),
}

impl PreviousDatabase {
    /// Returns the file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Nothing => None,
            Self::Backup(path) | Self::Damaged(path) => Some(path),
        }
    }
}

/// Replaces the database with this backup. No worker may run; hooks use the spool meanwhile.
pub fn restore(home: &Home, file: &Path, now: Millis) -> Result<PreviousDatabase, StoreError> {
    let source = backup::open(file)?;
    let checked = backup::check(&source)?;
    match checked.schema {
        0 => return Err(StoreError::Foreign),
        found if found > schema::CURRENT => {
            return Err(StoreError::Newer { found, known: schema::CURRENT });
        }
        _ => {}
    }
    home.prepare()?;
    // An empty marker: if we die, the database at its path is intact.
    let marker = RecoveryMarker::place(home, "")?;
    let kept = replace(home, &source, file, now);
    marker.remove()?;
    kept
}

fn replace(
    home: &Home,
    source: &Connection,
    file: &Path,
    now: Millis,
) -> Result<PreviousDatabase, StoreError> {
    let place = home.database();
    let unfinished = with_suffix(&place, ".restored");
    let made = prepare_copy(home, source, &unfinished, file, now);
    if let Err(error) = made {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    let kept = keep(home, &place, now)?;
    // A WAL left behind would be applied to the new database.
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(with_suffix(&place, suffix));
    }
    fs::rename(&unfinished, &place)?;
    File::open(home.dir())?.sync_all()?;
    Ok(kept)
}

/// Copies the backup next to the database, migrates it, and records its origin in it.
fn prepare_copy(
    home: &Home,
    source: &Connection,
    unfinished: &Path,
    file: &Path,
    now: Millis,
) -> Result<(), StoreError> {
    let _ = fs::remove_file(unfinished);
    let mut copy = Connection::open(unfinished)?;
    fs::set_permissions(unfinished, fs::Permissions::from_mode(0o600))?;
    Backup::new(source, &mut copy)?.run_to_completion(2000, Duration::ZERO, None)?;
    schema::migrate(&mut copy, &home.backups(), now)?;
    let entry = LogEntry { event_type: "restore", data: json!({"from": file}), ..LogEntry::default() };
    log(&copy, &entry, now)?;
    backup::check(&copy)?;
    copy.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // Closing the last connection removes the WAL.
    drop(copy);
    Ok(File::open(unfinished)?.sync_all()?)
}

fn keep(home: &Home, place: &Path, now: Millis) -> Result<PreviousDatabase, StoreError> {
    if !place.exists() {
        return Ok(PreviousDatabase::Nothing);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let kept = Connection::open_with_flags(place, flags).map_err(StoreError::from).and_then(|database| {
        database.busy_timeout(Duration::from_secs(5))?;
        let (copy, _) = backup::make(&database, &home.backups(), Reason::BeforeRestore, now, |_, _| {})?;
        Ok(copy.path)
    });
    match kept {
        Ok(path) => Ok(PreviousDatabase::Backup(path)),
        Err(error) if error.is_damage() => Ok(PreviousDatabase::Damaged(recovery::put_aside(home, now)?)),
        Err(error) => Err(error),
    }
}
