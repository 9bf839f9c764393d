//! What we talk about: events, observations, summaries. Knows nothing of files, SQL or HTTP.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 UTC, as every `*_at` column has them.
pub type Millis = i64;

/// Claude's own id of a session.
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

/// One thing that a hook accepted, ready to be stored: in the database at once, or by way of the spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What makes it this event and no other.
    pub key: EventKey,
    /// When the hook saw it.
    pub at: Millis,
    /// Whose it is. Only a payload that could not be understood may lack it.
    pub session: Option<SessionStamp>,
    /// What happened.
    pub body: EventBody,
}

/// How a second arrival of the same event is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKey {
    /// The client gave it an id: the same key is the same event, whenever it comes.
    Exact(String),
    /// Only its content is known. The same content again within [`EventKey::NEAR_MS`] is the same event (two hook
    /// sets wired at once, a retry); later it is a new one (the user says "continue" twice).
    Near(String),
}

impl EventKey {
    /// Two arrivals of one event are closer than this; two equal events are farther apart.
    pub const NEAR_MS: Millis = 2_000;
}

/// The session that an event belongs to, as seen at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStamp {
    /// Claude's id of it.
    pub id: SessionId,
    /// The project's name.
    pub project: String,
    /// The main worktree's path, or the working directory outside git.
    pub project_path: String,
    /// Where the client stood.
    pub cwd: String,
    /// The branch that was checked out there.
    pub branch: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventBody {
    /// A session starts, or comes back.
    Start {
        /// startup, resume, clear, compact, fork.
        source: Option<String>,
    },
    /// The user submitted a prompt.
    Prompt {
        /// What it said, without what is private.
        text: String,
    },
    /// A tool was used.
    Tool(ToolUse),
    /// A turn ended, or compaction is near: time for a summary.
    Summarize(Payload),
    /// The session ended. Never an abort: what is queued still gets done.
    End {
        /// clear, resume, prompt_input_exit, logout, other.
        reason: Option<String>,
    },
    /// Something came in that could not be understood. It is kept as an error for the user to see.
    Rejected {
        /// Why.
        reason: String,
        /// What it was, as text.
        payload: Payload,
    },
}

/// One use of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool's name as the client has it.
    pub tool_name: Option<String>,
    /// The client's id of this use.
    pub tool_use_id: Option<String>,
    /// The subagent that used it.
    pub agent_id: Option<String>,
    /// That subagent's kind.
    pub agent_type: Option<String>,
    /// Whether the tool failed.
    pub failed: bool,
    /// Input and response, as one JSON object.
    pub payload: Payload,
}

/// What is kept of a hook's input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// JSON, stripped and bounded.
    pub json: String,
    /// How large the hook's input was.
    pub raw_bytes: u64,
}

/// What an observation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
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
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Bugfix, Self::Feature, Self::Refactor, Self::Change, Self::Discovery, Self::Decision];

    /// The word for it, as stored.
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

    /// The type of that name; whatever is not one is a change.
    pub fn from_word(word: &str) -> Self {
        let word = word.trim();
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word)).unwrap_or_default()
    }
}

/// What a provider made of some events. Every part may be missing: partial data is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservationDraft {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: ObservationType,
    /// About 10 tokens: what happened, as an imperative.
    pub title: Option<String>,
    /// About 50 tokens: enough to decide whether it matters.
    pub summary: Option<String>,
    /// About 200 tokens: the facts and the reason.
    pub detail: Option<String>,
    /// Single statements that stand on their own.
    pub facts: Vec<String>,
    /// Words to find it by; never a type.
    pub concepts: Vec<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
    /// Files that were changed.
    pub files_modified: Vec<String>,
    /// Functions that were changed.
    pub functions_changed: Vec<String>,
}

/// What a provider made of a turn. Every part may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SummaryDraft {
    /// The turn in two or three sentences.
    pub summary: Option<String>,
    /// What the user wanted.
    pub request: Option<String>,
    /// What was looked at.
    pub investigated: Option<String>,
    /// What was found out.
    pub learned: Option<String>,
    /// What was done.
    pub completed: Option<String>,
    /// What remains.
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

/// What happened to a function or a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words say it")]
pub enum CodeChange {
    New,
    Modified,
    Deleted,
}

impl CodeChange {
    /// The word for it, as stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }

    /// The change of that name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::New, Self::Modified, Self::Deleted].into_iter().find(|change| change.as_str() == word)
    }
}

/// A function, method or type that an edit made, changed or took away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionChange {
    /// The file, seen from the project's root if it lies there.
    pub file_path: String,
    /// Its name with the names around it.
    pub qualified_name: String,
    /// function, method, class and so on.
    pub kind: String,
    /// Its declaration on one line.
    pub signature: String,
    /// The first line, from 1.
    pub line_start: u32,
    /// The last line.
    pub line_end: u32,
    /// Changes with its code.
    pub body_hash: String,
    /// What happened.
    pub change: CodeChange,
    /// Its qualified name before, if that was another one.
    pub renamed_from: Option<String>,
}

/// What a learning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Category {
    Architecture,
    Convention,
    Gotcha,
    Preference,
    Command,
    Dependency,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Architecture,
        Self::Convention,
        Self::Gotcha,
        Self::Preference,
        Self::Command,
        Self::Dependency,
    ];

    /// The word for it, as stored.
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

    /// The category of that name, singular or plural.
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

/// Something that is to be known in every later session of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningDraft {
    /// What it is about.
    pub category: Category,
    /// What it says, in one sentence that stands on its own.
    pub content: String,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// True in every project.
    pub everywhere: bool,
    /// The events that it came from; none if it came from words.
    pub sources: Vec<i64>,
    /// A known learning that this is the same as, where whoever drew it up was told what is known.
    pub confirms: Option<i64>,
    /// A known learning that this one takes the place of.
    pub replaces: Option<i64>,
}

impl LearningDraft {
    /// One that came from words, and of which nothing else is known.
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

/// What confidence is left of a learning that was last seen then. It holds for two months and then falls evenly, from
/// certainty to nothing in ten more; what the user wrote down (1) stays.
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
