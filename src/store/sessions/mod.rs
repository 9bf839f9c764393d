//! Queries about past sessions.

#[cfg(feature = "service")]
pub mod backfill;
pub mod projects;
#[cfg(feature = "service")]
pub mod prompts;

use rusqlite::{Connection, OptionalExtension, params};

use super::StoreError;
use crate::api::{SessionRow, SessionStatus};
#[cfg(feature = "service")]
use crate::model::Millis;
use crate::model::SessionId;

/// Returns the latest sessions of a project that have content to show, newest first.
#[cfg(feature = "service")]
pub fn recent_sessions(
    database: &Connection,
    project: &str,
    limit: u32,
    offset: u32,
) -> Result<Vec<SessionOutcome>, StoreError> {
    let sql = "
        SELECT s.id, s.last_activity_at, s.status,
               coalesce(s.title, m.request, (SELECT substr(p.prompt, 1, 2000) FROM user_prompts p
                                    WHERE p.session_id = s.id AND p.is_raw = 0 AND p.prompt NOT LIKE '<task-notification>%'
                                    ORDER BY p.prompt_number DESC LIMIT 1)),
               coalesce(s.outcome, m.completed, m.summary),
               iif(s.title IS NULL, m.next_steps, (SELECT group_concat(value, '; ') FROM json_each(s.open_items))), m.id
        FROM sessions s
        LEFT JOIN session_summaries m
               ON m.id = (SELECT max(id) FROM session_summaries WHERE session_id = s.id)
        WHERE s.project = ?1 AND (m.id IS NOT NULL OR s.prompt_count > 0)
        ORDER BY s.last_activity_at DESC, s.id LIMIT ?2 OFFSET ?3";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, limit, offset], |row| {
        Ok(SessionOutcome {
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

/// A session as recall shows it.
#[cfg(feature = "service")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOutcome {
    /// Claude Code's session id.
    pub id: String,
    /// Time of the last activity.
    pub last_activity_at: Millis,
    /// active, completed, interrupted, failed.
    pub status: String,
    /// The session's title: its digest, else the latest summary's request, else the latest prompt.
    pub request: Option<String>,
    /// Its outcome: its digest, else the latest summary.
    pub completed: Option<String>,
    /// Its open points.
    pub next_steps: Option<String>,
    /// Id of the latest summary.
    pub summary_id: Option<i64>,
}

/// The part of a session that the processing of a turn needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnPlace {
    /// The project's name.
    pub project: String,
    /// The project's path.
    pub project_path: String,
    /// The git branch.
    pub branch: Option<String>,
    /// The latest prompts up to the turn's own, oldest first.
    pub prompts: Vec<(i64, String)>,
    /// Numbers of the prompts whose turns have notes.
    pub noted: Vec<i64>,
    /// True if the session was read from its history, and no model was asked for.
    pub is_rules_only: bool,
}

/// Number of earlier prompts that a turn reads. Longer chains like "yes" after "continue" after
/// "commit" are rare.
#[cfg(feature = "service")]
const PROMPTS_BACK: i64 = 30;

/// Reads the session of a turn and the prompts up to it.
#[cfg(feature = "service")]
pub fn turn_place(
    database: &Connection,
    session: &SessionId,
    prompt_number: i64,
) -> Result<TurnPlace, StoreError> {
    let sql = "SELECT project, project_path, branch,
                      origin = 'backfill' AND NOT EXISTS (SELECT 1 FROM backfill_files f
                                                          WHERE f.session_id = sessions.id AND f.with_model = 1)
               FROM sessions WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(TurnPlace {
            is_rules_only: row.get(3)?,
            project: row.get(0)?,
            project_path: row.get(1)?,
            branch: row.get(2)?,
            ..TurnPlace::default()
        })
    };
    let found = database.prepare_cached(sql)?.query_row([session.as_str()], read).optional()?;
    let Some(mut place) = found else { return Ok(TurnPlace::default()) };
    let sql = "SELECT prompt_number, prompt FROM user_prompts
               WHERE session_id = ?1 AND prompt_number BETWEEN ?2 AND ?3 ORDER BY prompt_number";
    let mut statement = database.prepare_cached(sql)?;
    let range = params![session.as_str(), prompt_number - PROMPTS_BACK, prompt_number];
    let rows = statement.query_map(range, |row| Ok((row.get(0)?, row.get(1)?)))?;
    place.prompts = rows.collect::<Result<_, _>>()?;
    let sql = "SELECT DISTINCT prompt_number FROM observations
               WHERE session_id = ?1 AND prompt_number BETWEEN ?2 AND ?3 AND deleted_at IS NULL";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(range, |row| row.get(0))?;
    place.noted = rows.collect::<Result<_, _>>()?;
    Ok(place)
}

