//! Summary, detail and facts of a unit: what changed, how it was verified, what was broken, and why it was done.

use super::commands::{Command, Ended};
use super::edits::{Edit, merged};
use super::events::Act;
use super::grouping::{Repair, Role};
use super::programs::Purpose;
use super::prose::{Sentence, tells_why};
use super::searches::{Look, files_told, pattern_told};
use super::telling::Telling;
use super::text::{counted, listed, push_new, shorten, width};
use super::title::Title;

pub(super) const SUMMARY_COLUMNS: usize = 280;
pub(super) const DETAIL_COLUMNS: usize = 900;
pub(super) const FACT_COLUMNS: usize = 240;
pub(super) const MOST_FACTS: usize = 12;
const REQUEST_COLUMNS: usize = 220;
const MOST_FILE_FACTS: usize = 6;

/// Enough to decide whether it matters.
pub(super) fn summary(telling: &Telling<'_>, title: &Title) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    match telling.role {
        Role::Repair => parts.extend(telling.repairs.iter().take(1).map(|repair| repaired(repair, 110))),
        Role::Exploration => parts.extend(findings(telling, title, 2)),
        Role::Research => parts.extend(research(telling).into_iter().take(2)),
        Role::Work | Role::Operation => {
            parts.extend(findings(telling, title, 1).into_iter().filter(|said| width(said) <= 150))
        }
    }
    if !telling.edits.is_empty() && telling.role != Role::Repair {
        parts.push(format!("Changed {}", changed_files(&telling.edits, 3)));
    }
    parts.extend(verification(telling));
    if parts.iter().map(|part| width(part)).sum::<usize>() < 60 {
        parts.extend(operations(telling).into_iter().take(2));
    }
    if parts.is_empty() {
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
    parts.extend(telling.repairs.iter().take(2).map(|repair| repaired(repair, 160)));
    parts.extend(
        telling.commits.iter().map(|commit| commit.body.clone()).filter(|body| !body.is_empty()).take(1),
    );
    if telling.role == Role::Exploration {
        parts.extend(looked_at(telling));
    } else if !telling.edits.is_empty() {
        parts.push(format!("Changed {}", changed_files(&telling.edits, 6)));
    }
    parts.extend(verification(telling));
    parts.extend(operations(telling).into_iter().take(3));
    joined(&parts, DETAIL_COLUMNS)
}

/// Single statements, the most telling first.
pub(super) fn facts(telling: &Telling<'_>, title: &Title) -> Vec<String> {
    let mut facts = Vec::new();
    let mut add = |fact: String| push_new(&mut facts, shorten(&fact, FACT_COLUMNS).trim(), MOST_FACTS);
    for repair in telling.repairs.iter().take(2) {
        add(repaired(repair, 110));
        if let Some((_, signature)) =
            repair.broken.error.as_ref().filter(|_| !repair.edits.is_empty() || !repair.remedies.is_empty())
        {
            add(format!("Error signature: {signature}"));
        }
    }
    telling.open.iter().take(3).for_each(|command| add(still_failing(command)));
    telling.edits.iter().take(MOST_FILE_FACTS).for_each(|edit| add(edit.statement()));
    if telling.edits.len() > MOST_FILE_FACTS {
        add(format!("Also changed: {}", changed_files(&telling.edits[MOST_FILE_FACTS..], 6)));
    }
    operations(telling).into_iter().for_each(&mut add);
    telling
        .checks()
        .into_iter()
        .take(3)
        .for_each(|command| add(format!("`{}`: {}", command.line, command.outcome())));
    research(telling).into_iter().for_each(&mut add);
    let said =
        if telling.role == Role::Exploration { findings(telling, title, 6) } else { reasons(telling, 3) };
    said.into_iter().for_each(&mut add);
    if telling.role == Role::Exploration {
        searches(telling).into_iter().take(3).for_each(&mut add);
    }
    facts
}

