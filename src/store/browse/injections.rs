//! The contexts that showed a note, and what their sessions did afterwards.

use rusqlite::{Connection, OptionalExtension, params};

use crate::api::{Injection, LastContext};
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::context::SHOWN_EVENTS;
use crate::store::{StoreError, listed};

/// Maximum contexts in a list.
const MOST: u32 = 30;

/// Lists the contexts that showed a note since a time, newest first.
pub fn injections(
    database: &Connection,
    note: i64,
    files: &[String],
    since: Millis,
) -> Result<Vec<Injection>, StoreError> {
    let sql = "SELECT e.session_id, coalesce(s.title, ''), e.event_type, e.created_at
               FROM event_log e LEFT JOIN sessions s ON s.id = e.session_id
               WHERE e.event_type IN (SELECT value FROM json_each(?1)) AND e.created_at >= ?2 AND e.session_id IS NOT NULL
                 AND EXISTS (SELECT 1 FROM json_each(e.data, '$.shown') WHERE value = ?3)
               ORDER BY e.created_at DESC LIMIT ?4";
    let events = serde_json::to_string(&SHOWN_EVENTS).unwrap_or_default();
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![events, since, note, MOST], |row| {
        let event: String = row.get(2)?;
        Ok(Injection {
            session_id: row.get(0)?,
            title: row.get(1)?,
            occasion: event.strip_prefix("context_").unwrap_or("start").to_owned(),
            created_at: row.get(3)?,
            ..Injection::default()
        })
    })?;
    let mut injections = rows.collect::<Result<Vec<_>, _>>()?;
    for injection in &mut injections {
        let (changed, read) = files_since(database, &injection.session_id, injection.created_at)?;
        let ours = |theirs: &[String]| -> Vec<String> {
            let is_there = |file: &&String| theirs.iter().any(|other| is_same_file(file, other));
            files.iter().filter(is_there).cloned().collect()
        };
        (injection.then_changed, injection.then_read) = (ours(&changed), ours(&read));
    }
    Ok(injections)
}

/// The context that the last session of a project got at its start.
pub fn last_context(database: &Connection, project: &str) -> Result<Option<LastContext>, StoreError> {
    let sql = "SELECT e.session_id, e.created_at, e.data ->> 'keys' FROM event_log e JOIN sessions s ON s.id = e.session_id
               WHERE e.event_type = ?1 AND s.project = ?2 ORDER BY e.created_at DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| {
        let keys: Option<String> = row.get(2)?;
        let keys = keys.and_then(|keys| serde_json::from_str(&keys).ok()).unwrap_or_default();
        Ok(LastContext { session_id: row.get(0)?, created_at: row.get(1)?, keys })
    };
    Ok(database.prepare_cached(sql)?.query_row([SHOWN_EVENTS[0], project], read).optional()?)
}

/// Files that a session changed and read after a time, according to its notes.
pub(super) fn files_since(
    database: &Connection,
    session: &str,
    since: Millis,
) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let sql = "SELECT files_modified, files_read FROM observations
               WHERE session_id = ?1 AND created_at >= ?2 AND deleted_at IS NULL LIMIT 500";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![session, since])?;
    let (mut changed, mut read) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        changed.extend(listed(row, 0)?);
        read.extend(listed(row, 1)?);
    }
    Ok((changed, read))
}
