//! Terminal colours; none in pipes.

use std::io::IsTerminal;

use crate::config::Environment;

/// Text emphasis, on or off.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    coloured: bool,
}

impl Style {
    /// Colours on a terminal, unless NO_COLOR is set.
    pub fn of_stdout() -> Self {
        Self { coloured: std::io::stdout().is_terminal() && !Environment::forbids_colour() }
    }

    /// Highlights a match.
    pub fn match_(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// Emphasises a text.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// De-emphasises a text.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.coloured { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Replaces control characters: text from the database may contain any, and a terminal must not
/// interpret them.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
