//! The summary of a turn, from the prompt, the closing message and what happened.

use super::commands::Ended;
use super::edits::merged;
use super::events::{Act, Step, steps};
use super::grouping::{Role, Unit};
use super::prose::{Sentence, decisions, is_filler, next_steps, tells_why, warns};
use super::story::{changed_files, joined, looked_at};
use super::telling::{Said, Telling};
use super::text::{push_new, shorten, width};
use crate::compress::turn::Turn;
use crate::model::SummaryDraft;

const REQUEST_COLUMNS: usize = 300;
const FIELD_COLUMNS: usize = 500;
const ITEM_COLUMNS: usize = 200;
const MOST_ITEMS: usize = 8;
const MOST_FILES: usize = 40;

/// What is known of the turn as a whole.
pub fn summarize(turn: &Turn) -> SummaryDraft {
    let steps = steps(turn);
    let told: Vec<&Step<'_>> = steps.iter().filter(|step| !matches!(step.act, Act::Nothing)).collect();
    let said = Said::read(turn);
    let unit = Unit { role: Role::Exploration, steps: told };
    let telling = Telling::of(&unit, &said, true);
    let (next, decided) = (next_steps(&said.closing), decisions_of(&said));
    let done = completed(&telling);
    let learned = learned(&telling, &next);
    SummaryDraft {
        summary: overall(turn, &telling, &next, done.as_deref()),
        request: turn
            .request()
            .map(|request| shorten(request, REQUEST_COLUMNS))
            .filter(|request| !request.is_empty()),
        investigated: investigated(&telling),
        learned,
        completed: done,
        next_steps: listed_items(&next),
        notes: notes(&telling, &next),
        files_read: telling.files_read().into_iter().take(MOST_FILES).collect(),
        files_edited: telling.files_modified().into_iter().take(MOST_FILES).collect(),
        key_decisions: decided,
    }
}

/// The closing message's first sentences, else the request and what came of it.
fn overall(turn: &Turn, telling: &Telling<'_>, next: &[&Sentence], done: Option<&str>) -> Option<String> {
    let lead =
        telling.closing.iter().filter(|sentence| !next.contains(sentence) && !sentence.text.ends_with('?'));
    let lead: Vec<String> = lead.take(3).map(|sentence| sentence.text.clone()).collect();
    let mut parts: Vec<String> = Vec::new();
    if lead.is_empty() {
        parts.extend(turn.request().map(|request| format!("Asked: {}", shorten(request, 160))));
        parts.extend(done.map(str::to_owned));
    } else {
        parts.extend(lead);
        parts.extend(telling.open.iter().take(1).map(|command| {
            format!("`{}` still fails: {}", command.key, command.outcome().trim_start_matches("failed: "))
        }));
    }
    if parts.is_empty() {
        parts.extend(looked_at(telling));
    }
    joined(&parts, 360)
}

fn investigated(telling: &Telling<'_>) -> Option<String> {
    let mut parts: Vec<String> = looked_at(telling).into_iter().collect();
    for step in telling.steps {
        match &step.act {
            Act::Page(page) if page.search => {
                parts.push(format!("Searched the web for \"{}\"", page.subject))
            }
            Act::Page(page) => parts.push(format!("Read {}", page.subject)),
            Act::Report(report) if !report.task.is_empty() => {
                parts.push(format!("Asked a subagent: {}", report.task))
            }
            Act::Call(call) if !call.acts => parts.push(format!("Used {}: {}", call.tool, call.asked)),
            _ => {}
        }
    }
    joined(&parts, FIELD_COLUMNS)
}

