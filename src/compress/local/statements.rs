//! Statements about single steps: what was done besides editing and checking, what others said, what was looked at.

use super::commands::{Command, Ended};
use super::events::Act;
use super::programs::Purpose;
use super::searches::{Look, files_told, pattern_told};
use super::story::FACT_COLUMNS;
use super::telling::Telling;
use super::text::{capitalised, listed, push_new, shorten};

/// What was done besides editing and checking. What a repair ends with is told by the repair.
pub(super) fn operations(telling: &Telling<'_>) -> Vec<String> {
    let mut told = Vec::new();
    let in_repair =
        |command: &Command| telling.repairs.iter().any(|repair| repair.mended.line == command.line);
    for step in telling.steps {
        match &step.act {
            Act::Command(command) if !command.commits.is_empty() => told.extend(published(command)),
            Act::Command(command) if command.is_failure() || in_repair(command) => {}
            Act::Command(command) => told.extend(operation(command)),
            Act::Call(call) if call.acts => told.push(call.statement()),
            _ => {}
        }
    }
    told
}

/// What the user decided when asked.
pub(super) fn choices(telling: &Telling<'_>) -> Vec<String> {
    let chosen = telling.steps.iter().filter_map(|step| match &step.act {
        Act::Choices(choices) => Some(choices),
        _ => None,
    });
    chosen.flatten().map(|choice| choice.statement()).collect()
}

/// Commits, pushes and pull requests.
fn published(command: &Command) -> Vec<String> {
    let commits = command.commits.iter().map(|commit| match &commit.id {
        Some(id) => format!("Commit {id}: {}", commit.subject),
        None => format!("Commit: {}", commit.subject),
    });
    let mut told: Vec<String> = commits.collect();
    told.extend(command.pushed.iter().map(|branch| format!("Pushed {branch}")));
    told.extend(command.address.iter().map(|address| format!("Opened {address}")));
    told
}

fn operation(command: &Command) -> Vec<String> {
    let mut told = published(command);
    if !told.is_empty() {
        return told;
    }
    match command.purpose {
        Purpose::Install if command.ended == Ended::Well && command.packages.is_empty() => {
            told.push(format!("`{}` succeeded", command.line));
        }
        Purpose::Install if command.ended == Ended::Well => {
            told.push(format!("Installed {} (`{}`)", listed(&command.packages, 6), command.line));
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
pub(super) fn research(telling: &Telling<'_>) -> Vec<String> {
    let said = telling.steps.iter().filter_map(|step| match &step.act {
        Act::Page(page) => Some(page.statement()),
        Act::Report(report) if !report.said.is_empty() => Some(report.statement()),
        Act::Call(call) if !call.acts => Some(call.statement()),
        _ => None,
    });
    said.take(6).map(|statement| shorten(&statement, FACT_COLUMNS)).collect()
}

/// Searches and what they found.
pub(super) fn searches(telling: &Telling<'_>) -> Vec<String> {
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
        (None, Some(only)) => Some(capitalised(&only)),
        (None, None) => None,
    }
}
