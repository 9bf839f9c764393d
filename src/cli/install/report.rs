//! Output of `install` and `uninstall`: one line per step, then notes and problems. A step is written in the imperative, and
//! reported in the past tense once it is done.

use crate::cli::output::wrap;

/// Collects lines and prints them together.
#[derive(Debug, Default)]
pub struct InstallReport {
    steps: Vec<(&'static str, String)>,
    notes: Vec<String>,
    problems: Vec<String>,
}

impl InstallReport {
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

    /// Prints everything: the steps that were done, or in a dry run would be.
    pub fn print(&self, is_dry: bool) {
        outln!("{}", if is_dry { "Would do (nothing was changed):" } else { "Done:" });
        for (part, what) in &self.steps {
            let what = if is_dry { what.clone() } else { in_the_past(what) };
            wrap::print(&format!("  {part:<9} "), &what);
        }
        for note in &self.notes {
            wrap::print(&format!("  {:<9} ", "note"), note);
        }
        for problem in &self.problems {
            wrap::print(&format!("  {:<9} ", "problem"), problem);
        }
    }
}

/// The verbs that steps begin with.
const VERBS: [(&str, &str); 14] = [
    ("add", "added"),
    ("back up", "backed up"),
    ("copy", "copied"),
    ("delete", "deleted"),
    ("keep", "kept"),
    ("leave", "left"),
    ("register", "registered"),
    ("remove", "removed"),
    ("restore", "restored"),
    ("run it", "runs"),
    ("start", "started"),
    ("stop it", "stopped"),
    ("use", "using"),
    ("write", "wrote"),
];

/// The step as one that was done.
fn in_the_past(step: &str) -> String {
    let past = VERBS.iter().find_map(|(verb, past)| {
        let rest = step.strip_prefix(verb)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| format!("{past}{rest}"))
    });
    past.unwrap_or_else(|| step.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_steps_are_in_the_past() {
        for (step, done) in [
            ("add hooks for 9 events to /s", "added hooks for 9 events to /s"),
            ("back up the current file to /b", "backed up the current file to /b"),
            ("stop it", "stopped"),
            ("run it under systemd, as a user service", "runs under systemd, as a user service"),
            ("and the API key in /c", "and the API key in /c"),
            ("added already", "added already"),
        ] {
            assert_eq!(in_the_past(step), done);
        }
    }
}
