//! The domain types: events, observations, summaries, learnings. Independent of files, SQL and
//! HTTP.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 UTC, as in every `*_at` column.
pub type Millis = i64;

/// Claude Code's id of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl SessionId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// An event that a hook accepted, ready to be stored in the database or the spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its identity, for deduplication.
    pub key: EventKey,
    /// Time at which the hook received it.
    pub at: Millis,
    /// Its session. Only a payload that could not be parsed may lack it.
    pub session: Option<SessionStamp>,
    /// Its content.
    pub body: EventBody,
}

/// Identifies repeated deliveries of the same event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKey {
    /// The client's id: the same key is always the same event.
    Exact(String),
    /// A hash of the content. The same content within [`EventKey::NEAR_MS`] is the same event (two
    /// sets of hooks, a retry); later it is a new one (the user writes "continue" twice).
    Near(String),
}

impl EventKey {
    /// Maximum time between two deliveries of one event; equal events are farther apart.
    pub const NEAR_MS: Millis = 2_000;
}

/// The program that a session runs in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Agent {
    #[default]
    ClaudeCode,
    Codex,
    Gemini,
    Cursor,
    Opencode,
    Copilot,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Cursor, Self::Opencode, Self::Copilot];

    /// The word for it, as stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
        }
    }

    /// The agent of that name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == word)
    }
}

/// The session of an event, as seen at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStamp {
    /// Claude Code's id.
    pub id: SessionId,
    /// The project key.
    #[serde(default)]
    pub project_key: String,
    /// The project's preferred name.
    pub project: String,
    /// True if the user gave that name.
    #[serde(default)]
    pub is_alias: bool,
    /// The main worktree's path, or the working directory outside git.
    pub project_path: String,
    /// The client's working directory.
    pub cwd: String,
    /// The branch that was checked out there.
    pub branch: Option<String>,
    /// The agent.
    #[serde(default)]
    pub agent: Agent,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventBody {
    /// A session starts or resumes.
    Start {
        /// startup, resume, clear, compact, fork.
        source: Option<String>,
    },
    /// The user submitted a prompt.
    Prompt {
        /// The prompt without its private parts.
        text: String,
    },
    /// A tool was used.
    Tool(ToolUse),
    /// A turn ended, or compaction is imminent: a summary is due.
    Summarize(Payload),
    /// The session ended. Queued events are still processed.
    End {
        /// clear, resume, prompt_input_exit, logout, other.
        reason: Option<String>,
    },
    /// Input that could not be parsed. Kept as an error for the user to see.
    Rejected {
        /// The reason.
        reason: String,
        /// The input, as text.
        payload: Payload,
    },
}

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool's name in the client.
    pub tool_name: Option<String>,
    /// The client's id of this use.
    pub tool_use_id: Option<String>,
    /// The subagent that used it.
    pub agent_id: Option<String>,
    /// That subagent's kind.
    pub agent_type: Option<String>,
    /// True if the tool failed.
    pub failed: bool,
    /// Input and response, as one JSON object.
    pub payload: Payload,
}

/// The stored part of a hook's input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// JSON without private parts, limited in size.
    pub json: String,
    /// Size of the hook's whole input in bytes.
    pub raw_bytes: u64,
}

/// Type of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ObservationType {
    Bugfix,
    Feature,
    Refactor,
    #[default]
    Change,
    Discovery,
    Decision,
}

impl ObservationType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Bugfix, Self::Feature, Self::Refactor, Self::Change, Self::Discovery, Self::Decision];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bugfix => "bugfix",
            Self::Feature => "feature",
            Self::Refactor => "refactor",
            Self::Change => "change",
            Self::Discovery => "discovery",
            Self::Decision => "decision",
        }
    }

    /// Parses a type; an unknown word is a change.
    pub fn from_word(word: &str) -> Self {
        let word = word.trim();
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word)).unwrap_or_default()
    }
}

/// A provider's result for some events. Every part may be missing: partial data is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservationDraft {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ObservationType,
    /// About 10 tokens: the change or finding, in the imperative.
    pub title: Option<String>,
    /// About 50 tokens: enough to judge its relevance.
    pub summary: Option<String>,
    /// About 200 tokens: the facts and the reason.
    pub detail: Option<String>,
    /// Self-contained statements.
    pub facts: Vec<String>,
    /// Search keywords; never a type.
    pub concepts: Vec<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
    /// Files that were changed.
    pub files_modified: Vec<String>,
    /// Functions that were changed.
    pub functions_changed: Vec<String>,
}

