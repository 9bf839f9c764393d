//! Settings: the compiled-in defaults, then the user's file, then the environment.
//!
//! The only place that reads the environment. Strict for people and for the worker ([`Config::load`]), forgiving for
//! the hook ([`Config::load_forgiving`]), which must work with whatever it finds.

mod environment;
mod layers;
#[cfg(feature = "service")]
mod outgoing;
mod settings;
#[cfg(test)]
mod tests;

pub use environment::Environment;
#[cfg(feature = "service")]
pub use outgoing::{Outgoing, Proxies, Secret};
pub use settings::{
    Anthropic, Backup, Batch, Capture, ClaudeCli, Compress, Config, Context, Cost, Hook, OpenAi, Price,
    Provider, Queue, Retention, Search, Synchronous, Verbosity, Worker,
};

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use layers::{is_all_comments, layered};

/// Every key with its default and what it means.
pub const DEFAULTS: &str = include_str!("../config/claude-mem.toml");

/// What `install` writes for the user to change: the same text with every key commented out, so that a later version's
/// defaults still reach those who changed nothing.
#[cfg(feature = "service")]
pub fn commented_defaults() -> String {
    let head = "# claude-mem: your settings. Remove the # before a line to change it; its default is what it says.\n\
                # `claude-mem config check` tells about mistakes.\n";
    let body = DEFAULTS.split_once("\n\n").map_or(DEFAULTS, |(_, body)| body);
    let mut text = format!("{head}\n");
    for line in body.lines() {
        // A table inside a section would be a setting of its own, even if it is empty.
        let is_section = line.starts_with('[') && !line.contains('.');
        let stays = line.is_empty() || line.starts_with('#') || is_section;
        text.push_str(if stays { "" } else { "#" });
        text.push_str(line);
        text.push('\n');
    }
    text
}

const DEFAULTS_AS_JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/defaults.json"));

/// A setting that cannot be used, said so that the user can find and repair it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `path:line`, or the name of the environment variable.
    pub place: String,
    /// `section.key`; empty if the file is not TOML at all.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.message)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key or value is wrong.
    #[error("{0}")]
    Bad(Problem),
    /// The file is there and cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Default for Config {
    /// What `config/claude-mem.toml` says. A build step has parsed it already: most hooks need no more than this.
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn default() -> Self {
        serde_json::from_str(DEFAULTS_AS_JSON).expect("the compiled-in defaults are valid")
    }
}

impl Config {
    /// The settings from `file`, if there is one, and the environment. The first mistake is an error.
    pub fn load(file: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: file.to_owned(), source };
        let text = read_optional(file).map_err(unreadable)?;
        let mut problems = Vec::new();
        let config = layered(file, &text, environment, &mut problems);
        match problems.into_iter().next() {
            Some(problem) => Err(ConfigError::Bad(problem)),
            None => Ok(config),
        }
    }

    /// The settings from `file` and the environment, with the default for everything that cannot be used, and what
    /// could not be used.
    pub fn load_forgiving(file: &Path, environment: &Environment) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let text = read_optional(file).unwrap_or_else(|error| {
            problems.push(Problem {
                place: file.display().to_string(),
                key: String::new(),
                message: error.to_string(),
            });
            String::new()
        });
        let text = if is_all_comments(&text) { "" } else { &text };
        let config = layered(file, text, environment, &mut problems);
        (config, problems)
    }

    /// Variables of the environment that begin as settings do, and set nothing.
    #[cfg(feature = "service")]
    pub fn variables_that_set_nothing(environment: &Environment) -> Vec<&str> {
        layers::variables_that_set_nothing(environment)
    }
}

fn read_optional(file: &Path) -> io::Result<String> {
    match fs::read(file) {
        Ok(bytes) => {
            String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}
