//! The layer `session_index`: the last sessions of the project, newest first, one line each.

use super::line::one_line;
use super::page::Line;
use super::situation::continued;
use super::words::{Said, WordSet};
use super::{Request, age};
use crate::model::Millis;
use crate::store::RecentSession;

/// How much of a session is told, in characters: what was asked, what came of it, what remains.
struct Room {
    request: usize,
    outcome: usize,
    next: usize,
}

/// The session that is to be continued is told in full.
const CONTINUED: Room = Room { request: 200, outcome: 320, next: 260 };
/// What remained of older ones has been done since, or was given up.
const EARLIER: Room = Room { request: 110, outcome: 150, next: 0 };

/// One line for each session that has something to tell.
pub fn lines(request: &Request<'_>, sessions: &[RecentSession]) -> Vec<Line> {
    let of_branch = continued(&request.situation, sessions).map(|session| session.id.as_str());
    let mut said = Said::default();
    let mut lines = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        let is_continued = at == 0 || of_branch == Some(session.id.as_str());
        let room = if is_continued { CONTINUED } else { EARLIER };
        let Some(told) = told(session, &room) else { continue };
        let words = WordSet::of(&[&told]);
        if !words.is_empty() && said.has(&words) {
            continue;
        }
        said.note(&told);
        lines.push(Line::new(format!("{}: {told}", when(session, request.session_id, request.now))));
    }
    lines
}

fn when(session: &RecentSession, asking: &str, now: Millis) -> String {
    if session.id == asking {
        return "This session so far".to_owned();
    }
    let ago = age::ago(session.last_activity_at, now);
    match session.status.as_str() {
        "interrupted" => format!("{ago} (interrupted)"),
        _ => ago,
    }
}

fn told(session: &RecentSession, room: &Room) -> Option<String> {
    let part = |text: &Option<String>, limit: usize| {
        text.as_deref().map(|text| one_line(text, limit)).filter(|text| limit > 0 && !text.is_empty())
    };
    let request = part(&session.request, room.request);
    let outcome = part(&session.completed, room.outcome);
    let mut told = match (&request, &outcome) {
        (Some(request), Some(outcome)) => format!("{request} → {outcome}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => return None,
    };
    if let Some(next) = part(&session.next_steps, room.next) {
        told.push_str(" Next: ");
        told.push_str(without_label(&next));
    }
    Some(told)
}

/// What was to be done next often begins by saying so.
fn without_label(next: &str) -> &str {
    let after = |label: &str| {
        let is_label = next.get(..label.len()).is_some_and(|head| head.eq_ignore_ascii_case(label));
        is_label.then(|| next[label.len()..].trim_start())
    };
    ["next:", "next step:", "next steps:"].into_iter().find_map(after).unwrap_or(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_is_not_announced_twice() {
        assert_eq!(without_label("Next: metrics."), "metrics.");
        assert_eq!(without_label("Next steps: metrics."), "metrics.");
        assert_eq!(without_label("Nexus: metrics."), "Nexus: metrics.");
        assert_eq!(without_label("次: 計測"), "次: 計測");
    }
}
