//! Backups: copies of the database that are made while others write, verified before they count,
//! and kept for a limited time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{check, row_copy};
use crate::files::atomic::DirLock;
use crate::files::disk;
use crate::model::Millis;
use crate::paths::create_private_dir;
use crate::store::maintenance::retention;
use crate::store::queue::WITHOUT_MODEL;
use crate::store::{StoreError, schema};

/// The reason for a backup; it is the first part of the file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// One day has passed since the last daily backup.
    Daily,
    /// The user asked for it.
    Asked,
    /// All memories are about to be deleted.
    BeforeForget,
    /// Another backup is about to replace the database.
    BeforeRestore,
    /// The schema is about to be migrated from this version.
    BeforeMigration(i64),
}

impl Reason {
    fn name(self) -> String {
        match self {
            Self::Daily => "daily".into(),
            Self::Asked => "manual".into(),
            Self::BeforeForget => "before-forget".into(),
            Self::BeforeRestore => "before-restore".into(),
            Self::BeforeMigration(from) => format!("before-migration-from-{from}"),
        }
    }
}

/// A backup on disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Copy {
    /// The file.
    pub path: PathBuf,
    /// The reason it was made: daily, manual, before-restore and so on.
    pub reason: String,
    /// Creation time.
    pub made_at: Millis,
    /// Size in bytes.
    pub bytes: u64,
}

/// The result of checking a backup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CheckedBackup {
    /// The schema version.
    pub schema: i64,
    /// Number of rows in each table.
    pub rows: BTreeMap<&'static str, i64>,
}

/// Number of pages to copy between two progress reports.
const AT_ONCE: i32 = 500;

/// Copies the database into `directory` and verifies the copy. Blocks nobody: it reads one snapshot
/// of the database while others keep writing.
pub fn make(
    database: &Connection,
    directory: &Path,
    reason: Reason,
    now: Millis,
    mut report: impl FnMut(i32, i32),
) -> Result<(Copy, CheckedBackup), StoreError> {
    create_private_dir(directory)?;
    let (used, free) = retention::file_bytes(database)?;
    disk::check_room(directory, used + free)?;
    let writing = DirLock::shared(directory)?;
    let path = unused_name(directory, reason, now);
    let unfinished = path.with_extension("tmp");
    let made = copy_checked(database, &unfinished, &mut report).and_then(|checked| {
        File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &path)?;
        writing.sync()?;
        Ok(checked)
    });
    if made.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    let checked = made?;
    let bytes = fs::metadata(&path)?.len();
    Ok((Copy { path, reason: reason.name(), made_at: now, bytes }, checked))
}

