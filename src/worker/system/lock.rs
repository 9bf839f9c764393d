//! Ensures one worker per data directory with a lock that the operating system releases however its
//! holder ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::paths::{FileIdentity, Home};

/// The lock, held for the worker's lifetime.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// An error while taking the lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another worker holds it.
    #[error("another worker{} serves {home}", .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held {
        /// Its process id, if known.
        pid: Option<u32>,
        /// The data directory.
        home: String,
    },
    /// The data directory is gone.
    #[error("the data directory {0} was removed or replaced")]
    Homeless(String),
    /// The lock file cannot be created.
    #[error("cannot lock the data directory: {0}")]
    Io(#[from] io::Error),
}

/// Time to retry: `holder` takes the lock for a moment to look at it, and a new worker has not
/// written its pid yet.
const PATIENCE: Duration = Duration::from_millis(500);

impl Lock {
    /// Takes the lock.
    pub fn take(home: &Home) -> Result<Self, LockError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(home.lock())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&mut file);
                    if pid.is_some_and(is_alive) || Instant::now() >= deadline {
                        return Err(LockError::Held { pid, home: home.dir().display().to_string() });
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        // The pid is for users and for `stop`; the lock needs no content, and a full disk must not
        // stop the worker.
        let _ = note_pid(&mut file);
        Ok(Self { file })
    }

    /// Takes the lock again if its file is gone: a lock that no process can find protects nothing.
    /// Returns an error if another worker was faster.
    pub fn renew(&mut self, home: &Home) -> Result<(), LockError> {
        let held = FileIdentity::from(&self.file.metadata()?);
        if FileIdentity::of(&home.lock()) != Some(held) {
            home.prepare().map_err(io::Error::other)?;
            *self = Self::take(home)?;
        }
        Ok(())
    }

    /// Returns the pid of the process that holds the lock, if there is one.
    pub fn holder(home: &Home) -> Option<u32> {
        let mut file = OpenOptions::new().read(true).open(home.lock()).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_pid(&mut file),
            _ => None,
        }
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

fn note_pid(file: &mut File) -> io::Result<()> {
    let line = format!("{}\n", std::process::id());
    file.rewind()?;
    // Overwrite in place: this needs no additional disk space.
    file.write_all(line.as_bytes())?;
    file.set_len(line.len().try_into().unwrap_or_default())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_holds_the_lock_until_it_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        assert_eq!(Lock::holder(&home), None);
        let first = Lock::take(&home).unwrap();
        let refused = Lock::take(&home).unwrap_err();
        assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
        assert_eq!(Lock::holder(&home), Some(std::process::id()));
        drop(first);
        assert_eq!(Lock::holder(&home), None);
        Lock::take(&home).unwrap();
    }

    #[test]
    fn a_lost_lock_file_is_relocked_unless_another_worker_has_it() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let mut first = Lock::take(&home).unwrap();
        std::fs::remove_file(home.lock()).unwrap();
        first.renew(&home).unwrap();
        assert_eq!(Lock::holder(&home), Some(std::process::id()));
        std::fs::remove_file(home.lock()).unwrap();
        let _faster = Lock::take(&home).unwrap();
        assert!(matches!(first.renew(&home), Err(LockError::Held { .. })));
    }
}
