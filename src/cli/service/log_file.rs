//! The log file of a worker that runs without a journal, rotated to limit its size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::paths::Home;

/// Size at which the file is rotated; the previous part is overwritten.
const MAX_BYTES: u64 = 4 << 20;

/// Returns a writer to the log file of this data directory, or to stderr if it cannot be opened.
pub fn writer(home: &Home) -> BoxMakeWriter {
    match RotatingFile::open(home.worker_log(), MAX_BYTES) {
        Ok(file) => BoxMakeWriter::new(Mutex::new(file)),
        Err(_) => BoxMakeWriter::new(io::stderr),
    }
}

/// Path of the previous part.
pub fn previous(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    most: u64,
}

impl RotatingFile {
    fn open(path: PathBuf, most: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, most })
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, previous(&self.path))?;
        *self = Self::open(std::mem::take(&mut self.path), self.most)?;
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.most {
            // Rotation fails if the file was removed; then the open file still takes the line.
            let path = self.path.clone();
            if self.rotate().is_err() {
                self.path = path;
            }
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keeps_the_current_and_one_previous_part() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("worker.log");
        fs::write(&path, "left by the one before\n").unwrap();
        let mut log = RotatingFile::open(path.clone(), 40).unwrap();
        for number in 0..9 {
            log.write_all(format!("line number {number}\n").as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "line number 7\nline number 8\n");
        assert_eq!(fs::read_to_string(previous(&path)).unwrap(), "line number 5\nline number 6\n");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }
}
