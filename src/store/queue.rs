//! The queue: what waits, what is being worked on, and how it ends.
//!
//! Order within a session is the order of arrival; a session has one piece of work at a time. Back-off lives in the
//! rows. Every step here is one transaction of the caller's writer.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::StoreError;
use super::log::{LogEntry, log};
use crate::model::{Millis, SessionId};

/// What decides whether a session's rows are ready to be worked on.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRules {
    /// The present.
    pub now: Millis,
    /// What the rows will be held by; never used before.
    pub claim: ClaimId,
    /// Whether a turn's events are taken together.
    pub batching: bool,
    /// The most events of one batch.
    pub max_size: usize,
    /// Silence after which a batch is closed, in milliseconds.
    pub max_wait: Millis,
}

/// The outcome of looking for work.
#[derive(Debug)]
pub enum Claim {
    /// This is now the caller's to settle.
    Work(Work),
    /// Nothing is ready; at this time something will be, if nothing else happens.
    Nothing {
        /// When to look again, if it is known.
        wake_at: Option<Millis>,
    },
}

/// Rows that were claimed together, in the order of arrival.
#[derive(Debug)]
pub struct Work {
    /// Whose they are.
    pub session: SessionId,
    /// A batch of events, or a single marker.
    pub rows: Vec<QueueRow>,
    /// What they are held by.
    pub claim: ClaimId,
}

/// Tells one claim from another, as `claimed_at`: only whoever made a claim can end it, however late the answer comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimId(pub Millis);

/// A row of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// Its id.
    pub id: i64,
    /// What it asks for.
    pub kind: Kind,
    /// The tool that was used.
    pub tool_name: Option<String>,
    /// Its payload, if it is still there.
    pub payload: Option<String>,
    /// How large the hook's input was.
    pub raw_bytes: i64,
    /// The prompt that it belongs to.
    pub prompt_number: Option<i64>,
    /// Where it happened.
    pub cwd: Option<String>,
    /// The kind of subagent that did it.
    pub agent_type: Option<String>,
    /// Whether the tool failed.
    pub failed: bool,
    /// How often it was tried.
    pub attempts: i64,
    /// When it arrived.
    pub created_at: Millis,
}

/// What a row of the queue asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An event to be observed.
    Observation,
    /// A summary of the turn.
    Summarize,
    /// The turn before this is over, with or without a word.
    Flush,
}

const COLUMNS: &str =
    "id, kind, tool_name, payload, raw_bytes, prompt_number, cwd, agent_type, failed, attempts, created_at";

impl QueueRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = match row.get_ref(1)?.as_str()? {
            "summarize" => Kind::Summarize,
            "flush" => Kind::Flush,
            _ => Kind::Observation,
        };
        Ok(Self {
            id: row.get(0)?,
            kind,
            tool_name: text(row, 2)?,
            payload: text(row, 3)?,
            raw_bytes: row.get(4)?,
            prompt_number: row.get(5)?,
            cwd: text(row, 6)?,
            agent_type: text(row, 7)?,
            failed: row.get(8)?,
            attempts: row.get(9)?,
            created_at: row.get(10)?,
        })
    }
}

/// Text as it is, or repaired: one row with broken text must not stop those behind it.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// A row as far as readiness is concerned.
struct Head {
    id: i64,
    is_event: bool,
    is_claimed: bool,
    attempts: i64,
    next_attempt_at: Option<Millis>,
    created_at: Millis,
}

