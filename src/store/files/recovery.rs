//! Replaces a damaged database with everything that can be read from it and from the newest good
//! backup. The damaged file is kept.
//!
//! During a recovery, a marker file keeps hooks away from the database; their events go to the
//! spool. If the process dies, the next worker finds the marker and resumes.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

use super::backup::{self, Copy};
use super::row_copy::{self, Importer, Row, Taken};
use super::salvage::Damaged;
use super::{check, wal_check};
use crate::api::Recovery;
use crate::files::disk;
use crate::model::Millis;
use crate::paths::{Home, create_private_dir, with_suffix};
use crate::store::log::{LogEntry, log, notice};
use crate::store::maintenance::forget;
use crate::store::tables::{PrimaryTable, TABLES, by_name};
use crate::store::{StoreError, schema};

/// Time that a hook needs to finish if it checked for the marker before it was there.
const HOOK_GRACE: Duration = Duration::from_millis(400);

/// Number of damaged files to keep.
const KEPT: usize = 3;

/// The result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// The cause of the damage.
    pub reason: String,
    /// The new path of the damaged file.
    pub damaged: PathBuf,
    /// Rows read from the damaged file, by table.
    pub salvaged: BTreeMap<&'static str, u64>,
    /// Tables with rows that could not be read.
    pub incomplete: Vec<&'static str>,
    /// The backup that supplied missing rows.
    pub backup: Option<PathBuf>,
    /// Creation time of that backup.
    pub backup_at: Option<Millis>,
    /// Rows from the backup, by table.
    pub restored: BTreeMap<&'static str, u64>,
    /// Rows that were read but violate the schema.
    pub refused: u64,
}

impl RecoveryReport {
    /// Renders the report for the user.
    pub fn render(&self) -> String {
        let sum = |counts: &BTreeMap<&'static str, u64>| counts.values().sum::<u64>();
        let of = |counts: &BTreeMap<&'static str, u64>, name| counts.get(name).copied().unwrap_or_default();
        let from_backup = match self.backup_at.map(jiff::Timestamp::from_millisecond) {
            Some(Ok(at)) => format!(
                ", and {} ({} observations) from the backup of {}",
                sum(&self.restored),
                of(&self.restored, "observations"),
                at.strftime("%Y-%m-%d %H:%M UTC")
            ),
            _ => "; no good backup was found".into(),
        };
        let lost = if self.incomplete.is_empty() {
            String::new()
        } else {
            format!(" Some rows of {} could not be read.", self.incomplete.join(", "))
        };
        format!(
            "claude-mem: the database was damaged and has been recovered: {} rows ({} observations) were read from the \
             damaged file{from_backup}.{lost} Cause: {}. The damaged file is kept: {}",
            sum(&self.salvaged),
            of(&self.salvaged, "observations"),
            self.reason.trim_end_matches('.'),
            self.damaged.display()
        )
    }
}

/// Keeps hooks away from the database until [`RecoveryMarker::remove`].
#[derive(Debug)]
pub struct RecoveryMarker(PathBuf);

impl RecoveryMarker {
    /// Places the marker, with the state to resume from after a crash, and waits for hooks that did
    /// not see it.
    pub fn place(home: &Home, content: &str) -> Result<Self, StoreError> {
        let path = home.recovering();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        std::thread::sleep(HOOK_GRACE);
        Ok(Self(path))
    }

    /// Removes the marker, so that hooks use the database again.
    pub fn remove(self) -> Result<(), StoreError> {
        Ok(fs::remove_file(self.0)?)
    }
}

/// True if a recovery was interrupted.
pub fn is_unfinished(home: &Home) -> bool {
    home.recovering().exists()
}

/// True if the database is an empty file although a backup shows that it had content.
pub fn was_emptied(home: &Home, now: Millis) -> bool {
    fs::metadata(home.database()).is_ok_and(|meta| meta.len() == 0)
        && fs::metadata(home.wal()).map_or(0, |meta| meta.len()) == 0
        && backup::newest_good(&home.backups(), now).is_some()
}

