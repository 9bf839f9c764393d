//! A damaged database is replaced by what can be had: what can still be read of it, and the newest good backup. The damaged
//! file is kept.
//!
//! While this goes on a marker file keeps hooks away from the database; their events wait in the spool. Whatever ends the
//! process in the middle, the next worker finds the marker and goes on.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Value, json};

use super::backup::{self, Copy};
use super::log::{LogEntry, log, notice};
use super::rows::{self, Importer, Row, Taken};
use super::salvage::Damaged;
use super::tables::{TABLES, Table, by_name};
use super::{StoreError, check, forget, schema, write_ahead};
use crate::model::Millis;
use crate::paths::{Home, create_private_dir, with_suffix};

/// Longer than a hook that passed the marker before it was there needs to be done.
const HOOKS_ARE_DONE: Duration = Duration::from_millis(400);

/// So many damaged files are kept.
const KEPT: usize = 3;

/// What came of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What was wrong.
    pub reason: String,
    /// Where the damaged file is now.
    pub damaged: PathBuf,
    /// Rows that were read from the damaged file, by table.
    pub salvaged: BTreeMap<&'static str, u64>,
    /// Tables of which something could not be read.
    pub incomplete: Vec<&'static str>,
    /// The backup that filled the holes.
    pub backup: Option<PathBuf>,
    /// When that was made.
    pub backup_at: Option<Millis>,
    /// Rows that came from it, by table.
    pub restored: BTreeMap<&'static str, u64>,
    /// Rows that were read and made no sense.
    pub refused: u64,
}

impl Report {
    /// As people are told.
    pub fn told(&self) -> String {
        let sum = |counts: &BTreeMap<&'static str, u64>| counts.values().sum::<u64>();
        let of = |counts: &BTreeMap<&'static str, u64>, name| counts.get(name).copied().unwrap_or_default();
        let from_backup = match self.backup_at.map(jiff::Timestamp::from_millisecond) {
            Some(Ok(at)) => format!(
                ", and {} ({} observations) from the backup of {}",
                sum(&self.restored),
                of(&self.restored, "observations"),
                at.strftime("%Y-%m-%d %H:%M UTC")
            ),
            _ => "; there was no good backup".into(),
        };
        let lost = if self.incomplete.is_empty() {
            String::new()
        } else {
            format!(" Something of {} could not be read.", self.incomplete.join(", "))
        };
        format!(
            "claude-mem: the database was damaged and has been recovered: {} rows ({} observations) were read from the \
             damaged file{from_backup}.{lost} What was wrong: {}. The damaged file is kept: {}",
            sum(&self.salvaged),
            of(&self.salvaged, "observations"),
            self.reason.trim_end_matches('.'),
            self.damaged.display()
        )
    }
}

/// Keeps hooks away from the database until [`Marker::remove`].
#[derive(Debug)]
pub struct Marker(PathBuf);

impl Marker {
    /// Places it, with something to know after a crash, and waits for hooks that did not see it.
    pub fn place(home: &Home, content: &str) -> Result<Self, StoreError> {
        let path = home.recovering();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        std::thread::sleep(HOOKS_ARE_DONE);
        Ok(Self(path))
    }

    /// Lets them in again.
    pub fn remove(self) -> Result<(), StoreError> {
        Ok(fs::remove_file(self.0)?)
    }
}

/// Whether a recovery was begun and did not come to its end.
pub fn is_unfinished(home: &Home) -> bool {
    home.recovering().exists()
}

/// Whether the database is an empty file though there was something in it: a backup tells.
pub fn was_emptied(home: &Home, now: Millis) -> bool {
    fs::metadata(home.database()).is_ok_and(|meta| meta.len() == 0)
        && fs::metadata(home.log()).map_or(0, |meta| meta.len()) == 0
        && backup::newest_good(&home.backups(), now).is_some()
}

/// What is wrong with the database's log, if something is. SQLite itself reads on as if nothing had been behind the fault.
pub fn fault_of_log(home: &Home) -> Option<String> {
    write_ahead::fault(&home.database())
}

