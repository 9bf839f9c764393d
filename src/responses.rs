//! Responses of the API made of search results and stored memories: the same from the service, the command line and the tools.

use rusqlite::Connection;

use crate::api::{
    self, Correction, KnownProject, LearningLine, Memories, Memory, Projects, Recent, RecentSession,
    SearchResponse, Timeline, TimelineEntry,
};
use crate::learn::SHOWN_FROM;
use crate::model::Millis;
use crate::search::{FoundMemory, SearchResults, Snippet};
use crate::store::StoreError;
use crate::store::index::search as index;
use crate::store::index::search::{Document, Kind, TimelineRow};
use crate::store::memory::learnings;
use crate::store::sessions::{SessionOutcome, recent_sessions};
use crate::text::age;

/// A reference that people and tools can pass on: `12` is an observation, `S12` a summary, `P12` a prompt.
pub fn reference(kind: Kind, id: i64) -> String {
    match kind {
        Kind::Observation => id.to_string(),
        Kind::Summary => format!("S{id}"),
        Kind::Prompt => format!("P{id}"),
    }
}

/// The row that a reference names.
pub fn referred(reference: &str) -> Option<(Kind, i64)> {
    let reference = reference.trim().trim_start_matches('#');
    let (kind, digits) = match reference.chars().next()? {
        'S' | 's' => (Kind::Summary, &reference[1..]),
        'P' | 'p' => (Kind::Prompt, &reference[1..]),
        _ => (Kind::Observation, reference),
    };
    digits.parse().ok().filter(|id| *id > 0).map(|id| (kind, id))
}

/// Converts a page of hits.
pub fn found(found: &SearchResults, offset: usize, now: Millis) -> SearchResponse {
    let end = offset + found.hits.len();
    let correction =
        |(asked, read_as): &(String, String)| Correction { asked: asked.clone(), read_as: read_as.clone() };
    SearchResponse {
        hits: found.hits.iter().map(|found| hit(found, now)).collect(),
        total: found.total,
        next_offset: (end < found.total && end > offset).then_some(end),
        as_of: found.as_of.to_word(),
        corrections: found.corrections.iter().map(correction).collect(),
        took_ms: None,
    }
}

fn hit(hit: &FoundMemory, now: Millis) -> api::Hit {
    api::Hit {
        reference: reference(hit.kind, hit.id),
        id: hit.id,
        kind: hit.kind.as_str().to_owned(),
        type_word: hit.type_word.clone(),
        project: hit.project.clone(),
        session_id: hit.session_id.clone(),
        created_at: hit.created_at,
        age: age::ago(hit.created_at, now),
        title: hit.title.text.clone(),
        title_marks: marks(&hit.title),
        snippet: hit.snippet.text.clone(),
        snippet_marks: marks(&hit.snippet),
        score: (hit.score * 10_000.0).round() / 10_000.0,
        similar: hit.similar.clone(),
        explain: hit.parts.clone(),
    }
}

/// The places of the matches, counted in characters.
fn marks(snippet: &Snippet) -> Vec<[usize; 2]> {
    let count = |end: usize| snippet.text[..end].chars().count();
    snippet.marks.iter().map(|(start, end)| [count(*start), count(*end)]).collect()
}

/// Converts the memories around an anchor.
pub fn timeline(moments: &[TimelineRow], anchor: (Kind, i64), now: Millis) -> Timeline {
    let entry = |moment: &TimelineRow| TimelineEntry {
        reference: reference(moment.kind, moment.id),
        id: moment.id,
        kind: moment.kind.as_str().to_owned(),
        type_word: moment.type_word.clone(),
        project: moment.project.clone(),
        session_id: moment.session_id.clone(),
        created_at: moment.created_at,
        age: age::ago(moment.created_at, now),
        title: crate::text::line::one_line(&moment.title, 200),
        anchor: (moment.kind, moment.id) == anchor,
    };
    Timeline { entries: moments.iter().map(entry).collect() }
}

/// A project's latest sessions with what they left open, and the learnings that hold there.
pub fn recent(
    database: &Connection,
    project: &str,
    limit: u32,
    offset: u32,
    now: Millis,
) -> Result<Recent, StoreError> {
    // One more than asked: with it there is a next page.
    let mut sessions = recent_sessions(database, project, limit.saturating_add(1), offset)?;
    let has_more = sessions.len() > limit as usize;
    sessions.truncate(limit as usize);
    let mut known = if offset == 0 { learnings::known(database, project)? } else { Vec::new() };
    known.retain(|learning| learning.is_active && learning.confidence_at(now) >= SHOWN_FROM);
    known.sort_by(|one, other| other.confidence_at(now).total_cmp(&one.confidence_at(now)));
    known.truncate(MOST_LEARNINGS);
    let learning = |learning: &learnings::Learning| LearningLine {
        id: learning.id,
        category: learning.category.as_str().to_owned(),
        content: learning.content.clone(),
    };
    let session = |session: SessionOutcome| RecentSession {
        session_id: session.id,
        reference: session.summary_id.map(|id| reference(Kind::Summary, id)),
        age: age::ago(session.last_activity_at, now),
        status: session.status,
        request: session.request,
        completed: session.completed,
        next_steps: session.next_steps,
    };
    Ok(Recent {
        project: project.to_owned(),
        sessions: sessions.into_iter().map(session).collect(),
        learnings: known.iter().map(learning).collect(),
        next_offset: has_more.then(|| offset.saturating_add(limit)),
    })
}

const MOST_LEARNINGS: usize = 20;

/// The projects that something is remembered of, most first.
pub fn projects(database: &Connection) -> Result<Projects, StoreError> {
    let mut projects = index::projects(database)?;
    projects.retain(|project| project.rows > 0);
    projects.sort_by_key(|project| std::cmp::Reverse(project.rows));
    let project = |project: index::IndexedProject| KnownProject {
        name: project.name,
        memories: project.rows,
        path: project.path,
    };
    Ok(Projects { projects: projects.into_iter().map(project).collect() })
}

/// Memories in full, in the order asked for; those that are not there are left out.
pub fn memories(database: &Connection, wanted: &[(Kind, i64)], now: Millis) -> Result<Memories, StoreError> {
    let mut memories = Vec::new();
    for (kind, id) in wanted {
        memories.extend(index::document(database, *kind, *id)?.map(|document| memory(document, now)));
    }
    Ok(Memories { memories })
}

fn memory(document: Document, now: Millis) -> Memory {
    let list = |text: &str| serde_json::from_str(text).unwrap_or_default();
    Memory {
        reference: reference(document.kind, document.id),
        id: document.id,
        kind: document.kind.as_str().to_owned(),
        age: age::ago(document.created_at, now),
        facts: list(&document.facts),
        concepts: list(&document.concepts),
        files_modified: list(&document.files_modified),
        files_read: list(&document.files_read),
        type_word: document.type_word,
        project: document.project,
        session_id: document.session_id,
        prompt_number: document.prompt_number,
        created_at: document.created_at,
        title: document.title,
        summary: document.summary,
        detail: document.detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_back() {
        for (kind, id) in [(Kind::Observation, 12), (Kind::Summary, 3), (Kind::Prompt, 1)] {
            assert_eq!(referred(&reference(kind, id)), Some((kind, id)));
        }
        assert_eq!(referred("#7"), Some((Kind::Observation, 7)));
        assert!(["", "S", "x7", "-3", "0", "ß"].iter().all(|word| referred(word).is_none()));
    }
}
