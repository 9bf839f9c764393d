//! The event log: what the service did, for the user to look at and for the daily ceiling to add up.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::StoreError;
use crate::model::{Millis, SessionId};

/// Something worth noting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogEntry {
    /// What it is.
    pub event_type: &'static str,
    /// The session that it concerns.
    pub session: Option<SessionId>,
    /// What else is known.
    pub data: Value,
    /// How long it took.
    pub duration_ms: Option<f64>,
    /// Tokens that went in.
    pub tokens_in: Option<i64>,
    /// Tokens that came out.
    pub tokens_out: Option<i64>,
    /// What it cost.
    pub cost_usd: Option<f64>,
}

/// Writes an entry.
pub fn log(database: &Connection, entry: &LogEntry, now: Millis) -> Result<(), StoreError> {
    let sql = "INSERT INTO event_log (event_type, session_id, data, duration_ms, tokens_in, tokens_out, cost_usd, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let data = (!entry.data.is_null()).then(|| entry.data.to_string());
    database.prepare_cached(sql)?.execute(params![
        entry.event_type,
        entry.session.as_ref().map(SessionId::as_str),
        data,
        entry.duration_ms,
        entry.tokens_in,
        entry.tokens_out,
        entry.cost_usd,
        now,
    ])?;
    Ok(())
}

/// Leaves a message for the user, who sees it when the next session starts. The same one only once a day.
pub fn notice(database: &Connection, message: &str, now: Millis) -> Result<(), StoreError> {
    const DAY: Millis = 24 * 60 * 60_000;
    let sql = "INSERT INTO event_log (event_type, data, created_at)
               SELECT 'notice', json_object('message', ?1), ?2
               WHERE NOT EXISTS (SELECT 1 FROM event_log WHERE event_type IN ('notice', 'notice_told')
                                 AND created_at > ?2 - ?3 AND data ->> 'message' = ?1)";
    if database.prepare_cached(sql)?.execute(params![message, now, DAY])? > 0 {
        tracing::warn!("{message}");
    }
    Ok(())
}

/// What was spent since then.
pub fn spent_since(database: &Connection, since: Millis) -> Result<f64, StoreError> {
    let sql = "SELECT coalesce(sum(cost_usd), 0.0) FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1";
    Ok(database.prepare_cached(sql)?.query_row([since], |row| row.get(0))?)
}