/// A provider's result for a turn. Every part may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SummaryDraft {
    /// The turn in two or three sentences.
    pub summary: Option<String>,
    /// The user's request.
    pub request: Option<String>,
    /// Things that were examined.
    pub investigated: Option<String>,
    /// Findings.
    pub learned: Option<String>,
    /// Work that was done.
    pub completed: Option<String>,
    /// Work that remains.
    pub next_steps: Option<String>,
    /// Anything else worth keeping.
    pub notes: Option<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
    /// Files that were changed.
    pub files_edited: Vec<String>,
    /// Decisions and their reasons.
    pub key_decisions: Vec<String>,
}

/// The parts of a turn's summary that a digest uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnLine {
    /// The user's request as a title.
    pub request: Option<String>,
    /// The result, if the turn changed something.
    pub completed: Option<String>,
    /// The result, if the turn found something out.
    pub learned: Option<String>,
    /// Open points, one per line.
    pub next_steps: Option<String>,
    /// Closed tasks, after "Closed: ".
    pub notes: Option<String>,
}

/// The digest of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// First substantial request.
    pub title: Option<String>,
    /// Results of the latest turns that changed something, else of the latest that found something.
    pub outcome: Option<String>,
    /// Points that were left open and not done since.
    pub open_items: Vec<String>,
}

/// Change of a function or a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ChangeKind {
    New,
    Modified,
    Deleted,
}

impl ChangeKind {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }

    /// Parses a stored word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::New, Self::Modified, Self::Deleted].into_iter().find(|change| change.as_str() == word)
    }
}

/// State of the code that a memory is about, compared with the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// As the memory left it, or nothing is known against it.
    #[default]
    Holds,
    /// Changed since.
    Changed,
    /// Taken out, or reversed.
    Gone,
}

impl Standing {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }

    /// Parses a stored word; anything else holds.
    pub fn from_word(word: Option<&str>) -> Self {
        match word {
            Some("changed") => Self::Changed,
            Some("gone") => Self::Gone,
            _ => Self::Holds,
        }
    }
}

/// A function, method or type that an edit added, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionChange {
    /// The file, relative to the project's root if it is inside.
    pub file_path: String,
    /// Its name, qualified by the enclosing names.
    pub qualified_name: String,
    /// function, method, class and so on.
    pub kind: String,
    /// Its declaration on one line.
    pub signature: String,
    /// The first line, from 1.
    pub line_start: u32,
    /// The last line.
    pub line_end: u32,
    /// Hash of its code.
    pub body_hash: String,
    /// Kind of change.
    pub change: ChangeKind,
    /// Its former qualified name, if it was renamed.
    pub renamed_from: Option<String>,
}

/// Topic of a learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Category {
    Architecture,
    Convention,
    Gotcha,
    Preference,
    Command,
    Dependency,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 6] = [
        Self::Architecture,
        Self::Convention,
        Self::Gotcha,
        Self::Preference,
        Self::Command,
        Self::Dependency,
    ];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Architecture => "architecture",
            Self::Convention => "convention",
            Self::Gotcha => "gotcha",
            Self::Preference => "preference",
            Self::Command => "command",
            Self::Dependency => "dependency",
        }
    }

    /// Parses a category, singular or plural.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.trim().to_ascii_lowercase();
        let is_it = |category: &Self| {
            let known = category.as_str();
            word == known || word.strip_suffix('s') == Some(known)
        };
        if word == "dependencies" {
            return Some(Self::Dependency);
        }
        Self::ALL.into_iter().find(is_it)
    }
}

/// A fact that every later session of a project should have.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningDraft {
    /// Its category.
    pub category: Category,
    /// The fact, as one self-contained sentence.
    pub content: String,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    /// True if it applies to every project.
    pub everywhere: bool,
    /// The events it was derived from; none if it was stated in words.
    pub sources: Vec<i64>,
    /// An existing learning that this one repeats, if its author was given the existing ones.
    pub confirms: Option<i64>,
    /// An existing learning that this one replaces.
    pub replaces: Option<i64>,
}

impl LearningDraft {
    /// Creates a learning that was stated in words.
    pub fn new(category: Category, content: impl Into<String>, confidence: f64) -> Self {
        Self {
            category,
            content: content.into(),
            confidence,
            everywhere: false,
            sources: Vec::new(),
            confirms: None,
            replaces: None,
        }
    }
}

/// Returns the remaining confidence of a learning last seen at `last_seen`. Holds for two months
/// and then falls linearly, from 1 to 0 over ten more; a learning that the user wrote (1) does not
/// fade.
pub fn confidence_left(confidence: f64, last_seen: Millis, now: Millis) -> f64 {
    const DAY: Millis = 24 * 60 * 60_000;
    const HOLDS: Millis = 60 * DAY;
    const FALLS: Millis = 300 * DAY;
    if confidence >= 1.0 {
        return confidence;
    }
    let overdue = now.saturating_sub(last_seen).saturating_sub(HOLDS).clamp(0, FALLS);
    (confidence - overdue as f64 / FALLS as f64).max(0.0)
}
