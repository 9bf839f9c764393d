//! Requests to a model that a running Claude Code session answers, for the provider `session`.

use serde::{Deserialize, Serialize};

/// Parameters of a session that asks for a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionJobQuery {
    /// Longest wait for a job in milliseconds; the service waits at most four seconds.
    pub wait_ms: u64,
}

/// The answer to a session that asks for a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOffer {
    /// False if another provider is configured: asking again is useless.
    pub is_chosen: bool,
    /// The job; null if there was none within the wait.
    pub job: Option<SessionJob>,
}

/// One request to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionJob {
    /// Its id, for the answer.
    pub id: u64,
    /// The model to call.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The user prompt, redacted.
    pub prompt: String,
    /// Maximum length of the answer.
    pub max_output_tokens: u32,
    /// Time in milliseconds after which an answer is ignored.
    pub timeout_ms: u64,
}

/// The answer of the session's model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionAnswer {
    /// Its text; null if the model did not answer.
    pub text: Option<String>,
    /// The reason for a missing text.
    pub error: Option<String>,
    /// The tokens, as the client counts them.
    pub usage: SessionUsage,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names of Anthropic's API")]
pub struct SessionUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
}
