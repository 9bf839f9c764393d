//! Reads the record for people who look through it: sessions and their turns, the evidence behind a note, the contexts that
//! showed it, and the activity over time.

mod activity;
mod day;
mod effects;
mod evidence;
mod injections;
mod notes;
pub mod overview;
pub mod statistics;
mod turns;
mod value;

pub use activity::{Position, days, events_since, latest_events, latest_notes, notes_since, position};
pub use day::day;
pub use effects::effects;
pub use evidence::{event, events_of_note, events_of_turn};
pub use injections::{injections, last_context};
pub use notes::{forgotten, learnings, note, notes_by_id, notes_of_session, pinned, stale};
pub use turns::session;
pub use value::{report, value};

use rusqlite::Row;

use super::listed;
use crate::api::NoteLine;

/// Columns of a [`NoteLine`], of the table `observations o`.
const NOTE: &str = "o.id, o.type, coalesce(substr(o.title, 1, 400), ''), coalesce(substr(coalesce(o.summary, o.detail), 1, 1000), ''),
    o.project, o.session_id, coalesce(o.model, o.provider, ''), o.created_at, o.pinned_at IS NOT NULL";

fn note_line(row: &Row<'_>) -> rusqlite::Result<NoteLine> {
    Ok(NoteLine {
        id: row.get(0)?,
        kind: row.get(1)?,
        title: row.get(2)?,
        summary: row.get(3)?,
        project: row.get(4)?,
        session_id: row.get(5)?,
        origin: row.get(6)?,
        created_at: row.get(7)?,
        pinned: row.get(8)?,
    })
}
