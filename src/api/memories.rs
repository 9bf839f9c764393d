//! Memories: search, the timeline around a hit, full text, saving and forgetting.

use serde::{Deserialize, Serialize};

use crate::model::Millis;

/// Parameters of a search. An empty one counts as missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchQuery {
    /// Words; "quoted phrases" must match exactly.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub q: String,
    /// Only this project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// Only the project of this directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project_path: String,
    /// Only these kinds: observation, summary, prompt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Only these types of observations.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub types: String,
    /// Only memories with this concept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub concept: String,
    /// Only memories about this file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Only memories since this date or age.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// Only memories until this date or age.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// Maximum number of hits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// Number of hits to skip.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub offset: String,
    /// The state of an earlier page, from its response.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub as_of: String,
    /// 1 or true to explain each score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub explain: String,
    /// Session whose prompts are left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exclude_session: String,
    /// Only the prompt with this number is left out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exclude_prompt: String,
}

/// A page of hits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchResponse {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Number of hits on all pages.
    pub total: usize,
    /// Offset of the next page, if there is one.
    pub next_offset: Option<usize>,
    /// The state searched, for consistent further pages.
    pub as_of: String,
    /// Words without a match that were replaced by similar ones.
    pub corrections: Vec<Correction>,
    /// Time of the search in the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
}

/// A word that was replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// The word in the query.
    pub asked: String,
    /// The word searched for.
    pub read_as: String,
}

/// A memory that matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hit {
    /// Its reference: 12, S12 for a summary, P12 for a prompt.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its id within its kind.
    pub id: i64,
    /// observation, summary or prompt.
    pub kind: String,
    /// An observation's type.
    #[serde(rename = "type")]
    pub type_word: Option<String>,
    /// The project's name.
    pub project: String,
    /// The session it was made in.
    pub session_id: String,
    /// Time of creation.
    pub created_at: Millis,
    /// Its age in words.
    pub age: String,
    /// Its title; for a prompt, its beginning.
    pub title: String,
    /// Matches in the title: start and end in characters.
    pub title_marks: Vec<[usize; 2]>,
    /// The passage that matched.
    pub snippet: String,
    /// Matches in the passage.
    pub snippet_marks: Vec<[usize; 2]>,
    /// From 0 to 1, comparable between queries.
    pub score: f64,
    /// Ids of near-duplicates.
    pub similar: Vec<i64>,
    /// The parts of the score, if they are to be explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<ScoreParts>,
}

impl Hit {
    /// An observation's type, else the kind of memory.
    pub fn label(&self) -> &str {
        self.type_word.as_deref().unwrap_or(&self.kind)
    }
}

/// The parts of a score.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScoreParts {
    /// The share of the question that its text and context have.
    pub words: f64,
    /// The share that the best hits of its session add.
    pub session: f64,
    /// The nearness of its meaning, from 0 to 1; 0 without a model.
    pub meaning: f64,
    /// Factor for its kind.
    pub kind: f64,
    /// Factor for files in common.
    pub files: f64,
    /// Each clue that was found: the clue, its rarity, and its count here.
    pub clues: Vec<(String, f64, f64)>,
}

/// The memories around one, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The memories.
    #[serde(rename = "moments")]
    pub entries: Vec<TimelineEntry>,
}

/// A memory in a timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimelineEntry {
    /// Its reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its id within its kind.
    pub id: i64,
    /// observation, summary or prompt.
    pub kind: String,
    /// An observation's type.
    #[serde(rename = "type")]
    pub type_word: Option<String>,
    /// The project's name.
    pub project: String,
    /// The session it was made in.
    pub session_id: String,
    /// Time of creation.
    pub created_at: Millis,
    /// Its age in words.
    pub age: String,
    /// Its title.
    pub title: String,
    /// True for the memory that the timeline is around.
    pub anchor: bool,
}

impl TimelineEntry {
    /// An observation's type, else the kind of memory.
    pub fn label(&self) -> &str {
        self.type_word.as_deref().unwrap_or(&self.kind)
    }
}

/// Memories in full, in the order of the request; missing ones are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memories {
    /// The memories.
    pub memories: Vec<Memory>,
}

