//! The user's corrections: edits, pins, vetoes and merges.

use serde::{Deserialize, Serialize};

use super::history::NoteLine;
use crate::model::Millis;

/// New text of a note. A missing field stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EditRequest {
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Its detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Its facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Vec<String>>,
    /// Instead of new text: the earlier version to return to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// Pins a memory, or unpins it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// True to pin it.
    pub pinned: bool,
}

/// Merges notes into one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    /// Ids of the notes that are merged into it and then forgotten.
    pub ids: Vec<i64>,
}

/// Marks a note as replaced by another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupersedeRequest {
    /// Id of the note that replaces it; none to undo.
    pub by: Option<i64>,
}

/// Blocks a statement: it is hidden, not shown and not stored again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VetoRequest {
    /// The memory whose statements are blocked: 12, or L12 for a learning.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// Or the statement itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// The project; empty for every project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// The key of a context's line, if the statement is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<i64>,
}

/// The vetoes that a request made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vetoes {
    /// The vetoes.
    pub vetoes: Vec<Veto>,
}

/// A blocked statement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Veto {
    /// Its id.
    pub id: i64,
    /// The project; empty for every project.
    pub project: String,
    /// The statement as the user saw it.
    pub statement: String,
    /// The key that it blocks: of the statement, or of a context's line.
    pub key: i64,
    /// Time of the veto.
    pub created_at: Millis,
}

/// Memories that the user has changed: pinned, forgotten, vetoed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Curated {
    /// Pinned notes.
    pub pinned: Vec<NoteLine>,
    /// The latest forgotten notes.
    pub forgotten: Vec<NoteLine>,
    /// Vetoes.
    pub vetoes: Vec<Veto>,
    /// The learnings of a project.
    pub learnings: Vec<LearningRow>,
    /// Notes whose code has changed or is gone.
    pub stale: Vec<StaleNote>,
}

/// A note whose code is no longer as the note left it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaleNote {
    /// The note.
    #[serde(flatten)]
    pub note: NoteLine,
    /// changed or gone.
    pub standing: String,
}

/// A learning in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearningRow {
    /// Its id.
    pub id: i64,
    /// The project; none if it holds everywhere.
    pub project: Option<String>,
    /// architecture, convention, gotcha, preference, command, dependency.
    pub category: String,
    /// Its text.
    pub content: String,
    /// Confidence in percent, by now.
    pub confidence: i64,
    /// Number of sessions that had it.
    pub times_seen: i64,
    /// True if it is pinned.
    pub pinned: bool,
    /// The note that it was learned from.
    pub source: Option<i64>,
}
