//! What type an observation has, by rules.

use super::edits::{How, Touch};
use super::grouping::Role;
use super::place::{FileKind, kind_of};
use super::prose::decisions;
use super::telling::{Telling, mentions};
use super::text::each;
use super::title::Title;
use super::verbs::{kind_of_wish, kind_of_words};
use crate::compress::local::events::Act;
use crate::model::ObservationType;

/// The type of a unit whose title is known.
pub(super) fn kind(telling: &Telling<'_>, title: &Title) -> ObservationType {
    use ObservationType::{Bugfix, Change, Decision, Discovery};
    let chosen =
        telling.steps.iter().any(|step| matches!(&step.act, Act::Choices(choices) if !choices.is_empty()));
    match telling.role {
        Role::Repair => Bugfix,
        Role::Operation if chosen => Decision,
        Role::Operation => Change,
        Role::Research => Discovery,
        Role::Exploration if chosen || is_deliberation(telling) => Decision,
        Role::Exploration => Discovery,
        Role::Work => work(telling, title),
    }
}

/// A question of choice, answered with one.
pub(super) fn is_deliberation(telling: &Telling<'_>) -> bool {
    const ASKS: &str = "should we|should i|which |choose|decide|design|plan |compare|or should";
    let asked = telling.request.iter().any(|sentence| {
        let lower = sentence.text.to_lowercase();
        each(ASKS).any(|word| lower.contains(word))
    });
    let closing: Vec<_> = telling.closing.iter().map(|sentence| (*sentence).clone()).collect();
    asked && !decisions(&closing).is_empty()
}

fn work(telling: &Telling<'_>, title: &Title) -> ObservationType {
    use ObservationType::{Bugfix, Change, Discovery, Feature, Refactor};
    if let Some(kind) = telling.commits.last().and_then(|commit| conventional(&commit.subject)) {
        return kind;
    }
    let kinds: Vec<FileKind> = telling.edits.iter().map(|edit| kind_of(&edit.path)).collect();
    if kinds.iter().all(|kind| matches!(kind, FileKind::Document)) {
        return Change;
    }
    if telling.edits.iter().all(|edit| matches!(edit.how, How::MovedFrom(_))) {
        return Refactor;
    }
    let by_title = if title.spoken { kind_of_words(&title.text) } else { None };
    let names = telling.names();
    let mut about =
        telling.request.iter().filter(|sentence| telling.alone || mentions(&sentence.text, &names));
    let asked = about.find_map(|sentence| kind_of_wish(&sentence.text));
    let asked = asked.or_else(|| was_broken(telling).then_some(Bugfix));
    if let Some(kind) = by_title.filter(|kind| *kind != Discovery) {
        // "Update app.py" and "Split lines" say less than the wish to have something repaired.
        return if matches!(kind, Change | Refactor) { asked.unwrap_or(kind) } else { kind };
    }
    if title.rename {
        return Refactor;
    }
    if let Some(kind) = asked {
        return kind;
    }
    let adds = telling.edits.iter().any(|edit| {
        let is_new = edit.how == How::Created || edit.touched.iter().any(|touched| touched.how == Touch::New);
        is_new && kind_of(&edit.path) == FileKind::Source
    });
    if adds { Feature } else { Change }
}

/// Whether the closing message speaks of what had been wrong.
fn was_broken(telling: &Telling<'_>) -> bool {
    const WORDS: &str =
        "root cause|the bug|the leak|the crash|the race|happened because|was caused by|ursache|原因";
    telling.closing.iter().any(|sentence| {
        let lower = sentence.text.to_lowercase();
        each(WORDS).any(|words| lower.contains(words))
    })
}

/// `fix(api): …`, as some projects begin their subjects.
pub(super) fn conventional(subject: &str) -> Option<ObservationType> {
    use ObservationType::{Bugfix, Change, Feature, Refactor};
    let (prefix, _) = subject.split_once(':')?;
    match prefix.split('(').next()?.trim_end_matches('!').trim() {
        "feat" | "feature" => Some(Feature),
        "fix" | "bugfix" | "hotfix" => Some(Bugfix),
        "refactor" => Some(Refactor),
        "chore" | "docs" | "test" | "tests" | "style" | "ci" | "build" | "perf" | "revert" => Some(Change),
        _ => None,
    }
}