/// The user's words that this unit answers to: all of them if they are few.
fn request(telling: &Telling<'_>) -> Option<String> {
    let whole: Vec<&str> = telling.request.iter().map(|sentence| sentence.text.as_str()).collect();
    let whole = whole.join(" ");
    if whole.is_empty() || width(&whole) <= REQUEST_COLUMNS {
        return (!whole.is_empty()).then_some(whole);
    }
    let score = |sentence: &Sentence| {
        let asks = super::verbs::wish(&sentence.text).is_some() || sentence.text.ends_with('?');
        let named = telling
            .edits
            .iter()
            .filter(|edit| {
                super::telling::mentions(&sentence.text, &[super::place::stem(&edit.path).to_owned()])
            })
            .count();
        2 * usize::from(asks) + 2 * named.min(2) + usize::from(tells_why(&sentence.text))
    };
    // Of equals the first, which is where people begin.
    let best = telling.request.iter().rev().max_by_key(|sentence| score(sentence))?;
    Some(shorten(&best.text, REQUEST_COLUMNS))
}

/// Closing sentences, the telling ones first chosen, in the order in which they were said.
fn findings(telling: &Telling<'_>, title: &Title, most: usize) -> Vec<String> {
    let candidates: Vec<&&Sentence> = telling
        .closing
        .iter()
        .filter(|sentence| {
            title
                .from_closing
                .as_ref()
                .is_none_or(|used| *used != sentence.text || width(used) > super::title::TITLE_COLUMNS)
        })
        .filter(|sentence| !sentence.text.ends_with(['?', '？']) && !is_future(sentence))
        .take(24)
        .collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|at| (!tells_why(&candidates[*at].text), *at));
    let mut chosen: Vec<usize> = order.into_iter().take(most).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| candidates[at].text.clone()).collect()
}

/// What remains to be done is told by the summary of the turn, not by what was done.
fn is_future(sentence: &Sentence) -> bool {
    !super::prose::next_steps(std::slice::from_ref(sentence)).is_empty()
}

/// Closing sentences that say why.
fn reasons(telling: &Telling<'_>, most: usize) -> Vec<String> {
    let why = telling.closing.iter().filter(|sentence| tells_why(&sentence.text) && !is_future(sentence));
    why.take(most).map(|sentence| sentence.text.clone()).collect()
}

