//! Settings: the compiled-in defaults, then the user's file, then the environment.
//!
//! The only place that reads the environment. Strict for people and for the worker ([`Config::load`]), forgiving for
//! the hook ([`Config::load_forgiving`]), which must work with whatever it finds.

#[cfg(feature = "service")]
mod outgoing;

#[cfg(feature = "service")]
pub use outgoing::{Outgoing, Proxies, Secret};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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

/// All settings. Each is described where its default is: `config/claude-mem.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Config {
    pub hook: Hook,
    pub capture: Capture,
    pub queue: Queue,
    pub worker: Worker,
    pub batch: Batch,
    pub compress: Compress,
    pub anthropic: Anthropic,
    pub openai: OpenAi,
    pub claude_cli: ClaudeCli,
    pub cost: Cost,
    pub prices: BTreeMap<String, Price>,
    pub context: Context,
    pub search: Search,
    pub retention: Retention,
    pub backup: Backup,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Hook {
    pub busy_ms: u32,
    #[serde(deserialize_with = "at_least::<4096, _>")]
    pub max_payload_bytes: u64,
    pub synchronous: Synchronous,
}

/// When a hook's event is safe from a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum Synchronous {
    Normal,
    Full,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Capture {
    pub skip_tools: Vec<String>,
    pub exclude_projects: Vec<String>,
    pub project_aliases: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Queue {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_attempts: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Worker {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub concurrency: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub stop_s: u64,
    pub autostart: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Batch {
    pub enabled: bool,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_size: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_wait_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Compress {
    pub provider: Provider,
    pub model: String,
    pub verbosity: Verbosity,
    #[serde(deserialize_with = "at_least::<1000, _>")]
    pub max_input_chars: u64,
    #[serde(deserialize_with = "at_least::<2000, _>")]
    pub max_prompt_tokens: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub timeout_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Anthropic {
    pub base_url: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct OpenAi {
    pub base_url: String,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct ClaudeCli {
    pub command: String,
}

/// Who compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum Provider {
    Auto,
    Anthropic,
    Openai,
    ClaudeCli,
    Local,
}

/// How much counts as routine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum Verbosity {
    Minimal,
    Normal,
    Verbose,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Cost {
    #[serde(deserialize_with = "not_negative")]
    pub max_usd_per_day: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Price {
    #[serde(deserialize_with = "not_negative")]
    pub input: f64,
    #[serde(deserialize_with = "not_negative")]
    pub output: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Context {
    pub enabled: bool,
    #[serde(deserialize_with = "at_least::<50, _>")]
    pub budget: u64,
    pub worker_timeout_ms: u64,
    pub sources: Vec<String>,
    pub exclude_projects: Vec<String>,
    pub per_prompt: bool,
    pub per_prompt_budget: u64,
    pub per_file: bool,
    pub per_file_budget: u64,
    pub on_failure: bool,
    pub on_failure_budget: u64,
    pub moment_timeout_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Search {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub depth: u64,
    #[serde(deserialize_with = "not_negative")]
    pub common_percent: f64,
    #[serde(deserialize_with = "not_negative")]
    pub title_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub concepts_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub files_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub summary_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub facts_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub detail_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub saturation: f64,
    #[serde(deserialize_with = "not_negative")]
    pub length_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub proximity_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub neighbour_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub time_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub recency_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub recency_days: f64,
    #[serde(deserialize_with = "not_negative")]
    pub type_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub project_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub near_files_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub summaries_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub prompts_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub meaning_weight: f64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub model_idle_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Retention {
    pub raw_days: u64,
    pub queue_days: u64,
    pub event_log_days: u64,
    pub max_mb: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Backup {
    pub keep: u64,
}

impl Search {
    /// [`Search::depth`] as a count.
    pub fn depth(&self) -> usize {
        usize::try_from(self.depth).unwrap_or(usize::MAX)
    }
}

fn at_least<'de, const MIN: u64, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = i64::deserialize(from)?;
    u64::try_from(value)
        .ok()
        .filter(|value| *value >= MIN)
        .ok_or_else(|| serde::de::Error::custom(format_args!("{value} is too small, the least is {MIN}")))
}

fn not_negative<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(serde::de::Error::custom(format_args!("{value} is not an amount: 0 or more is needed")))
}

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

/// One key that the user set.
struct Setting<'a> {
    section: &'a str,
    key: &'a str,
    value: Spanned<DeValue<'a>>,
    place: String,
}

impl Setting<'_> {
    fn problem(&self, error: &toml::de::Error) -> Problem {
        let key =
            if self.key.is_empty() { self.section.into() } else { format!("{}.{}", self.section, self.key) };
        Problem { place: self.place.clone(), key, message: error.message().to_owned() }
    }
}

/// The defaults with the user's settings laid over them.
#[derive(Clone)]
struct Layers<'a>(DeTable<'a>);

impl<'a> Layers<'a> {
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn new() -> Self {
        Self(DeTable::parse(DEFAULTS).expect("the compiled-in defaults are TOML").into_inner())
    }

    fn config(&self) -> Result<Config, toml::de::Error> {
        Config::deserialize(toml::de::Deserializer::from(Spanned::new(0..0, self.0.clone())))
    }

    fn lay(&mut self, setting: &Setting<'a>) {
        let section = self.0.get_mut(setting.section).map(Spanned::get_mut);
        match section {
            Some(DeValue::Table(section)) if !setting.key.is_empty() => {
                section.insert(Spanned::new(0..0, setting.key.into()), setting.value.clone());
            }
            _ => {
                self.0.insert(Spanned::new(0..0, setting.section.into()), setting.value.clone());
            }
        }
    }
}

/// Whether a file sets nothing, as the one that `install` writes: then the hook need not read all its comments.
fn is_all_comments(text: &str) -> bool {
    text.lines().map(str::trim_start).all(|line| {
        line.is_empty() || line.starts_with('#') || line.strip_prefix('[').is_some_and(is_known_section)
    })
}

fn is_known_section(header: &str) -> bool {
    header.trim_end().strip_suffix(']').is_some_and(|name| KNOWN_SECTIONS.contains(&name))
}

fn layered(file: &Path, text: &str, environment: &Environment, problems: &mut Vec<Problem>) -> Config {
    let parsed = DeTable::parse(text);
    let mut settings = match &parsed {
        Ok(table) => file_settings(file, text, table.get_ref()),
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let place = format!("{}:{line}", file.display());
            problems.push(Problem { place, key: String::new(), message: error.message().to_owned() });
            Vec::new()
        }
    };
    if settings.is_empty() && environment.overrides.is_empty() {
        return Config::default();
    }
    let mut layers = Layers::new();
    settings.extend(environment_settings(&layers.0, &environment.overrides));
    let mut all = layers.clone();
    settings.iter().for_each(|setting| all.lay(setting));
    if let Ok(config) = all.config() {
        return config;
    }
    // Something is wrong: one at a time finds which, and keeps the rest.
    for setting in &settings {
        let mut with = layers.clone();
        with.lay(setting);
        match with.config() {
            Ok(_) => layers = with,
            Err(error) => problems.push(setting.problem(&error)),
        }
    }
    layers.config().unwrap_or_default()
}

fn file_settings<'a>(file: &Path, text: &str, table: &'a DeTable<'a>) -> Vec<Setting<'a>> {
    let place = |offset| format!("{}:{}", file.display(), line_of(text, offset));
    let mut settings = Vec::new();
    for (section, value) in table {
        let name = section.get_ref().as_ref();
        let Some(keys) = value.get_ref().as_table().filter(|_| KNOWN_SECTIONS.contains(&name)) else {
            settings.push(Setting {
                section: name,
                key: "",
                value: value.clone(),
                place: place(section.span().start),
            });
            continue;
        };
        settings.extend(keys.iter().map(|(key, value)| Setting {
            section: name,
            key: key.get_ref(),
            value: value.clone(),
            place: place(key.span().start),
        }));
    }
    settings
}

/// The sections whose keys are laid over the defaults one by one; anything else is an unknown key as a whole.
const KNOWN_SECTIONS: [&str; 15] = [
    "hook",
    "capture",
    "queue",
    "worker",
    "batch",
    "compress",
    "anthropic",
    "openai",
    "claude_cli",
    "cost",
    "prices",
    "context",
    "search",
    "retention",
    "backup",
];

/// Where Anthropic's own programs look for the address of the API.
const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// Names that users of other programs know, beside `CLAUDE_MEM_<SECTION>_<KEY>`.
const OLD_NAMES: [(&str, &str, &str); 4] = [
    (ANTHROPIC_BASE_URL, "anthropic", "base_url"),
    ("CLAUDE_MEM_MODEL", "compress", "model"),
    ("CLAUDE_MEM_VERBOSITY", "compress", "verbosity"),
    ("CLAUDE_MEM_BATCHING_ENABLED", "batch", "enabled"),
];

fn environment_settings<'a>(defaults: &DeTable<'a>, overrides: &'a [(String, String)]) -> Vec<Setting<'a>> {
    let mut settings = Vec::new();
    for (name, text) in overrides {
        let Some((section, key)) = key_of_variable(defaults, name) else { continue };
        let default = defaults.get(section).and_then(|section| section.get_ref().get(key));
        let Some(default) = default.map(Spanned::get_ref) else { continue };
        settings.push(Setting {
            section,
            key,
            value: Spanned::new(0..0, value_like(default, text)),
            place: name.clone(),
        });
    }
    settings
}

fn key_of_variable(defaults: &DeTable<'_>, variable: &str) -> Option<(&'static str, &'static str)> {
    if let Some((_, section, key)) = OLD_NAMES.iter().find(|(name, ..)| *name == variable) {
        return Some((section, key));
    }
    let rest = variable.strip_prefix("CLAUDE_MEM_")?;
    KNOWN_SECTIONS.iter().find_map(|section| {
        let key = strip_prefix_ignore_case(rest, section)?.strip_prefix('_')?;
        let keys = defaults.get(*section)?.get_ref().as_table()?;
        // The names in the default table live in the compiled-in text.
        let known = keys.keys().find(|known| known.get_ref().eq_ignore_ascii_case(key))?;
        let start = known.span();
        DEFAULTS.get(start).map(|name| (*section, name))
    })
}

fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// The variable's text as a value of the kind that the default has.
fn value_like<'a>(default: &DeValue<'_>, text: &'a str) -> DeValue<'a> {
    let trimmed = text.trim();
    match default {
        DeValue::String(_) => DeValue::String(text.into()),
        DeValue::Array(_) if !trimmed.starts_with('[') => DeValue::Array(
            trimmed
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Spanned::new(0..0, DeValue::String(item.into())))
                .collect(),
        ),
        DeValue::Boolean(_) if trimmed == "1" => DeValue::Boolean(true),
        DeValue::Boolean(_) if trimmed == "0" => DeValue::Boolean(false),
        _ => match DeValue::parse(trimmed) {
            Ok(value) => value.into_inner(),
            Err(_) => DeValue::String(text.into()),
        },
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// What the environment says, read once.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `CLAUDE_MEM_HOME`.
    pub mem_home: Option<PathBuf>,
    /// `HOME`, else what the user database says.
    pub user_home: Option<PathBuf>,
    /// `CLAUDE_PROJECT_DIR`: where the client was started.
    pub project_dir: Option<PathBuf>,
    /// `CLAUDE_CODE_SESSION_ID`: the session that started us.
    #[cfg(feature = "service")]
    pub session_id: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config_dir: Option<PathBuf>,
    /// `CLAUDE_MEM_INTERNAL=1`: started by the worker itself, so that hooks must stay silent.
    pub internal: bool,
    /// `CLAUDE_MEM_HOOK_DEBUG`: the hook may speak on stderr.
    pub hook_debug: bool,
    /// What concerns only those who go out.
    #[cfg(feature = "service")]
    pub outgoing: Outgoing,
    /// `CLAUDE_MEM_*` and the like, for settings, sorted by name.
    overrides: Vec<(String, String)>,
}

impl Environment {
    /// Reads the process's environment.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn capture() -> Self {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let mut overrides: Vec<_> = std::env::vars_os().filter_map(setting_variable).collect();
        // What comes later wins: ours over the one that all programs share.
        overrides.sort();
        Self {
            mem_home: path("CLAUDE_MEM_HOME"),
            user_home: path("HOME").or_else(std::env::home_dir),
            project_dir: path("CLAUDE_PROJECT_DIR"),
            #[cfg(feature = "service")]
            session_id: std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty()),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            config_dir: path("XDG_CONFIG_HOME"),
            internal: is_set("CLAUDE_MEM_INTERNAL"),
            hook_debug: is_set("CLAUDE_MEM_HOOK_DEBUG"),
            #[cfg(feature = "service")]
            outgoing: Outgoing::capture(),
            overrides,
        }
    }

    /// Whether systemd connected our stderr to its journal. The variable alone says only that this was so for one of our
    /// ancestors: in a terminal of a desktop that systemd started it is set, too.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn has_journal() -> bool {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        rustix::fs::fstat(io::stderr())
            .is_ok_and(|stderr| stream == format!("{}:{}", stderr.st_dev, stderr.st_ino))
    }

    /// Whether a service manager wants to be told how we are.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn has_manager() -> bool {
        std::env::var_os("NOTIFY_SOCKET").is_some()
    }

    /// `NO_COLOR`: the user wants none.
    #[cfg(feature = "service")]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn forbids_colour() -> bool {
        std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
    }

    /// An environment that says only this; for tests.
    pub fn with_overrides(overrides: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { overrides: overrides.iter().map(owned).collect(), ..Self::default() }
    }
}

