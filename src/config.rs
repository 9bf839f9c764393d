//! Settings: the compiled-in defaults, then the user's file, then the environment.
//!
//! The only module that reads the environment. Loading is strict for people and the worker ([`Config::load`]) and
//! forgiving for the hook ([`Config::load_forgiving`]), which must run with any settings.

#[cfg(feature = "service")]
pub mod edit;
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
    AnthropicSettings, BackfillSettings, BackupSettings, BatchSettings, CaptureSettings, ClaudeCliSettings,
    CompressSettings, Config, ContextSettings, CostSettings, FollowedAgent, HookSettings, Notice,
    OpenAiSettings, Price, Provider, QueueSettings, RetentionSettings, SearchSettings, Share, SyncSettings,
    Synchronous, Verbosity, WorkerSettings,
};

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use layers::{is_all_comments, layered};

/// Every key with its default and its meaning.
pub const DEFAULTS: &str = include_str!("../config/claude-mem.toml");

/// The settings file that `install` writes: the defaults with every key commented out, so that a user who changes nothing
/// gets the defaults of later versions.
#[cfg(feature = "service")]
pub fn commented_defaults() -> String {
    let head = "# claude-mem: your settings. Remove the # before a line to change it; the value shown is the default.\n\
                # `claude-mem config check` reports mistakes.\n";
    let body = DEFAULTS.split_once("\n\n").map_or(DEFAULTS, |(_, body)| body);
    let mut text = format!("{head}\n");
    for line in body.lines() {
        // The header of a nested table is a setting of its own, even if the table is empty.
        let is_section = line.starts_with('[') && !line.contains('.');
        let stays = line.is_empty() || line.starts_with('#') || is_section;
        text.push_str(if stays { "" } else { "#" });
        text.push_str(line);
        text.push('\n');
    }
    text
}

const DEFAULTS_AS_JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/defaults.json"));

/// A setting that cannot be used, with its place, so that the user can find and fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `path:line`, or the name of the environment variable.
    pub place: String,
    /// `section.key`; empty if the file is not TOML at all.
    pub key: String,
    /// The reason.
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

/// An error that prevents loading the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key or value is wrong.
    #[error("{0}")]
    Bad(Problem),
    /// The file exists but cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Default for Config {
    /// The values of `config/claude-mem.toml`. A build step has parsed the file already: most hooks need nothing else.
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn default() -> Self {
        serde_json::from_str(DEFAULTS_AS_JSON).expect("the compiled-in defaults are valid")
    }
}

impl Config {
    /// The settings from `file`, if it exists, and the environment. Returns the first mistake as an error.
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

    /// Every setting as key, value in TOML, and origin: a file and line, a variable, or nothing for a default.
    #[cfg(feature = "service")]
    pub fn in_force(file: &Path, environment: &Environment) -> Vec<[String; 3]> {
        layers::in_force(file, &read_optional(file).unwrap_or_default(), environment)
    }

    /// The first mistake of a text that is to become the settings file.
    #[cfg(feature = "service")]
    pub fn mistake(file: &Path, text: &str) -> Option<Problem> {
        let mut problems = Vec::new();
        layered(file, text, &Environment::default(), &mut problems);
        problems.into_iter().next()
    }

    /// The TOML of a value as a user types it on the command line: strings need no quotes.
    #[cfg(feature = "service")]
    pub fn as_toml(section: &str, key: &str, typed: &str) -> String {
        layers::as_toml(section, key, typed)
    }

    /// The settings from `file` and the environment, with the default in place of every unusable value, and the problems
    /// found.
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

    /// Environment variables that begin like a setting but match no key.
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
