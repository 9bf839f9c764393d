//! Histories that are one JSON document: read element by element, so that only one message is in memory.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Stop;
use super::lines::MAX_LINE;
use crate::paths::open_plain;

/// Passes the members of a JSON object to `member`, and the elements of its list `messages` to `message`, in the order of the
/// file. False if it is not such a document, or is cut.
pub fn read(
    path: &Path,
    mut member: impl FnMut(&str, &RawValue),
    mut message: impl FnMut(&RawValue) -> Result<(), Stop>,
) -> Result<bool, Stop> {
    let mut failed = None;
    let left = Rc::new(Cell::new(MAX_LINE));
    let bounded = Bounded { file: open_plain(path)?, left: left.clone() };
    let mut message = |read: &RawValue| {
        left.set(MAX_LINE);
        message(read)
    };
    let mut reader = serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, bounded));
    let document = HistoryDocument { member: &mut member, message: &mut message, failed: &mut failed };
    let outcome = document.deserialize(&mut reader);
    match failed {
        Some(stop) => Err(stop),
        None => Ok(outcome.is_ok()),
    }
}

/// A whole document that is known to be small.
pub fn small(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    open_plain(path)?.take(MAX_LINE as u64).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Fails when one message is larger than may be held in memory.
struct Bounded {
    file: File,
    left: Rc<Cell<usize>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.left.set(self.left.get().saturating_sub(read));
        if self.left.get() == 0 { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(read) }
    }
}

struct HistoryDocument<'a> {
    member: &'a mut dyn FnMut(&str, &RawValue),
    message: &'a mut dyn FnMut(&RawValue) -> Result<(), Stop>,
    failed: &'a mut Option<Stop>,
}

impl<'de> DeserializeSeed<'de> for HistoryDocument<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HistoryDocument<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "messages" {
                map.next_value_seed(Messages { message: self.message, failed: self.failed })?;
            } else {
                let value: Box<RawValue> = map.next_value()?;
                (self.member)(&key, &value);
            }
        }
        Ok(())
    }
}

struct Messages<'a> {
    message: &'a mut dyn FnMut(&RawValue) -> Result<(), Stop>,
    failed: &'a mut Option<Stop>,
}

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(message) = list.next_element::<Box<RawValue>>()? {
            if let Err(stop) = (self.message)(&message) {
                *self.failed = Some(stop);
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
