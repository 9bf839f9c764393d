//! What hooks were given, and what became of it as far as they said.

use std::collections::HashSet;

use claude_mem::config::{Config, Environment};
use claude_mem::hook::{self, Verb};
use claude_mem::model::EventKey;

/// What a hook said about its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It runs, or was killed.
    Unknown,
    /// Neither database nor spool would take it.
    Dropped,
    /// A file in the spool.
    Spooled,
    /// A row in the database.
    Stored,
}

#[derive(Debug, Clone)]
pub struct Entry {
    /// As the database has it, without the time that some have at their end.
    pub key: String,
    pub writer: usize,
    pub fate: Fate,
    /// Its hooks have ended.
    pub is_over: bool,
    /// Two hooks told of it so far apart that they count as two events.
    pub may_be_twice: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub entries: Vec<Entry>,
    /// Keys of rows that were made old enough to be deleted.
    pub retired: HashSet<String>,
}

impl Ledger {
    /// An event is on its way.
    pub fn begin(&mut self, key: String, writer: usize) -> usize {
        self.entries.push(Entry { key, writer, fate: Fate::Unknown, is_over: false, may_be_twice: false });
        self.entries.len() - 1
    }

    /// One of its hooks ended.
    pub fn note(&mut self, index: usize, fate: Fate) {
        let entry = &mut self.entries[index];
        entry.fate = entry.fate.max(fate);
    }

    pub fn accepted(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.fate >= Fate::Spooled)
    }
}

/// The key that the hook gives to this payload; none if it makes no row.
pub fn key_of(verb: &str, payload: &str) -> Option<String> {
    let verb = Verb::from_word(verb).unwrap();
    if verb == Verb::Context {
        return None;
    }
    let (config, environment) = (Config::default(), Environment::default());
    let event = hook::accept(verb, payload.as_bytes().to_vec(), 0, &config, &environment)?;
    Some(plain(&event.key))
}

pub fn plain(key: &EventKey) -> String {
    match key {
        EventKey::Exact(key) | EventKey::Near(key) => key.clone(),
    }
}

/// A row's key without its time.
pub fn without_time(key: &str) -> &str {
    if key.starts_with("event:") { key.rsplit_once('@').map_or(key, |(content, _)| content) } else { key }
}
