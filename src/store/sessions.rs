//! Sessions, as later sessions look back at them.

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use crate::model::{Millis, SessionId};

/// A session as the session index shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentSession {
    /// Claude's id.
    pub id: String,
    /// The branch that it was on.
    pub branch: Option<String>,
    /// When it began.
    pub started_at: Millis,
    /// When it was last heard of.
    pub last_activity_at: Millis,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// What was asked: from the latest summary, else the latest prompt.
    pub request: Option<String>,
    /// What was done, from the latest summary.
    pub completed: Option<String>,
    /// What remains, from the latest summary.
    pub next_steps: Option<String>,
}

/// The latest sessions of a project that have something to tell, newest first, without the one that is asking.
pub fn recent_sessions(
    database: &Connection,
    project_path: &str,
    asking: &str,
    limit: u32,
) -> Result<Vec<RecentSession>, StoreError> {
    let sql = "
        SELECT s.id, s.branch, s.started_at, s.last_activity_at, s.status,
               coalesce(m.request, (SELECT substr(p.prompt, 1, 2000) FROM user_prompts p
                                    WHERE p.session_id = s.id AND p.prompt NOT LIKE '<task-notification>%'
                                    ORDER BY p.prompt_number DESC LIMIT 1)) AS request,
               coalesce(m.summary, m.completed), m.next_steps
        FROM sessions s
        LEFT JOIN session_summaries m
               ON m.id = (SELECT max(id) FROM session_summaries WHERE session_id = s.id)
        WHERE s.project_path = ?1 AND s.id <> ?2 AND (m.id IS NOT NULL OR s.prompt_count > 0)
        ORDER BY s.started_at DESC LIMIT ?3";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project_path, asking, limit], |row| {
        Ok(RecentSession {
            id: row.get(0)?,
            branch: row.get(1)?,
            started_at: row.get(2)?,
            last_activity_at: row.get(3)?,
            status: row.get(4)?,
            request: row.get(5)?,
            completed: row.get(6)?,
            next_steps: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What the latest sessions of a project tell, newest first: those that have something to tell.
#[cfg(feature = "service")]
pub fn told_sessions(
    database: &Connection,
    project: &str,
    limit: u32,
    offset: u32,
) -> Result<Vec<ToldSession>, StoreError> {
    let sql = "
        SELECT s.id, s.last_activity_at, s.status,
               coalesce(m.request, (SELECT substr(p.prompt, 1, 2000) FROM user_prompts p
                                    WHERE p.session_id = s.id AND p.prompt NOT LIKE '<task-notification>%'
                                    ORDER BY p.prompt_number DESC LIMIT 1)),
               coalesce(m.completed, m.summary), m.next_steps, m.id
        FROM sessions s
        LEFT JOIN session_summaries m
               ON m.id = (SELECT max(id) FROM session_summaries WHERE session_id = s.id)
        WHERE s.project = ?1 AND (m.id IS NOT NULL OR s.prompt_count > 0)
        ORDER BY s.last_activity_at DESC, s.id LIMIT ?2 OFFSET ?3";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, limit, offset], |row| {
        Ok(ToldSession {
            id: row.get(0)?,
            last_activity_at: row.get(1)?,
            status: row.get(2)?,
            request: row.get(3)?,
            completed: row.get(4)?,
            next_steps: row.get(5)?,
            summary_id: row.get(6)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A session as it is told on demand.
#[cfg(feature = "service")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldSession {
    /// Claude's id.
    pub id: String,
    /// When it was last heard of.
    pub last_activity_at: Millis,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// What was asked: from the latest summary, else the latest prompt.
    pub request: Option<String>,
    /// What was done, from the latest summary.
    pub completed: Option<String>,
    /// What remains, from the latest summary.
    pub next_steps: Option<String>,
    /// The latest summary.
    pub summary_id: Option<i64>,
}

/// Where a turn took place, and what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnPlace {
    /// The project's name.
    pub project: String,
    /// What the project is found by.
    pub project_path: String,
    /// The branch.
    pub branch: Option<String>,
    /// The prompt that began the turn.
    pub prompt: Option<String>,
}

/// Where the turn of that prompt took place.
pub fn turn_place(
    database: &Connection,
    session: &SessionId,
    prompt_number: Option<i64>,
) -> Result<TurnPlace, StoreError> {
    let sql = "SELECT s.project, s.project_path, s.branch,
                      (SELECT prompt FROM user_prompts p WHERE p.session_id = s.id AND p.prompt_number = ?2)
               FROM sessions s WHERE s.id = ?1";
    let found = database.prepare_cached(sql)?.query_row(params![session.as_str(), prompt_number], |row| {
        Ok(TurnPlace {
            project: row.get(0)?,
            project_path: row.get(1)?,
            branch: row.get(2)?,
            prompt: row.get(3)?,
        })
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// A session as lists and look-ups show it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SessionRow {
    /// Claude's id.
    pub id: String,
    /// The project's name.
    pub project: String,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// When it began.
    pub started_at: Millis,
    /// When it was last heard of.
    pub last_activity_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How many prompts it had.
    pub prompt_count: i64,
}

const SESSION_COLUMNS: &str = "id, project, status, started_at, last_activity_at, ended_at, prompt_count";

impl SessionRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            project: row.get(1)?,
            status: row.get(2)?,
            started_at: row.get(3)?,
            last_activity_at: row.get(4)?,
            ended_at: row.get(5)?,
            prompt_count: row.get(6)?,
        })
    }
}

/// Sessions, newest first.
pub fn list_sessions(
    database: &Connection,
    project: Option<&str>,
    limit: u32,
    offset: u32,
) -> Result<Vec<SessionRow>, StoreError> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions WHERE ?1 IS NULL OR project = ?1
         ORDER BY started_at DESC, id LIMIT ?2 OFFSET ?3"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![project, limit, offset], SessionRow::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A session and its counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SessionStatus {
    /// The session.
    #[serde(flatten)]
    pub session: SessionRow,
    /// Its rows in the queue: those that wait.
    pub raw: i64,
    /// Those that are worked on.
    pub processing: i64,
    /// Those that ended in an error.
    pub error: i64,
    /// What was made of it.
    pub observations: i64,
    /// Its summaries.
    pub summaries: i64,
}

/// One session, if it is known.
pub fn session_status(
    database: &Connection,
    session: &SessionId,
) -> Result<Option<SessionStatus>, StoreError> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?1");
    let id = session.as_str();
    let Some(row) = database.prepare_cached(&sql)?.query_row([id], SessionRow::read).optional()? else {
        return Ok(None);
    };
    let count = |sql: &str| database.prepare_cached(sql)?.query_row([id], |row| row.get(0));
    Ok(Some(SessionStatus {
        session: row,
        raw: count(
            "SELECT count(*) FROM pending_queue WHERE session_id = ?1 AND status = 'raw'
                    AND status IN ('raw', 'processing')",
        )?,
        processing: count(
            "SELECT count(*) FROM pending_queue WHERE session_id = ?1 AND status = 'processing'
                           AND status IN ('raw', 'processing')",
        )?,
        error: count(
            "SELECT count(*) FROM pending_queue WHERE session_id = ?1 AND status = 'error'
                      AND finished_at IS NOT NULL",
        )?,
        observations: count(
            "SELECT count(*) FROM observations WHERE session_id = ?1 AND deleted_at IS NULL",
        )?,
        summaries: count("SELECT count(*) FROM session_summaries WHERE session_id = ?1")?,
    }))
}
