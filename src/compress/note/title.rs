//! The title of a note: a commit's subject, a plan's heading, or the line of the request or the closing message that is
//! clearest to someone who was not there.

use std::sync::LazyLock;

use regex::Regex;

use super::clarity::{REJECTED, clarity, is_name};
use super::evidence::Evidence;
use super::prose::{Section, Unit, sentences};
use super::request::{self, is_trivial, title_line};
use super::{Material, is_near};
use crate::compress::turn::Turn;
use crate::text::{capitalised, each, listed, pattern, shorten};

/// The points of a candidate by its source, to which its clarity and its coverage are added. A statement that reports a change
/// ranks like an instruction, because either may be the clearer one.
mod source {
    pub const COMMIT: i32 = 44;
    pub const INSTRUCTION: i32 = 40;
    pub const CHANGE: i32 = 37;
    pub const HEADLINE: i32 = 34;
    pub const QUESTION: i32 = 31;
    pub const EARLIER_REQUEST: i32 = 28;
    pub const CAUSE: i32 = 28;
    pub const STATEMENT: i32 = 16;
    pub const LIST_LEAD: i32 = 16;
    pub const REPORT: i32 = 16;
    pub const HEADING: i32 = 4;
    pub const LISTED_CHANGE: i32 = 12;
}
/// Minimum points of a candidate. Below it the names of changed files are the better title.
const LEAST_POINTS: i32 = 4;
/// Points below which the title also names the subject of the conversation.
const CLEAR_POINTS: i32 = 54;
/// Maximum length of the subject after a title, in columns.
const TOPIC_COLUMNS: usize = 60;
/// Points that a candidate loses because it was too long and had to be cut at a clause.
const CUT_POINTS: i32 = 9;
/// Points that a candidate loses because none of its words occurs elsewhere in the turn.
const UNRELATED_POINTS: i32 = 12;
/// Number of statements of a closing message that may become the title.
const MOST_STATEMENTS: usize = 10;

/// The candidates for a title, in order of their appearance.
struct Candidates<'a> {
    evidence: &'a Evidence,
    lines: Vec<(i32, String)>,
}

impl Candidates<'_> {
    fn add(&mut self, points: i32, text: &str, is_request: bool) {
        let line = title_line(text);
        let is_cut = line.chars().count() + 12 < text.trim().chars().count();
        let clarity = clarity(&line);
        let coverage = self.evidence.coverage(&line, is_request);
        let faults = if is_cut { CUT_POINTS } else { 0 } + if coverage == 0 { UNRELATED_POINTS } else { 0 };
        let points = points + clarity + coverage - faults;
        if clarity > REJECTED && points >= LEAST_POINTS {
            self.lines.push((points, line));
        }
    }

    /// The candidate with the most points, the first in case of a tie.
    fn best(self) -> Option<(i32, String)> {
        self.lines.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best })
    }
}

/// The title; `None` if the turn has no suitable line.
pub(super) fn title(turn: &Turn, material: &Material, evidence: &Evidence) -> Option<String> {
    let commits = turn.commits();
    if let [only] = commits.as_slice()
        && let Some(title) = subject(&only.subject)
    {
        return Some(title);
    }
    if let Some(title) = material.plan.as_ref().and_then(|plan| readable(&plan.heading)) {
        return Some(title);
    }
    let has_acted = turn.has_changed();
    let asked = turn.request().filter(|request| !is_trivial(request));
    let mut candidates = Candidates { evidence, lines: Vec::new() };
    if let Some(first) = commits.first().and_then(|first| subject(&first.subject)) {
        candidates.add(source::COMMIT, &first, false);
    }
    match (asked, &turn.earlier_request) {
        (Some(request), _) => requested(&mut candidates, request, has_acted),
        (None, Some(earlier)) if has_acted => {
            if let Some(earlier) = request::stated(earlier) {
                candidates.add(source::EARLIER_REQUEST, &earlier, true);
            }
        }
        _ => {}
    }
    stated(&mut candidates, material, has_acted);
    let (points, line) = candidates.best().or_else(|| Some((0, from_files(turn)?)))?;
    Some(match &turn.topic {
        Some(topic) if points < CLEAR_POINTS && !is_near(topic, &line) => {
            format!("{line} (during: {})", shorten(topic, TOPIC_COLUMNS))
        }
        _ => line,
    })
}

