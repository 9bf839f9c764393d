//! The queue: claims rows, and ends, retries or releases them.
//!
//! Rows of a session are processed in order of arrival, one job at a time. Back-off is stored in
//! the rows. Each operation is one transaction of the caller's writer.

#[cfg(feature = "service")]
pub mod admin;

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::StoreError;
use super::log::{LogEntry, log};
use crate::model::{Millis, SessionId};

/// The rules for claiming a session's rows.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRules {
    /// The current time.
    pub now: Millis,
    /// The id of the new claim; never used before.
    pub claim: ClaimId,
    /// True if the events of a turn are claimed together.
    pub batching: bool,
    /// Maximum events in one part of a turn.
    pub max_size: usize,
    /// Silence after which an unfinished turn is processed, in milliseconds.
    pub max_wait: Millis,
    /// A session that was read from its history is being worked on. While somebody works live, one at a time is enough.
    pub past_under_way: bool,
}

/// The result of looking for work.
#[derive(Debug)]
pub enum Claim {
    /// Claimed rows, which the caller now has to settle.
    Work(Work),
    /// Nothing is ready now; something will be at `wake_at`, if no event arrives earlier.
    Nothing {
        /// The next time to look, if known.
        wake_at: Option<Millis>,
    },
}

/// Rows that were claimed together, in order of arrival.
#[derive(Debug)]
pub struct Work {
    /// The session of the rows.
    pub session: SessionId,
    /// A turn's events and its marker, a part of them, or a single row.
    pub rows: Vec<QueueRow>,
    /// The claim on the rows.
    pub claim: ClaimId,
    /// The session was read from its history.
    pub is_past: bool,
}

/// The identity of a claim, stored in `claimed_at`: only its owner can end it, however late the
/// result arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimId(pub Millis);

/// A row of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// Its id.
    pub id: i64,
    /// The kind of work that it asks for.
    pub kind: QueueKind,
    /// The tool that was used.
    pub tool_name: Option<String>,
    /// The payload, if it has not been dropped.
    pub payload: Option<String>,
    /// Size of the hook's input in bytes.
    pub raw_bytes: i64,
    /// The number of its prompt.
    pub prompt_number: Option<i64>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The id of the subagent.
    pub agent_id: Option<String>,
    /// The type of the subagent.
    pub agent_type: Option<String>,
    /// True if the tool failed.
    pub failed: bool,
    /// Number of attempts so far.
    pub attempts: i64,
    /// Arrival time.
    pub created_at: Millis,
}

/// The kind of a queue row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// An event to observe.
    Observation,
    /// A request to summarise the turn.
    Summarize,
    /// The end of the previous turn, with or without a final message.
    Flush,
}

const COLUMNS: &str = "id, kind, tool_name, payload, raw_bytes, prompt_number, cwd, agent_type, failed, attempts, created_at, agent_id";

impl QueueRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = match row.get_ref(1)?.as_str()? {
            "summarize" => QueueKind::Summarize,
            "flush" => QueueKind::Flush,
            _ => QueueKind::Observation,
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
            agent_id: text(row, 11)?,
        })
    }
}

/// Reads text and replaces invalid UTF-8: one broken row must not stop the ones behind it.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// The part of a row that decides whether it is ready.
struct RowHead {
    id: i64,
    is_event: bool,
    is_claimed: bool,
    next_attempt_at: Option<Millis>,
    created_at: Millis,
}

/// Claims the next job that is ready. Sessions are visited in a ring, starting after `after`, so
/// that each gets its turn; sessions in `busy` already have a job. The search takes no lock that a
/// hook would wait for, because only one thread claims.
pub fn claim(
    database: &Connection,
    rules: &ClaimRules,
    after: Option<&SessionId>,
    busy: &HashSet<SessionId>,
) -> Result<Claim, StoreError> {
    let mut wake_at: Option<Millis> = None;
    let leaves_past = rules.past_under_way && is_used(database, rules.now)?;
    for WaitingSession { session, past, is_being_read } in
        in_order(sessions_with_work(database, rules.now)?, after)
    {
        if busy.contains(&session) || (leaves_past && past.is_some()) {
            continue;
        }
        match readiness(&heads(database, &session, rules)?, rules, is_being_read) {
            Readiness::Ready(ids) => {
                let rows = take(database, &ids, rules.claim)?;
                // Empty if the session was stopped in the meantime.
                if !rows.is_empty() {
                    return Ok(Claim::Work(Work {
                        session,
                        rows,
                        claim: rules.claim,
                        is_past: past.is_some(),
                    }));
                }
            }
            Readiness::At(time) => wake_at = Some(wake_at.map_or(time, |earlier| earlier.min(time))),
            Readiness::Blocked => {}
        }
    }
    Ok(Claim::Nothing { wake_at })
}

