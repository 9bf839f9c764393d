//! Health and status of the service.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::Millis;

/// The state of the service in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// It works.
    Ok,
    /// It runs, but cannot do all its work; the reason says why.
    Degraded,
    /// It does not run. Only the command line reports this.
    #[default]
    Stopped,
}

impl HealthStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Stopped => "stopped",
        }
    }
}

/// The health of the service. Figures that a degraded worker cannot read are null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Its state.
    pub status: HealthStatus,
    /// The reason for a state other than ok.
    pub reason: Option<String>,
    /// The worker's version.
    pub version: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// Seconds since it started.
    pub uptime_s: Option<u64>,
    /// Rows that wait or are being processed.
    pub queue_depth: Option<i64>,
    /// Age of the oldest waiting row in seconds.
    pub oldest_raw_age_s: Option<i64>,
    /// Observations made today.
    pub observations_today: Option<i64>,
    /// The provider that compresses.
    pub provider: Option<String>,
    /// The state of its circuit breaker.
    pub breaker: Option<String>,
    /// Time when a Claude Code session last asked for a request; only with the provider `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_asked_at: Option<Millis>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
    /// Cost today in US dollars.
    pub cost_usd_today: Option<f64>,
    /// Ceiling of the daily cost.
    pub max_usd_per_day: Option<f64>,
}

impl Health {
    /// Reason of a worker that has not opened its database yet.
    pub const STARTING: &str = "starting";

    /// True if the service works.
    pub fn is_ok(&self) -> bool {
        self.status == HealthStatus::Ok
    }

    /// True if the worker responds but has not opened its database yet.
    pub fn is_starting(&self) -> bool {
        self.reason.as_deref() == Some(Self::STARTING)
    }
}

/// Number of queue rows in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the states' own names")]
pub struct QueueStats {
    pub raw: i64,
    pub processing: i64,
    pub done: i64,
    pub skipped: i64,
    pub error: i64,
}

/// Key figures of the database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// Rows that wait or are being processed.
    pub waiting: i64,
    /// Arrival time of the oldest of them.
    pub oldest_waiting_at: Option<Millis>,
    /// Rows that ended in an error.
    pub failed: i64,
    /// Time of the last finished row.
    pub last_success_at: Option<Millis>,
    /// Time of the last event that a hook recorded.
    pub last_event_at: Option<Millis>,
    /// Observations made today.
    pub observations_today: i64,
    /// Input tokens today.
    pub tokens_in_today: i64,
    /// Output tokens today.
    pub tokens_out_today: i64,
    /// Cost today in US dollars.
    pub cost_usd_today: f64,
    /// All observations.
    pub observations: i64,
    /// All sessions.
    pub sessions: i64,
}

/// The report of `claude-mem status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Health of the service.
    pub service: Health,
    /// Description of the service manager.
    pub runs: String,
    /// Settings files that contain our hooks.
    pub installed: Vec<String>,
    /// The provider that the settings choose.
    pub provider: ProviderStatus,
    /// Error in the settings.
    pub settings_problem: Option<String>,
    /// Key figures; null if the database cannot be read.
    pub memory: Option<Overview>,
    /// The database file.
    pub database: DatabaseStatus,
    /// Events that neither the database nor the spool could take.
    pub lost_events: usize,
    /// Time of the newest backup.
    pub last_backup_at: Option<Millis>,
    /// Ceiling of the daily cost.
    pub max_usd_per_day: f64,
    /// Time of the report.
    pub now: Millis,
}

/// The provider that the settings choose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderStatus {
    /// Its name.
    pub name: Option<String>,
    /// The reason for the choice.
    pub why: String,
    /// True if it can be used.
    pub usable: bool,
}

/// The database file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseStatus {
    /// Its path.
    pub path: PathBuf,
    /// Size including the WAL.
    pub bytes: u64,
    /// Reason why it cannot be read.
    pub problem: Option<String>,
    /// Time of the last recovery, if recent.
    pub recovered_at: Option<Millis>,
    /// Its result.
    pub recovery: Option<Recovery>,
}

/// The result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Rows read from the damaged file, by table.
    pub salvaged: BTreeMap<String, u64>,
    /// Rows taken from a backup, by table.
    pub restored: BTreeMap<String, u64>,
    /// Path of the damaged file.
    pub damaged: Option<String>,
    /// Further fields of the log entry.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}