/// Adds the lines of a request. As a title, an instruction that was not carried out would claim that it was.
fn requested(candidates: &mut Candidates<'_>, request: &str, has_acted: bool) {
    // A problem reported at the start may be solved at the end.
    let label = |line: &str| if request::is_problem(line) { "Reported: " } else { "" };
    if let Some(headline) = request::headline(request) {
        candidates.add(source::HEADLINE, &format!("{}{headline}", label(headline)), true);
    }
    for (at, sentence) in request::sentences_of(request).into_iter().take(3).enumerate() {
        let later = 2 * at as i32;
        let asked = sentence.split_once("? ").map_or(sentence.as_str(), |(asked, _)| asked);
        let line = request::without_politeness(asked);
        if request::is_question(asked) {
            let points = if has_acted { source::STATEMENT } else { source::QUESTION };
            candidates.add(points - later, &format!("{}?", line.trim_end_matches('?')), true);
        } else if request::begins_with_verb(&line, has_acted) {
            candidates.add(source::INSTRUCTION - later, &line, true);
        } else if !request::begins_with_verb(&line, true)
            && request::is_prose(&line)
            && clarity(&line) > REJECTED
        {
            candidates.add(source::REPORT - later, &format!("{}{line}", label(&line)), true);
        }
    }
}

/// Adds the lines of the closing message: changes and causes first, then other statements, lists and headings.
fn stated(candidates: &mut Candidates<'_>, material: &Material, has_acted: bool) {
    let change = |points: i32| if has_acted { points } else { source::STATEMENT };
    for (at, unit) in material.body().take(MOST_STATEMENTS).enumerate() {
        let later = at as i32;
        if unit.section == Section::Proposal {
            continue;
        }
        if !unit.heading.is_empty() {
            candidates.add(source::HEADING - later, &unit.heading, false);
        }
        if unit.items.is_empty() {
            statement(candidates, unit, later, has_acted);
            continue;
        }
        if let Some((lead, _)) = unit.text.split_once(": ") {
            let lead = without_person(lead);
            let is_change = begins_with_change(&lead);
            candidates.add(
                if is_change { change(source::CHANGE) } else { source::LIST_LEAD } - later,
                &lead,
                false,
            );
        }
        for item in unit.items.iter().take(3).filter(|item| has_acted && begins_with_change(item)) {
            candidates.add(source::LISTED_CHANGE - later, item, false);
        }
    }
}

fn statement(candidates: &mut Candidates<'_>, unit: &Unit, later: i32, has_acted: bool) {
    let sentences = sentences(&unit.text);
    let Some(first) = sentences.first() else { return };
    let line = without_person(without_label(first));
    if line.ends_with(['?', ':']) {
        return;
    }
    // "Fixed all of it. However, …" is not a success.
    let is_limited = sentences.get(1).is_some_and(|next| {
        ["However", "But ", "Unfortunately", "Still,"].iter().any(|start| next.starts_with(start))
    });
    let points = if is_limited {
        0
    } else if has_acted && begins_with_change(&line) {
        source::CHANGE
    } else if unit.section == Section::Reason || is_cause(first) {
        // The cause of a solved problem would read as an open problem.
        if has_acted { 0 } else { source::CAUSE }
    } else {
        source::STATEMENT
    };
    candidates.add(points - later, &line, false);
}

/// Points for a heading, which was written for readers: it needs less clarity than a sentence of a conversation.
fn readable(text: &str) -> Option<String> {
    let title = title_line(text);
    let words = title.split_whitespace().count();
    (clarity(&title) >= 0 || words >= 2 && title.split_whitespace().any(is_name)).then_some(title)
}