/// Looks at the whole database. An error tells what is damaged.
pub fn examine(home: &Home) -> Result<(), StoreError> {
    check::pages(&super::open_to_read(home, 5000)?)
}

/// Where the tables are whole it is the search index that is damaged: begins to make it anew, which the worker brings to its
/// end. An error tells what is damaged beside it.
pub fn renew_index(home: &Home) -> Result<(), StoreError> {
    let mut database = super::open_for_hook(home, 5000)?;
    for table in &TABLES {
        check::table(&database, table)?;
    }
    super::index::begin_rebuild(&mut database)?;
    drop(database);
    check::everything(&super::open_to_read(home, 5000)?)?;
    tracing::warn!("the tables are whole: the search index is made anew");
    Ok(())
}

/// Brings a recovery to its end that was interrupted.
pub fn resume(home: &Home, now: Millis) -> Result<(), StoreError> {
    if fs::read_to_string(home.recovering())?.is_empty() {
        // A backup was to take the database's place; one of the two is there, and whole.
        return Ok(fs::remove_file(home.recovering())?);
    }
    recover(home, "a recovery was interrupted", now).map(drop)
}

/// Moves the database away, as it is.
pub fn put_aside(home: &Home, now: Millis) -> Result<PathBuf, StoreError> {
    let aside = new_place(home, now)?;
    move_aside(&home.database(), &aside)?;
    Ok(aside)
}

/// Replaces the database.
pub fn recover(home: &Home, reason: &str, now: Millis) -> Result<Report, StoreError> {
    let (place, aside) = match begun(home) {
        Some(begun) => begun,
        None => (home.database(), new_place(home, now)?),
    };
    let marker = Marker::place(home, &format!("{}\n{}", place.display(), aside.display()))?;
    // Where both are there, the new one has taken its place already: only the marker was left.
    if aside.exists() && place.exists() {
        marker.remove()?;
        return Ok(Report { reason: reason.into(), damaged: aside, ..Report::default() });
    }
    move_aside(&place, &aside)?;
    tracing::error!(reason, "the database is damaged ({reason}): recovering it");
    let report = build(home, &place, &aside, reason, now)?;
    tracing::info!(salvaged = ?report.salvaged, restored = ?report.restored, refused = report.refused, "recovered");
    marker.remove()?;
    forget_old_ones(home);
    Ok(report)
}

/// Where the database was and where it was to go, if a recovery was begun. While it is away nobody can tell its place: beside
/// another program's database it has another name.
fn begun(home: &Home) -> Option<(PathBuf, PathBuf)> {
    let content = fs::read_to_string(home.recovering()).ok()?;
    let (place, aside) = content.split_once('\n')?;
    Some((place.into(), aside.into()))
}

fn new_place(home: &Home, now: Millis) -> Result<PathBuf, StoreError> {
    create_private_dir(&home.damaged())?;
    Ok(home.damaged().join(format!("claude-mem-{now}.db")))
}

/// The database first: as long as it is in its place its log belongs to it.
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

