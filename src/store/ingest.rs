//! Event capture: stores the session, the prompt and the queue row in one transaction, exactly
//! once.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, named_params, params};

use super::StoreError;
use super::projects::{self, NameClaim};
use crate::model::{Event, EventBody, EventKey, Millis, Payload, SessionStamp, ToolUse};

/// The result of recording an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The event is stored now.
    New,
    /// The event was stored before.
    Duplicate,
}

/// Stores the event, unless it is already there.
pub fn record(database: &mut Connection, event: &Event) -> Result<Recorded, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let recorded = record_in(&transaction, event)?;
    transaction.commit()?;
    Ok(recorded)
}

/// Like [`record`], for several events: stores all of them or none.
#[cfg(feature = "service")]
pub fn record_all(database: &mut Connection, events: &[Event]) -> Result<Vec<Recorded>, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let recorded = events.iter().map(|event| record_in(&transaction, event)).collect::<Result<_, _>>()?;
    transaction.commit()?;
    Ok(recorded)
}

pub(super) fn record_in(transaction: &Transaction<'_>, event: &Event) -> Result<Recorded, StoreError> {
    let session = event.session.as_ref();
    let Some(row) = NewQueueRow::new(event) else {
        session.map(|session| touch_session(transaction, session, event)).transpose()?;
        return note_start(transaction, event);
    };
    let Some(key) = unused_key(transaction, event)? else { return Ok(Recorded::Duplicate) };
    if let Some(session) = session
        && !note_activity(transaction, session, event)?
    {
        touch_session(transaction, session, event)?;
    }
    if !row.insert(transaction, &key)? {
        return Ok(Recorded::Duplicate);
    }
    if let (Some(session), EventBody::Prompt { text }) = (session, &event.body) {
        insert_prompt(transaction, session, text, event.at)?;
    }
    Ok(Recorded::New)
}

/// True if the event ends a session that is not in the database.
pub fn ends_nothing(database: &Connection, event: &Event) -> Result<bool, StoreError> {
    let (Some(session), EventBody::End { .. }) = (&event.session, &event.body) else { return Ok(false) };
    Ok(!database.prepare("SELECT 1 FROM sessions WHERE id = ?1")?.exists([session.id.as_str()])?)
}

/// True if the event only shows that its session is active. Most events do, and this path is
/// optimised for hooks.
fn is_activity(event: &Event) -> bool {
    matches!(event.body, EventBody::Tool(_) | EventBody::Summarize(_) | EventBody::Rejected { .. })
}

/// Records the start of a session, which has no queue row. The same start again within a moment
/// comes from a second set of hooks; the session must not get its context twice.
fn note_start(database: &Connection, event: &Event) -> Result<Recorded, StoreError> {
    let (Some(session), EventBody::Start { source }) = (&event.session, &event.body) else {
        return Ok(Recorded::New);
    };
    let sql = "SELECT 1 FROM event_log WHERE event_type = 'start' AND created_at BETWEEN ?3 - ?4 AND ?3 + ?4
               AND session_id = ?1 AND data ->> 'source' IS ?2";
    let near = params![session.id.as_str(), source, event.at, EventKey::NEAR_MS];
    if database.prepare(sql)?.exists(near)? {
        return Ok(Recorded::Duplicate);
    }
    let sql = "INSERT INTO event_log (event_type, session_id, data, created_at)
               VALUES ('start', ?1, json_object('source', ?2), ?3)";
    database.prepare(sql)?.execute(params![session.id.as_str(), source, event.at])?;
    Ok(Recorded::New)
}

/// Returns the event's key as it is stored, or `None` if an event with that key exists.
fn unused_key(database: &Connection, event: &Event) -> Result<Option<String>, StoreError> {
    let (key, known) = match &event.key {
        // The insert itself detects a duplicate; updating the session's activity before that is
        // harmless.
        EventKey::Exact(key) if is_activity(event) => (key.clone(), false),
        EventKey::Exact(key) => {
            let sql = "SELECT 1 FROM pending_queue WHERE event_key = ?1";
            (key.clone(), database.prepare(sql)?.exists(params![key])?)
        }
        EventKey::Near(content) => {
            // '@' and 'A' are adjacent, so this is a range scan of the index.
            let sql = "SELECT 1 FROM pending_queue WHERE event_key >= ?1 || '@' AND event_key < ?1 || 'A'
                       AND created_at BETWEEN ?2 - ?3 AND ?2 + ?3";
            let near = params![content, event.at, EventKey::NEAR_MS];
            (format!("{content}@{}", event.at), database.prepare(sql)?.exists(near)?)
        }
    };
    Ok((!known).then_some(key))
}

