//! Summary, detail and facts of a unit: what changed, how it was verified, what was broken, and why it was done.

use super::commands::Command;
use super::edits::{Edit, merged};
use super::grouping::{Repair, Role};
use super::prose::{Sentence, is_continuation, next_steps, tells_why};
use super::statements::{choices, looked_at, operations, research, searches};
use super::telling::{Telling, mentions};
use super::text::{counted, each, listed, one_line, push_new, shorten, width};
use super::title::{TITLE_COLUMNS, Title};
use super::title_of_steps::short_test_name;
use super::verbs::wish;

pub(super) const SUMMARY_COLUMNS: usize = 260;
pub(super) const DETAIL_COLUMNS: usize = 880;
pub(super) const FACT_COLUMNS: usize = 240;
pub(super) const MOST_FACTS: usize = 12;
const REQUEST_COLUMNS: usize = 220;
const MOST_FILE_FACTS: usize = 4;

/// Enough to decide whether it matters.
pub(super) fn summary(telling: &Telling<'_>, title: &Title) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    match telling.role {
        Role::Repair => {
            parts.extend(within(reasons(telling, 1), 140));
            parts.extend(telling.repairs.iter().take(1).map(|repair| repaired(repair, 80, false)));
        }
        Role::Exploration => parts.extend(first_said(telling, title, 2)),
        Role::Research => parts.extend(research(telling).iter().take(2).map(|said| shorten(said, 120))),
        Role::Operation => {
            parts.extend(operations(telling).into_iter().take(2));
            parts.extend(telling.commits.iter().map(|commit| commit.body.clone()).take(1));
        }
        Role::Work => parts.extend(within(findings(telling, title, 2), 170)),
    }
    if !telling.edits.is_empty() && telling.role != Role::Repair {
        parts.push(format!("Changed {}", sized_files(&telling.edits, 3)));
    }
    parts.extend(verification(telling, true));
    if parts.iter().map(|part| width(part)).sum::<usize>() < 120 {
        parts.extend(operations(telling).into_iter().take(2));
    }
    if parts.is_empty() {
        parts.extend(research(telling).into_iter().take(2));
        parts.extend(looked_at(telling));
    }
    joined(&parts, SUMMARY_COLUMNS)
}

/// The facts and the reason.
pub(super) fn detail(telling: &Telling<'_>, title: &Title) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(request(telling).map(|asked| format!("Asked: \"{asked}\"")));
    let most = if telling.role == Role::Exploration { 5 } else { 3 };
    parts.extend(findings(telling, title, most));
    parts.extend(telling.repairs.iter().take(2).map(|repair| repaired(repair, 160, true)));
    parts.extend(verification(telling, false));
    parts.extend(telling.commits.iter().map(|commit| commit.body.clone()).find(|body| !body.is_empty()));
    let told_by_repair =
        telling.repairs.iter().map(|repair| merged(repair.edits.iter().copied()).len()).max();
    if telling.role == Role::Exploration {
        parts.extend(looked_at(telling));
    } else if !telling.edits.is_empty() && told_by_repair != Some(telling.edits.len()) {
        parts.push(format!("Changed {}", changed_files(&telling.edits, 6)));
    }
    parts.extend(choices(telling));
    parts.extend(operations(telling).into_iter().take(3));
    if telling.role == Role::Research || parts.is_empty() {
        parts.extend(research(telling).into_iter().take(4));
    }
    joined(&parts, DETAIL_COLUMNS)
}

/// Single statements, the most telling first.
pub(super) fn facts(telling: &Telling<'_>, title: &Title) -> Vec<String> {
    let mut facts = Vec::new();
    let mut add = |fact: String| push_new(&mut facts, shorten(&fact, FACT_COLUMNS).trim(), MOST_FACTS);
    for repair in telling.repairs.iter().take(2) {
        add(repaired(repair, 110, true));
        let helped = !repair.edits.is_empty() || !repair.remedies.is_empty();
        if let Some((_, signature)) = repair.broken.error.as_ref().filter(|_| helped) {
            add(format!("Error signature: {signature}"));
        }
    }
    telling.open.iter().take(3).for_each(|command| add(still_failing(command, false)));
    telling.edits.iter().take(MOST_FILE_FACTS).for_each(|edit| add(edit.statement()));
    if telling.edits.len() > MOST_FILE_FACTS {
        add(format!("Also changed: {}", changed_files(&telling.edits[MOST_FILE_FACTS..], 6)));
    }
    choices(telling).into_iter().chain(operations(telling)).for_each(&mut add);
    let checks = telling.checks();
    checks.into_iter().take(3).for_each(|command| add(format!("`{}`: {}", command.line, command.outcome())));
    let said =
        if telling.role == Role::Exploration { findings(telling, title, 6) } else { reasons(telling, 3) };
    said.into_iter().filter(|said| stands_alone(said)).for_each(&mut add);
    research(telling).into_iter().for_each(&mut add);
    if telling.role == Role::Exploration {
        searches(telling).into_iter().take(3).for_each(&mut add);
    }
    facts
}

