//! The result of a check.

use serde::Serialize;

use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::wrap;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Healthy.
    Good,
    /// Worth knowing, but not a fault.
    Note,
    /// Was broken, has been fixed.
    Fixed,
    /// Broken.
    Bad,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub name: &'static str,
    /// Its severity.
    pub state: Severity,
    /// The facts found.
    pub found: String,
    /// The consequence for the user.
    pub why: String,
    /// The steps that fix it.
    pub repair: String,
}

impl Finding {
    /// A healthy result.
    pub fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: Severity::Good, found: found.into(), why: String::new(), repair: String::new() }
    }

    /// A result worth knowing.
    pub fn note(name: &'static str, found: impl Into<String>, why: &str, repair: impl Into<String>) -> Self {
        Self { state: Severity::Note, why: why.into(), repair: repair.into(), ..Self::good(name, found) }
    }

    /// A fault.
    pub fn bad(name: &'static str, found: impl Into<String>, why: &str, repair: impl Into<String>) -> Self {
        Self { state: Severity::Bad, ..Self::note(name, found, why, repair) }
    }

    /// A fault that has been fixed.
    pub fn fixed(name: &'static str, found: impl Into<String>) -> Self {
        Self { state: Severity::Fixed, ..Self::good(name, found) }
    }

    /// Prints one line, and up to two more if there is something to do.
    pub fn print(&self) {
        let (mark, tone) = match self.state {
            Severity::Good => ("ok", Tone::Good),
            Severity::Note => ("note", Tone::Warn),
            Severity::Fixed => ("fixed", Tone::Good),
            Severity::Bad => ("FAIL", Tone::Bad),
        };
        let mark = Style::of_stdout().tone(tone, &format!("{mark:<6}"));
        wrap::print(&format!("{mark} {:<15} ", self.name), &harmless(&self.found));
        let under = " ".repeat(23);
        if !self.why.is_empty() {
            wrap::print(&under, &format!("why: {}", self.why));
        }
        if !self.repair.is_empty() {
            wrap::print(&under, &format!("fix: {}", self.repair));
        }
    }
}
