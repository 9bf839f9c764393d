//! Traces of a turn: the lines that its edits removed and added, and the failures that it repaired.
//!
//! Pure. Lines become hashes, and commands are redacted before they are kept.

use std::collections::{BTreeSet, HashSet};

use crate::anchors::blob_id;
use crate::privacy::redact::Redactor;
use crate::project::without_worktree;
use crate::store::memory::traces::{EditTrace, Hash, Repair, hash, line_hash};
use crate::tools::{Action, Command, Purpose, ToolEvent, is_generic};

/// Maximum number of lines kept per file and turn. A file with more was generated or rewritten.
const MOST_LINES: usize = 400;
/// Maximum number of commands between a failure and its repair.
const SOON: usize = 4;
/// Maximum length of a repair command, in characters. A longer one is a script.
const LONGEST_COMMAND: usize = 160;
/// Maximum number of files that a repair names.
const MOST_FILES: usize = 4;

/// The lines that an edit removed and added, without those that it only moved.
pub fn edit_trace(event: &ToolEvent) -> Option<EditTrace> {
    let Action::Edit(edit) = &event.action else { return None };
    if event.failed || !edit.is_owned {
        return None;
    }
    let with = |sign: char| edit.diff.lines().filter_map(move |line| line_hash(line.strip_prefix(sign)?));
    let all = |text: &str| -> HashSet<Hash> { text.lines().filter_map(line_hash).collect() };
    let (removed, added) = match &edit.change {
        // A line that also occurs elsewhere in the file is neither removed nor new.
        Some(change) => {
            let (before, after) = (all(change.before.as_deref().unwrap_or_default()), all(&change.after));
            (before.difference(&after).copied().collect(), after.difference(&before).copied().collect())
        }
        None => (with('-').collect(), with('+').collect()),
    };
    let blob = edit.change.as_ref().map(|change| blob_id(change.after.as_bytes()));
    // A path that was cut for display names no file.
    let file_path = without_worktree(&edit.path).to_owned();
    if file_path.ends_with('…') {
        return None;
    }
    let mut trace = EditTrace { file_path, removed, added, blob };
    trace.settle();
    Some(trace).filter(|trace| !trace.removed.is_empty() || !trace.added.is_empty())
}

/// Joins the traces of each file. A line that one edit adds and another removes leaves no trace.
pub fn joined(traces: Vec<EditTrace>) -> Vec<EditTrace> {
    let mut joined: Vec<EditTrace> = Vec::new();
    for trace in traces {
        match joined.iter_mut().find(|known| known.file_path == trace.file_path) {
            Some(known) => known.then(trace),
            None => joined.push(trace),
        }
    }
    joined.retain(|trace| trace.removed.len().max(trace.added.len()) <= MOST_LINES);
    joined
}

/// The failures of a turn that have a signature of their own and were repaired in it: by the same line in another directory, by
/// another command that succeeded, or by changes after which the same command succeeded.
pub fn repairs(events: &[ToolEvent]) -> Vec<Repair> {
    let mut found: Vec<Repair> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let Some(command) = event.command().filter(|command| command.failed) else { continue };
        let Some((_, signature)) = command.error.as_ref().filter(|(_, text)| !is_generic(text)) else {
            continue;
        };
        let signature = hash(signature);
        if found.iter().all(|known| known.signature != signature)
            && let Some(repair) = in_directory(signature, command, &events[at + 1..])
                .or_else(|| repair(signature, command, &events[at + 1..]))
        {
            found.push(repair);
        }
    }
    found
}

/// The same line in another directory, if that was all it took. The whole line counts: which part of it failed is not known.
fn in_directory(signature: Hash, failed: &Command, later: &[ToolEvent]) -> Option<Repair> {
    let parts = |line: &'_ str| {
        let (place, rest) = line.strip_prefix("cd ")?.split_once(" && ")?;
        Some((place.to_owned(), rest.to_owned()))
    };
    let (before, line) = parts(&failed.line).unwrap_or((String::new(), failed.line.clone()));
    let next = later.iter().take_while(|event| event.changed_files().is_empty());
    let (place, _) =
        next.filter_map(ToolEvent::command).take(SOON).filter(|command| !command.failed).find_map(
            |command| parts(&command.line).filter(|(place, rest)| *rest == line && *place != before),
        )?;
    let command = Redactor::new().redact(&format!("cd {place} && {}", failed.main)).into_string();
    let is_short = command.chars().count() <= LONGEST_COMMAND;
    is_short.then_some(Repair { signature, command: Some(command), files: Vec::new() })
}

fn repair(signature: Hash, failed: &Command, later: &[ToolEvent]) -> Option<Repair> {
    if !failed.outcome.failed() {
        return None;
    }
    let is_again = |command: &Command| command.main == failed.main;
    let again = later.iter().position(|event| {
        event.command().is_some_and(|command| is_again(command) && command.outcome.succeeded())
    });
    let between = &later[..again.unwrap_or(later.len())];
    let mut files: Vec<String> = between.iter().flat_map(|event| event.changed_files().to_vec()).collect();
    files.dedup();
    let is_same_failure =
        |command: &&Command| command.error.as_ref().is_some_and(|(_, text)| hash(text) == signature);
    let commands = || between.iter().filter_map(ToolEvent::command);
    if again.is_some() && !files.is_empty() {
        let files = files.iter().map(|file| without_worktree(file).to_owned()).take(MOST_FILES).collect();
        return Some(Repair { signature, command: None, files });
    }
    // Without a change to files: the same line in another form, or a command after which the failed one succeeded.
    let before_edit = between.iter().take_while(|event| event.changed_files().is_empty());
    let is_only_deed = commands().filter(|command| command.purpose > Purpose::Look).count() == 1;
    let other = before_edit.filter_map(ToolEvent::command).take(SOON).find(|command| {
        let prepares = match command.purpose {
            Purpose::Install | Purpose::Build | Purpose::Task => true,
            // Any program may be the repair, but only one that nothing else was done with.
            Purpose::Run => is_only_deed && !is_one_liner(&command.main),
            _ => false,
        };
        command.outcome.succeeded()
            && !is_again(command)
            && (is_variant(failed, command) || (again.is_some() && prepares))
    })?;
    let is_settled =
        !commands().skip_while(|command| *command != other).any(|command| is_same_failure(&command));
    let line = Redactor::new().redact(&other.main).into_string();
    let is_short = line.chars().count() <= LONGEST_COMMAND;
    (is_settled && is_short).then_some(Repair { signature, command: Some(line), files: Vec::new() })
}

/// True if one command is another form of the other: `rtk bun test` and `bun test`. Further arguments only ask for less, except
/// options of an installer, which say how to go about it.
fn is_variant(failed: &Command, works: &Command) -> bool {
    let set = |line: &str| line.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let (one, other) = (set(&failed.main), set(&works.main));
    let (shared, all) = (one.intersection(&other).count(), one.union(&other).count());
    let only_adds = works.main.starts_with(&failed.main);
    let adds_options =
        works.purpose == Purpose::Install && other.difference(&one).all(|word| word.starts_with('-'));
    (!only_adds || adds_options) && 2 * shared >= all
}

/// True for a program that is written on the command line: it looks into something more often than it repairs it.
fn is_one_liner(line: &str) -> bool {
    line.split_whitespace().any(|word| matches!(word, "-c" | "-e" | "--eval" | "-"))
}

#[cfg(test)]
mod tests;