/// A session with open rows.
struct WaitingSession {
    session: SessionId,
    /// For a session that was read from its history: when it began.
    past: Option<Millis>,
    /// Its history is being read at this moment: what ends its turn will come.
    is_being_read: bool,
}

/// Somebody works while hooks of a live session were heard of within this time.
const USED_MS: Millis = 30_000;

/// True if somebody works with an agent now, whose hooks must not wait for work on the past.
pub fn is_used(database: &Connection, now: Millis) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE status = 'active' AND origin = 'live' AND last_activity_at > ?1)";
    Ok(database.prepare_cached(sql)?.query_row([now - USED_MS], |row| row.get(0))?)
}

/// A history that nobody has read on for this long is not being read any more.
const READING_MS: Millis = 5 * 60_000;

/// The sessions with open rows, by their ids. One step of the index for each, however many rows it has.
fn sessions_with_work(database: &Connection, now: Millis) -> Result<Vec<WaitingSession>, StoreError> {
    let sql = "SELECT q.session_id, iif(s.origin = 'backfill', s.started_at, NULL),
                      coalesce(s.origin = 'backfill', 0) AND EXISTS (
                        SELECT 1 FROM backfill_files f WHERE f.session_id = s.id AND f.is_done = 0 AND f.read_at > ?2)
               FROM pending_queue q LEFT JOIN sessions s ON s.id = q.session_id
               WHERE q.status IN ('raw', 'processing') AND q.session_id > ?1 ORDER BY q.session_id LIMIT 1";
    let mut next = database.prepare_cached(sql)?;
    let mut sessions: Vec<WaitingSession> = Vec::new();
    let read = |row: &Row<'_>| {
        Ok(WaitingSession { session: SessionId(row.get(0)?), past: row.get(1)?, is_being_read: row.get(2)? })
    };
    loop {
        let last = sessions.last().map_or("", |waiting| waiting.session.as_str());
        match next.query_row(params![last, now - READING_MS], read).optional()? {
            Some(waiting) => sessions.push(waiting),
            None => return Ok(sessions),
        }
    }
}

/// Live sessions first, in a ring that starts behind `after`; then those of the past, oldest first.
fn in_order(mut sessions: Vec<WaitingSession>, after: Option<&SessionId>) -> Vec<WaitingSession> {
    let behind = sessions.partition_point(|waiting| after.is_some_and(|after| waiting.session <= *after));
    sessions.rotate_left(behind);
    sessions.sort_by_key(|waiting| (waiting.past.is_some(), waiting.past));
    sessions
}