/// Claims the next work that is ready, of a session after `after` in a ring, so that each has its turn. Sessions in
/// `busy` have work under way. Looking takes no lock that a hook would have to wait for; there is only one who claims.
pub fn claim(
    database: &Connection,
    rules: &ClaimRules,
    after: Option<&SessionId>,
    busy: &HashSet<SessionId>,
) -> Result<Claim, StoreError> {
    let mut wake_at: Option<Millis> = None;
    for session in sessions_with_work(database, after)? {
        if busy.contains(&session) {
            continue;
        }
        match readiness(&heads(database, &session, rules)?, rules) {
            Readiness::Ready(ids) => {
                let rows = take(database, &ids, rules.claim)?;
                // Unless somebody stopped the session at this very moment.
                if !rows.is_empty() {
                    return Ok(Claim::Work(Work { session, rows, claim: rules.claim }));
                }
            }
            Readiness::At(time) => wake_at = Some(wake_at.map_or(time, |earlier| earlier.min(time))),
            Readiness::Blocked => {}
        }
    }
    Ok(Claim::Nothing { wake_at })
}

/// The sessions with open rows, starting behind `after`. One step of the index for each, however many rows it has.
fn sessions_with_work(
    database: &Connection,
    after: Option<&SessionId>,
) -> Result<Vec<SessionId>, StoreError> {
    let sql = "SELECT session_id FROM pending_queue
               WHERE status IN ('raw', 'processing') AND session_id > ?1 ORDER BY session_id LIMIT 1";
    let mut next = database.prepare_cached(sql)?;
    let mut sessions = Vec::new();
    let mut last = String::new();
    while let Some(session) = next.query_row([&last], |row| row.get::<_, String>(0)).optional()? {
        last.clone_from(&session);
        sessions.push(SessionId(session));
    }
    let behind = sessions.partition_point(|session| after.is_some_and(|after| session <= after));
    sessions.rotate_left(behind);
    Ok(sessions)
}