/// Variables of ours that set no key.
const NO_SETTINGS: [&str; 3] = ["CLAUDE_MEM_HOME", "CLAUDE_MEM_INTERNAL", "CLAUDE_MEM_HOOK_DEBUG"];

fn setting_variable((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    let is_setting = name.starts_with("CLAUDE_MEM_") && !NO_SETTINGS.contains(&name.as_str())
        || (name == ANTHROPIC_BASE_URL && !value.is_empty());
    is_setting.then(|| (name, value.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, overrides: &[(&str, &str)]) -> Result<Config, String> {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config.toml");
        fs::write(&file, text).unwrap();
        Config::load(&file, &Environment::with_overrides(overrides))
            .map_err(|error| error.to_string().replace(&*scratch.path().to_string_lossy(), ""))
    }

    #[test]
    fn the_compiled_in_defaults_are_valid_and_say_what_the_contract_says() {
        let config = Config::default();
        assert_eq!(config, toml::from_str(DEFAULTS).unwrap());
        let hook = Hook { busy_ms: 250, max_payload_bytes: 1 << 20, synchronous: Synchronous::Normal };
        assert_eq!(config.hook, hook);
        assert_eq!((config.queue.max_attempts, config.worker.concurrency, config.worker.stop_s), (3, 2, 10));
        assert_eq!(config.batch, Batch { enabled: true, max_size: 20, max_wait_s: 300 });
        assert_eq!(config.compress.model, "claude-haiku-4-5-20251001");
        assert_eq!((config.context.budget, config.context.worker_timeout_ms), (2000, 1500));
        assert_eq!(config.cost.max_usd_per_day, 1.0);
        let retention = Retention { raw_days: 7, queue_days: 30, event_log_days: 90, max_mb: 2048 };
        assert_eq!(config.retention, retention);
    }

    #[test]
    #[cfg(feature = "service")]
    fn the_text_for_the_user_changes_nothing_and_names_every_key() {
        let text = commented_defaults();
        let table = DeTable::parse(&text).unwrap();
        assert!(file_settings(Path::new("x"), &text, table.get_ref()).is_empty(), "{text}");
        // A comment has one space behind its #, a commented key none, and a line of a list two.
        let is_comment = |line: &str| line.starts_with(' ') && !line.starts_with("  ");
        let lines = text.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
        let uncommented: String =
            lines.filter(|line| !is_comment(line)).map(|line| format!("{line}\n")).collect();
        assert_eq!(toml::from_str::<Config>(&uncommented).unwrap(), Config::default());
    }

    #[test]
    fn known_sections_are_the_sections_of_the_default_file() {
        let table = DeTable::parse(DEFAULTS).unwrap();
        let mut sections: Vec<_> = table.get_ref().keys().map(|key| key.get_ref().to_string()).collect();
        let mut known = KNOWN_SECTIONS.map(String::from);
        sections.sort();
        known.sort();
        assert_eq!(sections, known);
    }

    #[test]
    fn no_file_and_an_empty_file_mean_the_defaults() {
        assert_eq!(load("", &[]), Ok(Config::default()));
        let missing = Config::load(Path::new("/nonexistent/config.toml"), &Environment::default());
        assert_eq!(missing.unwrap(), Config::default());
    }

    #[test]
    fn the_file_overrides_defaults_and_the_environment_overrides_the_file() {
        let text =
            "[hook]\nbusy_ms = 100\n[batch]\nmax_size = 5\n[capture.project_aliases]\n\"/srv/a\" = \"alpha\"";
        let config = load(text, &[("CLAUDE_MEM_HOOK_BUSY_MS", "70")]).unwrap();
        assert_eq!((config.hook.busy_ms, config.batch.max_size), (70, 5));
        assert_eq!(config.capture.project_aliases["/srv/a"], "alpha");
        assert_eq!(config.hook.max_payload_bytes, 1 << 20);
    }

    #[test]
    fn names_known_from_predecessors_keep_working() {
        let config = load(
            "",
            &[
                ("CLAUDE_MEM_MODEL", "some-model"),
                ("CLAUDE_MEM_VERBOSITY", "minimal"),
                ("CLAUDE_MEM_BATCHING_ENABLED", "false"),
                ("CLAUDE_MEM_BATCH_MAX_SIZE", "7"),
                ("CLAUDE_MEM_SOMETHING_ELSE", "is not ours"),
            ],
        )
        .unwrap();
        assert_eq!(config.compress.model, "some-model");
        assert_eq!(config.compress.verbosity, Verbosity::Minimal);
        assert_eq!((config.batch.enabled, config.batch.max_size), (false, 7));
    }

    #[test]
    fn the_address_of_the_api_is_taken_from_where_everybody_has_it() {
        let shared = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
        let config = load("[anthropic]\nbase_url = 'http://127.0.0.1:2'", &[shared]).unwrap();
        assert_eq!(config.anthropic.base_url, "http://127.0.0.1:1");
        let both = load("", &[shared, ("CLAUDE_MEM_ANTHROPIC_BASE_URL", "http://127.0.0.1:3")]).unwrap();
        assert_eq!(both.anthropic.base_url, "http://127.0.0.1:3");
    }

    #[test]
    fn lists_in_the_environment_are_toml_or_comma_separated() {
        let commas = load("", &[("CLAUDE_MEM_CAPTURE_SKIP_TOOLS", "Read, Glob")]).unwrap();
        let toml = load("", &[("CLAUDE_MEM_CAPTURE_SKIP_TOOLS", "['Read', 'Glob']")]).unwrap();
        assert_eq!(commas.capture.skip_tools, ["Read", "Glob"]);
        assert_eq!(commas, toml);
    }

    #[test]
    fn a_mistake_names_file_line_and_key() {
        let unknown_key = load("\n[hook]\nbusy_ms = 5\nbussy_ms = 6", &[]).unwrap_err();
        assert!(unknown_key.starts_with("/config.toml:4: hook.bussy_ms: unknown field"), "{unknown_key}");
        let bad_type = load("[hook]\nbusy_ms = \"soon\"", &[]).unwrap_err();
        assert!(bad_type.starts_with("/config.toml:2: hook.busy_ms: invalid type"), "{bad_type}");
        let too_small = load("[worker]\n\nconcurrency = 0", &[]).unwrap_err();
        assert_eq!(too_small, "/config.toml:3: worker.concurrency: 0 is too small, the least is 1");
        let unknown_section = load("[hooks]\nbusy_ms = 5", &[]).unwrap_err();
        assert!(unknown_section.starts_with("/config.toml:1: hooks: unknown field"), "{unknown_section}");
        let bad_choice = load("[compress]\nprovider = 'gpt'", &[]).unwrap_err();
        assert!(
            bad_choice.contains("compress.provider: unknown variant `gpt`, expected one of"),
            "{bad_choice}"
        );
        let not_toml = load("[hook]\nbusy_ms 5", &[]).unwrap_err();
        assert!(not_toml.starts_with("/config.toml:2: "), "{not_toml}");
        let variable = load("", &[("CLAUDE_MEM_HOOK_BUSY_MS", "soon")]).unwrap_err();
        assert!(variable.starts_with("CLAUDE_MEM_HOOK_BUSY_MS: hook.busy_ms: invalid type"), "{variable}");
        let section_as_value = load("hook = 5", &[]).unwrap_err();
        assert!(section_as_value.starts_with("/config.toml:1: hook: invalid type"), "{section_as_value}");
    }

    #[test]
    fn the_forgiving_load_keeps_what_is_right_and_tells_what_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config.toml");
        fs::write(&file, "[hook]\nbusy_ms = 'x'\nmax_payload_bytes = 8192\nnonsense = 1\n[zoo]\na = 1")
            .unwrap();
        let (config, problems) = Config::load_forgiving(&file, &Environment::default());
        let hook = Hook { busy_ms: 250, max_payload_bytes: 8192, synchronous: Synchronous::Normal };
        assert_eq!(config.hook, hook);
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["hook.busy_ms", "hook.nonsense", "zoo"]);
    }

    #[test]
    fn a_file_that_sets_nothing_is_known_without_parsing_it() {
        assert!(is_all_comments(&commented_defaults()));
        assert!(!is_all_comments(&commented_defaults().replace("#busy_ms", "busy_ms")));
        assert!(!is_all_comments("[zoo]"), "an unknown section is a mistake to be told");
        assert!(!is_all_comments("[hook"));
        let twice = "[hook]\n[hook]\n";
        assert!(is_all_comments(twice), "harmless: nothing is set in either");
    }

    #[test]
    fn the_forgiving_load_survives_a_file_that_is_not_text() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config.toml");
        fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
        let (config, problems) = Config::load_forgiving(&file, &Environment::default());
        assert_eq!((config, problems.len()), (Config::default(), 1));
    }
}
