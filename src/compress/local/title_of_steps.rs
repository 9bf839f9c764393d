//! Titles put together from what was done, where nobody said it better.

use super::edits::{Edit, How, Touch, merged};
use super::events::Act;
use super::grouping::Repair;
use super::place::{FileKind, file_name, is_generic_stem, kind_of, stem};
use super::programs::Purpose;
use super::searches::{Look, pattern_told};
use super::telling::Telling;
use super::text::{capitalised, each, listed, shorten, uncapitalised, width};
use super::title::Title;

/// `Rename load_user to fetch_user in users.rs and pages.rs`, if that is all that was done.
pub(super) fn by_rename(telling: &Telling<'_>) -> Option<Title> {
    let (from, to, _) = telling.edits.first()?.rename.as_ref()?;
    let mut count = 0;
    for edit in &telling.edits {
        match &edit.rename {
            Some((same_from, same_to, times)) if (same_from, same_to) == (from, to) => count += times,
            _ => return None,
        }
    }
    let files: Vec<String> = telling.edits.iter().map(|edit| short_name(&edit.path)).collect();
    let title = Title::told(&format!("Rename {from} to {to} in {}", listed(&files, 2)));
    (count >= 2).then_some(Title { rename: true, ..title })
}

/// `Fix TypeError: x is undefined in cart.ts`.
pub(super) fn by_error(telling: &Telling<'_>) -> Option<Title> {
    let repair = telling.repairs.iter().max_by_key(|repair| repair.edits.len())?;
    let failing = repair.broken.tests.as_ref().and_then(|tests| tests.failing.first());
    let what = match (failing, &repair.broken.error) {
        (Some(name), _) => format!("failing test {}", short_test_name(name)),
        (None, Some((error, _))) => {
            let bare = each("ERROR: |Error: |error: |fatal: ").find_map(|start| error.strip_prefix(start));
            format!("\"{}\"", shorten(bare.unwrap_or(error), 56))
        }
        (None, None) => format!("failing `{}`", repair.broken.key),
    };
    let edits = merged(repair.edits.iter().copied());
    let Some(edit) = main_edit(&edits) else {
        return Some(Title::told(&format!("Fix {what} {}", remedy(repair))));
    };
    let others = if edits.len() > 1 { " and others" } else { "" };
    Some(Title::told(&format!("Fix {what} in {}{others}", short_name(&edit.path))))
}

fn remedy(repair: &Repair<'_>) -> String {
    match repair.remedies.last() {
        Some(command) if command.description.is_empty() => format!("by `{}`", command.line),
        Some(command) => format!("by: {}", uncapitalised(&command.description)),
        None if repair.mended.line != repair.broken.line => {
            format!("by running `{}`", shorten(&repair.mended.line, 40))
        }
        None => "by trying again".to_owned(),
    }
}

/// The last part of a test's name.
pub(super) fn short_test_name(name: &str) -> String {
    let last = name.rsplit(" › ").next().unwrap_or(name);
    let last = last.rsplit(" > ").next().unwrap_or(last);
    shorten(last.rsplit("::").next().unwrap_or(last), 50)
}

/// What the most important command did.
pub(super) fn by_command(telling: &Telling<'_>) -> Option<Title> {
    let matters = telling.commands.iter().filter(|command| command.matters());
    let command = matters.max_by_key(|command| command.purpose)?;
    let described = command.description.split_whitespace().count() >= 2;
    let text = match command.purpose {
        Purpose::Push => command.pushed.as_ref().map(|branch| format!("Push {branch}"))?,
        Purpose::Install if !command.packages.is_empty() => {
            format!("Install {}", listed(&command.packages, 3))
        }
        Purpose::Test | Purpose::Build | Purpose::Lint => {
            format!("Run {}: {}", command.key, command.outcome())
        }
        _ if described && !command.is_failure() => capitalised(&command.description),
        _ => format!("Run {}: {}", shorten(&command.line, 50), command.outcome()),
    };
    Some(Title::told(&text))
}

/// What pages and subagents were asked.
pub(super) fn by_research(telling: &Telling<'_>) -> Option<Title> {
    let mut subjects = Vec::new();
    for step in telling.steps {
        match &step.act {
            Act::Report(report) if !report.task.is_empty() => subjects.push(format!("\"{}\"", report.task)),
            Act::Page(page) if page.search => subjects.push(format!("\"{}\"", page.subject)),
            Act::Page(page) => subjects.push(page.subject.clone()),
            _ => {}
        }
    }
    (!subjects.is_empty()).then(|| Title::told(&format!("Research {}", listed(&subjects, 2))))
}