/// The user's words that this unit answers to: all of them if they are few, else those that ask for it.
fn request(telling: &Telling<'_>) -> Option<String> {
    let whole = if telling.asked.contains("```") {
        let sentences: Vec<&str> = telling.request.iter().map(|sentence| sentence.text.as_str()).collect();
        sentences.join(" ")
    } else {
        one_line(telling.asked)
    };
    let names = telling.names();
    let about = telling.alone || mentions(&whole, &names);
    if whole.is_empty() || is_continuation(&whole) || !about {
        return None;
    }
    if width(&whole) <= REQUEST_COLUMNS {
        return Some(whole);
    }
    let score = |sentence: &Sentence| {
        let asks = wish(&sentence.text).is_some() || sentence.text.ends_with(['?', '？']);
        let named = mentions(&sentence.text, &names);
        2 * usize::from(asks) + 2 * usize::from(named) + usize::from(tells_why(&sentence.text))
    };
    let mut order: Vec<usize> = (0..telling.request.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(score(&telling.request[*at])));
    let mut room = REQUEST_COLUMNS;
    let best = order.first().copied();
    order.retain(|at| {
        let fits = width(&telling.request[*at].text) < room;
        room -= if fits { width(&telling.request[*at].text) } else { 0 };
        fits
    });
    order.sort_unstable();
    let chosen: Vec<&str> = order.iter().map(|at| telling.request[*at].text.as_str()).collect();
    let fallback = || best.map(|at| shorten(&telling.request[at].text, REQUEST_COLUMNS));
    if chosen.is_empty() { fallback() } else { Some(chosen.join(" ")) }
}

/// Closing sentences that say something the title does not.
fn sayings<'t>(telling: &'t Telling<'_>, title: &Title) -> Vec<&'t Sentence> {
    let is_title = |sentence: &Sentence| {
        title.from_closing.as_ref().is_some_and(|used| *used == sentence.text && width(used) <= TITLE_COLUMNS)
    };
    let told_by_checks =
        |sentence: &Sentence| !telling.commands.is_empty() && is_about_checks(&sentence.text);
    let told = |sentence: &&&Sentence| {
        !is_title(sentence) && !told_by_checks(sentence) && !sentence.text.ends_with(['?', '？'])
    };
    let said: Vec<&Sentence> = telling.closing.iter().filter(told).take(24).copied().collect();
    let done: Vec<&Sentence> = said.iter().filter(|sentence| !is_future(sentence)).copied().collect();
    // The answer may be just what remains to be done.
    if telling.role == Role::Exploration && done.is_empty() { said } else { done }
}

/// "All 44 tests pass" is told by the run itself, with numbers.
fn is_about_checks(text: &str) -> bool {
    const WORDS: &str =
        "tests: |tests pass|test pass|tests passing|checks pass|is clean|all green|suite passes";
    let lower = text.to_lowercase();
    width(text) <= 70 && each(WORDS).any(|words| lower.contains(words))
}

/// What remains to be done is told by the summary of the turn, not by what was done.
fn is_future(sentence: &Sentence) -> bool {
    !next_steps(std::slice::from_ref(sentence)).is_empty()
}

/// As many as are no wider than that together.
fn within(said: Vec<String>, columns: usize) -> Vec<String> {
    let mut room = columns;
    said.into_iter()
        .take_while(|text| {
            let fits = width(text) <= room;
            room = room.saturating_sub(width(text));
            fits
        })
        .collect()
}

fn first_said(telling: &Telling<'_>, title: &Title, most: usize) -> Vec<String> {
    sayings(telling, title).into_iter().take(most).map(|sentence| sentence.text.clone()).collect()
}

/// The first sentence and those that say why, as many as asked for, in the order in which they were said.
fn findings(telling: &Telling<'_>, title: &Title, most: usize) -> Vec<String> {
    let sayings = sayings(telling, title);
    let mut order: Vec<usize> = (0..sayings.len()).collect();
    order.sort_by_key(|at| (*at > 0 && !tells_why(&sayings[*at].text), *at));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|at| sayings[at].text.clone()).collect()
}

/// Closing sentences that say why.
fn reasons(telling: &Telling<'_>, most: usize) -> Vec<String> {
    let why = telling.closing.iter().filter(|sentence| tells_why(&sentence.text) && !is_future(sentence));
    why.take(most).map(|sentence| sentence.text.clone()).collect()
}

/// Whether a sentence can be understood without the one before it.
fn stands_alone(text: &str) -> bool {
    const OPENINGS: &str = "that|this|it|they|these|those|its|then|so|both|also|but|and";
    let lower = text.to_lowercase();
    let first = lower.split([' ', '\'', '’', ',']).next().unwrap_or_default();
    each(OPENINGS).all(|word| word != first)
}

