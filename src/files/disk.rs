//! Free space on the data directory's disk. Large copies are made only if they leave a reserve, so
//! that hooks can always write.

use std::fs;
#[cfg(feature = "service")]
use std::io::Write;
#[cfg(feature = "service")]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::paths::Home;

const MB: u64 = 1 << 20;

/// Maximum space reserved for new events; at most a third of a small disk.
const MAX_RESERVED: u64 = 64 * MB;

/// Size of the file that a hook deletes as a last resort: room for some thousand truncated events.
#[cfg(feature = "service")]
const BALLAST: usize = 8 << 20;

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Available to us.
    pub free: u64,
    /// Total size.
    pub total: u64,
}

impl Space {
    /// Returns the space at `path`, which need not exist yet; none if the system does not report
    /// it.
    pub fn at(path: &Path) -> Option<Self> {
        let there = path.ancestors().find(|place| place.exists())?;
        let stat = rustix::fs::statvfs(there).ok()?;
        // Some file systems report no size.
        (stat.f_blocks > 0).then(|| Self {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    /// Returns the space reserved for new events.
    pub fn reserve(self) -> u64 {
        MAX_RESERVED.min(self.total / 3)
    }

    /// True if new events have begun to use the reserve.
    pub fn is_low(self) -> bool {
        self.free < self.reserve()
    }
}

/// Deletes the ballast, for an event that could not be written otherwise. Returns false if there is
/// none.
pub fn release_ballast(home: &Home) -> bool {
    fs::remove_file(home.ballast()).is_ok()
}

/// Too little free space for work that can wait.
#[cfg(feature = "service")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not enough disk space for {}: needs {} MB, {} MB free, of which {} MB are kept for new events",
    .place, megabytes(*needed), megabytes(space.free), megabytes(space.reserve())
)]
pub struct NoRoom {
    place: String,
    needed: u64,
    space: Space,
}

#[cfg(feature = "service")]
fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(MB)
}

/// Checks that `needed` bytes fit at `path` without using the reserve.
#[cfg(feature = "service")]
pub fn check_room(path: &Path, needed: u64) -> Result<(), NoRoom> {
    match Space::at(path) {
        Some(space) if needed.saturating_add(space.reserve()) > space.free => {
            Err(NoRoom { place: path.display().to_string(), needed, space })
        }
        _ => Ok(()),
    }
}

/// Recreates the ballast if there is room for it. Best effort.
#[cfg(feature = "service")]
pub fn keep_ballast(home: &Home) {
    let path = home.ballast();
    if path.exists() || check_room(&path, 2 * BALLAST as u64).is_err() {
        return;
    }
    let written =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
            // Write real blocks: a sparse file would reserve nothing.
            file.write_all(&vec![0; BALLAST])
        });
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_a_third_of_the_disk_up_to_64_mb() {
        let small = Space { free: 40 * MB, total: 99 * MB };
        let large = Space { free: 65 * MB, total: 1_000_000 * MB };
        assert_eq!((small.reserve(), large.reserve()), (33 * MB, 64 * MB));
        assert!(!small.is_low() && !large.is_low());
        assert!(Space { free: 32 * MB, ..small }.is_low());
    }

    #[test]
    fn reserve_is_not_available_to_other_writes() {
        let scratch = tempfile::tempdir().unwrap();
        let later = scratch.path().join("not/yet");
        let space = Space::at(&later).unwrap();
        check_room(&later, 0).unwrap();
        let error = check_room(&later, space.free).unwrap_err();
        assert!(error.to_string().contains("kept for new events"), "{error}");
    }
}
