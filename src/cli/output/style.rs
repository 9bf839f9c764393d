//! Terminal colours; none in pipes.

use std::io::IsTerminal;

use crate::config::Environment;

/// Text emphasis, on or off.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    coloured: bool,
}

/// The emphasis of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// A heading.
    Strong,
    /// Of secondary interest.
    Faint,
    /// A match of a search.
    Match,
    /// A name to copy, as of a session.
    Name,
    /// Healthy, or done.
    Good,
    /// Worth a look.
    Warn,
    /// Failed.
    Bad,
}

impl Tone {
    /// The tone of a memory's type or kind.
    pub fn of_kind(kind: &str) -> Self {
        match kind {
            "bugfix" => Self::Bad,
            "feature" => Self::Good,
            "decision" => Self::Warn,
            "discovery" => Self::Name,
            _ => Self::Faint,
        }
    }

    fn code(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Match => "1;33",
            Self::Name => "36",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
        })
    }
}

impl Style {
    /// Colours on a terminal, unless NO_COLOR is set.
    pub fn of_stdout() -> Self {
        Self { coloured: std::io::stdout().is_terminal() && !Environment::forbids_colour() }
    }

    /// Emphasises a text.
    pub fn strong(self, text: &str) -> String {
        self.tone(Tone::Strong, text)
    }

    /// De-emphasises a text.
    pub fn faint(self, text: &str) -> String {
        self.tone(Tone::Faint, text)
    }

    /// Gives a text a tone.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        match tone.code().filter(|_| self.coloured && !text.is_empty()) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text.to_owned(),
        }
    }
}

/// Replaces control characters: text from the database may contain any, and a terminal must not
/// interpret them. Characters that change the direction of a line are replaced, too.
pub fn harmless(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}
