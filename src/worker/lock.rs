//! One worker per data directory, by a lock that the operating system gives back whatever happens to its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::paths::{FileIdentity, Home};

/// Held for a worker's life.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another worker has it.
    #[error("another worker{} serves {home}", .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held {
        /// Its process, as far as it is known.
        pid: Option<u32>,
        /// The data directory.
        home: String,
    },
    /// It cannot be made.
    #[error("cannot lock the data directory: {0}")]
    Io(#[from] io::Error),
}

/// Whoever looks for the holder holds the lock for a moment, and so does a worker that has not said its name yet.
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
        // For people and for `stop`; the lock itself needs no content, and a full disk does not stop the worker.
        let _ = note_pid(&mut file);
        Ok(Self { file })
    }

    /// Takes the lock once more if its file is gone: a lock that nobody can find keeps nobody out. An error if another
    /// worker was faster.
    pub fn renew(&mut self, home: &Home) -> Result<(), LockError> {
        let held = FileIdentity::from(&self.file.metadata()?);
        if FileIdentity::of(&home.lock()) != Some(held) {
            home.prepare().map_err(io::Error::other)?;
            *self = Self::take(home)?;
        }
        Ok(())
    }

    /// The process that holds the lock, if one does.
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
    // Over the old one, whose place on the disk is ours already.
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
    fn there_is_one_holder_and_the_lock_comes_back_with_its_end() {
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
    fn a_lock_whose_file_is_gone_is_taken_once_more_unless_somebody_was_faster() {
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
