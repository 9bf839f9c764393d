//! Sessions, and events that clients without hooks send.

use serde::{Deserialize, Serialize};

use crate::model::Millis;

/// Parameters of a list of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionsQuery {
    /// Only this project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only the project of this directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// Maximum number of sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Number of sessions to skip.
    pub offset: u32,
}

/// A list of sessions, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// The sessions.
    pub sessions: Vec<SessionRow>,
}

/// A session as lists and look-ups show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Claude Code's session id.
    pub id: String,
    /// The project's name.
    pub project: String,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// Start time.
    pub started_at: Millis,
    /// Time of the last activity.
    pub last_activity_at: Millis,
    /// End time.
    pub ended_at: Option<Millis>,
    /// Number of prompts.
    pub prompt_count: i64,
    /// Title of its digest, else the beginning of its first prompt.
    #[serde(default)]
    pub title: Option<String>,
    /// Outcome of its digest.
    #[serde(default)]
    pub outcome: Option<String>,
    /// The branch that it was on.
    #[serde(default)]
    pub branch: Option<String>,
    /// live, backfill or sync.
    #[serde(default)]
    pub origin: String,
    /// The agent: claude-code, codex, …
    #[serde(default)]
    pub agent: String,
}

impl SessionRow {
    /// Its title, or its id if it has none.
    pub fn heading(&self) -> &str {
        self.title.as_deref().filter(|title| !title.is_empty()).unwrap_or(&self.id)
    }
}

/// A session and its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The session.
    #[serde(flatten)]
    pub session: SessionRow,
    /// Its waiting queue rows.
    pub raw: i64,
    /// Its queue rows being processed.
    pub processing: i64,
    /// Its failed queue rows.
    pub error: i64,
    /// Number of observations.
    pub observations: i64,
    /// Number of summaries.
    pub summaries: i64,
}

/// Number of events that were new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The number.
    pub queued: usize,
}

/// Number of waiting rows that will not be processed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The number.
    pub skipped: usize,
}

/// Requests a summary of a session's work since its last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarize {
    /// The session.
    pub session_id: String,
}

/// A session's latest summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its text.
    pub summary: String,
    /// Tokens that it cost.
    pub tokens: i64,
}
