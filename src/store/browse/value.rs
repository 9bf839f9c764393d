//! Costs and results by day, model and project.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension};

use super::effects::effects;
use super::injections::files_since;
use super::listed;
use crate::api::{Value, ValueRow};
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::StoreError;
use crate::store::context::SHOWN_EVENTS;

/// Adds up the figures since a time. `date` formats the day of a timestamp.
pub fn value(
    database: &Connection,
    since: Millis,
    date: impl Fn(Millis) -> String,
) -> Result<Value, StoreError> {
    let mut tally = ValueTally::default();
    let dates = Dates { date, known: HashMap::new() };
    let mut dates = dates;
    calls(database, since, &mut |at, model, project, row| tally.add(dates.of(at), model, project, &row))?;
    notes(database, since, &mut |at, model, project, row| tally.add(dates.of(at), model, project, &row))?;
    contexts(database, since, &mut |at, model, project, row| tally.add(dates.of(at), model, project, &row))?;
    Ok(tally.finish())
}

/// The figures since a time, and the use of memories.
pub fn report(
    database: &Connection,
    days: u32,
    since: Millis,
    date: impl Fn(Millis) -> String,
    holdout_percent: u64,
) -> Result<Value, StoreError> {
    let effects = effects(database, since, holdout_percent)?;
    Ok(Value { days, effects, ..value(database, since, date)? })
}

/// Formats dates once for each hour.
struct Dates<F> {
    date: F,
    known: HashMap<Millis, String>,
}

impl<F: Fn(Millis) -> String> Dates<F> {
    fn of(&mut self, at: Millis) -> String {
        let hour = at / 3_600_000;
        self.known.entry(hour).or_insert_with(|| (self.date)(hour * 3_600_000)).clone()
    }
}

/// Receives a row with its time, its model if it has one, and its project.
type Receive<'a> = &'a mut dyn FnMut(Millis, Option<String>, Option<String>, ValueRow);

/// Groups in SQL by the hour, the finest that a date needs: there may be many calls.
fn calls(database: &Connection, since: Millis, receive: Receive<'_>) -> Result<(), StoreError> {
    let sql = "SELECT e.created_at / 3600000 * 3600000, coalesce(e.data ->> 'model', e.data ->> 'provider', 'unknown'),
                 (SELECT s.project FROM sessions s WHERE s.id = e.session_id), count(*), coalesce(sum(e.tokens_in), 0),
                 coalesce(sum(e.tokens_out), 0), coalesce(sum(e.cost_usd), 0.0)
               FROM event_log e WHERE e.event_type = 'llm_call' AND e.created_at >= ?1 GROUP BY 1, 2, e.session_id";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let value = ValueRow {
            calls: row.get(3)?,
            tokens_in: row.get(4)?,
            tokens_out: row.get(5)?,
            cost_usd: row.get(6)?,
            ..ValueRow::default()
        };
        receive(row.get(0)?, row.get(1)?, row.get(2)?, value);
    }
    Ok(())
}

/// The same for notes. The index `observations_by_time` has these expressions, so that no row is read.
fn notes(database: &Connection, since: Millis, receive: Receive<'_>) -> Result<(), StoreError> {
    let sql =
        "SELECT created_at / 3600000 * 3600000, coalesce(model, provider, 'unknown'), project, count(*),
                 coalesce(sum(raw_bytes), 0),
                 sum(coalesce(octet_length(title), 0) + coalesce(octet_length(summary), 0)
                   + coalesce(octet_length(detail), 0) + coalesce(octet_length(facts), 0))
               FROM observations WHERE created_at >= ?1 AND deleted_at IS NULL GROUP BY 1, 2, 3";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let value = ValueRow {
            notes: row.get(3)?,
            raw_bytes: row.get(4)?,
            kept_bytes: row.get(5)?,
            ..ValueRow::default()
        };
        receive(row.get(0)?, row.get(1)?, row.get(2)?, value);
    }
    Ok(())
}

fn contexts(database: &Connection, since: Millis, receive: Receive<'_>) -> Result<(), StoreError> {
    let sql =
        "SELECT e.created_at, e.session_id, s.project, coalesce(e.data ->> 'tokens', 0), e.data ->> 'shown'
               FROM event_log e LEFT JOIN sessions s ON s.id = e.session_id
               WHERE e.event_type = ?2 AND e.created_at >= ?1 AND coalesce(e.data ->> 'tokens', 0) > 0";
    let mut statement = database.prepare_cached(sql)?;
    let mut files = HashMap::new();
    for event in SHOWN_EVENTS {
        let mut rows = statement.query(rusqlite::params![since, event])?;
        while let Some(row) = rows.next()? {
            let (at, session): (Millis, Option<String>) = (row.get(0)?, row.get(1)?);
            let shown: Option<String> = row.get(4)?;
            let shown: Vec<i64> = shown.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
            let used = match &session {
                Some(session) => used(database, session, at, &shown, &mut files)?,
                None => 0,
            };
            let value = ValueRow {
                contexts: 1,
                context_tokens: row.get(3)?,
                shown: i64::try_from(shown.len()).unwrap_or_default(),
                used,
                ..ValueRow::default()
            };
            receive(at, None, row.get(2)?, value);
        }
    }
    Ok(())
}

/// Counts the notes about a file that the session then changed or read.
fn used(
    database: &Connection,
    session: &str,
    since: Millis,
    shown: &[i64],
    files: &mut HashMap<i64, Vec<String>>,
) -> Result<i64, StoreError> {
    if shown.is_empty() {
        return Ok(0);
    }
    let (changed, read) = files_since(database, session, since)?;
    let mut used = 0;
    for note in shown {
        if !files.contains_key(note) {
            let sql = "SELECT files_modified, files_read FROM observations WHERE id = ?1";
            let of_note =
                database.prepare_cached(sql)?.query_row([note], |row| Ok((listed(row, 0)?, listed(row, 1)?)));
            let (mut all, more) = of_note.optional()?.unwrap_or_default();
            all.extend(more);
            files.insert(*note, all);
        }
        let is_touched = |file: &String| changed.iter().chain(&read).any(|other| is_same_file(file, other));
        used += i64::from(files.get(note).is_some_and(|files| files.iter().any(is_touched)));
    }
    Ok(used)
}

#[derive(Default)]
struct ValueTally {
    days: BTreeMap<String, ValueRow>,
    models: BTreeMap<String, ValueRow>,
    projects: BTreeMap<String, ValueRow>,
    total: ValueRow,
}

impl ValueTally {
    fn add(&mut self, day: String, model: Option<String>, project: Option<String>, row: &ValueRow) {
        self.days.entry(day).or_default().add(row);
        if let Some(model) = model {
            self.models.entry(model).or_default().add(row);
        }
        if let Some(project) = project {
            self.projects.entry(project).or_default().add(row);
        }
        self.total.add(row);
    }

    fn finish(self) -> Value {
        let named = |rows: BTreeMap<String, ValueRow>| -> Vec<ValueRow> {
            rows.into_iter().map(|(name, row)| ValueRow { name, ..row }).collect()
        };
        let by_size = |mut rows: Vec<ValueRow>| {
            rows.sort_by_key(|row| std::cmp::Reverse((row.notes, row.calls)));
            rows
        };
        Value {
            days: 0,
            by_day: named(self.days),
            by_model: by_size(named(self.models)),
            by_project: by_size(named(self.projects)),
            total: self.total,
            ..Value::default()
        }
    }
}