/// Causes, repaired failures, and in a turn without work the closing message itself.
fn learned(telling: &Telling<'_>, next: &[&Sentence]) -> Option<String> {
    let open = |sentence: &&&Sentence| !next.contains(*sentence) && !sentence.text.ends_with('?');
    let why = telling.closing.iter().filter(open).filter(|sentence| tells_why(&sentence.text));
    let mut parts: Vec<String> = why.take(4).map(|sentence| sentence.text.clone()).collect();
    for repair in telling.repairs.iter().take(2) {
        if let Some((error, _)) = &repair.broken.error {
            let by = if repair.edits.is_empty() {
                String::new()
            } else {
                format!(" was fixed in {}", changed_files(&merged(repair.edits.iter().copied()), 2))
            };
            parts.push(format!("\"{}\" ({}){by}", shorten(error, 120), repair.broken.key));
        }
    }
    if parts.is_empty() && telling.edits.is_empty() {
        parts.extend(telling.closing.iter().filter(open).take(4).map(|sentence| sentence.text.clone()));
        let reports = telling.steps.iter().filter_map(|step| match &step.act {
            Act::Report(report) if !report.said.is_empty() => Some(report.statement()),
            Act::Page(page) if !page.said.is_empty() => Some(page.statement()),
            _ => None,
        });
        if parts.is_empty() {
            parts.extend(reports.take(3));
        }
    }
    joined(&parts, FIELD_COLUMNS)
}

fn completed(telling: &Telling<'_>) -> Option<String> {
    let mut parts = Vec::new();
    if !telling.edits.is_empty() {
        parts.push(format!("Changed {}", changed_files(&telling.edits, 5)));
    }
    parts.extend(
        telling
            .checks()
            .iter()
            .rev()
            .take(3)
            .map(|command| format!("`{}`: {}", command.key, command.outcome())),
    );
    for command in &telling.commands {
        parts.extend(command.commits.iter().map(|commit| format!("Committed \"{}\"", commit.subject)));
        parts.extend(command.pushed.iter().map(|branch| format!("Pushed {branch}")));
        parts.extend(command.address.iter().map(|address| format!("Opened {address}")));
        if !command.packages.is_empty() && command.ended == Ended::Well {
            parts.push(format!("Installed {}", super::text::listed(&command.packages, 5)));
        }
    }
    for step in telling.steps {
        if let Act::Call(call) = &step.act
            && call.acts
        {
            parts.push(call.statement());
        }
    }
    joined(&parts, FIELD_COLUMNS)
}

/// Warnings, what still fails, what still runs.
fn notes(telling: &Telling<'_>, next: &[&Sentence]) -> Option<String> {
    let warned = telling.closing.iter().filter(|sentence| warns(&sentence.text) && !next.contains(sentence));
    let mut parts: Vec<String> = warned.take(3).map(|sentence| sentence.text.clone()).collect();
    parts.extend(
        telling
            .open
            .iter()
            .take(3)
            .map(|command| format!("`{}` did not succeed: {}", command.line, command.outcome())),
    );
    let running =
        telling.commands.iter().filter(|command| command.ended == Ended::Running && command.matters());
    parts.extend(
        running.take(2).map(|command| format!("`{}` was left running in the background", command.line)),
    );
    let stopped = telling.commands.iter().filter(|command| command.ended == Ended::Stopped);
    parts.extend(stopped.take(2).map(|command| format!("The user stopped `{}`", command.line)));
    joined(&parts, FIELD_COLUMNS)
}

fn listed_items(items: &[&Sentence]) -> Option<String> {
    let mut lines = Vec::new();
    for item in items.iter().filter(|item| !is_filler(&item.text)) {
        push_new(&mut lines, &shorten(&item.text, ITEM_COLUMNS), MOST_ITEMS);
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Decisions of the assistant, of the user's prompt, and of the user's answers.
fn decisions_of(said: &Said) -> Vec<String> {
    let mut found = Vec::new();
    for sentence in decisions(&said.closing) {
        push_new(&mut found, &shorten(&sentence.text, ITEM_COLUMNS), MOST_ITEMS);
    }
    for sentence in decisions(&said.request).into_iter().filter(|sentence| width(&sentence.text) >= 12) {
        push_new(&mut found, &format!("The user: {}", shorten(&sentence.text, ITEM_COLUMNS)), MOST_ITEMS);
    }
    found
}
