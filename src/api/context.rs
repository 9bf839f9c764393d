//! The context of a session's start, and the lines added later.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Millis;

/// Parameters of a start context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextQuery {
    /// A directory of the project.
    pub project_path: String,
    /// The session's directory, if that is another worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session that asks; empty for a request outside a session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session_id: String,
    /// The reason for the session's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Maximum size in tokens; `context.budget` if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// True to explain each line.
    #[serde(default)]
    pub explain: bool,
}

/// A start context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContextResponse {
    /// The text for the model; may be empty.
    pub context: String,
    /// Maximum number of its tokens.
    pub tokens: usize,
    /// Layers that are in it.
    pub layers: Vec<String>,
    /// Layers that have lines but are not in it.
    pub skipped: Vec<String>,
    /// Time to build it.
    pub build_ms: f64,
    /// Its lines, if they are to be explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<ContextLine>>,
    /// The context of the project's last session, if lines are to be explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastContext>,
    /// Data for the event log, which the hook writes once it has printed the text; only for a
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Value>,
}

/// The context that a project's last session got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastContext {
    /// The session.
    pub session_id: String,
    /// Time of the context.
    pub created_at: Millis,
    /// The keys of its lines.
    pub keys: Vec<i64>,
}

/// A line of a context, explained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextLine {
    /// Its layer; empty for a line that is added after the start.
    pub layer: String,
    /// The line.
    pub text: String,
    /// The reason for its choice.
    pub why: String,
    /// Maximum number of its tokens.
    pub tokens: usize,
    /// Identifies the line, for a veto.
    #[serde(default)]
    pub key: i64,
    /// The memory that it is about, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// Parameters of the lines for a prompt, an edit or a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSessionQuery {
    /// A directory of the project.
    pub project_path: String,
    /// The session that asks; empty for a request outside a session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session_id: String,
    /// The prompt, the path, or the error.
    pub text: String,
    /// Lines that an edit adds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub added: String,
    /// Lines that it removes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub removed: String,
    /// True to explain each line.
    #[serde(default)]
    pub explain: bool,
}

/// The lines for a prompt, an edit or a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InSessionResponse {
    /// The text for the model; may be empty.
    pub context: String,
    /// Maximum number of its tokens.
    pub tokens: usize,
    /// Ids of the observations in it.
    pub shown: Vec<i64>,
    /// Data for the event log, which the hook writes once it has printed the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Value>,
    /// Its lines, if they are to be explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<ContextLine>>,
}

/// The part of either response that the hook prints and logs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct PrintedContext {
    /// The text for the model; may be empty.
    pub context: String,
    /// Maximum number of its tokens.
    pub tokens: usize,
    /// Data for the event log.
    #[serde(default)]
    pub log: Option<Value>,
}
