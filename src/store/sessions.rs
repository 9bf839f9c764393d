//! Sessions, as later sessions look back at them.

use rusqlite::{Connection, params};

use super::StoreError;
use crate::model::Millis;

/// A session as the session index shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentSession {
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
        SELECT s.started_at, s.last_activity_at, s.status,
               coalesce(m.request, (SELECT p.prompt FROM user_prompts p
                                    WHERE p.session_id = s.id AND p.prompt NOT LIKE '<task-notification>%'
                                    ORDER BY p.prompt_number DESC LIMIT 1)) AS request,
               coalesce(m.completed, m.summary), m.next_steps
        FROM sessions s
        LEFT JOIN session_summaries m
               ON m.id = (SELECT max(id) FROM session_summaries WHERE session_id = s.id)
        WHERE s.project_path = ?1 AND s.id <> ?2 AND (m.id IS NOT NULL OR s.prompt_count > 0)
        ORDER BY s.started_at DESC LIMIT ?3";
    let mut statement = database.prepare(sql)?;
    let rows = statement.query_map(params![project_path, asking, limit], |row| {
        Ok(RecentSession {
            started_at: row.get(0)?,
            last_activity_at: row.get(1)?,
            status: row.get(2)?,
            request: row.get(3)?,
            completed: row.get(4)?,
            next_steps: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
