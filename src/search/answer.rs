//! Results as JSON: the same from the service, the command line and the tools.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Found, Hit, Snippet};
use crate::context::age;
use crate::learn::SHOWN_FROM;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::learnings;
use crate::store::search::{self as index, Document, Kind, Moment};
use crate::store::sessions::{ToldSession, told_sessions};

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

/// A page of hits.
pub fn found(found: &Found, offset: usize, now: Millis) -> Value {
    let end = offset + found.hits.len();
    let corrections: Vec<_> = found
        .corrections
        .iter()
        .map(|(asked, read_as)| json!({"asked": asked, "read_as": read_as}))
        .collect();
    json!({
        "hits": found.hits.iter().map(|found| hit(found, now)).collect::<Vec<_>>(),
        "total": found.total,
        "next_offset": (end < found.total && end > offset).then_some(end),
        "as_of": found.as_of.to_word(),
        "corrections": corrections,
    })
}

fn hit(hit: &Hit, now: Millis) -> Value {
    let mut value = json!({
        "ref": reference(hit.kind, hit.id),
        "id": hit.id,
        "kind": hit.kind.as_str(),
        "type": hit.type_word,
        "project": hit.project,
        "session_id": hit.session_id,
        "created_at": hit.created_at,
        "age": age::ago(hit.created_at, now),
        "title": hit.title.text,
        "title_marks": marks(&hit.title),
        "snippet": hit.snippet.text,
        "snippet_marks": marks(&hit.snippet),
        "score": (hit.score * 10_000.0).round() / 10_000.0,
        "similar": hit.similar,
    });
    if let Some(parts) = &hit.parts {
        value["explain"] = json!(parts);
    }
    value
}

/// The places of the matches, counted in characters.
fn marks(snippet: &Snippet) -> Vec<[usize; 2]> {
    let count = |end: usize| snippet.text[..end].chars().count();
    snippet.marks.iter().map(|(start, end)| [count(*start), count(*end)]).collect()
}

/// The rows before and after one.
pub fn timeline(moments: &[Moment], anchor: (Kind, i64), now: Millis) -> Value {
    let moment = |moment: &Moment| {
        json!({
            "ref": reference(moment.kind, moment.id),
            "id": moment.id,
            "kind": moment.kind.as_str(),
            "type": moment.type_word,
            "project": moment.project,
            "session_id": moment.session_id,
            "created_at": moment.created_at,
            "age": age::ago(moment.created_at, now),
            "title": crate::context::line::one_line(&moment.title, 200),
            "anchor": (moment.kind, moment.id) == anchor,
        })
    };
    json!({"moments": moments.iter().map(moment).collect::<Vec<_>>()})
}

/// A project's latest sessions with what they left open, and the learnings that hold there.
pub fn recent(
    database: &Connection,
    project: &str,
    limit: u32,
    offset: u32,
    now: Millis,
) -> Result<Value, StoreError> {
    // One more than asked: with it there is a next page.
    let mut sessions = told_sessions(database, project, limit.saturating_add(1), offset)?;
    let has_more = sessions.len() > limit as usize;
    sessions.truncate(limit as usize);
    let mut known = if offset == 0 { learnings::known(database, project)? } else { Vec::new() };
    known.retain(|learning| learning.is_active && learning.confidence_at(now) >= SHOWN_FROM);
    known.sort_by(|one, other| other.confidence_at(now).total_cmp(&one.confidence_at(now)));
    known.truncate(MOST_LEARNINGS);
    let learning = |learning: &learnings::Learning| json!({"id": learning.id, "category": learning.category.as_str(), "content": learning.content});
    let session = |session: &ToldSession| {
        json!({
            "session_id": session.id,
            "ref": session.summary_id.map(|id| reference(Kind::Summary, id)),
            "age": age::ago(session.last_activity_at, now),
            "status": session.status,
            "request": session.request,
            "completed": session.completed,
            "next_steps": session.next_steps,
        })
    };
    Ok(json!({
        "project": project,
        "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
        "learnings": known.iter().map(learning).collect::<Vec<_>>(),
        "next_offset": has_more.then(|| offset.saturating_add(limit)),
    }))
}

const MOST_LEARNINGS: usize = 20;

/// The projects that something is remembered of, most first.
pub fn projects(database: &Connection) -> Result<Value, StoreError> {
    let mut projects = index::projects(database)?;
    projects.retain(|project| project.rows > 0);
    projects.sort_by_key(|project| std::cmp::Reverse(project.rows));
    let project = |project: &index::IndexedProject| json!({"name": project.name, "memories": project.rows});
    Ok(json!({"projects": projects.iter().map(project).collect::<Vec<_>>()}))
}

/// Memories in full, in the order asked for; those that are not there are left out.
pub fn memories(database: &Connection, wanted: &[(Kind, i64)], now: Millis) -> Result<Value, StoreError> {
    let mut memories = Vec::new();
    for (kind, id) in wanted {
        memories.extend(index::document(database, *kind, *id)?.map(|document| memory(&document, now)));
    }
    Ok(json!({"memories": memories}))
}

fn memory(document: &Document, now: Millis) -> Value {
    let list = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!([]));
    json!({
        "ref": reference(document.kind, document.id),
        "id": document.id,
        "kind": document.kind.as_str(),
        "type": document.type_word,
        "project": document.project,
        "session_id": document.session_id,
        "prompt_number": document.prompt_number,
        "created_at": document.created_at,
        "age": age::ago(document.created_at, now),
        "title": document.title,
        "summary": document.summary,
        "detail": document.detail,
        "facts": list(&document.facts),
        "concepts": list(&document.concepts),
        "files_modified": list(&document.files_modified),
        "files_read": list(&document.files_read),
    })
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