/// `` `cargo test` failed (…); passed after changing retry in upload.rs (+3 -1) ``.
fn repaired(repair: &Repair<'_>, columns: usize) -> String {
    let broken = repair.broken;
    let failing = broken.tests.as_ref().map(|tests| {
        let names = if tests.failing.is_empty() {
            String::new()
        } else {
            format!(" ({})", listed(&tests.failing, 3))
        };
        format!("{}{names}", tests.told())
    });
    let error = broken.error.as_ref().map(|(error, _)| shorten(error, columns));
    let what = match (failing, error) {
        (Some(failing), Some(error)) => format!("{failing}: {error}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "no output".to_owned(),
    };
    let edits: Vec<Edit> = merged(repair.edits.iter().copied());
    let after = if !edits.is_empty() {
        format!("after changing {}", changed_files(&edits, 3))
    } else if let Some(remedy) = repair.remedies.last() {
        format!("after `{}`", remedy.line)
    } else if repair.mended.line != broken.line {
        format!("as `{}`", repair.mended.line)
    } else {
        "when run again, with nothing changed".to_owned()
    };
    let passed = repair.mended.tests.as_ref().map(|tests| format!(" ({})", tests.told())).unwrap_or_default();
    format!("`{}` failed: {what}; it passed{passed} {after}", broken.line)
}

/// `app.py (greet, +1 -1) and test_app.py (new, 4 lines)`.
pub(super) fn changed_files(edits: &[Edit], most: usize) -> String {
    let told = |edit: &Edit| {
        let names = edit.names(3);
        if names.is_empty() {
            format!("{} ({})", edit.path, edit.size())
        } else {
            format!("{} ({}; {})", edit.path, edit.size(), names.join(", "))
        }
    };
    let files: Vec<String> = edits.iter().map(told).collect();
    if files.len() <= most {
        return listed(&files, most);
    }
    let (added, removed) = edits
        .iter()
        .filter_map(|edit| edit.lines)
        .fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
    format!("{} (+{added} -{removed}): {}", counted(edits.len(), "file"), listed(&files, most))
}

/// How the work was verified, and what still fails.
fn verification(telling: &Telling<'_>) -> Vec<String> {
    let mut parts = Vec::new();
    if telling.role != Role::Repair {
        let checks: Vec<String> = telling
            .checks()
            .iter()
            .rev()
            .take(2)
            .map(|command| format!("`{}`: {}", command.key, command.outcome()))
            .collect();
        if !checks.is_empty() {
            parts.push(format!("Verified by {}", checks.join(", ")));
        }
    }
    parts.extend(telling.open.iter().take(2).map(|command| still_failing(command)));
    parts
}

fn still_failing(command: &Command) -> String {
    let error = command.error.as_ref().map(|(error, _)| shorten(error, 110));
    match (&command.tests, error) {
        (Some(tests), error) if tests.failed > 0 => {
            let names = if tests.failing.is_empty() {
                String::new()
            } else {
                format!(" ({})", listed(&tests.failing, 4))
            };
            let error = error.filter(|error| !tests.failing.iter().any(|name| error.contains(name.as_str())));
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            format!("`{}` ended with {}{names}{error}", command.line, tests.told())
        }
        (_, Some(error)) => format!("`{}` failed: {error}", command.line),
        (_, None) => format!("`{}` failed", command.line),
    }
}

/// What was done besides editing and checking.
fn operations(telling: &Telling<'_>) -> Vec<String> {
    let mut told = Vec::new();
    for step in telling.steps {
        match &step.act {
            Act::Command(command) if !command.is_failure() => told.extend(operation(command)),
            Act::Call(call) if call.acts => told.push(call.statement()),
            Act::Choices(choices) => told.extend(choices.iter().map(|choice| choice.statement())),
            _ => {}
        }
    }
    told
}

fn operation(command: &Command) -> Vec<String> {
    let mut told: Vec<String> = command
        .commits
        .iter()
        .map(|commit| match &commit.id {
            Some(id) => format!("Commit {id}: {}", commit.subject),
            None => format!("Commit: {}", commit.subject),
        })
        .collect();
    told.extend(command.pushed.iter().map(|branch| format!("Pushed {branch}")));
    told.extend(command.address.iter().map(|address| format!("Opened {address}")));
    if !told.is_empty() {
        return told;
    }
    match command.purpose {
        Purpose::Install if command.ended == Ended::Well => {
            let what = if command.packages.is_empty() {
                String::new()
            } else {
                format!(" ({})", listed(&command.packages, 6))
            };
            told.push(format!("`{}` succeeded{what}", command.line));
        }
        Purpose::Run | Purpose::Git | Purpose::Publish => {
            let said = if command.printed.is_empty() {
                String::new()
            } else {
                format!(", saying: {}", command.printed)
            };
            told.push(format!("`{}` {}{said}", command.line, command.outcome()));
        }
        _ => {}
    }
    told
}

/// What pages, subagents and servers said.
fn research(telling: &Telling<'_>) -> Vec<String> {
    let said = telling.steps.iter().filter_map(|step| match &step.act {
        Act::Page(page) => Some(page.statement()),
        Act::Report(report) if !report.said.is_empty() => Some(report.statement()),
        Act::Call(call) if !call.acts => Some(call.statement()),
        _ => None,
    });
    said.take(6).map(|statement| shorten(&statement, FACT_COLUMNS)).collect()
}

/// Searches and what they found.
fn searches(telling: &Telling<'_>) -> Vec<String> {
    let told = telling.steps.iter().filter_map(|step| match &step.act {
        Act::Look(Look::Search { pattern, files, .. }) if !pattern.is_empty() && !files.is_empty() => {
            Some(format!("{} is in {}", pattern_told(pattern), files_told(files)))
        }
        _ => None,
    });
    told.collect()
}

/// Files and searches, as one statement.
pub(super) fn looked_at(telling: &Telling<'_>) -> Option<String> {
    let files = telling.files_read();
    let mut patterns = Vec::new();
    for step in telling.steps {
        if let Act::Look(Look::Search { pattern, .. }) = &step.act {
            push_new(&mut patterns, &pattern_told(pattern), 8);
        }
    }
    let read = (!files.is_empty()).then(|| format!("Read {}", listed(&files, 6)));
    let searched = (!patterns.is_empty()).then(|| format!("searched for {}", listed(&patterns, 4)));
    match (read, searched) {
        (Some(read), Some(searched)) => Some(format!("{read}; {searched}")),
        (Some(only), None) => Some(only),
        (None, Some(only)) => Some(super::text::capitalised(&only)),
        (None, None) => None,
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
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&shorten(part, room.saturating_sub(2)));
        if !out.ends_with(['.', '!', '?', '。', '！', '？', '…', '"']) {
            out.push('.');
        }
    }
    (!out.is_empty()).then_some(out)
}
