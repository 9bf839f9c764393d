//! The layer `session_index`: the sessions with the latest activity, one line each, and the points that they left open.

use super::ContextRequest;
use super::page::Line;
use super::repo_state::{continued, is_topic};
use super::wording::{clause, gives_reason, is_filler, statements, title_of};
use super::words::{SeenText, WordSet, content_words, near};
use crate::clock::DAY;
use crate::model::Millis;
use crate::store::context::SessionLine;
use crate::text::age;
use crate::text::line::one_line;

/// Room for an outcome, in characters. Whole statements, and a reason may exceed it.
const CONTINUED: usize = 300;
const EARLIER: usize = 160;
const TITLE: usize = 130;
/// Maximum number of session lines, and the same on a topic branch that has sessions: only these have more to do with the next one
/// than any other (docs/decisions/014-context-lines.md).
const LAST: usize = 1;
const MOST_OF_BRANCH: usize = 4;
/// Open items of the last session are listed this long, those of the last one on this topic branch longer: the branch is not
/// finished.
const OPEN_FOR: Millis = 3 * DAY;
const OPEN_ON_BRANCH_FOR: Millis = 21 * DAY;
const MOST_OPEN: usize = 3;
const OPEN_ITEM: usize = 170;

/// Returns one line for each session with a title or an outcome, and the open items.
pub fn lines(request: &ContextRequest<'_>, sessions: &[SessionLine]) -> Vec<Line> {
    let of_branch = continued(&request.repo_state, sessions).map(|session| session.id.as_str());
    let topic = request.repo_state.branch.as_deref().filter(|branch| is_topic(branch));
    let mut seen = SeenText::default();
    let mut lines = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        let is_of_branch = topic.is_some() && session.branch.as_deref() == topic;
        let most = match (is_of_branch, of_branch) {
            (true, _) => MOST_OF_BRANCH,
            (false, Some(_)) => 0,
            (false, None) => LAST,
        };
        if lines.len() >= most {
            continue;
        }
        let is_continued = at == 0 || of_branch == Some(session.id.as_str());
        let Some(digest) = digest(request, session, if is_continued { CONTINUED } else { EARLIER }) else {
            continue;
        };
        let words = WordSet::of(&[&digest]);
        if !words.is_empty() && seen.has(&words) {
            continue;
        }
        seen.note(&digest);
        let why = match (at, is_of_branch) {
            (0, _) => "the last session",
            (_, true) => "a session of this branch",
            (_, false) => "a recent session",
        };
        let text = format!("{}: {digest}", when(request, session));
        lines.push(Line {
            text,
            lasting: digest,
            why: why.into(),
            session: Some(session.id.clone()),
            ..Line::default()
        });
    }
    lines.extend(open_items(request, sessions, of_branch));
    lines
}

fn when(request: &ContextRequest<'_>, session: &SessionLine) -> String {
    if session.id == request.session_id {
        return "This session so far".to_owned();
    }
    let mut when = age::roughly(session.last_activity_at, request.now);
    let here = request.repo_state.branch.as_deref();
    if let Some(branch) = session.branch.as_deref().filter(|branch| here.is_some_and(|here| here != *branch))
    {
        when.push_str(&format!(", branch {}", one_line(branch, 60)));
    }
    if session.is_interrupted {
        when.push_str(", interrupted");
    }
    when
}

fn digest(request: &ContextRequest<'_>, session: &SessionLine, room: usize) -> Option<String> {
    let tidy = |text: &Option<String>| text.as_deref().map(|text| request.tidy(text)).unwrap_or_default();
    // A session without a digest yet is called by its prompt.
    let title = tidy(&session.title);
    let title = one_line(without_addresses(title_of(&title)), TITLE);
    let outcome = outcome(&tidy(&session.outcome), room);
    match (title.is_empty(), outcome.is_empty()) {
        (true, true) => None,
        // A few words that came to nothing are no session to remember.
        (false, true) if content_words(&title).len() < 2 => None,
        (false, true) => Some(title),
        (true, false) => Some(outcome),
        (false, false) if is_said(&title, &outcome) => Some(outcome),
        (false, false) => Some(format!("{} → {outcome}", title.trim_end_matches(['.', ' ']))),
    }
}

/// True if the outcome makes the title needless: it has all of its words, or the title only names the code that was edited.
fn is_said(title: &str, outcome: &str) -> bool {
    let words = WordSet::of(&[title]);
    near(title, outcome) || words.is_within(&WordSet::of(&[outcome])) || title.starts_with("Edits to ")
}

