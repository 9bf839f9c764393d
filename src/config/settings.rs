//! The settings by section, with their types and bounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All settings. `config/claude-mem.toml` describes each one next to its default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct Config {
    pub hook: HookSettings,
    pub capture: CaptureSettings,
    pub queue: QueueSettings,
    pub worker: WorkerSettings,
    pub batch: BatchSettings,
    pub compress: CompressSettings,
    pub anthropic: AnthropicSettings,
    pub openai: OpenAiSettings,
    pub claude_cli: ClaudeCliSettings,
    pub cost: CostSettings,
    pub prices: BTreeMap<String, Price>,
    pub context: ContextSettings,
    pub search: SearchSettings,
    pub backfill: BackfillSettings,
    pub sync: SyncSettings,
    pub retention: RetentionSettings,
    pub backup: BackupSettings,
    pub viewer: ViewerSettings,
    pub value: ValueSettings,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct HookSettings {
    pub busy_ms: u32,
    #[serde(deserialize_with = "at_least::<4096, _>")]
    pub max_payload_bytes: u64,
    pub synchronous: Synchronous,
}

/// The point at which a hook's event survives a power cut.
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
pub struct CaptureSettings {
    pub skip_tools: Vec<String>,
    pub exclude_projects: Vec<String>,
    pub project_aliases: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct QueueSettings {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_attempts: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct WorkerSettings {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub concurrency: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub stop_s: u64,
    pub autostart: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct BatchSettings {
    pub enabled: bool,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_size: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub max_wait_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct CompressSettings {
    pub provider: Provider,
    pub model: String,
    pub verbosity: Verbosity,
    #[serde(deserialize_with = "at_least::<1000, _>")]
    pub max_input_chars: u64,
    #[serde(deserialize_with = "at_least::<2000, _>")]
    pub max_prompt_tokens: u64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub timeout_s: u64,
    pub fallback_after_s: u64,
    pub session_wait_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct AnthropicSettings {
    pub base_url: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct OpenAiSettings {
    pub base_url: String,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct ClaudeCliSettings {
    pub command: String,
}

/// The provider that compresses events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum Provider {
    Auto,
    Anthropic,
    Openai,
    ClaudeCli,
    Session,
    Local,
}

/// The amount of activity that counts as routine.
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
pub struct CostSettings {
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
pub struct ContextSettings {
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
    pub notice: Notice,
}

/// When a session start shows a line to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum Notice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct SearchSettings {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub depth: u64,
    #[serde(deserialize_with = "not_negative")]
    pub context_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub session_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub near_files_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub summaries_weight: f64,
    #[serde(deserialize_with = "not_negative")]
    pub prompts_weight: f64,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub model_idle_s: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct BackfillSettings {
    pub follow: Vec<FollowedAgent>,
}

/// An agent whose histories can be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every value")]
pub enum FollowedAgent {
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
    Copilot,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct SyncSettings {
    pub share_default: Share,
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub poll_s: u64,
}

/// The devices that get a project's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// This one only.
    None,
    /// All devices of the same login.
    Me,
    /// All devices of the team.
    Team,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct RetentionSettings {
    pub raw_days: u64,
    pub queue_days: u64,
    pub event_log_days: u64,
    pub max_mb: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct BackupSettings {
    pub keep: u64,
    pub max_mb: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct ValueSettings {
    #[serde(deserialize_with = "at_most_half")]
    pub holdout_percent: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "config/claude-mem.toml documents every key")]
pub struct ViewerSettings {
    #[serde(deserialize_with = "at_least::<1, _>")]
    pub idle_s: u64,
}

impl SearchSettings {
    /// [`SearchSettings::depth`] as a count.
    pub fn depth(&self) -> usize {
        usize::try_from(self.depth).unwrap_or(usize::MAX)
    }
}

fn at_least<'de, const MIN: u64, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = i64::deserialize(from)?;
    u64::try_from(value)
        .ok()
        .filter(|value| *value >= MIN)
        .ok_or_else(|| serde::de::Error::custom(format_args!("{value} is too small; the minimum is {MIN}")))
}

fn at_most_half<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = i64::deserialize(from)?;
    u64::try_from(value)
        .ok()
        .filter(|value| *value <= 50)
        .ok_or_else(|| serde::de::Error::custom(format_args!("{value} is not valid; use 0 to 50")))
}

fn not_negative<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(serde::de::Error::custom(format_args!("{value} is not valid; use 0 or more")))
}
