//! Colours for people, nothing for pipes.

use std::io::IsTerminal;

use crate::config::Environment;

/// Whether and how to emphasise.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    coloured: bool,
}

impl Style {
    /// Colours on a terminal, unless NO_COLOR is set.
    pub fn of_stdout() -> Self {
        Self { coloured: std::io::stdout().is_terminal() && !Environment::forbids_colour() }
    }

    /// What was sought.
    pub fn match_(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// What stands out.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What stays behind.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// What came from a database may hold anything; a terminal must not obey it.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
