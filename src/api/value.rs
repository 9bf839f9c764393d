//! The use of memories by sessions: shown and used, things read again, and the comparison with sessions without memory.

use serde::{Deserialize, Serialize};

/// The use of memories.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// By the moment at which they were shown: start, prompt, file, failure.
    pub moments: Vec<Moment>,
    /// Things that sessions read or repaired again.
    pub again: Again,
    /// The comparison with sessions that got no memory.
    pub holdout: Holdout,
}

/// Memories shown at one kind of moment, and what their sessions did afterwards. A memory can count in several ways.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// start, prompt, file or failure.
    pub moment: String,
    /// Contexts.
    pub contexts: i64,
    /// Their tokens.
    pub tokens: i64,
    /// Memories shown.
    pub shown: i64,
    /// Memories whose file the session then changed.
    pub edited: i64,
    /// Memories whose file it then read.
    pub opened: i64,
    /// Memories whose command it then ran.
    pub ran: i64,
    /// Memories that it then cited by their number.
    pub cited: i64,
    /// Failures that it then repaired; only for memories shown after a failure.
    pub repaired: i64,
    /// Memories used in any of these ways.
    pub used: i64,
}

/// Things that were known and had to be found again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Again {
    /// Files that sessions read, each once for each session.
    pub files: i64,
    /// Of those, the files that an earlier session had read or changed.
    pub known_files: i64,
    /// Of those, the files that a memory shown to the session before was about.
    pub shown_files: i64,
    /// Failures that sessions repaired.
    pub failures: i64,
    /// Of those, the failures that an earlier session had repaired.
    pub known_failures: i64,
}

/// Sessions without memory, and the others of the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holdout {
    /// `value.holdout_percent`.
    pub percent: u64,
    /// Sessions that were shown memories since the first that was not.
    pub shown: i64,
    /// Sessions from which memories were withheld.
    pub withheld: i64,
    /// Sessions of each group that a comparison needs.
    pub needed: i64,
    /// The comparisons.
    pub measures: Vec<Measure>,
}

/// A comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Mean of the sessions with memory.
    pub shown: f64,
    /// Mean of the sessions without.
    pub withheld: f64,
    /// Change by memory in percent; none if there is not enough data.
    pub change: Option<f64>,
    /// The interval of the change, in percent.
    pub interval: Option<[f64; 2]>,
}

impl Measure {
    /// True if the interval excludes that memory changes nothing.
    pub fn is_shown(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }
}

impl Moment {
    /// Adds another moment's figures.
    pub fn add(&mut self, other: &Self) {
        self.contexts += other.contexts;
        self.tokens += other.tokens;
        self.shown += other.shown;
        self.edited += other.edited;
        self.opened += other.opened;
        self.ran += other.ran;
        self.cited += other.cited;
        self.repaired += other.repaired;
        self.used += other.used;
    }
}