/// The text from its first word on that is no address.
fn without_addresses(mut text: &str) -> &str {
    while let Some((word, rest)) = text.trim_start().split_once(char::is_whitespace)
        && word.contains("://")
    {
        text = rest;
    }
    text.trim_start()
}

/// Whole statements up to the room there is; the first one always, the first reason before others.
fn outcome(text: &str, room: usize) -> String {
    let whole = |text: String| {
        let line = one_line(&text, 3 * CONTINUED);
        if gives_reason(&line) { clause(&line, 2 * CONTINUED) } else { clause(&line, room) }
    };
    let statements: Vec<String> = statements(text)
        .into_iter()
        .filter(|text| !is_filler(text))
        .map(whole)
        .filter(|text| !text.is_empty())
        .collect();
    let mut chosen: Vec<usize> = (!statements.is_empty()).then_some(0).into_iter().collect();
    let reason = (0..statements.len()).find(|at| gives_reason(&statements[*at]));
    let length = |chosen: &[usize]| chosen.iter().map(|at| statements[*at].len() + 1).sum::<usize>();
    let in_order = reason.into_iter().chain(1..statements.len());
    for at in in_order {
        if !chosen.contains(&at) && length(&chosen) + statements[at].len() <= room {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| statements[at].as_str()).collect::<Vec<_>>().join(" ")
}

/// The items that the last session and the last one of this branch left open, each with its age, without those that a later
/// session has done.
fn open_items(request: &ContextRequest<'_>, sessions: &[SessionLine], of_branch: Option<&str>) -> Vec<Line> {
    let mut seen = SeenText::default();
    let mut lines = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        let listed_for = match of_branch == Some(session.id.as_str()) {
            true => OPEN_ON_BRANCH_FOR,
            false if at == 0 => OPEN_FOR,
            false => continue,
        };
        if request.now - session.last_activity_at > listed_for {
            continue;
        }
        let later: Vec<WordSet> = sessions[..at]
            .iter()
            .map(|later| {
                WordSet::of(&[
                    later.title.as_deref().unwrap_or_default(),
                    later.outcome.as_deref().unwrap_or_default(),
                ])
            })
            .collect();
        for item in &session.open_items {
            let item = one_line(&request.tidy(without_label(item.trim())), OPEN_ITEM);
            let words = WordSet::of(&[&item]);
            let is_done = later.iter().any(|done| words.is_mostly_in(done));
            if lines.len() >= MOST_OPEN || words.len() < 2 || is_done || seen.has(&words) {
                continue;
            }
            seen.note(&item);
            let when = age::roughly(session.last_activity_at, request.now);
            lines.push(Line {
                group: Some("Still open".into()),
                text: format!("{item} ({when})"),
                lasting: item,
                why: "left open, and not done since".into(),
                ..Line::default()
            });
        }
    }
    lines
}

/// An open point often begins by announcing itself.
fn without_label(item: &str) -> &str {
    let after = |label: &str| {
        let is_label = item.get(..label.len()).is_some_and(|head| head.eq_ignore_ascii_case(label));
        is_label.then(|| item[label.len()..].trim_start())
    };
    ["next:", "next step:", "next steps:", "todo:"].into_iter().find_map(after).unwrap_or(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_point_is_not_announced_twice() {
        assert_eq!(without_label("Next: metrics."), "metrics.");
        assert_eq!(without_label("Next steps: metrics."), "metrics.");
        assert_eq!(without_label("Nexus: metrics."), "Nexus: metrics.");
        assert_eq!(without_label("次: 計測"), "次: 計測");
    }

    #[test]
    fn a_title_that_the_outcome_says_or_that_only_names_code_is_left_out() {
        let outcome = "Fixed the comment. It now describes the repository that the tests create.";
        assert!(is_said("It describes the repository that tests create", outcome));
        assert!(is_said("Edits to Store.open and 2 more", outcome));
        assert!(!is_said("Review the comments of the pull request", outcome));
        assert_eq!(without_addresses("https://a.b/issues/7 this breaks"), "this breaks");
        assert_eq!(without_addresses("see https://a.b"), "see https://a.b");
    }

    #[test]
    fn an_outcome_keeps_its_reason_and_drops_what_all_sessions_say() {
        let text = "Moved the lock into the worker. All 12 tests pass. The hook has no time for it because the client waits. A third thing was done as well, and it takes many words to say which one it was.";
        assert_eq!(
            outcome(text, 110),
            "Moved the lock into the worker. The hook has no time for it because the client waits."
        );
    }
}
