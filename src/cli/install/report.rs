//! Output of `install` and `uninstall`: one line per step, then notes and problems.

use crate::cli::output::wrap;

/// Collects lines and prints them together.
#[derive(Debug, Default)]
pub struct Report {
    steps: Vec<(&'static str, String)>,
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Report {
    /// Adds a step, in the imperative: "write …".
    pub fn step(&mut self, part: &'static str, what: impl Into<String>) {
        self.steps.push((part, what.into()));
    }

    /// Adds a note.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Adds a failure that did not stop the rest.
    pub fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    /// True if there were no problems.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    /// Prints everything.
    pub fn print(&self, heading: &str) {
        outln!("{heading}");
        for (part, what) in &self.steps {
            wrap::print(&format!("  {part:<9} "), what);
        }
        for note in &self.notes {
            wrap::print(&format!("  {:<9} ", "note"), note);
        }
        for problem in &self.problems {
            wrap::print(&format!("  {:<9} ", "problem"), problem);
        }
    }
}
