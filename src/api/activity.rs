//! Activity of the service: now, by day, and its value for the sessions.

use serde::{Deserialize, Serialize};

use super::history::{EventLine, NoteLine};
use super::{Effects, Health, QueueStats};

/// The activity at this moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Health of the service.
    pub health: Health,
    /// The queue.
    pub queue: QueueStats,
    /// The latest events, newest first.
    pub events: Vec<EventLine>,
    /// The latest notes, newest first.
    pub notes: Vec<NoteLine>,
    /// The latest events that failed for good.
    pub errors: Vec<EventLine>,
    /// Number of events since the last message; only in the live feed.
    pub arrived: i64,
}

/// Counts by day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Days {
    /// The days with activity, oldest first.
    pub days: Vec<DayCount>,
}

/// The activity of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCount {
    /// The user's local date, as in `2026-11-18`.
    pub date: String,
    /// Notes.
    pub notes: i64,
}

/// Costs and results since a date.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Value {
    /// Number of days that it covers.
    pub days: u32,
    /// By day, oldest first.
    pub by_day: Vec<ValueRow>,
    /// By model; `local` stands for the rules.
    pub by_model: Vec<ValueRow>,
    /// By project.
    pub by_project: Vec<ValueRow>,
    /// The total.
    pub total: ValueRow,
    /// The use of memories, and what had to be found again.
    pub effects: Effects,
}

/// Costs and results of a day, a model or a project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ValueRow {
    /// Its name.
    pub name: String,
    /// Notes made.
    pub notes: i64,
    /// Calls of a model.
    pub calls: i64,
    /// Input tokens.
    pub tokens_in: i64,
    /// Output tokens.
    pub tokens_out: i64,
    /// Cost in US dollars.
    pub cost_usd: f64,
    /// Size of the events that the notes were made of.
    pub raw_bytes: i64,
    /// Size of the notes.
    pub kept_bytes: i64,
    /// Contexts that sessions got.
    pub contexts: i64,
    /// Tokens of those contexts.
    pub context_tokens: i64,
    /// Notes that those contexts showed.
    pub shown: i64,
    /// Of those, the notes about a file that the session then changed or read.
    pub used: i64,
}

/// The settings in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The settings, by name.
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Section and key.
    pub key: String,
    /// Its value, as in TOML.
    pub value: String,
    /// Where it comes from: the file and line, or the variable; empty for a default.
    pub origin: String,
}

impl ValueRow {
    /// Adds another row's figures.
    pub fn add(&mut self, other: &Self) {
        self.notes += other.notes;
        self.calls += other.calls;
        self.tokens_in += other.tokens_in;
        self.tokens_out += other.tokens_out;
        self.cost_usd += other.cost_usd;
        self.raw_bytes += other.raw_bytes;
        self.kept_bytes += other.kept_bytes;
        self.contexts += other.contexts;
        self.context_tokens += other.context_tokens;
        self.shown += other.shown;
        self.used += other.used;
    }
}
