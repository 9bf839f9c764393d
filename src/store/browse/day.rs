//! The work of a day: its notes by project and session.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::turns::open_items;
use super::{NOTE, note_line};
use crate::api::{NoteLine, ProjectDay, SessionDay};
use crate::clock::Day;
use crate::model::SessionId;
use crate::store::StoreError;
use crate::store::sessions::session_by_id;

/// Maximum notes of a day.
const MOST: u32 = 2_000;

/// Reads the notes of a day, of one project or of all.
pub fn day(database: &Connection, day: Day, project: Option<&str>) -> Result<Vec<ProjectDay>, StoreError> {
    let condition = if project.is_some() { "o.project = ?3" } else { "?3 IS NULL" };
    let sql = format!(
        "SELECT {NOTE} FROM observations o WHERE {condition} AND o.created_at >= ?1 AND o.created_at < ?2
           AND o.deleted_at IS NULL ORDER BY o.created_at LIMIT {MOST}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![day.start, day.end, project], note_line)?;
    let mut projects: BTreeMap<String, Vec<SessionDay>> = BTreeMap::new();
    for note in rows {
        add(database, &mut projects, note?)?;
    }
    Ok(projects.into_iter().map(|(project, sessions)| ProjectDay { project, sessions }).collect())
}

fn add(
    database: &Connection,
    projects: &mut BTreeMap<String, Vec<SessionDay>>,
    note: NoteLine,
) -> Result<(), StoreError> {
    let sessions = projects.entry(note.project.clone()).or_default();
    if let Some(known) = sessions.iter_mut().find(|known| known.session.id == note.session_id) {
        known.notes.push(note);
        return Ok(());
    }
    let id = SessionId(note.session_id.clone());
    if let Some(session) = session_by_id(database, &id)? {
        let open_items = open_items(database, &id)?;
        sessions.push(SessionDay { session, notes: vec![note], open_items });
    }
    Ok(())
}
