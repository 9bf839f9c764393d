//! The title: one imperative line. The best words are those of the one who did the work (a commit's subject, the
//! closing report), then those of the one who asked for it, and only then ours.

use super::edits::{Edit, How, Touch};
use super::events::Act;
use super::grouping::Role;
use super::kind::conventional;
use super::place::{FileKind, file_name, is_generic_stem, kind_of, stem};
use super::programs::Purpose;
use super::prose::{Sentence, is_english};
use super::searches::{Look, pattern_told};
use super::telling::Telling;
use super::text::{capitalised, each, listed, shorten, uncapitalised, width};
use super::verbs::{imperative, kind_of_words, wish};
use crate::model::ObservationType;

/// A title and where it came from.
#[derive(Debug)]
pub(super) struct Title {
    pub text: String,
    /// Whether somebody said it; otherwise it was put together from the steps.
    pub spoken: bool,
    /// The closing sentence that it was made of.
    pub from_closing: Option<String>,
    /// Whether it tells of one name that was replaced by another.
    pub rename: bool,
}

/// The widest title.
pub(super) const TITLE_COLUMNS: usize = 90;

impl Title {
    fn told(text: &str) -> Self {
        Self { text: shorten(text, TITLE_COLUMNS), spoken: false, from_closing: None, rename: false }
    }

    fn spoken(text: &str) -> Self {
        let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
        Self { spoken: true, ..Self::told(text) }
    }
}

/// The title of a unit.
pub(super) fn title(telling: &Telling<'_>) -> Title {
    let found = match telling.role {
        Role::Work => by_commit(telling)
            .or_else(|| by_rename(telling))
            .or_else(|| by_report(telling))
            .or_else(|| by_wish(telling)),
        Role::Repair => {
            by_commit(telling).or_else(|| by_repair_report(telling)).or_else(|| by_error(telling))
        }
        Role::Operation => by_operation(telling),
        Role::Research => by_research(telling),
        Role::Exploration => by_exploration(telling),
    };
    found.unwrap_or_else(|| {
        by_edits(&telling.edits).or_else(|| by_command(telling)).unwrap_or_else(|| by_looks(telling))
    })
}

fn by_commit(telling: &Telling<'_>) -> Option<Title> {
    let last = telling.commits.last()?;
    let subject = match conventional(&last.subject) {
        Some(_) => last.subject.split_once(':').map_or("", |(_, rest)| rest.trim()),
        None => last.subject.trim(),
    };
    if subject.chars().count() < 6 {
        return None;
    }
    let subject = capitalised(subject);
    Some(match telling.commits.len() {
        1 => Title::spoken(&subject),
        many => {
            let more = format!(" (and {} more commits)", many - 1).replace("1 more commits", "1 more commit");
            Title::spoken(&format!("{}{more}", shorten(&subject, TITLE_COLUMNS - more.len())))
        }
    })
}

