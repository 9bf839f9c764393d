//! The events given to hooks, and the outcomes that the hooks reported.

use std::collections::HashSet;

use claude_mem::capture::{self, Verb};
use claude_mem::config::{Config, Environment};
use claude_mem::model::EventKey;

/// A hook's report about its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It still runs, or was killed.
    Unknown,
    /// Neither database nor spool accepted it.
    Dropped,
    /// A file in the spool.
    Spooled,
    /// A row in the database.
    Stored,
}

#[derive(Debug, Clone)]
pub struct Entry {
    /// The key in the database, without the time that some keys end with.
    pub key: String,
    pub writer: usize,
    pub fate: Fate,
    /// Its hooks have ended.
    pub is_over: bool,
    /// True if its two hooks ran so far apart that they count as two events.
    pub may_be_twice: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub entries: Vec<Entry>,
    /// Keys of rows that were made old enough to be deleted.
    pub retired: HashSet<String>,
}

impl Ledger {
    /// Records an event before its hooks run.
    pub fn begin(&mut self, key: String, writer: usize) -> usize {
        self.entries.push(Entry { key, writer, fate: Fate::Unknown, is_over: false, may_be_twice: false });
        self.entries.len() - 1
    }

    /// Records the end of one of its hooks.
    pub fn note(&mut self, index: usize, fate: Fate) {
        let entry = &mut self.entries[index];
        entry.fate = entry.fate.max(fate);
    }

    pub fn accepted(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.fate >= Fate::Spooled)
    }
}

/// The key that the hook gives to this payload; `None` if it stores no row.
pub fn key_of(verb: &str, payload: &str) -> Option<String> {
    let verb = Verb::from_word(verb).unwrap();
    if verb == Verb::Context {
        return None;
    }
    let (config, environment) = (Config::default(), Environment::default());
    let event = capture::event_from(verb, payload.as_bytes().to_vec(), 0, &config, &environment)?;
    Some(plain(&event.key))
}

pub fn plain(key: &EventKey) -> String {
    match key {
        EventKey::Exact(key) | EventKey::Near(key) => key.clone(),
    }
}

/// A row's key without its time.
pub fn without_time(key: &str) -> &str {
    if key.starts_with("event:") || key.starts_with("prompt:") {
        key.rsplit_once('@').map_or(key, |(content, _)| content)
    } else {
        key
    }
}
