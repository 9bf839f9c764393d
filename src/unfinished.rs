//! Files that get their name when they are complete: until then they are called `….tmp`. A kill leaves such a file behind; who
//! still writes one is told by a lock on the folder, which no clock and no kill can make wrong.

#[cfg(feature = "service")]
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;

/// Held by whoever writes an unfinished file in a folder, from before it is made.
#[derive(Debug)]
pub struct Writing(File);

impl Writing {
    /// Begins, and waits for nobody: whoever cleans up holds the lock for a moment, and looked before it took it.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let folder = File::open(folder)?;
        let _ = folder.try_lock_shared();
        Ok(Self(folder))
    }

    /// The folder's entries are on the disk from here on.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Removes what nobody will finish, unless somebody writes just now. Best effort: there is a next time.
#[cfg(feature = "service")]
pub fn clean_up(folder: &Path) {
    // First the look, then the lock: a file that begins after the look stays, whether or not its writer got the lock.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left: Vec<_> = entries.map(|entry| entry.path()).filter(|path| is_unfinished(path)).collect();
    if left.is_empty() {
        return;
    }
    let Ok(lock) = File::open(folder) else { return };
    if lock.try_lock().is_ok() {
        left.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// SQLite puts files of its own beside a copy that it writes.
#[cfg(feature = "service")]
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    [".tmp", ".tmp-journal", ".tmp-wal", ".tmp-shm"].iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_writes_any_more_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let unfinished = scratch.path().join(".event.tmp");
        let names = || fs::read_dir(scratch.path()).unwrap().count();
        let writing = Writing::begin(scratch.path()).unwrap();
        for name in [".event.tmp", "copy.tmp-journal", "event.json", "copy.db"] {
            fs::write(scratch.path().join(name), "x").unwrap();
        }
        clean_up(scratch.path());
        assert_eq!(names(), 4, "somebody writes");
        drop(writing);
        clean_up(scratch.path());
        assert_eq!((names(), unfinished.exists()), (2, false));
    }
}