/// Drops the payloads of finished events, because the memories made of them are in the copy.
/// Payloads that `queue redo` and `queue retry` need stay.
fn leave_out_payloads(copy: &Connection) -> Result<(), StoreError> {
    // A copy that fails here is discarded, and a journal would take as much space as the payloads.
    copy.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let sql = "UPDATE pending_queue SET payload = NULL
               WHERE status IN ('done', 'skipped') AND payload IS NOT NULL AND last_error IS NOT 'stopped'
                 AND (last_error IS NULL OR last_error NOT LIKE ?1 || '%')";
    copy.execute(sql, [WITHOUT_MODEL])?;
    let mut statement = copy.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = statement.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

fn copy_checked(
    database: &Connection,
    target: &Path,
    report: &mut impl FnMut(i32, i32),
) -> Result<CheckedBackup, StoreError> {
    // A file of this name is left over from an interrupted backup.
    let _ = fs::remove_file(target);
    // Create it here with mode 0600; SQLite would make it readable to others if the directory is.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    // The transaction pins one snapshot; without it every concurrent write would restart the copy.
    let state = database.unchecked_transaction()?;
    let expected = row_copy::counts(&state)?;
    let mut copy = Connection::open(target)?;
    {
        let backup = Backup::new(&state, &mut copy)?;
        loop {
            match backup.step(AT_ONCE)? {
                StepResult::Done => break,
                StepResult::More => {}
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
            let progress = backup.progress();
            report(progress.pagecount - progress.remaining, progress.pagecount);
        }
    }
    drop(state);
    // Makes the copy a single file, without a WAL next to it.
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    // A copy with an older schema is left unchanged.
    if schema::version(&copy).is_ok_and(|version| version == schema::SchemaVersion::Current) {
        leave_out_payloads(&copy)?;
    }
    let checked = check(&copy)?;
    if checked.rows != expected {
        return Err(StoreError::Damaged("the copy and the database have different row counts".into()));
    }
    Ok(checked)
}

/// Checks every page of a database and counts its rows.
pub fn check(database: &Connection) -> Result<CheckedBackup, StoreError> {
    check::everything(database)?;
    let schema = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(CheckedBackup { schema, rows: row_copy::counts(database)? })
}

/// Opens a backup without creating any other file next to it.
pub fn open(path: &Path) -> Result<Connection, StoreError> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// Lists the backups in `directory`, newest first.
pub fn list(directory: &Path) -> Vec<Copy> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut copies: Vec<Copy> = entries.filter_map(|entry| described(entry.path())).collect();
    copies.sort_by(|one, other| other.made_at.cmp(&one.made_at).then_with(|| other.path.cmp(&one.path)));
    copies
}

fn described(path: PathBuf) -> Option<Copy> {
    let name = path.file_name()?.to_str()?.strip_suffix(".db")?.to_owned();
    let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let (reason, stamp) = name.rsplit_once('-').unwrap_or((&name, ""));
    let written = || {
        let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Millis::try_from(since.as_millis()).ok()
    };
    let made_at = moment(stamp).or_else(written)?;
    Some(Copy { path, reason: reason.to_owned(), made_at, bytes: meta.len() })
}

/// Opens the newest backup that passes a check. Backups are ordered by their date, unless that date
/// is in the future: then the clock was wrong when the backup was made, and its content decides.
pub fn newest_good(directory: &Path, now: Millis) -> Option<(Copy, CheckedBackup, Connection)> {
    let (mut misdated, dated): (Vec<Copy>, Vec<Copy>) =
        list(directory).into_iter().partition(|copy| copy.made_at > now);
    misdated.sort_by_cached_key(|copy| Reverse(open(&copy.path).map_or(0, |copy| numbers_given(&copy))));
    let good = |copies: Vec<Copy>| {
        copies.into_iter().find_map(|copy| {
            let database = open(&copy.path).ok()?;
            let checked = check(&database).ok()?;
            Some((copy, checked, database))
        })
    };
    match (good(misdated), good(dated)) {
        (Some(one), Some(other)) if numbers_given(&one.2) > numbers_given(&other.2) => Some(one),
        (one, other) => other.or(one),
    }
}

/// Number of row ids assigned since the database was created. Neither the clock nor deletions can
/// lower it.
fn numbers_given(database: &Connection) -> i64 {
    let sql = "SELECT coalesce(sum(seq), 0) FROM sqlite_sequence";
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_default()
}

/// Deletes the oldest automatic backups beyond `keep` for each reason. Backups dated in the future
/// go first: the clock was set back, so they are older than their date.
pub fn prune(directory: &Path, keep: usize, now: Millis) -> Result<(), StoreError> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut copies = list(directory);
    copies.sort_by_key(|copy| copy.made_at > now);
    for copy in copies.into_iter().filter(|copy| copy.reason != Reason::Asked.name()) {
        let count = seen.entry(copy.reason).or_default();
        *count += 1;
        if *count > keep {
            fs::remove_file(&copy.path)?;
        }
    }
    Ok(())
}

/// Deletes the oldest automatic backups while all backups together take more than `most` bytes. The
/// newest one stays.
pub fn prune_to(directory: &Path, most: u64) -> Result<(), StoreError> {
    let copies = list(directory);
    let mut bytes: u64 = copies.iter().map(|copy| copy.bytes).sum();
    for copy in copies.iter().skip(1).rev().filter(|copy| copy.reason != Reason::Asked.name()) {
        if bytes <= most {
            break;
        }
        fs::remove_file(&copy.path)?;
        bytes -= copy.bytes;
    }
    Ok(())
}