fn by_rename(telling: &Telling<'_>) -> Option<Title> {
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

/// The closing sentence that reports the work, as an imperative.
fn by_report(telling: &Telling<'_>) -> Option<Title> {
    report(telling, |kind| {
        !matches!(kind, None | Some(ObservationType::Discovery | ObservationType::Decision))
    })
}

fn by_repair_report(telling: &Telling<'_>) -> Option<Title> {
    report(telling, |kind| kind == Some(ObservationType::Bugfix))
}

fn report(telling: &Telling<'_>, wanted: impl Fn(Option<ObservationType>) -> bool) -> Option<Title> {
    telling.closing.iter().take(8).find_map(|sentence| {
        let text = imperative(&sentence.text)?;
        let says_much = text.split_whitespace().count() >= 3 && !text.ends_with('?');
        let title =
            Title { from_closing: Some(sentence.text.clone()), ..Title::spoken(&first_clause(&text)) };
        (says_much && wanted(kind_of_words(&text))).then_some(title)
    })
}

/// A long sentence up to the end of a clause that fits.
fn first_clause(text: &str) -> String {
    if width(text) <= TITLE_COLUMNS {
        return text.to_owned();
    }
    let ends =
        [". ", "; ", " — ", " – ", ", so ", ", which ", " because ", " so that ", ": ", ", and ", ", "];
    let cuts = ends.iter().filter_map(|end| text.find(end)).filter(|at| *at >= 24);
    let fitting = cuts.filter(|at| width(&text[..*at]) <= TITLE_COLUMNS && !inside_code(&text[..*at])).max();
    fitting.map_or_else(|| text.to_owned(), |at| text[..at].to_owned())
}

fn inside_code(before: &str) -> bool {
    before.matches('`').count() % 2 == 1 || before.matches('(').count() > before.matches(')').count()
}

fn by_wish(telling: &Telling<'_>) -> Option<Title> {
    if !telling.alone {
        return None;
    }
    let english = telling.request.iter().take(6).find_map(|sentence| wish(&sentence.text));
    if let Some(text) = english {
        return Some(Title::spoken(&first_clause(&text)));
    }
    foreign_wish(telling.request)
}

/// A short request in another language stands for itself.
fn foreign_wish(request: &[Sentence]) -> Option<Title> {
    let first = request.first()?;
    let letters = first.text.chars().filter(|char| char.is_alphabetic()).count();
    let polite = ["bitte ", "por favor ", "s'il te plaît ", "请", "請"];
    let lower = first.text.to_lowercase();
    let start = polite.iter().find(|word| lower.starts_with(*word)).map_or(0, |word| word.len());
    let text = first.text.get(start..).unwrap_or(&first.text);
    let asks = text.ends_with(['?', '？']);
    let foreign = !is_english(&first.text) && is_really_foreign(&first.text);
    (foreign && !asks && letters >= 5 && width(text) <= TITLE_COLUMNS + 10)
        .then(|| Title::spoken(&capitalised(text)))
}

/// "continue" and "run tests" have no English word that gives them away, and no foreign one either.
fn is_really_foreign(text: &str) -> bool {
    const WORDS: &str = "der|die|das|den|dem|und|im|ein|eine|mit|für|el|la|los|para|le|les|une";
    let lower = text.to_lowercase();
    lower.chars().any(|char| char.is_alphabetic() && !char.is_ascii())
        || lower.split_whitespace().any(|word| each(WORDS).any(|known| known == word))
}

/// `Fix TypeError: x is undefined (cart.ts)`.
fn by_error(telling: &Telling<'_>) -> Option<Title> {
    let repair = telling.repairs.iter().max_by_key(|repair| repair.edits.len())?;
    let failing = repair.broken.tests.as_ref().and_then(|tests| tests.failing.first());
    let what = match (failing, &repair.broken.error) {
        (Some(name), _) => format!("failing test {}", short_test_name(name)),
        (None, Some((error, _))) => shorten(error, 60),
        (None, None) => format!("failing `{}`", repair.broken.key),
    };
    let edits: Vec<Edit> = super::edits::merged(repair.edits.iter().copied());
    if let Some(edit) = main_edit(&edits) {
        let others = if edits.len() > 1 { " and others" } else { "" };
        return Some(Title::told(&format!("Fix {what} in {}{others}", short_name(&edit.path))));
    }
    let remedy = repair.remedies.last().map(|command| {
        if command.description.is_empty() {
            format!("by `{}`", command.line)
        } else {
            format!("by: {}", uncapitalised(&command.description))
        }
    });
    let remedy = remedy.unwrap_or_else(|| format!("by running `{}`", shorten(&repair.mended.line, 40)));
    Some(Title::told(&format!("Fix {} {remedy}", shorten(&what, 50))))
}

fn short_test_name(name: &str) -> String {
    let last = name.rsplit(" › ").next().unwrap_or(name);
    let last = last.rsplit(" > ").next().unwrap_or(last);
    shorten(last.rsplit("::").next().unwrap_or(last), 50)
}

fn by_operation(telling: &Telling<'_>) -> Option<Title> {
    let pushed = telling.commands.iter().find_map(|command| command.pushed.as_ref());
    if let Some(commit) = telling.commits.last() {
        let push = pushed.map(|branch| format!(" and push {branch}")).unwrap_or_default();
        let room = TITLE_COLUMNS.saturating_sub(width(&push) + 9);
        return Some(Title::told(&format!("Commit \"{}\"{push}", shorten(&commit.subject, room))));
    }
    let report = by_report(telling).or_else(|| by_wish(telling));
    report.or_else(|| by_command(telling))
}

/// What the most important command did.
fn by_command(telling: &Telling<'_>) -> Option<Title> {
    let command =
        telling.commands.iter().filter(|command| command.matters()).max_by_key(|command| command.purpose)?;
    let described = !command.description.is_empty() && is_english_or_short(&command.description);
    let text = match command.purpose {
        Purpose::Push => command.pushed.as_ref().map(|branch| format!("Push {branch}"))?,
        Purpose::Install if !command.packages.is_empty() => {
            format!("Install {}", listed(&command.packages, 3))
        }
        Purpose::Test | Purpose::Build | Purpose::Lint => {
            format!("Run {}: {}", command.key, command.outcome())
        }
        _ if described => capitalised(&command.description),
        _ => format!("Run {}: {}", shorten(&command.line, 50), command.outcome()),
    };
    Some(Title::told(&text))
}

fn is_english_or_short(text: &str) -> bool {
    text.split_whitespace().count() >= 2
}

fn by_research(telling: &Telling<'_>) -> Option<Title> {
    let mut subjects = Vec::new();
    for step in telling.steps {
        match &step.act {
            Act::Report(report) if !report.task.is_empty() => subjects.push(report.task.clone()),
            Act::Page(page) if page.search => subjects.push(format!("\"{}\"", page.subject)),
            Act::Page(page) => subjects.push(page.subject.clone()),
            _ => {}
        }
    }
    Some(Title::told(&format!("Research {}", listed(&subjects, 2))))
}

fn by_exploration(telling: &Telling<'_>) -> Option<Title> {
    let check = telling.commands.iter().rev().find(|command| command.verifies());
    let asks_for_run = telling.request.first().and_then(|first| wish(&first.text)).is_some_and(|text| {
        let lower = text.to_lowercase();
        ["run ", "test", "check ", "build ", "verify"].iter().any(|verb| lower.starts_with(verb))
    });
    if check.is_some() && (asks_for_run || telling.closing.is_empty()) {
        return by_command(telling);
    }
    by_finding(telling).or_else(|| by_wish(telling)).or_else(|| by_question(telling)).or_else(|| {
        let worked = telling.commands.iter().any(|command| command.matters());
        worked.then(|| by_command(telling)).flatten()
    })
}

/// "Find that …", of the closing message's first statement.
fn by_finding(telling: &Telling<'_>) -> Option<Title> {
    telling.closing.iter().take(3).find_map(|sentence| {
        let text = sentence.text.trim_end_matches('.');
        let text = ["Yes, ", "No, ", "Yes. ", "No. ", "Yes — ", "No — "]
            .iter()
            .find_map(|start| text.strip_prefix(start))
            .unwrap_or(text);
        let first = text.split([' ', '\'', '’']).next().unwrap_or_default();
        let speaks_of_itself =
            ["I", "We", "You", "Let", "Here", "To", "If", "Please", "Would", "Want"].contains(&first);
        let statement = !speaks_of_itself
            && !text.ends_with(['?', ':'])
            && text.split_whitespace().count() >= 4
            && is_english(text);
        if !statement || imperative(text).is_some() {
            return None;
        }
        let told = format!("Find that {}", uncapitalised(&first_clause(text)));
        Some(Title { from_closing: Some(sentence.text.clone()), ..Title::told(&told) })
    })
}

fn by_question(telling: &Telling<'_>) -> Option<Title> {
    let question = telling
        .request
        .iter()
        .find(|sentence| sentence.text.ends_with(['?', '？']))
        .or(telling.request.first())?;
    (question.text.chars().count() >= 8).then(|| Title::told(&format!("Answer: {}", question.text)))
}

fn by_looks(telling: &Telling<'_>) -> Title {
    let files = telling.files_read();
    let names: Vec<String> = files.iter().map(|file| short_name(file)).collect();
    let pattern = telling.steps.iter().find_map(|step| match &step.act {
        Act::Look(Look::Search { pattern, .. }) if !pattern.is_empty() => Some(pattern_told(pattern)),
        _ => None,
    });
    let called =
        telling.steps.iter().find_map(|step| if let Act::Call(call) = &step.act { Some(call) } else { None });
    let mishap = telling
        .steps
        .iter()
        .find_map(|step| if let Act::Mishap(error) = &step.act { Some((step, error)) } else { None });
    match (names.is_empty(), pattern, called, mishap) {
        (false, ..) => Title::told(&format!("Read {}", listed(&names, 3))),
        (true, Some(pattern), ..) => Title::told(&format!("Search for {pattern}")),
        (true, None, Some(call), _) if call.asked.is_empty() => Title::told(&format!("Use {}", call.tool)),
        (true, None, Some(call), _) => Title::told(&format!("Use {}: {}", call.tool, call.asked)),
        (true, None, None, Some((step, error))) => {
            let tool = step.event.tool_name.as_deref().unwrap_or("a tool");
            Title::told(&format!("Note that {tool} failed: {error}"))
        }
        _ => by_research(telling).unwrap_or_else(|| Title::told("Look around")),
    }
}

fn by_edits(edits: &[Edit]) -> Option<Title> {
    let main = main_edit(edits)?;
    let name = short_name(&main.path);
    let more = match edits.len() {
        1 => String::new(),
        2 => {
            let other = edits.iter().find(|edit| edit.path != main.path)?;
            format!(" and {}", short_name(&other.path))
        }
        many => format!(" and {} more files", many - 1),
    };
    let new: Vec<String> = main
        .touched
        .iter()
        .filter(|touched| touched.how == Touch::New)
        .map(|touched| touched.name.clone())
        .collect();
    let changed: Vec<String> = main
        .touched
        .iter()
        .filter(|touched| touched.how != Touch::New)
        .map(|touched| touched.name.clone())
        .collect();
    let text = match &main.how {
        How::Created => format!("Add {name}{more}"),
        How::Deleted => format!("Delete {name}{more}"),
        How::MovedFrom(from) => format!("Move {} to {}{more}", short_name(from), main.path),
        How::Changed if matches!(kind_of(&main.path), FileKind::Document | FileKind::Settings) => {
            format!("Update {name}{more}")
        }
        How::Changed if !new.is_empty() => format!("Add {} to {name}{more}", listed(&new, 2)),
        How::Changed if !changed.is_empty() => format!("Change {} in {name}{more}", listed(&changed, 2)),
        How::Changed => format!("Change {name}{more}"),
    };
    Some(Title::told(&text))
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
pub(super) fn short_name(path: &str) -> String {
    let name = file_name(path);
    if !is_generic_stem(stem(path)) {
        return name.to_owned();
    }
    let folder = path
        .strip_suffix(name)
        .map(|folder| folder.trim_end_matches('/'))
        .filter(|folder| !folder.is_empty());
    folder.map_or_else(|| name.to_owned(), |folder| format!("{}/{name}", file_name(folder)))
}
