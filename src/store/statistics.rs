//! What the memory cost and what it saved, by day and by model.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;

use super::StoreError;
use crate::model::Millis;

/// Sums over some calls and what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Requests to a model.
    pub calls: i64,
    /// Tokens that went in.
    pub tokens_in: i64,
    /// Tokens that came out.
    pub tokens_out: i64,
    /// What that cost.
    pub cost_usd: f64,
    /// Observations that were made.
    pub observations: i64,
    /// Bytes of the events that they were made of.
    pub raw_bytes: i64,
    /// Bytes of the observations themselves.
    pub kept_bytes: i64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.tokens_in += other.tokens_in;
        self.tokens_out += other.tokens_out;
        self.cost_usd += other.cost_usd;
        self.observations += other.observations;
        self.raw_bytes += other.raw_bytes;
        self.kept_bytes += other.kept_bytes;
    }

    /// How many bytes became one.
    pub fn ratio(&self) -> Option<f64> {
        (self.kept_bytes > 0 && self.raw_bytes > 0).then(|| self.raw_bytes as f64 / self.kept_bytes as f64)
    }
}

/// Everything that `stats` tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// By day, as `day` names it, oldest first.
    pub days: BTreeMap<String, Sums>,
    /// By model; `local` is the rules.
    pub models: BTreeMap<String, Sums>,
    /// All of it.
    pub total: Sums,
    /// Contexts that sessions were given.
    pub contexts: i64,
    /// Tokens of these.
    pub context_tokens: i64,
}

/// Adds up what happened since then. `day` names the day of a moment.
pub fn read(
    database: &Connection,
    since: Millis,
    day: impl Fn(Millis) -> String,
) -> Result<Statistics, StoreError> {
    let mut statistics = Statistics::default();
    let mut add = |at: Millis, model: String, sums: Sums| {
        statistics.days.entry(day(at)).or_default().add(&sums);
        statistics.models.entry(model).or_default().add(&sums);
        statistics.total.add(&sums);
    };
    let sql = "SELECT created_at, coalesce(data ->> 'model', data ->> 'provider', 'unknown'), coalesce(tokens_in, 0),
                 coalesce(tokens_out, 0), coalesce(cost_usd, 0.0)
               FROM event_log WHERE event_type = 'llm_call' AND created_at >= ?1";
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let sums = Sums {
            calls: 1,
            tokens_in: row.get(2)?,
            tokens_out: row.get(3)?,
            cost_usd: row.get(4)?,
            ..Sums::default()
        };
        add(row.get(0)?, row.get(1)?, sums);
    }
    let sql = "SELECT created_at, coalesce(model, provider, 'unknown'), coalesce(raw_bytes, 0),
                 coalesce(octet_length(title), 0) + coalesce(octet_length(summary), 0) + coalesce(octet_length(detail), 0)
                 + coalesce(octet_length(facts), 0) + coalesce(octet_length(concepts), 0)
                 + coalesce(octet_length(files_read), 0) + coalesce(octet_length(files_modified), 0)
               FROM observations WHERE created_at >= ?1 AND deleted_at IS NULL";
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let sums =
            Sums { observations: 1, raw_bytes: row.get(2)?, kept_bytes: row.get(3)?, ..Sums::default() };
        add(row.get(0)?, row.get(1)?, sums);
    }
    let sql = "SELECT count(*), coalesce(sum(data ->> 'tokens'), 0) FROM event_log
               WHERE event_type = 'context' AND data ->> 'tokens' > 0 AND created_at >= ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    (statistics.contexts, statistics.context_tokens) = database.query_row(sql, [since], read)?;
    Ok(statistics)
}
