//! Costs and savings, by day and by model.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;

use crate::model::Millis;
use crate::store::StoreError;

/// Sums over a set of calls and their observations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Model requests.
    pub calls: i64,
    /// Input tokens.
    pub tokens_in: i64,
    /// Output tokens.
    pub tokens_out: i64,
    /// Cost in US dollars.
    pub cost_usd: f64,
    /// Observations.
    pub observations: i64,
    /// Size of the source events in bytes.
    pub raw_bytes: i64,
    /// Size of the observations in bytes.
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

    /// Returns the compression ratio: source bytes per byte kept.
    pub fn ratio(&self) -> Option<f64> {
        (self.kept_bytes > 0 && self.raw_bytes > 0).then(|| self.raw_bytes as f64 / self.kept_bytes as f64)
    }
}

/// The figures that `stats` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// By day, as `day` formats it, oldest first.
    pub days: BTreeMap<String, Sums>,
    /// By model; `local` stands for the rules.
    pub models: BTreeMap<String, Sums>,
    /// The total.
    pub total: Sums,
    /// Contexts that were injected into sessions.
    pub contexts: i64,
    /// Tokens of those contexts.
    pub context_tokens: i64,
}

/// Adds up the figures since a given time. `day` formats the day of a timestamp.
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