/// True if a daily backup was made within the given time before now. One dated in the future, left
/// by a clock that was set back, does not count.
pub fn has_daily(directory: &Path, now: Millis, within: Millis) -> bool {
    let mut daily = list(directory).into_iter().filter(|copy| copy.reason == Reason::Daily.name());
    daily.any(|copy| (0..within).contains(&(now - copy.made_at)))
}

const STAMP: &str = "%Y%m%dT%H%M%S";

fn unused_name(directory: &Path, reason: Reason, now: Millis) -> PathBuf {
    let name = |at: Millis| {
        let time = jiff::Timestamp::from_millisecond(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let (stamp, millis) = (time.strftime(STAMP), at.rem_euclid(1000));
        directory.join(format!("{}-{stamp}{millis:03}Z.db", reason.name()))
    };
    (now..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(now))
}

/// Parses the timestamp in a file name.
fn moment(stamp: &str) -> Option<Millis> {
    let digits = stamp.strip_suffix('Z')?;
    let (seconds, millis) = digits.split_at_checked(digits.len().checked_sub(3)?)?;
    let time = jiff::civil::DateTime::strptime(STAMP, seconds).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(time.as_millisecond() + millis.parse::<Millis>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Event, EventBody, EventKey, Payload};
    use crate::paths::Home;
    use crate::store;

    fn database(home: &Home) -> Connection {
        let database = store::open_for_hook(home, 1000).unwrap();
        let sql = "INSERT INTO sessions (id, started_at, last_activity_at) VALUES ('s' || random(), 1, 1)";
        database.execute(sql, []).unwrap();
        database
    }

    #[test]
    fn a_copy_is_complete_self_contained_and_dated() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let (copy, checked) =
            make(&database, &home.backups(), Reason::Asked, 1_790_000_000_123, |_, _| {}).unwrap();
        assert_eq!(checked.rows["sessions"], 1);
        assert_eq!(list(&home.backups()), std::slice::from_ref(&copy));
        assert_eq!(copy.path.file_name().unwrap(), "manual-20260921T141320123Z.db");
        check(&open(&copy.path).unwrap()).unwrap();
        assert_eq!(fs::read_dir(home.backups()).unwrap().count(), 1, "no other file next to it");
    }

    #[test]
    fn copies_omit_payloads_of_finished_events() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let session: String = database.query_row("SELECT id FROM sessions", [], |row| row.get(0)).unwrap();
        let sql = "INSERT INTO pending_queue (event_key, session_id, kind, status, finished_at, last_error, created_at, payload)
                   VALUES (?1, ?2, 'observation', ?3, iif(?3 = 'raw', NULL, 1), ?4, 1, json_quote(hex(randomblob(200000))))";
        for (key, status, error) in [
            ("done", "done", None),
            ("skipped", "skipped", Some("routine".to_owned())),
            ("again", "done", Some(format!("{WITHOUT_MODEL}why"))),
            ("stopped", "skipped", Some("stopped".into())),
            ("failed", "error", Some("why".into())),
            ("waits", "raw", None),
        ] {
            database.execute(sql, rusqlite::params![key, session, status, error]).unwrap();
        }
        let (copy, _) = make(&database, &home.backups(), Reason::Daily, 1, |_, _| {}).unwrap();
        let left = "SELECT group_concat(event_key) FROM (SELECT * FROM pending_queue WHERE payload IS NOT NULL ORDER BY id)";
        let kept: String = open(&copy.path).unwrap().query_row(left, [], |row| row.get(0)).unwrap();
        assert_eq!(kept, "again,stopped,failed,waits");
        let whole = retention::file_bytes(&database).unwrap().0;
        assert!(copy.bytes + 700_000 < whole, "{} of {whole}", copy.bytes);
    }

    #[test]
    fn size_limit_deletes_oldest_copies_and_keeps_the_newest() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        for number in 1..5 {
            let reason = if number == 2 { Reason::Asked } else { Reason::Daily };
            make(&database, &home.backups(), reason, number * 1000, |_, _| {}).unwrap();
        }
        let left = || list(&home.backups()).into_iter().map(|copy| copy.made_at / 1000).collect::<Vec<_>>();
        let bytes = list(&home.backups())[0].bytes;
        prune_to(&home.backups(), 3 * bytes).unwrap();
        assert_eq!(left(), [4, 3, 2]);
        prune_to(&home.backups(), 0).unwrap();
        assert_eq!(left(), [4, 2], "manual backups stay");
    }

    #[test]
    fn writers_continue_while_a_copy_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let reader = database(&home);
        let writer = store::open_for_hook(&home, 0).unwrap();
        let filler = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                      INSERT INTO event_log (event_type, data, created_at)
                      SELECT 'x', json_quote(hex(randomblob(2000))), i FROM n";
        writer.execute(filler, []).unwrap();
        let mut writes = 0;
        let (_, checked) = make(&reader, &home.backups(), Reason::Daily, 1, |_, _| {
            let sql = "INSERT INTO event_log (event_type, created_at) VALUES ('late', 1)";
            writes += writer.execute(sql, []).unwrap();
        })
        .unwrap();
        assert!(writes > 1, "{writes}");
        assert_eq!(checked.rows["event_log"], 3000, "one state, from before");
    }

    #[test]
    fn prune_keeps_manual_copies_and_a_broken_copy_is_skipped() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let day = |number: Millis| 1_790_000_000_000 + number * 86_400_000;
        for number in 0..4 {
            make(&database, &home.backups(), Reason::Daily, day(number), |_, _| {}).unwrap();
        }
        make(&database, &home.backups(), Reason::Asked, day(0), |_, _| {}).unwrap();
        prune(&home.backups(), 2, day(9)).unwrap();
        let left: Vec<_> =
            list(&home.backups()).into_iter().map(|copy| (copy.reason, copy.made_at)).collect();
        let daily = || "daily".to_owned();
        assert_eq!(left, [(daily(), day(3)), (daily(), day(2)), ("manual".into(), day(0))]);
        let newest = list(&home.backups()).remove(0).path;
        let mut bytes = fs::read(&newest).unwrap();
        bytes[4096..20_000].fill(0xaa);
        fs::write(&newest, bytes).unwrap();
        assert_eq!(newest_good(&home.backups(), day(9)).unwrap().0.made_at, day(2));
    }

    #[test]
    fn future_copies_neither_repeat_backups_nor_displace_new_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let hour = |number: Millis| 1_790_000_000_000 + number * 3_600_000;
        // The clock was ahead for three days and is correct again.
        for number in [24, 48, 72, 0] {
            make(&database, &home.backups(), Reason::Daily, hour(number), |_, _| {}).unwrap();
        }
        assert!(has_daily(&home.backups(), hour(1), 23 * 3_600_000), "an hour ago");
        assert!(!has_daily(&home.backups(), hour(23), 23 * 3_600_000), "the next day");
        prune(&home.backups(), 3, hour(1)).unwrap();
        let left: Vec<Millis> = list(&home.backups()).into_iter().map(|copy| copy.made_at).collect();
        assert_eq!(left, [hour(72), hour(48), hour(0)]);
    }

    #[test]
    fn a_future_date_does_not_make_a_copy_the_newest() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let mut database = database(&home);
        let hour = |number: Millis| 1_790_000_000_000 + number * 3_600_000;
        let mut copy_at = |number: Millis| {
            let event = Event {
                key: EventKey::Exact(number.to_string()),
                at: hour(number),
                session: None,
                body: EventBody::Rejected {
                    reason: "x".into(),
                    payload: Payload { json: "{}".into(), raw_bytes: 2 },
                },
            };
            store::record(&mut database, &event).unwrap();
            make(&database, &home.backups(), Reason::Daily, hour(number), |_, _| {}).unwrap();
        };
        let newest = || (newest_good(&home.backups(), hour(10)).unwrap().0.made_at - hour(0)) / 3_600_000;
        copy_at(1);
        // The clock was ahead, first by much and then by less: no backup is newer than this one.
        copy_at(900);
        copy_at(500);
        assert_eq!(newest(), 500);
        // The clock is correct again.
        copy_at(2);
        assert_eq!(newest(), 2);
    }
}