/// `` `cargo test` failed (1 failed, 3 passed): …; it passed after changing upload.rs (+3 -1; retry) ``.
fn repaired(repair: &Repair<'_>, columns: usize, full: bool) -> String {
    let (broken, mended) = (repair.broken, repair.mended);
    let error = broken.error.as_ref().map(|(error, _)| shorten(error, columns)).unwrap_or_default();
    let tests = broken
        .tests
        .as_ref()
        .map(|tests| format!(" ({}{})", tests.told(), failing_names(broken, &error, full)));
    let error = if error.is_empty() { error } else { format!(": {error}") };
    let edits: Vec<Edit> = merged(repair.edits.iter().copied());
    let after = if !edits.is_empty() {
        let files = if full { changed_files(&edits, 3) } else { sized_files(&edits, 3) };
        format!("after changing {files}")
    } else if let Some(remedy) = repair.remedies.last() {
        format!("after `{}`", remedy.line)
    } else if mended.line != broken.line {
        format!("as `{}`", mended.line)
    } else {
        "when run again, with nothing changed".to_owned()
    };
    let then: Vec<String> = repair
        .errors
        .iter()
        .take(2)
        .map(|error| format!(", then: {}", shorten(error, columns).trim_end_matches('.')))
        .collect();
    let passed = if mended.verifies() { "passed" } else { "succeeded" };
    let numbers = mended.tests.as_ref().filter(|_| full).map(|tests| format!(" ({})", tests.told()));
    let numbers = numbers.unwrap_or_default();
    let line = if full { &broken.line } else { &broken.key };
    let tests = tests.unwrap_or_default();
    let error = format!("{}{}", error.trim_end_matches('.'), then.concat());
    format!("`{line}` failed{tests}{error}; it {passed}{numbers} {after}")
}

/// The failing tests that the error does not name already.
fn failing_names(command: &Command, error: &str, full: bool) -> String {
    let failing = command.tests.iter().flat_map(|tests| &tests.failing);
    let names: Vec<String> = failing
        .filter(|name| !error.contains(short_test_name(name).trim_end_matches('…')))
        .map(|name| if full { name.clone() } else { short_test_name(name) })
        .collect();
    if names.is_empty() { String::new() } else { format!(": {}", listed(&names, 4)) }
}

/// `app.py (+1 -1; greet) and test_app.py (new, 4 lines)`.
pub(super) fn changed_files(edits: &[Edit], most: usize) -> String {
    files_told(edits, most, |edit| {
        let names = edit.names(3);
        let names = if names.is_empty() { String::new() } else { format!("; {}", names.join(", ")) };
        format!("{} ({}{names})", edit.path, edit.size())
    })
}

/// `app.py (+1 -1) and test_app.py (new, 4 lines)`.
fn sized_files(edits: &[Edit], most: usize) -> String {
    files_told(edits, most, |edit| format!("{} ({})", edit.path, edit.size()))
}

fn files_told(edits: &[Edit], most: usize, told: impl Fn(&Edit) -> String) -> String {
    let files: Vec<String> = edits.iter().map(told).collect();
    if files.len() <= most {
        return listed(&files, most);
    }
    let lines = edits.iter().filter_map(|edit| edit.lines);
    let (added, removed) = lines.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
    format!("{} (+{added} -{removed}): {}", counted(edits.len(), "file"), listed(&files, most))
}

/// How the work was verified, and what still fails.
fn verification(telling: &Telling<'_>, short: bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut checks = telling.checks();
    checks.sort_by_key(|command| std::cmp::Reverse(command.purpose));
    let told = |command: &&Command| format!("`{}`: {}", command.key, command.outcome());
    let checks: Vec<String> = checks.iter().take(2).map(told).collect();
    if !checks.is_empty() {
        parts.push(format!("Verified by {}", checks.join(", ")));
    }
    parts.extend(telling.open.iter().take(2).map(|command| still_failing(command, short)));
    parts
}

/// What a command that nothing repaired said at its end.
pub(super) fn still_failing(command: &Command, short: bool) -> String {
    let line = if short { &command.key } else { &command.line };
    let error = command.error.as_ref().map(|(error, _)| shorten(error, 110)).unwrap_or_default();
    let said = if error.is_empty() { String::new() } else { format!(": {error}") };
    match &command.tests {
        Some(tests) if tests.failed > 0 => {
            let names = failing_names(command, &error, !short);
            let names =
                if names.is_empty() { names } else { format!(" ({})", names.trim_start_matches(": ")) };
            format!("`{line}` ended with {}{names}{said}", tests.told())
        }
        _ => format!("`{line}` failed{said}"),
    }
}

/// Sentences one after the other, as many as fit; the last may be shortened.
pub(super) fn joined(parts: &[String], columns: usize) -> Option<String> {
    let mut out = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        if seen.contains(&part) {
            continue;
        }
        seen.push(part);
        let room = columns.saturating_sub(width(&out));
        if room < 24 {
            break;
        }
        if !out.is_empty() && !out.ends_with(['。', '！', '？']) {
            out.push(' ');
        }
        out.push_str(&shorten(part, room.saturating_sub(2)));
        let quoted = ["Asked: "].iter().any(|start| part.starts_with(start)) && out.ends_with('"');
        if !out.ends_with(['.', '!', '?', '。', '！', '？', '…']) && !quoted {
            out.push('.');
        }
    }
    (!out.is_empty()).then_some(out)
}
