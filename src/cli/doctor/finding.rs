//! What a check found.

use serde::Serialize;

use crate::cli::lines;
use crate::cli::style::harmless;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing, and no fault.
    Note,
    /// Was wrong, and is repaired.
    Fixed,
    /// Wrong.
    Bad,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Why that matters.
    pub why: String,
    /// How to repair it.
    pub repair: String,
}

impl Finding {
    /// All is well.
    pub fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), why: String::new(), repair: String::new() }
    }

    /// Something to know.
    pub fn note(name: &'static str, found: impl Into<String>, why: &str, repair: impl Into<String>) -> Self {
        Self { state: State::Note, why: why.into(), repair: repair.into(), ..Self::good(name, found) }
    }

    /// Something is wrong.
    pub fn bad(name: &'static str, found: impl Into<String>, why: &str, repair: impl Into<String>) -> Self {
        Self { state: State::Bad, ..Self::note(name, found, why, repair) }
    }

    /// Something was wrong.
    pub fn fixed(name: &'static str, found: impl Into<String>) -> Self {
        Self { state: State::Fixed, ..Self::good(name, found) }
    }

    /// One line, and two more if there is something to do.
    pub fn print(&self) {
        let mark = match self.state {
            State::Good => "ok",
            State::Note => "note",
            State::Fixed => "fixed",
            State::Bad => "WRONG",
        };
        lines::print(&format!("{mark:<6} {:<15} ", self.name), &harmless(&self.found));
        let under = " ".repeat(23);
        if !self.why.is_empty() {
            lines::print(&under, &format!("why it matters: {}", self.why));
        }
        if !self.repair.is_empty() {
            lines::print(&under, &format!("repair: {}", self.repair));
        }
    }
}