/// Returns the fault in the WAL, if there is one. SQLite itself ignores everything behind a fault
/// without an error.
pub fn wal_corruption(home: &Home) -> Option<String> {
    wal_check::corruption(&home.database())
}

/// Checks the whole database. The error names the damage.
pub fn examine(home: &Home) -> Result<(), StoreError> {
    check::pages(&crate::store::open_to_read(home, 5000)?)
}

/// If all tables are intact, only the search index is damaged: starts to rebuild it, which the
/// worker completes. The error names any other damage.
pub fn renew_index(home: &Home) -> Result<(), StoreError> {
    let mut database = crate::store::open_for_hook(home, 5000)?;
    for table in &TABLES {
        check::table(&database, table)?;
    }
    crate::store::index::begin_rebuild(&mut database)?;
    drop(database);
    check::everything(&crate::store::open_to_read(home, 5000)?)?;
    tracing::warn!("all tables are intact: rebuilding the search index");
    Ok(())
}

/// Completes an interrupted recovery.
pub fn resume(home: &Home, now: Millis) -> Result<(), StoreError> {
    if fs::read_to_string(home.recovering())?.is_empty() {
        // A backup was about to replace the database; one of the two is at its path and intact.
        return Ok(fs::remove_file(home.recovering())?);
    }
    recover(home, "a recovery was interrupted", now).map(drop)
}

/// Moves the database away unchanged.
pub fn put_aside(home: &Home, now: Millis) -> Result<PathBuf, StoreError> {
    let aside = new_place(home, now)?;
    move_aside(&home.database(), &aside)?;
    Ok(aside)
}

/// Replaces the database.
pub fn recover(home: &Home, reason: &str, now: Millis) -> Result<RecoveryReport, StoreError> {
    let (place, aside) = match begun(home) {
        Some(begun) => begun,
        None => (home.database(), new_place(home, now)?),
    };
    let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let damaged = if aside.exists() { &aside } else { &place };
    // Hooks use the spool meanwhile, and the next attempt may find more room.
    disk::check_room(home.dir(), size(damaged) + size(&with_suffix(damaged, "-wal")))?;
    let marker = RecoveryMarker::place(home, &format!("{}\n{}", place.display(), aside.display()))?;
    // If both exist, the new database is already at its path and only the marker was left.
    if aside.exists() && place.exists() {
        marker.remove()?;
        return Ok(RecoveryReport { reason: reason.into(), damaged: aside, ..RecoveryReport::default() });
    }
    move_aside(&place, &aside)?;
    tracing::error!(reason, "the database is damaged ({reason}): recovering it");
    let report = build(home, &place, &aside, reason, now)?;
    tracing::info!(salvaged = ?report.salvaged, restored = ?report.restored, refused = report.refused, "recovered");
    marker.remove()?;
    delete_old_damaged_files(home);
    Ok(report)
}

/// Returns the original and the new path of the damaged database, if a recovery was begun. While
/// the file is away its path cannot be derived: next to another program's database ours has another
/// name.
fn begun(home: &Home) -> Option<(PathBuf, PathBuf)> {
    let content = fs::read_to_string(home.recovering()).ok()?;
    let (place, aside) = content.split_once('\n')?;
    Some((place.into(), aside.into()))
}

fn new_place(home: &Home, now: Millis) -> Result<PathBuf, StoreError> {
    create_private_dir(&home.damaged())?;
    Ok(home.damaged().join(format!("claude-mem-{now}.db")))
}

/// Moves the database first: as long as it is at its path, its WAL belongs to it.
fn move_aside(database: &Path, aside: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal"] {
        let (from, to) = (with_suffix(database, suffix), with_suffix(aside, suffix));
        if from.exists() && !to.exists() {
            fs::rename(from, to)?;
        }
    }
    let _ = fs::remove_file(with_suffix(database, "-shm"));
    Ok(())
}

