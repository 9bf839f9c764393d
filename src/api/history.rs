//! The record as people look through it: a session's turns, the events behind a note, and the contexts that showed it.

use serde::{Deserialize, Serialize};

use super::SessionRow;
use crate::model::Millis;

/// A session with its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionHistory {
    /// The session.
    pub session: SessionRow,
    /// Points that it left open.
    pub open_items: Vec<String>,
    /// Its turns, in order.
    pub turns: Vec<SessionTurn>,
    /// Prompt number from which the next page starts, if there is one.
    pub next_from: Option<i64>,
    /// The session of this project that began before it.
    pub previous: Option<String>,
    /// The session of this project that began after it.
    pub next: Option<String>,
}

/// A prompt and its results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionTurn {
    /// Number of the prompt; none for work before the first one.
    pub prompt_number: Option<i64>,
    /// The prompt itself, redacted.
    pub prompt: Option<String>,
    /// Time of the prompt.
    pub created_at: Option<Millis>,
    /// Its notes.
    pub notes: Vec<NoteLine>,
    /// Summary of the result.
    pub completed: Option<String>,
    /// Insights.
    pub learned: Option<String>,
    /// Open points.
    pub next_steps: Option<String>,
    /// Events that are still listed.
    pub events: i64,
    /// Events whose raw payload is still kept.
    pub payloads: i64,
}

/// The work of a day, by project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryDay {
    /// The user's local date, as in `2026-11-18`.
    pub date: String,
    /// Projects with notes of that day, by name.
    pub projects: Vec<ProjectDay>,
}

/// A project's work of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectDay {
    /// The project's name.
    pub project: String,
    /// Sessions with notes of that day, oldest first.
    pub sessions: Vec<SessionDay>,
}

/// A session's work of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDay {
    /// The session.
    pub session: SessionRow,
    /// Its notes of that day, oldest first.
    pub notes: Vec<NoteLine>,
    /// Points that it has left open.
    pub open_items: Vec<String>,
}

/// A note in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoteLine {
    /// Its id.
    pub id: i64,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its title.
    pub title: String,
    /// Its summary.
    pub summary: String,
    /// The project's name.
    pub project: String,
    /// Its session.
    pub session_id: String,
    /// The model that made it; `local` for the rules.
    pub origin: String,
    /// Time of creation.
    pub created_at: Millis,
    /// True if it is pinned.
    pub pinned: bool,
}

impl NoteLine {
    /// Its title, or its summary if it has none.
    pub fn heading(&self) -> &str {
        match (self.title.as_str(), self.summary.as_str()) {
            ("", "") => "(no text)",
            ("", summary) => summary,
            (title, _) => title,
        }
    }
}

/// A note with everything around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoteHistory {
    /// The note.
    pub note: super::ObservationRow,
    /// The model's tokens for it, in and out.
    pub tokens: [i64; 2],
    /// Size of the events that it was made of.
    pub raw_bytes: i64,
    /// Time of the last edit by the user.
    pub edited_at: Option<Millis>,
    /// Time at which it was pinned.
    pub pinned_at: Option<Millis>,
    /// Time at which it was forgotten.
    pub deleted_at: Option<Millis>,
    /// Id of the note that it was merged into.
    pub merged_into: Option<i64>,
    /// Earlier versions, newest first.
    pub versions: Vec<NoteVersion>,
    /// The events that it was made of.
    pub events: Vec<EventLine>,
    /// The contexts that showed it, newest first.
    pub injections: Vec<Injection>,
    /// Notes that may say the same.
    pub similar: Vec<NoteLine>,
}

/// An earlier version of a note.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoteVersion {
    /// Its id.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// Its summary.
    pub summary: String,
    /// Its detail.
    pub detail: String,
    /// Its facts.
    pub facts: Vec<String>,
    /// The time at which it was replaced.
    pub replaced_at: Millis,
}

/// A recorded event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventLine {
    /// Its id.
    pub id: i64,
    /// observation, summarize, flush.
    pub kind: String,
    /// The tool that was used.
    pub tool: Option<String>,
    /// raw, processing, done, skipped, error.
    pub status: String,
    /// The reason for skipping it, or its error.
    pub reason: Option<String>,
    /// True if the tool failed.
    pub failed: bool,
    /// Original size.
    pub raw_bytes: i64,
    /// Arrival time.
    pub created_at: Millis,
    /// The payload or its beginning, redacted; none if it is no longer kept.
    pub payload: Option<String>,
    /// Its command, file, pattern or address, if it has one.
    pub gist: Option<String>,
    /// The project's name.
    pub project: String,
    /// Its session.
    pub session_id: String,
}

/// The name of an event: its tool, or the step of its session.
pub fn step_name<'a>(tool: Option<&'a str>, kind: &'a str) -> &'a str {
    match (tool, kind) {
        (Some(tool), _) => tool,
        (None, "summarize") => "end of the turn",
        (None, "flush") => "next turn",
        (None, "observation") => "event",
        (None, kind) => kind,
    }
}

/// A list of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// The events.
    pub events: Vec<EventLine>,
}

/// A context that showed a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Injection {
    /// The session that got it.
    pub session_id: String,
    /// The session's title.
    pub title: String,
    /// start, prompt, file or failure.
    pub occasion: String,
    /// Time of the context.
    pub created_at: Millis,
    /// Files of the memory that the session then changed.
    pub then_changed: Vec<String>,
    /// Files of the memory that the session then read.
    pub then_read: Vec<String>,
}
