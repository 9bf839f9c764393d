//! One worker per data directory, by a lock that the operating system gives back whatever happens to its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::paths::Home;

/// Held for a worker's life.
#[derive(Debug)]
pub struct Lock {
    _file: File,
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

impl Lock {
    /// Takes the lock, waiting for a holder that is about to leave.
    pub fn take(home: &Home, patience: Duration) -> Result<Self, LockError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(home.lock())?;
        let deadline = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    let home_dir = home.dir().display().to_string();
                    return Err(LockError::Held { pid: read_pid(&mut file), home: home_dir });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        // For people and for `stop`; the lock itself needs no content, and a full disk does not stop the worker.
        let _ = note_pid(&mut file);
        Ok(Self { _file: file })
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
        let first = Lock::take(&home, Duration::ZERO).unwrap();
        let refused = Lock::take(&home, Duration::ZERO).unwrap_err();
        assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
        assert_eq!(Lock::holder(&home), Some(std::process::id()));
        drop(first);
        assert_eq!(Lock::holder(&home), None);
        Lock::take(&home, Duration::ZERO).unwrap();
    }
}