/// Updates a session's last activity; false if more has to be stored. Sets as few columns as
/// possible, because every index on a column that is set is written as well.
fn note_activity(database: &Connection, session: &SessionStamp, event: &Event) -> Result<bool, StoreError> {
    if !is_activity(event) {
        return Ok(false);
    }
    let sql =
        "UPDATE sessions SET last_activity_at = max(last_activity_at, ?2), cwd = iif(?3 <> '', ?3, cwd),
                                   branch = coalesce(?4, branch)
               WHERE id = ?1 AND status = 'active' AND project_path <> '' AND started_at <= ?2";
    let stamp = params![session.id.as_str(), event.at, session.cwd, session.branch];
    Ok(database.prepare(sql)?.execute(stamp)? > 0)
}

/// Creates the session, or updates it with everything the event contains.
fn touch_session(database: &Connection, session: &SessionStamp, event: &Event) -> Result<(), StoreError> {
    let source = match &event.body {
        EventBody::Start { source } => source.as_deref(),
        _ => None,
    };
    // Only a start or a prompt reactivates an ended session: a tool's hook may simply be late.
    let revives = matches!(event.body, EventBody::Start { .. } | EventBody::Prompt { .. });
    let is_prompt = matches!(event.body, EventBody::Prompt { .. });
    let ends = matches!(event.body, EventBody::End { .. });
    let project = match session.project_key.as_str() {
        "" => session.project.clone(),
        _ => projects::assign(database, &NameClaim::of_session(session))?,
    };
    let sql = "
        INSERT INTO sessions (id, project_key, project, project_path, cwd, branch, source, status, started_at, last_activity_at,
                              ended_at, prompt_count, agent)
        VALUES (:id, :project_key, :project, :project_path, :cwd, :branch, :source, iif(:ends, 'completed', 'active'), :at, :at,
                iif(:ends, :at, NULL), :is_prompt, :agent)
        ON CONFLICT (id) DO UPDATE SET
          cwd = iif(excluded.cwd <> '', excluded.cwd, cwd),
          branch = coalesce(excluded.branch, branch),
          source = coalesce(excluded.source, source),
          -- A session that comes back is live, wherever its beginning was read.
          origin = 'live',
          project_key = iif(project_key = '', excluded.project_key, project_key),
          project = iif(project = '', excluded.project, project),
          project_path = iif(project_path = '', excluded.project_path, project_path),
          status = CASE WHEN :ends THEN 'completed' WHEN :revives OR status = 'interrupted' THEN 'active' ELSE status END,
          ended_at = CASE WHEN :ends THEN :at WHEN :revives OR status = 'interrupted' THEN NULL ELSE ended_at END,
          started_at = min(started_at, :at),
          last_activity_at = max(last_activity_at, :at),
          prompt_count = prompt_count + :is_prompt";
    database.prepare(sql)?.execute(named_params! {
        ":id": session.id.as_str(), ":project_key": session.project_key, ":project": project, ":project_path": session.project_path,
        ":cwd": session.cwd, ":branch": session.branch, ":source": source, ":at": event.at,
        ":ends": ends, ":revives": revives, ":is_prompt": is_prompt, ":agent": session.agent.as_str(),
    })?;
    Ok(())
}

fn insert_prompt(
    database: &Connection,
    session: &SessionStamp,
    text: &str,
    at: Millis,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO user_prompts (session_id, prompt_number, prompt, is_raw, created_at)
               SELECT id, prompt_count, ?2, 1, ?3 FROM sessions WHERE id = ?1";
    database.prepare(sql)?.execute(params![session.id.as_str(), text, at])?;
    Ok(())
}

/// The queue row of an event.
struct NewQueueRow<'a> {
    event: &'a Event,
    kind: &'static str,
    tool: Option<&'a ToolUse>,
    payload: Option<&'a Payload>,
    /// Set for a row that is finished when it is inserted.
    error: Option<&'a str>,
}

impl<'a> NewQueueRow<'a> {
    fn new(event: &'a Event) -> Option<Self> {
        let row = |kind| Self { event, kind, tool: None, payload: None, error: None };
        match &event.body {
            EventBody::Start { .. } => None,
            EventBody::Prompt { .. } | EventBody::End { .. } => Some(row("flush")),
            EventBody::Tool(tool) => {
                Some(Self { tool: Some(tool), payload: Some(&tool.payload), ..row("observation") })
            }
            EventBody::Summarize(payload) => Some(Self { payload: Some(payload), ..row("summarize") }),
            EventBody::Rejected { reason, payload } => {
                Some(Self { payload: Some(payload), error: Some(reason), ..row("observation") })
            }
        }
    }

