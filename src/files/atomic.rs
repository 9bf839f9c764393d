//! Atomic files: written as `….tmp` and renamed when complete. A kill leaves the temporary file
//! behind; a lock on its directory, which is independent of clocks and released by a kill, shows
//! that a writer is still active.

#[cfg(feature = "service")]
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;

/// Held by the writer of a temporary file, from before its creation.
#[derive(Debug)]
pub struct DirLock(File);

impl DirLock {
    /// Takes the lock without waiting: a clean-up holds it only briefly, and listed the files
    /// before it took it.
    pub fn shared(folder: &Path) -> io::Result<Self> {
        let folder = File::open(folder)?;
        let _ = folder.try_lock_shared();
        Ok(Self(folder))
    }

    /// Syncs the directory's entries to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Removes abandoned temporary files, unless a writer is active. Best effort; it runs again later.
#[cfg(feature = "service")]
pub fn clean_up(folder: &Path) {
    // List first, then lock: a file created after the listing stays, even if its writer did not get
    // the lock.
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

/// True for temporary files and the files that SQLite creates next to one.
#[cfg(feature = "service")]
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    [".tmp", ".tmp-journal", ".tmp-wal", ".tmp-shm"].iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_files_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let unfinished = scratch.path().join(".event.tmp");
        let names = || fs::read_dir(scratch.path()).unwrap().count();
        let writing = DirLock::shared(scratch.path()).unwrap();
        for name in [".event.tmp", "copy.tmp-journal", "event.json", "copy.db"] {
            fs::write(scratch.path().join(name), "x").unwrap();
        }
        clean_up(scratch.path());
        assert_eq!(names(), 4, "a writer is active");
        drop(writing);
        clean_up(scratch.path());
        assert_eq!((names(), unfinished.exists()), (2, false));
    }
}
