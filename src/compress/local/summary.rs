//! The summary of a turn, from the prompt, the closing message and what happened.

use super::commands::Ended;
use super::edits::merged;
use super::events::{Act, Step, steps};
use super::grouping::{Role, Unit};
use super::prose::{Sentence, decisions, is_filler, next_steps, tells_why, warns};
use super::statements::{choices, looked_at, operations, research};
use super::story::{changed_files, joined, still_failing};
use super::telling::{Said, Telling};
use super::text::{push_new, shorten, width};
use super::verbs::imperative;
use crate::compress::turn::Turn;
use crate::model::SummaryDraft;

const SUMMARY_COLUMNS: usize = 360;
const REQUEST_COLUMNS: usize = 300;
const FIELD_COLUMNS: usize = 500;
const ITEM_COLUMNS: usize = 200;
const MOST_ITEMS: usize = 8;

/// What is known of the turn as a whole: every field that can be filled honestly, and no other.
pub fn summarize(turn: &Turn) -> SummaryDraft {
    let steps = steps(turn);
    let told: Vec<&Step<'_>> = steps.iter().filter(|step| !matches!(step.act, Act::Nothing)).collect();
    let said = Said::read(turn);
    let unit = Unit { role: Role::Exploration, steps: told };
    let telling = Telling::of(&unit, &said, true);
    let next = next_steps(&said.closing);
    let completed = completed(&telling);
    SummaryDraft {
        summary: overall(turn, &telling, &next, completed.as_deref()),
        request: turn
            .request()
            .map(|request| shorten(request, REQUEST_COLUMNS))
            .filter(|text| !text.is_empty()),
        investigated: investigated(&telling),
        learned: learned(&telling, &next),
        completed,
        next_steps: listed_items(&next),
        notes: notes(&telling, &next),
        files_read: telling.files_read(),
        files_edited: telling.files_modified(),
        key_decisions: key_decisions(&said, &telling),
    }
}

/// Closing sentences about this turn, rather than about what comes or what the user wants.
fn said_now<'t>(telling: &'t Telling<'_>, next: &[&Sentence]) -> Vec<&'t Sentence> {
    let now = |sentence: &&&Sentence| !next.contains(*sentence) && !sentence.text.ends_with(['?', '？']);
    telling.closing.iter().filter(now).copied().collect()
}

/// The closing message's first sentences, else the request and what came of it; and what still fails.
fn overall(turn: &Turn, telling: &Telling<'_>, next: &[&Sentence], done: Option<&str>) -> Option<String> {
    let mut parts: Vec<String> =
        said_now(telling, next).iter().take(3).map(|sentence| sentence.text.clone()).collect();
    if parts.is_empty() {
        parts.extend(turn.request().map(|request| format!("Asked: {}", shorten(request, 160))));
        parts.extend(done.map(|done| shorten(done, 160)));
    }
    if done.is_none() && telling.closing.is_empty() {
        parts.extend(looked_at(telling));
    }
    // What fails is worth more than the last sentence.
    let failing: Vec<String> =
        telling.open.iter().take(1).map(|command| still_failing(command, true)).collect();
    let room = SUMMARY_COLUMNS.saturating_sub(failing.iter().map(|part| width(part) + 2).sum());
    let mut whole: Vec<String> = joined(&parts, room).into_iter().collect();
    whole.extend(failing);
    joined(&whole, SUMMARY_COLUMNS + 20)
}

fn investigated(telling: &Telling<'_>) -> Option<String> {
    let mut parts: Vec<String> = looked_at(telling).into_iter().collect();
    parts.extend(telling.steps.iter().filter_map(|step| match &step.act {
        Act::Page(page) if page.search => Some(format!("Searched the web for \"{}\"", page.subject)),
        Act::Page(page) => Some(format!("Read {}", page.subject)),
        Act::Report(report) if !report.task.is_empty() => Some(format!("Asked a subagent: {}", report.task)),
        Act::Call(call) if !call.acts && call.asked.is_empty() => Some(format!("Used {}", call.tool)),
        Act::Call(call) if !call.acts => Some(format!("Used {}: {}", call.tool, call.asked)),
        _ => None,
    }));
    joined(&parts, FIELD_COLUMNS)
}