/// What was looked at, if there is nothing else to tell.
pub(super) fn by_looks(telling: &Telling<'_>) -> Title {
    let names: Vec<String> = telling.files_only_read().iter().map(|file| short_name(file)).collect();
    if !names.is_empty() {
        return Title::told(&format!("Read {}", listed(&names, 3)));
    }
    let told = telling.steps.iter().find_map(|step| match &step.act {
        Act::Look(Look::Search { pattern, .. }) if !pattern.is_empty() => {
            Some(format!("Search for {}", pattern_told(pattern)))
        }
        Act::Call(call) if call.failed => Some(format!("Note that {} failed: {}", call.tool, call.said)),
        Act::Call(call) if call.asked.is_empty() => Some(format!("Use {}", call.tool)),
        Act::Call(call) => Some(format!("Use {}: {}", call.tool, call.asked)),
        Act::Mishap(error) => {
            let tool = step.event.tool_name.as_deref().unwrap_or("a tool");
            Some(format!("Note that {} failed: {error}", shorten(tool, 40)))
        }
        _ => None,
    });
    let told = told.map(|text| Title::told(&text)).or_else(|| by_research(telling));
    told.unwrap_or_else(|| Title::told("Look around"))
}

/// The files, and what happened to them or to what is in them.
pub(super) fn by_edits(edits: &[Edit]) -> Option<Title> {
    let main = main_edit(edits)?;
    let name = short_name(&main.path);
    let more = match edits {
        [_] => String::new(),
        [_, _] => {
            let other = edits.iter().find(|edit| edit.path != main.path)?;
            format!(" and {}", short_name(&other.path))
        }
        many => format!(" and {} more files", many.len() - 1),
    };
    let of = |new: bool| -> Vec<String> {
        let touched = main.touched.iter().filter(|touched| (touched.how == Touch::New) == new);
        touched.map(|touched| touched.name.clone()).collect()
    };
    let (new, changed) = (of(true), of(false));
    let settles = matches!(kind_of(&main.path), FileKind::Document | FileKind::Settings);
    let text = match &main.how {
        How::Created => format!("Add {name}{more}"),
        How::Written => format!("Write {name}{more}"),
        How::Deleted => format!("Delete {name}{more}"),
        How::MovedFrom(from) => format!("Move {} to {}{more}", short_name(from), main.path),
        How::Changed if settles => format!("Update {name}{more}"),
        How::Changed if !new.is_empty() => format!("Add {} to {name}{more}", listed(&new, 2)),
        How::Changed if !changed.is_empty() => format!("Change {} in {name}{more}", listed(&changed, 2)),
        How::Changed => format!("Change {name}{more}"),
    };
    Some(Title::told(&text))
}

/// The files alone.
pub(super) fn by_files(edits: &[Edit]) -> Option<String> {
    let main = main_edit(edits)?;
    let others = edits.iter().filter(|edit| edit.path != main.path);
    let names: Vec<String> = [main].into_iter().chain(others).map(|edit| short_name(&edit.path)).collect();
    Some(format!("Change {}", listed(&names, 2)))
}

/// A replacement that is short enough to be its own title.
pub(super) fn by_swap(edits: &[Edit]) -> Option<Title> {
    let [edit] = edits else { return None };
    let [(old, new)] = edit.swaps.as_slice() else { return None };
    let short = !old.is_empty() && !new.is_empty() && width(old) + width(new) <= 56;
    let only = edit.lines == Some((1, 1));
    (short && only).then(|| Title::told(&format!("Change `{old}` to `{new}` in {}", short_name(&edit.path))))
}

/// The edit that the others go with: source before tests before prose, large before small.
fn main_edit(edits: &[Edit]) -> Option<&Edit> {
    let weight = |edit: &&Edit| {
        let kind = match kind_of(&edit.path) {
            FileKind::Source => 3,
            FileKind::Test => 2,
            FileKind::Settings => 1,
            FileKind::Document => 0,
        };
        (kind, edit.lines.map_or(0, |(added, removed)| added + removed))
    };
    // Of equals the first: `max_by_key` would take the last.
    edits.iter().rev().max_by_key(weight)
}

/// A file's name, with its folder if the name alone says nothing.
fn short_name(path: &str) -> String {
    let name = file_name(path);
    if !is_generic_stem(stem(path)) {
        return name.to_owned();
    }
    let folder = path.strip_suffix(name).map(|folder| folder.trim_end_matches('/'));
    match folder.filter(|folder| !folder.is_empty()) {
        Some(folder) => format!("{}/{name}", file_name(folder)),
        None => name.to_owned(),
    }
}