fn heads(database: &Connection, session: &SessionId, rules: &ClaimRules) -> Result<Vec<RowHead>, StoreError> {
    let sql = "SELECT id, kind = 'observation', status = 'processing', next_attempt_at, created_at
               FROM pending_queue WHERE status IN ('raw', 'processing') AND session_id = ?1 ORDER BY id LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let limit = i64::try_from(rules.max_size).unwrap_or(i64::MAX - 1) + 1;
    let rows = statement.query_map(params![session.as_str(), limit], |row| {
        Ok(RowHead {
            id: row.get(0)?,
            is_event: row.get(1)?,
            is_claimed: row.get(2)?,
            next_attempt_at: row.get(3)?,
            created_at: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

enum Readiness {
    Ready(Vec<i64>),
    At(Millis),
    /// A job of this session is running.
    Blocked,
}

/// Maximum back-off. A later time in a row means that the clock was set back.
const LONGEST_WAIT: Millis = 10 * 60_000;

fn readiness(heads: &[RowHead], rules: &ClaimRules, is_being_read: bool) -> Readiness {
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
    if !first.is_event || !rules.batching {
        return Readiness::Ready(vec![first.id]);
    }
    let events = heads.iter().take_while(|head| head.is_event).take(rules.max_size).count();
    // The marker that ends the turn is settled together with its events.
    let marker = usize::from(heads.get(events).is_some_and(|head| !head.is_event));
    let ids = || heads[..events + marker].iter().map(|head| head.id).collect();
    let is_closed = marker == 1 || events >= rules.max_size;
    if !is_closed && is_being_read {
        return Readiness::Blocked;
    }
    let last = heads[..events].iter().map(|head| head.created_at).max().unwrap_or(rules.now);
    let silence_ends = last.saturating_add(rules.max_wait);
    // A row from the future: the clock was set back, and waiting for silence would take just as
    // long.
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

/// Prefix of `last_error` of a row that rules settled although a model was configured; `queue redo`
/// finds such rows by it.
pub const WITHOUT_MODEL: &str = "settled without a model: ";

/// The reason if the daily cost ceiling prevented a model call.
pub const OVER_CEILING: &str = "today's cost ceiling is reached";

/// The final state of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its results are stored.
    Done,
    /// Its results are stored, made by rules because the model failed; holds the reason.
    DoneWithoutModel(String),
    /// The event was routine; holds the reason.
    Skipped(String),
    /// This row could not be processed; holds the reason. Its payload is kept.
    Error(String),
}

/// Ends claimed rows. Returns false if one of them was taken away in the meantime: then none of
/// their results may be stored.
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
            Ending::DoneWithoutModel(reason) => ("done", Some(format!("{WITHOUT_MODEL}{reason}"))),
            Ending::Skipped(reason) => ("skipped", Some(reason.clone())),
            Ending::Error(reason) => ("error", Some(reason.clone())),
        };
        if statement.execute(params![id, status, reason, now, claim.0])? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the back-off after this many failed attempts: 5 s, doubled by each further one, at most
/// 320 s. `queue.max_attempts` ends it.
pub fn retry_delay(attempts: i64) -> Millis {
    5_000 << (attempts - 1).clamp(0, 6)
}

/// Records a failure of the rows themselves, and its cost: schedules another attempt or ends them.
pub fn fail(
    database: &mut Connection,
    claim: ClaimId,
    error: &str,
    max_attempts: u64,
    entries: &[LogEntry],
    now: Millis,
) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let failed = {
        let mut failed =
            transaction.prepare_cached("SELECT id, attempts + 1 FROM pending_queue WHERE claimed_at = ?1")?;
        let rows = failed.query_map([claim.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<Vec<(i64, i64)>, _>>()?
    };
    let max_attempts = i64::try_from(max_attempts).unwrap_or(i64::MAX);
    for (id, attempts) in failed {
        let is_last = attempts >= max_attempts;
        let (status, finished_at, next_attempt_at) = if is_last {
            ("error", Some(now), None)
        } else {
            ("raw", None, Some(now + retry_delay(attempts)))
        };
        let sql = "UPDATE pending_queue SET attempts = ?2, last_error = ?3, claimed_at = NULL, status = ?4,
                          finished_at = ?5, next_attempt_at = ?6 WHERE id = ?1";
        let values = params![id, attempts, error, status, finished_at, next_attempt_at];
        transaction.prepare_cached(sql)?.execute(values)?;
    }
    for entry in entries {
        log(&transaction, entry, now)?;
    }
    Ok(transaction.commit()?)
}

/// Releases the rest of a claim without counting an attempt.
pub fn release(database: &Connection, claim: ClaimId) -> Result<(), StoreError> {
    let sql = "UPDATE pending_queue SET status = 'raw', claimed_at = NULL WHERE claimed_at = ?1";
    database.prepare_cached(sql)?.execute([claim.0])?;
    Ok(())
}

/// Releases the claims of dead workers. Only the holder of the worker lock may call this.
pub fn release_orphans(database: &Connection) -> Result<usize, StoreError> {
    // Read first: a write would wait for the current writer.
    let sql = "SELECT EXISTS (SELECT 1 FROM pending_queue WHERE claimed_at IS NOT NULL)";
    if !database.query_row(sql, [], |row| row.get(0))? {
        return Ok(0);
    }
    let sql = "UPDATE pending_queue SET status = 'raw', claimed_at = NULL WHERE claimed_at IS NOT NULL";
    Ok(database.execute(sql, [])?)
}

/// Counts of open rows; cheap however many rows are finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// Waiting rows.
    pub raw: i64,
    /// Rows being processed.
    pub processing: i64,
    /// Arrival time of the oldest waiting row.
    pub oldest_raw_at: Option<Millis>,
}

/// Counts open rows, from indexes alone.
pub fn open_work(database: &Connection) -> Result<OpenWork, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing')),
                      (SELECT count(*) FROM pending_queue WHERE claimed_at IS NOT NULL)";
    let (open, processing): (i64, i64) =
        database.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // The rows of a session are processed in order, so its first waiting row is its oldest.
    let sql = "SELECT created_at FROM pending_queue WHERE status IN ('raw', 'processing') AND session_id = ?1
               AND status = 'raw' ORDER BY id LIMIT 1";
    let mut oldest_of = database.prepare_cached(sql)?;
    let mut oldest_raw_at: Option<Millis> = None;
    for WaitingSession { session, .. } in sessions_with_work(database, 0)? {
        let at: Option<Millis> = oldest_of.query_row([session.as_str()], |row| row.get(0)).optional()?;
        oldest_raw_at = [oldest_raw_at, at].into_iter().flatten().min();
    }
    Ok(OpenWork { raw: open - processing, processing, oldest_raw_at })
}

/// Number of finished rows, by ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the states' own names")]
pub struct Finished {
    pub done: i64,
    pub skipped: i64,
    pub error: i64,
}

/// Counts rows that finished after `after` and no later than `until`. Scans an index of all of
/// them.
pub fn finished(database: &Connection, after: Millis, until: Millis) -> Result<Finished, StoreError> {
    let sql = "SELECT count(*) FROM pending_queue
               WHERE status = ?1 AND finished_at > ?2 AND finished_at <= ?3";
    let mut statement = database.prepare_cached(sql)?;
    let mut count = |status| statement.query_row(params![status, after, until], |row| row.get(0));
    Ok(Finished { done: count("done")?, skipped: count("skipped")?, error: count("error")? })
}

/// Stops a session: waiting rows are skipped, and results of running jobs are not stored. Returns
/// the number of rows.
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

/// True if the latest finished row of the turn is a marker that ended it.
pub fn is_ended(database: &Connection, session: &SessionId, prompt_number: i64) -> Result<bool, StoreError> {
    let sql = "SELECT kind <> 'observation' AND iif(json_valid(payload), payload ->> 'event', '') IS NOT 'PreCompact'
               FROM pending_queue
               WHERE session_id = ?1 AND finished_at IS NOT NULL AND prompt_number = ?2
                 AND status IN ('done', 'skipped')
               ORDER BY id DESC LIMIT 1";
    let is_end = |row: &Row<'_>| row.get::<_, bool>(0);
    let ended = database
        .prepare_cached(sql)?
        .query_row(params![session.as_str(), prompt_number], is_end)
        .optional()?;
    Ok(ended.unwrap_or_default())
}

/// Passes the finished rows of a range of turns to `take`, oldest first: events and end markers, at
/// most `limit`. Rows that the user stopped are left out.
pub fn for_each_finished(
    database: &Connection,
    session: &SessionId,
    prompts: std::ops::RangeInclusive<i64>,
    limit: u32,
    mut take: impl FnMut(QueueRow),
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM pending_queue
         WHERE id IN (SELECT id FROM pending_queue
                      WHERE session_id = ?1 AND finished_at IS NOT NULL AND prompt_number BETWEEN ?2 AND ?3
                        AND kind <> 'flush' AND status IN ('done', 'skipped') AND last_error IS NOT 'stopped'
                      ORDER BY id DESC LIMIT ?4)
         ORDER BY id"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let mut rows = statement.query(params![session.as_str(), prompts.start(), prompts.end(), limit])?;
    while let Some(row) = rows.next()? {
        take(QueueRow::read(row)?);
    }
    Ok(())
}