    /// Returns false if the event is already there. The marker of a new prompt flushes the rest of
    /// the previous turn and carries that turn's number.
    fn insert(&self, database: &Connection, key: &str) -> Result<bool, StoreError> {
        let sql = "
            INSERT INTO pending_queue (event_key, session_id, kind, tool_name, tool_use_id, payload, raw_bytes,
                                       prompt_number, cwd, agent_id, agent_type, failed, status, last_error, created_at,
                                       finished_at)
            VALUES (:key, :session, :kind, :tool_name, :tool_use_id, :payload, :raw_bytes,
                    (SELECT prompt_count FROM sessions WHERE id = :session) - :is_prompt, :cwd,
                    :agent_id, :agent_type, :failed, iif(:error IS NULL, 'raw', 'error'), :error, :at,
                    iif(:error IS NULL, NULL, :at))
            ON CONFLICT (event_key) DO NOTHING";
        let event = self.event;
        let session = event.session.as_ref();
        let inserted = database.prepare(sql)?.execute(named_params! {
            ":key": key,
            ":session": session.map(|session| session.id.as_str()),
            ":kind": self.kind,
            ":tool_name": self.tool.and_then(|tool| tool.tool_name.as_deref()),
            ":tool_use_id": self.tool.and_then(|tool| tool.tool_use_id.as_deref()),
            ":payload": self.payload.map(|payload| payload.json.as_str()),
            ":raw_bytes": self.payload.map_or(0, |payload| i64::try_from(payload.raw_bytes).unwrap_or(i64::MAX)),
            ":is_prompt": matches!(event.body, EventBody::Prompt { .. }),
            ":cwd": session.map(|session| session.cwd.as_str()),
            ":agent_id": self.tool.and_then(|tool| tool.agent_id.as_deref()),
            ":agent_type": self.tool.and_then(|tool| tool.agent_type.as_deref()),
            ":failed": self.tool.is_some_and(|tool| tool.failed),
            ":error": self.error,
            ":at": event.at,
        })?;
        Ok(inserted > 0)
    }
}

/// Logs that a hook ignored a setting, at most once an hour for each setting, because hooks are
/// frequent.
pub fn note_ignored_setting(database: &Connection, problem: &str, now: Millis) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM event_log WHERE event_type = 'setting_ignored' AND created_at > ?1
               AND data ->> 'problem' = ?2";
    let noted = database.prepare(sql)?.query_row(params![now - 3_600_000, problem], |_| Ok(())).optional()?;
    if noted.is_none() {
        let sql = "INSERT INTO event_log (event_type, data, created_at)
                   VALUES ('setting_ignored', json_object('problem', ?1), ?2)";
        database.prepare(sql)?.execute(params![problem, now])?;
    }
    Ok(())
}

/// Notes that the user is shown a message now. False if the same one was shown since then.
pub fn show_once(
    database: &Connection,
    message: &str,
    since: Millis,
    now: Millis,
) -> Result<bool, StoreError> {
    let sql = "INSERT INTO event_log (event_type, data, created_at)
               SELECT 'notice_told', json_object('message', ?1), ?3
               WHERE NOT EXISTS (SELECT 1 FROM event_log WHERE event_type = 'notice_told' AND created_at >= ?2
                                 AND data ->> 'message' = ?1)";
    Ok(database.prepare(sql)?.execute(params![message, since, now])? > 0)
}

/// Returns the time at which the oldest event arrived that still waits.
pub fn oldest_waiting(database: &Connection) -> Result<Option<Millis>, StoreError> {
    // From the index alone, however many wait.
    let sql = "SELECT created_at FROM pending_queue
               WHERE id = (SELECT min(id) FROM pending_queue WHERE status IN ('raw', 'processing'))";
    Ok(database.prepare(sql)?.query_row([], |row| row.get(0)).optional()?)
}

/// Counts a project's observations.
pub fn count_observations(database: &Connection, project: &str) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM observations WHERE project = ?1 AND deleted_at IS NULL";
    Ok(database.prepare(sql)?.query_row([project], |row| row.get(0))?)
}

/// Returns a message that the worker left for the user, once.
pub fn take_notice(database: &Connection) -> Result<Option<String>, StoreError> {
    let sql = "SELECT id, data ->> 'message' FROM event_log WHERE event_type = 'notice' ORDER BY created_at LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?));
    let Some((id, message)) = database.prepare(sql)?.query_row([], read).optional()? else { return Ok(None) };
    database.execute("UPDATE event_log SET event_type = 'notice_told' WHERE id = ?1", [id])?;
    Ok(message)
}
