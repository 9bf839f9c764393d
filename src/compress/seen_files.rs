//! The files that a session has read or written, so that reading the same again is routine.

use std::collections::BTreeMap;

use crate::tools::{FileEdit, FileRead};

/// Lines that a session has read or written. Bounded: dropping the oldest file costs at most one extra event that is kept.
#[derive(Debug, Clone, Default)]
pub struct SeenFiles {
    files: BTreeMap<String, SeenFile>,
    lines: usize,
    clock: u64,
}

#[derive(Debug, Clone, Default)]
struct SeenFile {
    /// A hash for each line from the first; 0 where it was not seen.
    hashes: Vec<u32>,
    used: u64,
}

/// Maximum number of lines. At four bytes each, a quarter of a megabyte per session.
const MOST_SEEN_LINES: usize = 64 * 1024;

impl SeenFiles {
    /// Records a read. Returns true if all of it had been seen before, in the same places.
    pub(super) fn note_read(&mut self, read: &FileRead) -> bool {
        read.content.as_deref().is_some_and(|content| self.note(&read.path, read.start - 1, content))
    }

    /// Records the file as an edit left it; forgets it if that is not known.
    pub(super) fn note_edit(&mut self, edit: &FileEdit) {
        self.forget(&edit.path);
        if let Some(change) = &edit.change {
            self.note(&edit.path, 0, &change.after);
        }
    }

    fn note(&mut self, path: &str, start: usize, content: &str) -> bool {
        if content.contains("[claude-mem: ") {
            return false;
        }
        let hashes: Vec<u32> = content.split('\n').map(line_hash).collect();
        if start.saturating_add(hashes.len()) > MOST_SEEN_LINES {
            return false;
        }
        self.clock += 1;
        let file = self.files.entry(path.to_owned()).or_default();
        file.used = self.clock;
        let known = file.hashes.get(start..start + hashes.len()).is_some_and(|known| known == hashes);
        if !known {
            let before = file.hashes.len();
            file.hashes.resize(before.max(start + hashes.len()), 0);
            file.hashes[start..start + hashes.len()].copy_from_slice(&hashes);
            self.lines += file.hashes.len() - before;
            self.forget_oldest();
        }
        known
    }

    fn forget(&mut self, path: &str) {
        if let Some(file) = self.files.remove(path) {
            self.lines -= file.hashes.len();
        }
    }

    fn forget_oldest(&mut self) {
        while self.lines > MOST_SEEN_LINES {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.used).map(|(path, _)| path.clone());
            let Some(path) = oldest else { return };
            self.forget(&path);
        }
    }
}

/// Never 0, which means "not seen".
fn line_hash(line: &str) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64(line.trim_end_matches('\r').as_bytes());
    (u32::try_from(hash >> 32).unwrap_or(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(path: &str, start: usize, content: &str) -> FileRead {
        FileRead { path: path.to_owned(), is_owned: true, start, content: Some(content.to_owned()) }
    }

    #[test]
    fn a_part_of_what_was_seen_is_seen() {
        let mut seen = SeenFiles::default();
        assert!(!seen.note_read(&reading("/a", 1, "one\ntwo\nthree\n")));
        assert!(seen.note_read(&reading("/a", 1, "one\ntwo\nthree\n")));
        assert!(seen.note_read(&reading("/a", 2, "two\nthree")));
        assert!(!seen.note_read(&reading("/a", 2, "two\nfour")));
        assert!(!seen.note_read(&reading("/b", 2, "two\nthree")));
    }

    #[test]
    fn lines_that_were_skipped_are_not_seen() {
        let mut seen = SeenFiles::default();
        assert!(!seen.note_read(&reading("/a", 9_000, "late")));
        assert!(!seen.note_read(&reading("/a", 8_999, "\nlate")));
        assert!(seen.note_read(&reading("/a", 9_000, "late")));
    }

    #[test]
    fn what_was_cut_is_never_the_same() {
        let mut seen = SeenFiles::default();
        for _ in 0..2 {
            assert!(!seen.note_read(&reading("/a", 1, "one\n[claude-mem: 99 bytes cut]\ntwo")));
        }
    }

    #[test]
    fn seen_files_are_bounded_and_the_oldest_is_dropped_first() {
        let mut seen = SeenFiles::default();
        let text = "line\n".repeat(20_000);
        for path in ["/1", "/2", "/3", "/4"] {
            seen.note_read(&reading(path, 1, &text));
        }
        assert!(seen.lines <= MOST_SEEN_LINES);
        assert!(seen.note_read(&reading("/4", 1, &text)));
        assert!(!seen.note_read(&reading("/1", 1, &text)));
    }
}