/// Builds the new database next to its final path, and moves it there when it is complete.
fn build(
    home: &Home,
    place: &Path,
    aside: &Path,
    reason: &str,
    now: Millis,
) -> Result<RecoveryReport, StoreError> {
    let scratch = home.damaged();
    let unfinished = scratch.join("recovered.tmp");
    let clean = || {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(with_suffix(&unfinished, suffix));
        }
    };
    clean();
    let mut report =
        RecoveryReport { reason: reason.into(), damaged: aside.to_owned(), ..RecoveryReport::default() };
    let mut database = Connection::open(&unfinished)?;
    fs::set_permissions(&unfinished, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    schema::create(&mut database, Duration::from_secs(5))?;
    // Not synced: nothing uses the file before it is complete.
    database.pragma_update(None, "synchronous", "OFF")?;
    fill(&mut database, home, aside, &mut report, now)?;
    let data = serde_json::to_value(&report).unwrap_or_default();
    log(&database, &LogEntry { event_type: "recovery", data, ..LogEntry::default() }, now)?;
    notice(&database, &report.render(), now)?;
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    drop(database);
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, place)?;
    File::open(home.dir())?.sync_all()?;
    clean();
    Ok(report)
}

fn fill(
    database: &mut Connection,
    home: &Home,
    aside: &Path,
    report: &mut RecoveryReport,
    now: Millis,
) -> Result<(), StoreError> {
    let damaged = Damaged::views(aside, &home.damaged()).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the damaged database: {error}");
        Vec::new()
    });
    let backup = usable_backup(home, report, now);
    let forgotten = forgotten(&damaged, backup.as_ref().map(|(_, database)| database))?;
    let transaction = database.transaction()?;
    let mut importer = Importer::default();
    // Projects and sessions from both sources first, so that rows of one source find sessions that
    // only the other has.
    for table in &TABLES {
        let is_first = is_referred_to_by_text(table);
        for damaged in damaged.iter().filter(|damaged| damaged.has(table)) {
            salvage(&transaction, damaged, table, &mut importer, report)?;
        }
        if !damaged.iter().any(|damaged| damaged.has(table)) {
            report.incomplete.push(table.name);
        }
        if let Some((_, backup)) = backup.as_ref().filter(|_| is_first) {
            restore(&transaction, backup, &[table], &mut importer, &forgotten, &mut report.restored)?;
        }
    }
    if let Some((_, backup)) = &backup {
        let others: Vec<&'static PrimaryTable> =
            TABLES.iter().filter(|table| !is_referred_to_by_text(table)).collect();
        // The backup is an earlier state of the damaged file, so both use the same row ids.
        restore(&transaction, backup, &others, &mut importer, &forgotten, &mut report.restored)?;
    }
    importer.finish(&transaction, now)?;
    Ok(transaction.commit()?)
}

/// True if rows of other tables refer to this table by a text that is the same in every copy.
fn is_referred_to_by_text(table: &PrimaryTable) -> bool {
    matches!(table.name, "projects" | "sessions")
}

/// Returns the newest good backup. An older schema is fine: missing columns have defaults.
fn usable_backup(home: &Home, report: &mut RecoveryReport, now: Millis) -> Option<(Copy, Connection)> {
    let (copy, checked, database) = backup::newest_good(&home.backups(), now)?;
    if checked.schema > schema::CURRENT {
        return None;
    }
    report.backup = Some(copy.path.clone());
    report.backup_at = Some(copy.made_at);
    Some((copy, database))
}

fn salvage(
    database: &Connection,
    damaged: &Damaged,
    table: &'static PrimaryTable,
    importer: &mut Importer,
    report: &mut RecoveryReport,
) -> Result<(), StoreError> {
    let (mut read, mut refused) = (0, 0);
    let is_whole = damaged.rows(table, |row| {
        if let Some(session) = row_copy::text(&row, "session_id").filter(|_| table.name != "event_log")
            && !row_copy::has_session(database, session)?
            && let Some(sessions) = by_name("sessions")
            && let Some(row) = damaged.session(session)
        {
            importer.take(database, sessions, row)?;
        }
        match importer.take(database, table, row)? {
            Taken::New => read += 1,
            Taken::Known => {}
            Taken::Refused(_) => refused += 1,
        }
        Ok(())
    })?;
    *report.salvaged.entry(table.name).or_default() += read;
    report.refused += refused;
    if !is_whole && !report.incomplete.contains(&table.name) {
        report.incomplete.push(table.name);
    }
    Ok(())
}

