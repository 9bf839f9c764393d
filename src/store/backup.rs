//! Copies of the database: made while others write, checked before they count, and kept for a while.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, check, rows};
use crate::model::Millis;
use crate::paths::create_private_dir;
use crate::unfinished::Writing;

/// Why a copy is made; it is the first part of the copy's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A day has gone by.
    Daily,
    /// The user asked.
    Asked,
    /// Everything is about to be forgotten.
    BeforeForget,
    /// Another copy is about to take the database's place.
    BeforeRestore,
    /// The schema is about to be changed from this version.
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

/// A copy that is there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Copy {
    /// Where.
    pub path: PathBuf,
    /// Why it was made: daily, manual, before-restore and so on.
    pub reason: String,
    /// When.
    pub made_at: Millis,
    /// Its size.
    pub bytes: u64,
}

/// What a check of a copy tells.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// The schema's version.
    pub schema: i64,
    /// How many rows each table has.
    pub rows: BTreeMap<&'static str, i64>,
}

/// Pages copied between two reports of progress.
const AT_ONCE: i32 = 500;

/// Copies the database into `directory` and checks the copy against it. Nobody waits for it: it reads one state of the
/// database, and others write on.
pub fn make(
    database: &Connection,
    directory: &Path,
    reason: Reason,
    now: Millis,
    mut tell: impl FnMut(i32, i32),
) -> Result<(Copy, Checked), StoreError> {
    create_private_dir(directory)?;
    let writing = Writing::begin(directory)?;
    let path = unused_name(directory, reason, now);
    let unfinished = path.with_extension("tmp");
    let made = copy_checked(database, &unfinished, &mut tell).and_then(|checked| {
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

fn copy_checked(
    database: &Connection,
    target: &Path,
    tell: &mut impl FnMut(i32, i32),
) -> Result<Checked, StoreError> {
    // A file of that name is what an end in the middle left.
    let _ = fs::remove_file(target);
    // SQLite would let others read it, where the directory did.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    // The transaction holds one state of the database; without it every write of others would begin the copy anew.
    let state = database.unchecked_transaction()?;
    let expected = rows::counts(&state)?;
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
            tell(progress.pagecount - progress.remaining, progress.pagecount);
        }
    }
    drop(state);
    // One file that needs no others beside it.
    copy.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    let checked = check(&copy)?;
    if checked.rows != expected {
        return Err(StoreError::Damaged("the copy has other rows than the database".into()));
    }
    Ok(checked)
}

/// Looks at every page of a database, and counts its rows.
pub fn check(database: &Connection) -> Result<Checked, StoreError> {
    check::everything(database)?;
    let schema = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(Checked { schema, rows: rows::counts(database)? })
}

/// Opens a copy without leaving a trace beside it.
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

/// The copies in `directory`, newest first.
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

/// The newest copy that stands a check, opened. The date of a copy tells how new it is, unless that date is still to come: then a
/// clock was wrong when it was made, and what the copy holds decides.
pub fn newest_good(directory: &Path, now: Millis) -> Option<(Copy, Checked, Connection)> {
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

/// How many numbers rows were given since the database was made. No clock and no deleting takes any of them back.
fn numbers_given(database: &Connection) -> i64 {
    let sql = "SELECT coalesce(sum(seq), 0) FROM sqlite_sequence";
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_default()
}

/// Deletes the oldest of those that were made unasked, beyond `keep` for each reason. Those from the future go first: the clock
/// was set back, and they are older than they say.
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

/// Whether a daily copy was made in the time before now. One from the future, left by a clock that was set back, is none.
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

/// The moment that a name tells.
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
    fn a_copy_is_whole_stands_alone_and_tells_when_it_was_made() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let (copy, checked) =
            make(&database, &home.backups(), Reason::Asked, 1_790_000_000_123, |_, _| {}).unwrap();
        assert_eq!(checked.rows["sessions"], 1);
        assert_eq!(list(&home.backups()), std::slice::from_ref(&copy));
        assert_eq!(copy.path.file_name().unwrap(), "manual-20260921T141320123Z.db");
        check(&open(&copy.path).unwrap()).unwrap();
        assert_eq!(fs::read_dir(home.backups()).unwrap().count(), 1, "nothing beside it");
    }

    #[test]
    fn others_write_while_a_copy_is_made() {
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
    fn only_what_was_made_unasked_is_pruned_and_a_broken_copy_is_passed_over() {
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
    fn copies_from_the_future_neither_ask_for_one_every_hour_nor_push_out_what_is_new() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let database = database(&home);
        let hour = |number: Millis| 1_790_000_000_000 + number * 3_600_000;
        // The clock was ahead for three days, and is right again.
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
    fn a_date_in_the_future_does_not_make_a_copy_the_newest_good_one() {
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
        // The clock was ahead, first by much and then by less: nothing was copied later than this.
        copy_at(900);
        copy_at(500);
        assert_eq!(newest(), 500);
        // It is right again.
        copy_at(2);
        assert_eq!(newest(), 2);
    }
}