/// Causes, repaired failures, and in a turn that changed nothing the closing message itself.
fn learned(telling: &Telling<'_>, next: &[&Sentence]) -> Option<String> {
    let said = said_now(telling, next);
    let why = said.iter().filter(|sentence| tells_why(&sentence.text));
    let mut parts: Vec<String> = why.take(4).map(|sentence| sentence.text.clone()).collect();
    for repair in telling.repairs.iter().filter(|repair| !repair.edits.is_empty()).take(2) {
        if let Some((error, _)) = &repair.broken.error {
            let files = changed_files(&merged(repair.edits.iter().copied()), 2);
            parts.push(format!(
                "`{}` failed with \"{}\" until {files} changed",
                repair.broken.key,
                shorten(error, 120)
            ));
        }
    }
    if telling.steps.iter().any(|step| step.is_research()) {
        parts.extend(research(telling).into_iter().take(2));
    }
    let only_looked = telling.edits.is_empty() && !telling.steps.iter().any(|step| step.acts());
    if parts.is_empty() && only_looked && !telling.steps.is_empty() {
        let found = said.iter().filter(|sentence| imperative(&sentence.text).is_none());
        parts.extend(found.take(4).map(|sentence| sentence.text.clone()));
    }
    if parts.is_empty() && only_looked {
        parts.extend(research(telling).into_iter().take(3));
    }
    joined(&parts, FIELD_COLUMNS)
}

fn completed(telling: &Telling<'_>) -> Option<String> {
    let mut parts = Vec::new();
    if !telling.edits.is_empty() {
        parts.push(format!("Changed {}", changed_files(&telling.edits, 5)));
    }
    let mut checks = telling.last_checks();
    checks.sort_by_key(|command| std::cmp::Reverse(command.purpose));
    parts.extend(checks.iter().take(3).map(|command| format!("`{}`: {}", command.key, command.outcome())));
    parts.extend(operations(telling));
    joined(&parts, FIELD_COLUMNS)
}

/// Warnings, what still fails, what still runs.
fn notes(telling: &Telling<'_>, next: &[&Sentence]) -> Option<String> {
    let said = said_now(telling, next);
    let warnings = said.iter().filter(|sentence| warns(&sentence.text));
    let mut parts: Vec<String> = warnings.take(3).map(|sentence| sentence.text.clone()).collect();
    parts.extend(telling.open.iter().take(3).map(|command| still_failing(command, false)));
    let ended = |how: Ended| {
        telling.commands.iter().filter(move |command| command.ended == how && command.matters()).take(2)
    };
    parts.extend(
        ended(Ended::Running).map(|command| format!("`{}` was left running in the background", command.line)),
    );
    parts.extend(ended(Ended::Stopped).map(|command| format!("The user stopped `{}`", command.line)));
    joined(&parts, FIELD_COLUMNS)
}

fn listed_items(items: &[&Sentence]) -> Option<String> {
    let mut lines = Vec::new();
    for item in items.iter().filter(|item| !is_filler(&item.text)) {
        push_new(&mut lines, &shorten(&item.text, ITEM_COLUMNS), MOST_ITEMS);
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Decisions of the user's answers, of the assistant, and of the user's prompt.
fn key_decisions(said: &Said<'_>, telling: &Telling<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |text: &str| push_new(&mut found, &shorten(text, ITEM_COLUMNS), MOST_ITEMS);
    choices(telling).iter().for_each(|choice| add(choice));
    decisions(&said.closing).iter().for_each(|sentence| add(&sentence.text));
    let asked = decisions(&said.request);
    asked
        .iter()
        .filter(|sentence| width(&sentence.text) >= 12)
        .for_each(|sentence| add(&format!("The user: {}", sentence.text)));
    found
}
