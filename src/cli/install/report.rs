//! What `install` and `uninstall` tell: one line a step, and what the user should know beside.

use crate::cli::lines;

/// Collects lines, and says them at once.
#[derive(Debug, Default)]
pub struct Report {
    steps: Vec<(&'static str, String)>,
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Report {
    /// Something that is done, as an order: "write …".
    pub fn step(&mut self, part: &'static str, what: impl Into<String>) {
        self.steps.push((part, what.into()));
    }

    /// Something to know.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Something that could not be done, though the rest was.
    pub fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    /// Whether all went well.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    /// Says it all.
    pub fn print(&self, heading: &str) {
        say!("{heading}");
        for (part, what) in &self.steps {
            lines::print(&format!("  {part:<9} "), what);
        }
        for note in &self.notes {
            lines::print(&format!("  {:<9} ", "note"), note);
        }
        for problem in &self.problems {
            lines::print(&format!("  {:<9} ", "problem"), problem);
        }
    }
}