/// A memory in full.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Its reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its id within its kind.
    pub id: i64,
    /// observation, summary or prompt.
    pub kind: String,
    /// An observation's type.
    #[serde(rename = "type")]
    pub type_word: Option<String>,
    /// The project's name.
    pub project: String,
    /// The session it was made in.
    pub session_id: String,
    /// Number of the prompt whose turn it belongs to.
    pub prompt_number: Option<i64>,
    /// Time of creation.
    pub created_at: Millis,
    /// Its age in words.
    pub age: String,
    /// Its title.
    pub title: String,
    /// Its summary.
    pub summary: String,
    /// Its detail.
    pub detail: String,
    /// Facts.
    pub facts: Vec<String>,
    /// Search keywords.
    pub concepts: Vec<String>,
    /// Files that changed.
    pub files_modified: Vec<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
}

impl Memory {
    /// An observation's type, else the kind of memory.
    pub fn label(&self) -> &str {
        self.type_word.as_deref().unwrap_or(&self.kind)
    }
}

/// Observations by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observations {
    /// The observations.
    pub observations: Vec<ObservationRow>,
}

/// An observation with all columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns' own names")]
pub struct ObservationRow {
    pub id: i64,
    pub uid: String,
    pub session_id: String,
    pub project: String,
    pub prompt_number: Option<i64>,
    #[serde(rename = "type")]
    pub kind: String,
    pub title: Option<String>,
    pub summary: Option<String>,
    pub detail: Option<String>,
    pub facts: Vec<String>,
    pub concepts: Vec<String>,
    pub files_read: Vec<String>,
    pub files_modified: Vec<String>,
    pub functions_changed: Vec<String>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub branch: Option<String>,
    pub created_at: Millis,
}

/// A project's latest sessions, and its learnings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recent {
    /// The project's name.
    pub project: String,
    /// The sessions, newest first.
    pub sessions: Vec<RecentSession>,
    /// The learnings, strongest first; only on the first page.
    pub learnings: Vec<LearningLine>,
    /// Offset of the next page, if there is one.
    pub next_offset: Option<u32>,
}

/// A session and its open points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentSession {
    /// Claude Code's session id.
    pub session_id: String,
    /// Reference of its latest summary.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its age in words.
    pub age: String,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// Its title.
    pub request: Option<String>,
    /// Its outcome.
    pub completed: Option<String>,
    /// Its open points.
    pub next_steps: Option<String>,
}

/// A learning as recall shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearningLine {
    /// Its id.
    pub id: i64,
    /// Its category.
    pub category: String,
    /// Its text.
    pub content: String,
}

/// Projects with memories, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Projects {
    /// The projects.
    pub projects: Vec<KnownProject>,
}

/// A project with memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownProject {
    /// Its name.
    pub name: String,
    /// Number of its memories.
    pub memories: i64,
    /// The directory where it was first seen; empty if unknown.
    #[serde(default)]
    pub path: String,
}

/// The project of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectName {
    /// Its name.
    pub name: String,
}

/// A memory to save.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statement {
    /// Identifies a repeated request; generated if missing.
    pub uid: String,
    /// The text to remember.
    pub text: String,
    /// Its title; the first sentence if missing.
    pub title: String,
    /// An observation's type; discovery if missing.
    #[serde(rename = "type")]
    pub kind: String,
    /// A learning's category, if it is a learning.
    pub learning: String,
    /// True if the learning applies to every project.
    pub everywhere: bool,
    /// Related files.
    pub files: Vec<String>,
    /// Search keywords.
    pub concepts: Vec<String>,
    /// The project's name; that of `project_path` if missing.
    pub project: String,
    /// A directory of the project.
    pub project_path: String,
    /// The session it was stated in.
    pub session_id: String,
    /// True if an agent states it, not the user: its confidence is lower and fades, and it applies
    /// to its project only.
    pub by_agent: bool,
}

/// A saved memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Its reference; empty for a learning that the user forgot.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its title.
    pub title: String,
    /// True if it was saved before.
    pub known: bool,
}

/// A memory that was forgotten or restored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its title.
    pub title: String,
    /// False if it already was in that state.
    pub changed: bool,
}

/// The project to which a change is limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Within {
    /// Its name; every project if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}