/// The subject of a commit, which was written for newcomers, unless it has only a word or two.
fn subject(subject: &str) -> Option<String> {
    let title = title_line(&without_prefix(subject));
    let says_something = title.split_whitespace().count() >= 3 && clarity(&title) > REJECTED;
    says_something.then_some(title)
}

/// "fix(parser): handle empty input (#12)" → "Handle empty input".
fn without_prefix(subject: &str) -> String {
    static PREFIX: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"^[a-zA-Z]+(\([^)]*\))?!?:\s+|\s*\(#\d+\)$"));
    let bare = PREFIX.as_ref().map_or(subject.into(), |prefix| prefix.replace_all(subject, ""));
    capitalised(bare.trim())
}

/// "Root cause: X" → "X".
fn without_label(text: &str) -> &str {
    if let Some((_, after)) = text.split_once(" After: ") {
        return after;
    }
    match text.split_once(": ") {
        Some((label, rest)) if is_label(label) && rest.len() > 20 => rest,
        _ => text,
    }
}

/// True for labels that name the kind of the statement and not its subject.
fn is_label(label: &str) -> bool {
    const LABELS: &str = "cause|bug|problem|issue|reason|fix|solution|result|summary|change|changes|after|done|fixed|note|\
        answer|update|finding|conclusion|yes|no|short answer";
    let lower = label.to_lowercase();
    each(LABELS).any(|known| lower == known || lower.ends_with(&format!(" {known}"))) && lower.len() <= 24
}

/// "Root cause: …", "Bug: …": a label that announces a cause.
fn is_cause(text: &str) -> bool {
    let label = text.split_once(": ").map(|(label, _)| label.to_lowercase());
    label.is_some_and(|label| {
        ["cause", "bug", "problem", "issue", "reason"].iter().any(|word| label.ends_with(word))
    })
}

/// "Added …", "Renamed …", "`load()` now …".
fn begins_with_change(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    const IRREGULAR: &str =
        "Found|Made|Wrote|Built|Kept|Split|Put|Took|Cut|Set|Gave|Broke|Chose|Rebuilt|Rewrote|Swapped|Brought";
    let is_past = first.len() > 4 && first.ends_with("ed") && first.starts_with(char::is_uppercase)
        || each(IRREGULAR).any(|verb| verb == first);
    let is_chain = text.contains(['→', '=']);
    is_past || (!is_chain && text.split_whitespace().take(6).any(|word| word == "now"))
}

/// "I've now added X" → "Added X".
fn without_person(text: &str) -> String {
    static PERSON: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^(now |fixed[.!:] |done[.!:] |yes[,.!:] )*((i|we)('ve| have) (just |now |also |successfully )*|(i|we) (just |now |also |successfully )*(?P<verb>\w+ed\b))?",
        )
    });
    let Some(found) = PERSON.as_ref().and_then(|person| person.captures(text)) else {
        return text.to_owned();
    };
    let start = found.name("verb").map_or(found.get(0).map_or(0, |whole| whole.end()), |verb| verb.start());
    capitalised(&text[start..])
}

/// The last resort for a turn that changed files without any statement.
fn from_files(turn: &Turn) -> Option<String> {
    let files = turn.changed_files();
    let functions =
        if turn.functions.is_empty() { String::new() } else { format!("{} in ", listed(&turn.functions, 2)) };
    (!files.is_empty()).then(|| title_line(&format!("Edits to {functions}{}", listed(&files, 2))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_commits_and_persons_go() {
        assert_eq!(without_prefix("fix(parser)!: handle empty input (#12)"), "Handle empty input");
        assert_eq!(without_prefix("Handle empty input"), "Handle empty input");
        assert_eq!(without_person("I've now added a lock"), "Added a lock");
        assert_eq!(without_person("Fixed. Removed the lock"), "Removed the lock");
        assert_eq!(without_person("We moved the lock"), "Moved the lock");
        assert_eq!(without_person("We can move the lock"), "We can move the lock");
    }
}
