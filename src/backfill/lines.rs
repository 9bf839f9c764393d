//! The lines of a file of any size, in bounded memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::json::Object;
use super::{LeftOut, Sink};
use crate::paths::open_plain;

/// A longer line is skipped: the largest records of real sessions are below 1 MB, images below 10.
pub const MAX_LINE: usize = 16 << 20;

/// A buffer that grew for one long line is given back.
const KEPT: usize = 1 << 20;

/// Reads line by line, and remembers where each began.
pub struct Lines {
    reader: BufReader<io::Take<File>>,
    offset: u64,
    buffer: Vec<u8>,
}

/// A line.
pub struct HistoryLine<'a> {
    /// Its offset in the file.
    pub start: u64,
    /// Its length with the line's end.
    pub bytes: u64,
    /// Its text; none if it is too long.
    pub text: Option<Cow<'a, str>>,
    /// It has an end: nobody is still writing it.
    pub is_whole: bool,
}

impl HistoryLine<'_> {
    /// Counts the line as read and parses it. Tells the sink if it had to be left out.
    pub fn record(&self, sink: &mut dyn Sink) -> Option<Object<'_>> {
        sink.advance(self.bytes);
        let Some(text) = &self.text else {
            sink.leave_out(LeftOut::TooLong);
            return None;
        };
        let record = Object::parse(text);
        if record.is_none() && self.is_whole && !text.is_empty() {
            sink.leave_out(LeftOut::Broken);
        }
        record
    }
}

impl Lines {
    /// Reads the file from one offset to another. What is added behind it meanwhile waits for the next time.
    pub fn open(path: &Path, from: u64, to: u64) -> io::Result<Self> {
        let mut file = open_plain(path)?;
        file.seek(SeekFrom::Start(from))?;
        let reader = BufReader::with_capacity(64 << 10, file.take(to.saturating_sub(from)));
        Ok(Self { reader, offset: from, buffer: Vec::new() })
    }

    /// The next line.
    pub fn next(&mut self) -> io::Result<Option<HistoryLine<'_>>> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT);
        let start = self.offset;
        let (mut is_whole, mut is_too_long) = (false, false);
        while !is_whole {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', available);
            let used = end.map_or(available.len(), |end| end + 1);
            is_too_long |= self.buffer.len() + used > MAX_LINE;
            if is_too_long {
                self.buffer.clear();
            } else {
                self.buffer.extend_from_slice(&available[..used]);
            }
            self.reader.consume(used);
            self.offset += used as u64;
            is_whole = end.is_some();
        }
        let bytes = self.offset - start;
        if bytes == 0 {
            return Ok(None);
        }
        let text = (!is_too_long).then(|| String::from_utf8_lossy(self.buffer.trim_ascii()));
        Ok(Some(HistoryLine { start, bytes, text, is_whole }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_without_bounds_is_skipped_and_those_behind_it_are_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "one").unwrap();
        for _ in 0..(MAX_LINE / (1 << 20) + 2) {
            file.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        write!(file, "\n\ntwo\nhalf").unwrap();
        let size = file.as_file().metadata().unwrap().len();
        let mut lines = Lines::open(file.path(), 0, size).unwrap();
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.text.map(Cow::into_owned), line.is_whole));
            assert!(lines.buffer.capacity() <= 2 * MAX_LINE);
        }
        let text = |text: &str, is_whole| (Some(text.to_owned()), is_whole);
        assert_eq!(
            seen,
            [text("one", true), (None, true), text("", true), text("two", true), text("half", false)]
        );
    }
}
