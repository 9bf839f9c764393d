//! Reads SQLite's WAL file. SQLite itself reads it up to the first invalid frame and reports
//! nothing about the rest: that may be truncated, or still be there.
//!
//! The format is documented by SQLite ("The Write-Ahead Wal", "WAL-mode File Format").

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::paths::{FileIdentity, with_suffix};
use crate::store::StoreError;

const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Valid page sizes.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// Number of unread commits that dead writers may leave. A process that dies between writing a
/// commit and publishing it in the index leaves one that was never read; the next writer overwrites
/// it. More than this is a fault.
const MAX_UNPUBLISHED_COMMITS: usize = 2;

/// Longer than writing a page takes.
const WRITTEN: Duration = Duration::from_millis(50);

/// A parsed WAL file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wal {
    page_size: usize,
    salts: [u8; 8],
    frames: Vec<WalFrame>,
    /// Number of frames that SQLite reads.
    readable: usize,
    /// Bytes behind the last whole frame.
    torn: usize,
}

/// A written page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalFrame {
    page: u32,
    /// The size of the database in pages if this frame ends a commit; otherwise 0.
    ends_with: u32,
    offset: u64,
    /// True if its checksum is valid, given the frames before it.
    is_good: bool,
}

/// Returns the pages that a log has, by its headers alone; `None` if it has more frames than `most`, or cannot be read.
pub fn logged_pages(path: &Path, most: u64) -> Option<BTreeSet<u32>> {
    let file = File::open(path).ok()?;
    let mut header = [0; WAL_HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let frame_size = FRAME_HEADER as u64 + u64::from(big_endian(&header, 8));
    let frames = file.metadata().ok()?.len().saturating_sub(WAL_HEADER as u64) / frame_size;
    if frames > most {
        return None;
    }
    let mut pages = BTreeSet::new();
    let mut frame = [0; FRAME_HEADER];
    for index in 0..frames {
        file.read_exact_at(&mut frame, WAL_HEADER as u64 + index * frame_size).ok()?;
        if frame[8..16] != header[16..24] {
            break;
        }
        pages.insert(big_endian(&frame, 0));
    }
    Some(pages)
}

impl Wal {
    /// Parses a WAL file. `None` if there is none, or its header is not valid.
    pub fn read(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let mut header = [0; WAL_HEADER];
        file.read_exact(&mut header).ok()?;
        let word = |at: usize| big_endian(&header, at);
        let is_big = match word(0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let page_size = usize::try_from(word(8)).ok().filter(|size| PAGE_SIZES.contains(size))?;
        let mut sum = checksum((0, 0), &header[..24], is_big);
        if sum != (word(24), word(28)) {
            return None;
        }
        let mut log = Self { page_size, ..Self::default() };
        log.salts.copy_from_slice(&header[16..24]);
        let mut frame = vec![0; FRAME_HEADER + page_size];
        let mut offset = WAL_HEADER as u64;
        let mut is_whole = true;
        loop {
            let read = read_up_to(&mut file, &mut frame);
            if read < frame.len() {
                log.torn = read;
                break;
            }
            // Left over from an earlier generation of the WAL.
            if frame[8..16] != log.salts {
                break;
            }
            sum = checksum(checksum(sum, &frame[..8], is_big), &frame[FRAME_HEADER..], is_big);
            let written = (big_endian(&frame, 16), big_endian(&frame, 20));
            let is_good = sum == written;
            is_whole &= is_good;
            // Each checksum continues the previous one, so the frames behind a bad page can be
            // verified from the stored sum.
            sum = written;
            log.frames.push(WalFrame {
                page: big_endian(&frame, 0),
                ends_with: big_endian(&frame, 4),
                offset,
                is_good,
            });
            if is_whole && big_endian(&frame, 4) != 0 {
                log.readable = log.frames.len();
            }
            offset += frame.len() as u64;
        }
        Some(log)
    }

    /// Returns the number of commits that SQLite does not read because a frame before them is
    /// broken.
    pub fn commits_behind_the_break(&self) -> usize {
        self.frames[self.readable..].iter().filter(|frame| frame.ends_with != 0).count()
    }

    /// Returns the fault of this WAL, if one can be detected. `known` is the number of pages that
    /// its readers saw as committed.
    fn corruption(&self, known: Option<usize>) -> Option<String> {
        let behind = self.commits_behind_the_break();
        let is_read = known.is_some_and(|known| known <= self.readable);
        let suspicious = if is_read { MAX_UNPUBLISHED_COMMITS } else { 1 };
        if behind >= suspicious {
            return Some(format!("the WAL is corrupt: {behind} commits follow an invalid frame"));
        }
        if is_read {
            return None;
        }
        if let Some(known) = known {
            let missing = known - self.readable;
            return Some(format!("the WAL is truncated: {missing} of {known} pages are missing"));
        }
        // A writer that dies leaves a whole frame header, or nothing.
        let is_cut = self.torn > 0 && self.torn != FRAME_HEADER;
        is_cut.then(|| "the WAL is truncated in the middle of a page".into())
    }
}

/// Returns the fault in the WAL of this database, if there is one.
pub fn corruption(database: &Path) -> Option<String> {
    let (log, fault) = look(database)?;
    // A frame that is being written is not a fault.
    std::thread::sleep(WRITTEN);
    look(database).filter(|(again, _)| *again == log).map(|_| fault)
}

fn look(database: &Path) -> Option<(Wal, String)> {
    // Read the index first: a concurrent writer makes the WAL longer.
    let index = read_index(with_suffix(database, "-shm")).ok();
    let log = Wal::read(&with_suffix(database, "-wal"))?;
    let fault = log.corruption(index.and_then(|index| pages_known(&index, log.salts)))?;
    Some((log, fault))
}

/// Size of the header of a WAL index, which is stored twice at its start.
const INDEX_HEADER: usize = 48;

/// Reads the start of a WAL index (-shm).
///
/// Its file stays open: SQLite's locks on it belong to the process, and closing one handle of a
/// file releases the locks of all. Another process would then consider itself the first and
/// truncate the index, and threads of ours that still read it would be killed (SIGBUS).
fn read_index(path: PathBuf) -> std::io::Result<[u8; 2 * INDEX_HEADER]> {
    static OPEN: Mutex<BTreeMap<PathBuf, (FileIdentity, File)>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if open.get(&path).is_none_or(|(identity, _)| FileIdentity::of(&path) != Some(*identity)) {
        // A file that is no longer at its path is closed: no other process can open it.
        let file = File::open(&path)?;
        open.insert(path.clone(), (FileIdentity::from(&file.metadata()?), file));
    }
    let mut index = [0; 2 * INDEX_HEADER];
    open[&path].1.read_exact_at(&mut index, 0)?;
    Ok(index)
}

/// Returns the number of pages of this WAL that its index lists as committed.
fn pages_known(index: &[u8; 2 * INDEX_HEADER], salts: [u8; 8]) -> Option<usize> {
    let (first, second) = index.split_at(INDEX_HEADER);
    if first != second || first[32..40] != salts {
        return None;
    }
    let count = u32::from_ne_bytes(first[16..20].try_into().ok()?);
    usize::try_from(count).ok()
}

/// Writes every valid page of the WAL, up to its last commit, into the database file, and removes
/// the WAL. Commits behind a break are then visible; broken pages keep their earlier content.
pub fn write_back(database: &Path) -> Result<(), StoreError> {
    let path = with_suffix(database, "-wal");
    let Some(log) = Wal::read(&path) else { return Ok(()) };
    let last = log.frames.iter().rposition(|frame| frame.ends_with != 0);
    if let Some(last) = last {
        let (from, to) = (File::open(&path)?, OpenOptions::new().write(true).open(database)?);
        let mut page = vec![0; log.page_size];
        for frame in log.frames[..=last].iter().filter(|frame| frame.is_good && frame.page > 0) {
            from.read_exact_at(&mut page, frame.offset + FRAME_HEADER as u64)?;
            to.write_all_at(&page, u64::from(frame.page - 1) * log.page_size as u64)?;
        }
        to.set_len(u64::from(log.frames[last].ends_with) * log.page_size as u64)?;
    }
    Ok(fs::remove_file(path)?)
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut read = 0;
    while let Ok(count @ 1..) = file.read(&mut buffer[read..]) {
        read += count;
    }
    read
}

fn big_endian(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes).unwrap_or_default()
}

/// SQLite's checksum over pairs of words, continued from an earlier one.
fn checksum((mut first, mut second): (u32, u32), bytes: &[u8], is_big: bool) -> (u32, u32) {
    let word = |bytes: [u8; 4]| if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    for pair in bytes.chunks_exact(8) {
        let (one, other) = ([pair[0], pair[1], pair[2], pair[3]], [pair[4], pair[5], pair[6], pair[7]]);
        first = first.wrapping_add(word(one)).wrapping_add(second);
        second = second.wrapping_add(word(other)).wrapping_add(first);
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Creates a database whose rows 1 to `rows` are in its WAL, one commit each; copied while it
    /// is open, as a crash leaves it.
    fn crashed(scratch: &Path, rows: i64) -> PathBuf {
        let (live, file) = (scratch.join("live.db"), scratch.join("crashed.db"));
        let database = Connection::open(&live).unwrap();
        database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)").unwrap();
        for row in 1..=rows {
            database.execute("INSERT INTO t VALUES (?1, ?2)", (row, "x".repeat(3000))).unwrap();
        }
        for suffix in ["", "-wal", "-shm"] {
            fs::copy(with_suffix(&live, suffix), with_suffix(&file, suffix)).unwrap();
        }
        file
    }

    /// Returns the readable rows, one by one.
    fn rows(file: &Path) -> Vec<i64> {
        let database = Connection::open(file).unwrap();
        let is_there = |id: &i64| {
            database
                .query_row("SELECT text FROM t WHERE id = ?1", [id], |row| row.get::<_, String>(0))
                .is_ok()
        };
        (1..=20).filter(is_there).collect()
    }

    fn cut(file: &Path, to: impl Fn(u64) -> u64) {
        let log = OpenOptions::new().write(true).open(with_suffix(file, "-wal")).unwrap();
        log.set_len(to(log.metadata().unwrap().len())).unwrap();
    }

    #[test]
    fn a_wal_left_by_a_crash_is_valid_and_read_completely() {
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        assert_eq!(corruption(&file), None);
        let log = Wal::read(&with_suffix(&file, "-wal")).unwrap();
        assert_eq!((log.readable, log.commits_behind_the_break()), (log.frames.len(), 0));
        // A writer died while it wrote a frame.
        cut(&file, |length| length + FRAME_HEADER as u64);
        assert_eq!(corruption(&file), None);
        assert_eq!(rows(&file).len(), 20);
    }

    #[test]
    fn truncation_shows_in_a_torn_end_or_in_the_index() {
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        cut(&file, |length| length - 1000);
        fs::remove_file(with_suffix(&file, "-shm")).unwrap();
        assert_eq!(corruption(&file).as_deref(), Some("the WAL is truncated in the middle of a page"));
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        let frames = Wal::read(&with_suffix(&file, "-wal")).unwrap().frames.len();
        cut(&file, |length| length - 3 * 4120);
        let expected = format!("the WAL is truncated: 3 of {frames} pages are missing");
        assert_eq!(corruption(&file), Some(expected));
    }

    #[test]
    fn an_unpublished_commit_is_not_a_fault() {
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        let wal = with_suffix(&file, "-wal");
        // As after a writer died before it published its commit, and the next one wrote a shorter
        // one in its place.
        let log = Wal::read(&wal).unwrap();
        let commits: Vec<usize> = (0..log.frames.len()).filter(|at| log.frames[*at].ends_with != 0).collect();
        let broken = log.frames[commits[commits.len() - 2] + 1];
        let bytes = OpenOptions::new().write(true).open(&wal).unwrap();
        bytes.write_all_at(&[0xa5; 8], broken.offset + FRAME_HEADER as u64).unwrap();
        let mut index = fs::read(with_suffix(&file, "-shm")).unwrap();
        let known = u32::try_from(commits[commits.len() - 2] + 1).unwrap().to_ne_bytes();
        index[16..20].copy_from_slice(&known);
        index[64..68].copy_from_slice(&known);
        fs::write(with_suffix(&file, "-shm"), index).unwrap();
        assert_eq!(Wal::read(&wal).unwrap().commits_behind_the_break(), 1);
        assert_eq!(corruption(&file), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reading_the_wal_keeps_the_locks_of_open_connections() {
        use std::os::unix::fs::MetadataExt;

        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        let database = Connection::open(&file).unwrap();
        let count = |database: &Connection| {
            database.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(count(&database), 20);
        let inode = fs::metadata(with_suffix(&file, "-shm")).unwrap().ino();
        let ours = format!(" {} ", std::process::id());
        let inode = format!(":{inode} ");
        // The list has the locks of the whole machine, and a change while it is read may hide
        // others once.
        let holds_a_lock = || {
            let locks = || fs::read_to_string("/proc/locks").unwrap();
            (0..50).any(|_| locks().lines().any(|lock| lock.contains(&ours) && lock.contains(&inode)))
        };
        assert!(holds_a_lock(), "the index must be in use");
        assert_eq!(corruption(&file), None);
        assert_eq!(corruption(&file), None);
        assert!(holds_a_lock());
    }

    #[test]
    fn a_replaced_database_is_checked_with_its_own_index() {
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        assert_eq!(corruption(&file), None);
        let elsewhere = tempfile::tempdir().unwrap();
        let other = crashed(elsewhere.path(), 20);
        cut(&other, |length| length - 3 * 4120);
        for suffix in ["", "-wal", "-shm"] {
            fs::copy(with_suffix(&other, suffix), with_suffix(&file, ".new")).unwrap();
            fs::rename(with_suffix(&file, ".new"), with_suffix(&file, suffix)).unwrap();
        }
        assert!(corruption(&file).is_some_and(|fault| fault.starts_with("the WAL is truncated: 3 of ")));
    }

    #[test]
    fn commits_behind_a_broken_page_are_counted_and_recovered() {
        let scratch = tempfile::tempdir().unwrap();
        let file = crashed(scratch.path(), 20);
        let wal = with_suffix(&file, "-wal");
        let log = Wal::read(&wal).unwrap();
        let broken = log.frames[log.frames.len() / 2];
        let bytes = OpenOptions::new().write(true).open(&wal).unwrap();
        bytes.write_all_at(&[0xa5; 500], broken.offset + FRAME_HEADER as u64 + 100).unwrap();
        let read_by_sqlite = {
            let other = scratch.path().join("other.db");
            fs::copy(&file, &other).unwrap();
            fs::copy(&wal, with_suffix(&other, "-wal")).unwrap();
            rows(&other)
        };
        let behind = Wal::read(&wal).unwrap().commits_behind_the_break();
        assert!(
            behind >= 20 - read_by_sqlite.len() && read_by_sqlite.len() < 20,
            "{behind} {read_by_sqlite:?}"
        );
        write_back(&file).unwrap();
        let had = rows(&file);
        assert!(had.contains(&20) && had.len() >= 19, "{had:?}");
    }
}