/// Builds the new database beside its place, and puts it there when it is whole.
fn build(home: &Home, place: &Path, aside: &Path, reason: &str, now: Millis) -> Result<Report, StoreError> {
    let scratch = home.damaged();
    let unfinished = scratch.join("recovered.tmp");
    let clean = || {
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(with_suffix(&unfinished, suffix));
        }
    };
    clean();
    let mut report = Report { reason: reason.into(), damaged: aside.to_owned(), ..Report::default() };
    let mut database = Connection::open(&unfinished)?;
    fs::set_permissions(&unfinished, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    schema::create(&mut database, Duration::from_secs(5))?;
    // It is not there for anybody before it is whole.
    database.pragma_update(None, "synchronous", "OFF")?;
    fill(&mut database, home, aside, &mut report, now)?;
    let data = serde_json::to_value(&report).unwrap_or_default();
    log(&database, &LogEntry { event_type: "recovery", data, ..LogEntry::default() }, now)?;
    notice(&database, &report.told(), now)?;
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
    report: &mut Report,
    now: Millis,
) -> Result<(), StoreError> {
    let damaged = Damaged::views(aside, &home.damaged()).unwrap_or_else(|error| {
        tracing::warn!(%error, "nothing can be read of the damaged database: {error}");
        Vec::new()
    });
    let backup = usable_backup(home, report, now);
    let forgotten = forgotten(&damaged, backup.as_ref().map(|(_, database)| database))?;
    let transaction = database.transaction()?;
    let mut importer = Importer::default();
    // Sessions from both first, so that rows of the one find sessions that only the other has.
    for table in &TABLES {
        let is_sessions = table.name == "sessions";
        for damaged in damaged.iter().filter(|damaged| damaged.has(table)) {
            salvage(&transaction, damaged, table, &mut importer, report)?;
        }
        if !damaged.iter().any(|damaged| damaged.has(table)) {
            report.incomplete.push(table.name);
        }
        if let Some((_, backup)) = backup.as_ref().filter(|_| is_sessions) {
            restore(&transaction, backup, &[table], &mut importer, &forgotten, &mut report.restored)?;
        }
    }
    if let Some((_, backup)) = &backup {
        let others: Vec<&'static Table> = TABLES.iter().filter(|table| table.name != "sessions").collect();
        // The numbers of the backup are those of the damaged file: it is an earlier state of it.
        restore(&transaction, backup, &others, &mut importer, &forgotten, &mut report.restored)?;
    }
    importer.finish(&transaction)?;
    Ok(transaction.commit()?)
}

/// The newest good backup. An older schema is no hindrance: what it lacks has a default.
fn usable_backup(home: &Home, report: &mut Report, now: Millis) -> Option<(Copy, Connection)> {
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
    table: &'static Table,
    importer: &mut Importer,
    report: &mut Report,
) -> Result<(), StoreError> {
    let (mut read, mut refused) = (0, 0);
    let is_whole = damaged.rows(table, |row| {
        if let Some(session) = rows::text(&row, "session_id").filter(|_| table.name != "event_log")
            && !rows::has_session(database, session)?
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
    tables: &[&'static Table],
    importer: &mut Importer,
    forgotten: &Forgotten,
    restored: &mut BTreeMap<&'static str, u64>,
) -> Result<(), StoreError> {
    for table in tables {
        if !backup.table_exists(None, table.name)? {
            continue;
        }
        rows::read(backup, table, |row| {
            if !forgotten.holds(table, &row) && importer.take(database, table, row)? == Taken::New {
                *restored.entry(table.name).or_default() += 1;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// What the user had forgotten, and an older backup may still hold.
#[derive(Debug, Default)]
struct Forgotten {
    keys: HashSet<String>,
    /// Everything before this.
    everything: Option<Millis>,
}

impl Forgotten {
    fn add(&mut self, row: &Row) {
        if rows::text(row, "event_type") != Some(forget::EVENT) {
            return;
        }
        let data: Value =
            rows::text(row, "data").and_then(|data| serde_json::from_str(data).ok()).unwrap_or(json!({}));
        let keys = data["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.keys.extend(keys.map(str::to_owned));
        if data["all"] == true {
            self.everything = self.everything.max(data["at"].as_i64());
        }
    }

    fn holds(&self, table: &'static Table, row: &Row) -> bool {
        let at = ["created_at", "started_at", "snapshot_at"].iter().find_map(|column| {
            match rows::value(row, column) {
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
        rows::read(backup, table, |row| {
            forgotten.add(&row);
            Ok(())
        })?;
    }
    Ok(forgotten)
}

/// Keeps the newest of the damaged files. Best effort: they are only for somebody who wants to look further.
fn forget_old_ones(home: &Home) {
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

/// The last recovery since then.
pub fn last(database: &Connection, since: Millis) -> Result<Option<(Millis, Value)>, StoreError> {
    use rusqlite::OptionalExtension;
    let sql = "SELECT created_at, data FROM event_log WHERE event_type = 'recovery' AND created_at >= ?1
               ORDER BY created_at DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?));
    let found = database.query_row(sql, [since], read).optional()?;
    Ok(found
        .map(|(at, data)| (at, data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default())))
}