fn restore(
    database: &Connection,
    backup: &Connection,
    tables: &[&'static PrimaryTable],
    importer: &mut Importer,
    forgotten: &Forgotten,
    restored: &mut BTreeMap<&'static str, u64>,
) -> Result<(), StoreError> {
    for table in tables {
        if !backup.table_exists(None, table.name)? {
            continue;
        }
        row_copy::read(backup, table, |mut row| {
            if table.name == "sessions" && !forgotten.keys.is_empty() {
                // The digest may quote a memory that was forgotten since. The next turn builds a
                // new one.
                row.retain(|(name, _)| !matches!(name.as_str(), "title" | "outcome" | "open_items"));
            }
            if !forgotten.holds(table, &row) && importer.take(database, table, row)? == Taken::New {
                *restored.entry(table.name).or_default() += 1;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Keys of memories that the user deleted and that an older backup may still hold.
#[derive(Debug, Default)]
struct Forgotten {
    keys: HashSet<String>,
    /// Everything before this time was deleted.
    everything: Option<Millis>,
}

impl Forgotten {
    fn add(&mut self, row: &Row) {
        if row_copy::text(row, "event_type") != Some(forget::EVENT) {
            return;
        }
        let data = row_copy::text(row, "data").and_then(|data| serde_json::from_str(data).ok());
        let data: forget::LogData = data.unwrap_or_default();
        self.keys.extend(data.keys);
        if data.all {
            self.everything = self.everything.max(data.at);
        }
    }

    fn holds(&self, table: &'static PrimaryTable, row: &Row) -> bool {
        let at =
            ["created_at", "started_at", "snapshot_at"].iter().find_map(|column| {
                match row_copy::value(row, column) {
                    Some(rusqlite::types::Value::Integer(at)) => Some(*at),
                    _ => None,
                }
            });
        let is_before = self.everything.zip(at).is_some_and(|(everything, at)| at <= everything);
        is_before || forget::keys_of(table, row).iter().any(|key| self.keys.contains(key))
    }
}

fn forgotten(damaged: &[Damaged], backup: Option<&Connection>) -> Result<Forgotten, StoreError> {
    let mut forgotten = Forgotten::default();
    let Some(table) = by_name("event_log") else { return Ok(forgotten) };
    for damaged in damaged {
        damaged.rows(table, |row| {
            forgotten.add(&row);
            Ok(())
        })?;
    }
    if let Some(backup) = backup {
        row_copy::read(backup, table, |row| {
            forgotten.add(&row);
            Ok(())
        })?;
    }
    Ok(forgotten)
}

/// Deletes all but the newest damaged files. Best effort: they only serve further investigation.
fn delete_old_damaged_files(home: &Home) {
    let entries = fs::read_dir(home.damaged()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "db")).collect();
    files.sort();
    for file in files.iter().rev().skip(KEPT) {
        for suffix in ["", "-wal"] {
            let _ = fs::remove_file(with_suffix(file, suffix));
        }
    }
}

/// Returns the last recovery since a given time.
pub fn last(database: &Connection, since: Millis) -> Result<Option<(Millis, Recovery)>, StoreError> {
    use rusqlite::OptionalExtension;
    let sql = "SELECT created_at, data FROM event_log WHERE event_type = 'recovery' AND created_at >= ?1
               ORDER BY created_at DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?));
    let found = database.query_row(sql, [since], read).optional()?;
    Ok(found
        .map(|(at, data)| (at, data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default())))
}