fn heads(database: &Connection, session: &SessionId, rules: &ClaimRules) -> Result<Vec<Head>, StoreError> {
    let sql = "SELECT id, kind = 'observation', status = 'processing', attempts, next_attempt_at, created_at
               FROM pending_queue WHERE status IN ('raw', 'processing') AND session_id = ?1 ORDER BY id LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(rules.max_size).unwrap_or(i64::MAX - 1) + 1;
    let rows = statement.query_map(params![session.as_str(), limit], |row| {
        Ok(Head {
            id: row.get(0)?,
            is_event: row.get(1)?,
            is_claimed: row.get(2)?,
            attempts: row.get(3)?,
            next_attempt_at: row.get(4)?,
            created_at: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

enum Readiness {
    Ready(Vec<i64>),
    At(Millis),
    /// Somebody works on this session.
    Blocked,
}

/// No back-off is longer. A later time in a row means that the clock was set back.
const LONGEST_WAIT: Millis = 10 * 60_000;

fn readiness(heads: &[Head], rules: &ClaimRules) -> Readiness {
    let Some(first) = heads.first() else { return Readiness::Blocked };
    if heads.iter().any(|head| head.is_claimed) {
        return Readiness::Blocked;
    }
    if let Some(next) = first.next_attempt_at
        && next > rules.now
        && next <= rules.now + LONGEST_WAIT
    {
        return Readiness::At(next);
    }
    // What failed before is tried alone, so that one bad event does not take others with it.
    if !first.is_event || !rules.batching || first.attempts > 0 {
        return Readiness::Ready(vec![first.id]);
    }
    let events: Vec<&Head> =
        heads.iter().take_while(|head| head.is_event && head.attempts == 0).take(rules.max_size).collect();
    let ids = || events.iter().map(|head| head.id).collect();
    let is_closed = events.len() < heads.len() || events.len() >= rules.max_size;
    let last = events.iter().map(|head| head.created_at).max().unwrap_or(rules.now);
    let silence_ends = last.saturating_add(rules.max_wait);
    // A row from the future: the clock was set back, and its silence would last for as long.
    let is_silent = silence_ends <= rules.now || last > rules.now + LONGEST_WAIT;
    if is_closed || is_silent { Readiness::Ready(ids()) } else { Readiness::At(silence_ends) }
}

fn take(database: &Connection, ids: &[i64], claim: ClaimId) -> Result<Vec<QueueRow>, StoreError> {
    let sql = format!(
        "UPDATE pending_queue SET status = 'processing', claimed_at = ?1
         WHERE id IN (SELECT value FROM json_each(?2)) AND status = 'raw' RETURNING {COLUMNS}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![claim.0, json_ids(ids)], QueueRow::read)?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}

pub(super) fn json_ids(ids: &[i64]) -> String {
    serde_json::to_string(ids).unwrap_or_default()
}

/// What stands in `last_error` of a row that a model may do better on another day.
pub const BEYOND_CEILING: &str = "the daily ceiling was reached: done without a model";

/// How a row ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its results are stored.
    Done,
    /// The same, but by rules, because a model would have cost too much that day.
    DoneBeyondCeiling,
    /// It was not worth a model's time; why.
    Skipped(String),
}

/// Ends claimed rows. False if somebody took one of them back in between: then nothing of their results may be stored.
pub(super) fn finish(
    database: &Connection,
    endings: &[(i64, Ending)],
    claim: ClaimId,
    now: Millis,
) -> Result<bool, StoreError> {
    let sql =
        "UPDATE pending_queue SET status = ?2, last_error = ?3, claimed_at = NULL, next_attempt_at = NULL,
                      finished_at = ?4
               WHERE id = ?1 AND claimed_at = ?5";
    let mut statement = database.prepare_cached(sql)?;
    for (id, ending) in endings {
        let (status, reason) = match ending {
            Ending::Done => ("done", None),
            Ending::DoneBeyondCeiling => ("done", Some(BEYOND_CEILING)),
            Ending::Skipped(reason) => ("skipped", Some(reason.as_str())),
        };
        if statement.execute(params![id, status, reason, now, claim.0])? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Notes a failure of the items themselves, and what it cost: another attempt later, or the end of it.
pub fn fail(
    database: &mut Connection,
    claim: ClaimId,
    error: &str,
    max_attempts: u64,
    entries: &[LogEntry],
    now: Millis,
) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "UPDATE pending_queue SET
                 attempts = attempts + 1, last_error = ?2, claimed_at = NULL,
                 status = iif(attempts + 1 >= ?3, 'error', 'raw'),
                 finished_at = iif(attempts + 1 >= ?3, ?4, NULL),
                 next_attempt_at = iif(attempts + 1 >= ?3, NULL, ?4 + (5000 << min(attempts, 6)))
               WHERE claimed_at = ?1";
    let max_attempts = i64::try_from(max_attempts).unwrap_or(i64::MAX);
    transaction.prepare_cached(sql)?.execute(params![claim.0, error, max_attempts, now])?;
    for entry in entries {
        log(&transaction, entry, now)?;
    }
    Ok(transaction.commit()?)
}

/// Gives back what is left of a claim, at no attempt.
pub fn release(database: &Connection, claim: ClaimId) -> Result<(), StoreError> {
    let sql = "UPDATE pending_queue SET status = 'raw', claimed_at = NULL WHERE claimed_at = ?1";
    database.prepare_cached(sql)?.execute([claim.0])?;
    Ok(())
}

/// Gives back whatever a worker that is no more had claimed. Only the holder of the lock may say so.
pub fn release_orphans(database: &Connection) -> Result<usize, StoreError> {
    // A look first: writing would wait for whoever writes now.
    let sql = "SELECT EXISTS (SELECT 1 FROM pending_queue WHERE claimed_at IS NOT NULL)";
    if !database.query_row(sql, [], |row| row.get(0))? {
        return Ok(0);
    }
    let sql = "UPDATE pending_queue SET status = 'raw', claimed_at = NULL WHERE claimed_at IS NOT NULL";
    Ok(database.execute(sql, [])?)
}

/// How many rows are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the states' own names")]
pub struct QueueStats {
    pub raw: i64,
    pub processing: i64,
    pub done: i64,
    pub skipped: i64,
    pub error: i64,
}

/// What is open now: cheap however many rows are finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// Rows that wait.
    pub raw: i64,
    /// Rows that are worked on.
    pub processing: i64,
    /// When the oldest of those that wait arrived.
    pub oldest_raw_at: Option<Millis>,
}

/// Counts what is open, from indexes alone.
pub fn open_work(database: &Connection) -> Result<OpenWork, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing')),
                      (SELECT count(*) FROM pending_queue WHERE claimed_at IS NOT NULL)";
    let (open, processing): (i64, i64) =
        database.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // A session's rows are worked on in their order, so that its first that waits is its oldest.
    let sql = "SELECT created_at FROM pending_queue WHERE status IN ('raw', 'processing') AND session_id = ?1
               AND status = 'raw' ORDER BY id LIMIT 1";
    let mut oldest_of = database.prepare_cached(sql)?;
    let mut oldest_raw_at: Option<Millis> = None;
    for session in sessions_with_work(database, None)? {
        let at: Option<Millis> = oldest_of.query_row([session.as_str()], |row| row.get(0)).optional()?;
        oldest_raw_at = [oldest_raw_at, at].into_iter().flatten().min();
    }
    Ok(OpenWork { raw: open - processing, processing, oldest_raw_at })
}

/// How many rows are finished, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the states' own names")]
pub struct Finished {
    pub done: i64,
    pub skipped: i64,
    pub error: i64,
}

/// Counts what finished after one moment and not after another. Walks an index of all of it.
pub fn finished(database: &Connection, after: Millis, until: Millis) -> Result<Finished, StoreError> {
    let sql = "SELECT count(*) FROM pending_queue
               WHERE status = ?1 AND finished_at > ?2 AND finished_at <= ?3";
    let mut statement = database.prepare_cached(sql)?;
    let mut count = |status| statement.query_row(params![status, after, until], |row| row.get(0));
    Ok(Finished { done: count("done")?, skipped: count("skipped")?, error: count("error")? })
}

/// Stops a session's work: what waits is skipped, what is under way will not be stored. Returns how many rows.
pub fn stop_session(
    database: &mut Connection,
    session: &SessionId,
    now: Millis,
) -> Result<usize, StoreError> {
    let sql = "UPDATE pending_queue SET status = 'skipped', last_error = 'stopped', claimed_at = NULL,
                      next_attempt_at = NULL, finished_at = ?2
               WHERE session_id = ?1 AND status IN ('raw', 'processing')";
    Ok(database.prepare_cached(sql)?.execute(params![session.as_str(), now])?)
}

/// A session's rows of the turn that a marker closes: the finished events after the marker before it, oldest first.
pub fn turn_events(
    database: &Connection,
    session: &SessionId,
    before: i64,
    limit: u32,
) -> Result<Vec<QueueRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM (
           SELECT {COLUMNS} FROM pending_queue
           WHERE session_id = ?1 AND finished_at IS NOT NULL AND kind = 'observation' AND status IN ('done', 'skipped')
             AND id < ?2
             AND id > coalesce((SELECT max(id) FROM pending_queue
                                WHERE session_id = ?1 AND finished_at IS NOT NULL AND kind <> 'observation'
                                  AND id < ?2), 0)
           ORDER BY id DESC LIMIT ?3)
         ORDER BY id"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![session.as_str(), before, limit], QueueRow::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The payload of the marker that closes the turn of these events, if it has arrived: it may hold the turn's last words.
pub fn closing_payload(
    database: &Connection,
    session: &SessionId,
    after: i64,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT kind, payload FROM pending_queue
               WHERE session_id = ?1 AND id > ?2 AND status IN ('raw', 'processing') AND kind <> 'observation'
               ORDER BY id LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?));
    let marker =
        database.prepare_cached(sql)?.query_row(params![session.as_str(), after], read).optional()?;
    Ok(marker.filter(|(kind, _)| kind == "summarize").and_then(|(_, payload)| payload))
}
