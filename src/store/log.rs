//! The event log: a record of the service's actions, shown to the user and summed up for the daily
//! cost ceiling.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::StoreError;
#[cfg(feature = "service")]
use crate::clock;
use crate::model::{Millis, SessionId};

/// An entry of the event log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogEntry {
    /// The kind of event.
    pub event_type: &'static str,
    /// The session that it concerns.
    pub session: Option<SessionId>,
    /// Further details.
    pub data: Value,
    /// Duration in milliseconds.
    pub duration_ms: Option<f64>,
    /// Input tokens.
    pub tokens_in: Option<i64>,
    /// Output tokens.
    pub tokens_out: Option<i64>,
    /// Cost in US dollars.
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

/// Leaves a message for the user, shown when the next session starts. The same message at most once
/// a day.
#[cfg(feature = "service")]
pub fn notice(database: &Connection, message: &str, now: Millis) -> Result<(), StoreError> {
    let sql = "INSERT INTO event_log (event_type, data, created_at)
               SELECT 'notice', json_object('message', ?1), ?2
               WHERE NOT EXISTS (SELECT 1 FROM event_log WHERE event_type IN ('notice', 'notice_told')
                                 AND created_at > ?2 - ?3 AND data ->> 'message' = ?1)";
    if database.prepare_cached(sql)?.execute(params![message, now, clock::DAY])? > 0 {
        tracing::warn!("{message}");
    }
    Ok(())
}

/// Returns the time of the last entry of a kind.
#[cfg(feature = "service")]
pub fn last_entry(database: &Connection, event_type: &str) -> Result<Option<Millis>, StoreError> {
    let sql = "SELECT max(created_at) FROM event_log WHERE event_type = ?1";
    Ok(database.prepare_cached(sql)?.query_row([event_type], |row| row.get(0))?)
}

/// Returns the cost since a given time.
#[cfg(feature = "service")]
pub fn spent_since(database: &Connection, since: Millis) -> Result<f64, StoreError> {
    let sql = "SELECT coalesce(sum(cost_usd), 0.0) FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1";
    Ok(database.prepare_cached(sql)?.query_row([since], |row| row.get(0))?)
}

/// Books a call before it is made, if the day's spending allows it: `may_spend` gets the cost so
/// far. This is one write transaction, so two calls cannot both take the last of the budget.
/// Returns the id of the booking.
#[cfg(feature = "service")]
pub fn book(
    database: &mut Connection,
    entry: &LogEntry,
    since: Millis,
    now: Millis,
    may_spend: impl FnOnce(f64) -> bool,
) -> Result<Option<i64>, StoreError> {
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if !may_spend(spent_since(&transaction, since)?) {
        return Ok(None);
    }
    log(&transaction, entry, now)?;
    let booking = transaction.last_insert_rowid();
    transaction.commit()?;
    Ok(Some(booking))
}

/// Replaces a booking with the call's actual cost; deletes it if the call was not made.
#[cfg(feature = "service")]
pub fn correct(database: &Connection, booking: i64, entry: Option<&LogEntry>) -> Result<(), StoreError> {
    let Some(entry) = entry else {
        database.prepare_cached("DELETE FROM event_log WHERE id = ?1")?.execute([booking])?;
        return Ok(());
    };
    let sql = "UPDATE event_log SET data = ?2, duration_ms = ?3, tokens_in = ?4, tokens_out = ?5, cost_usd = ?6 WHERE id = ?1";
    let data = (!entry.data.is_null()).then(|| entry.data.to_string());
    let LogEntry { duration_ms, tokens_in, tokens_out, cost_usd, .. } = entry;
    database.prepare_cached(sql)?.execute(params![
        booking,
        data,
        duration_ms,
        tokens_in,
        tokens_out,
        cost_usd
    ])?;
    Ok(())
}

/// Deletes undelivered messages that begin with this text, because they are no longer true.
#[cfg(feature = "service")]
pub fn withdraw_notices(database: &Connection, beginning: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM event_log WHERE event_type = 'notice' AND substr(data ->> 'message', 1, length(?1)) = ?1";
    database.prepare_cached(sql)?.execute([beginning])?;
    Ok(())
}