/// True if no other session of the project is known.
pub fn is_first(database: &Connection, project_key: &str, session: &str) -> Result<bool, StoreError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM projects p JOIN sessions s ON s.project = p.name
                                  WHERE p.key = ?1 AND s.id <> ?2)";
    Ok(database.prepare(sql)?.query_row([project_key, session], |row| row.get(0))?)
}

const SESSION_COLUMNS: &str = "id, project, status, started_at, last_activity_at, ended_at, prompt_count,
    coalesce(title, (SELECT substr(p.prompt, 1, 120) FROM user_prompts p WHERE p.session_id = sessions.id AND p.is_raw = 0
                     ORDER BY p.prompt_number LIMIT 1)), outcome, branch, origin, agent";

fn session_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        project: row.get(1)?,
        status: row.get(2)?,
        started_at: row.get(3)?,
        last_activity_at: row.get(4)?,
        ended_at: row.get(5)?,
        prompt_count: row.get(6)?,
        title: row.get(7)?,
        outcome: row.get(8)?,
        branch: row.get(9)?,
        origin: row.get(10)?,
        agent: row.get(11)?,
    })
}

/// Lists sessions, newest first.
pub fn list_sessions(
    database: &Connection,
    project: Option<&str>,
    limit: u32,
    offset: u32,
) -> Result<Vec<SessionRow>, StoreError> {
    // Two statements, so that each has an index that is in the order of the list.
    let condition = if project.is_some() { "project = ?1" } else { "?1 IS NULL" };
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions WHERE {condition} ORDER BY started_at DESC LIMIT ?2 OFFSET ?3"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![project, limit, offset], session_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists the sessions that have notes, of one project or of all, by project and then oldest first.
pub fn sessions_with_notes(
    database: &Connection,
    project: Option<&str>,
) -> Result<Vec<SessionRow>, StoreError> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions WHERE (?1 IS NULL OR project = ?1)
           AND EXISTS (SELECT 1 FROM observations o WHERE o.session_id = sessions.id AND o.deleted_at IS NULL)
         ORDER BY project, started_at"
    );
    let mut statement = database.prepare(&sql)?;
    let rows = statement.query_map([project], session_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns one session, if it exists.
pub fn session_by_id(database: &Connection, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?1");
    Ok(database.prepare_cached(&sql)?.query_row([session.as_str()], session_row).optional()?)
}

/// Returns the id of the only session whose id begins with this text; the text itself if there is none or more than one.
pub fn whole_id(database: &Connection, beginning: &str) -> Result<SessionId, StoreError> {
    // Every id that begins with the text sorts between it and it with the last character behind it.
    let sql = "SELECT id FROM sessions WHERE id BETWEEN ?1 AND ?1 || char(1114111) ORDER BY id LIMIT 2";
    let mut statement = database.prepare_cached(sql)?;
    let found = statement.query_map([beginning], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    Ok(SessionId(match <[String; 1]>::try_from(found) {
        Ok([only]) if beginning.len() >= SHORTEST_BEGINNING => only,
        _ => beginning.to_owned(),
    }))
}

/// Characters of an id that a person has to type at least.
const SHORTEST_BEGINNING: usize = 4;

/// Returns one session with its counts, if it exists.
pub fn session_status(
    database: &Connection,
    session: &SessionId,
) -> Result<Option<SessionStatus>, StoreError> {
    let Some(row) = session_by_id(database, session)? else { return Ok(None) };
    let id = session.as_str();
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
