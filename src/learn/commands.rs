//! What commands teach: the one that worked where another did not, and those that a project is checked with.

use std::collections::HashSet;

use super::sure;
use crate::compress::local::{Aim, Doing, Run, runs};
use crate::compress::turn::Turn;
use crate::model::{Category, LearningDraft};

/// How many commands later the one that works must come.
const SOON: usize = 3;
/// How much of what went wrong is kept.
const ERROR_COLUMNS: usize = 90;

/// What the turn's commands teach.
pub(super) fn learnt(turn: &Turn) -> Vec<LearningDraft> {
    let done = runs(turn);
    let mut drafts = repaired(&done);
    drafts.extend(checks(&done));
    drafts
}

/// A command that failed until it was changed. An edit in between would be what made it work.
fn repaired(done: &[Doing]) -> Vec<LearningDraft> {
    let mut drafts = Vec::new();
    for (at, doing) in done.iter().enumerate() {
        let Doing::Ran(failed) = doing else { continue };
        if !is_at_fault(failed) {
            continue;
        }
        let soon = done[at + 1..].iter().take_while(|next| **next != Doing::Edited);
        let ran = soon.filter_map(|next| if let Doing::Ran(run) = next { Some(run) } else { None });
        let mut later = ran.filter(|run| run.aim != Aim::Look).take(SOON);
        let Some(works) = later.find(|run| run.went_well == Some(true) && is_variant(failed, run)) else {
            continue;
        };
        // Whatever is tried again as it was did not need to be changed.
        let again = |next: &Doing| matches!(next, Doing::Ran(run) if run.line == failed.line && run.went_well == Some(true));
        if done[at + 1..].iter().any(again) {
            continue;
        }
        let mut content = format!("`{}` works here; `{}` fails", works.line, failed.line);
        if let Some(error) = &failed.error {
            content.push_str(": ");
            content.extend(error.chars().take(ERROR_COLUMNS));
        }
        let mut draft = LearningDraft::new(Category::Command, content, sure::SHOWN);
        draft.sources = vec![failed.event, works.event];
        drafts.push(draft);
    }
    drafts
}

/// Whether the command was wrong rather than the code: it came to no test, and no compiler complains.
fn is_at_fault(run: &Run) -> bool {
    let error = run.error.as_deref().unwrap_or_default();
    let by_code =
        ["error[E", "error TS", "SyntaxError", "could not compile", "AssertionError", "panicked at"];
    run.went_well == Some(false)
        && run.aim != Aim::Look
        && !run.tested
        && !run.line.contains('…')
        && !by_code.iter().any(|sign| error.contains(sign))
}

/// Whether one command is the other in another form.
fn is_variant(failed: &Run, works: &Run) -> bool {
    if failed.line == works.line || works.line.contains('…') || works.aim != failed.aim {
        return false;
    }
    // Fewer tests, or fewer files: less was asked.
    if failed.key == works.key && works.narrowed && !failed.narrowed {
        return false;
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<HashSet<_>>();
    let (one, other) = (words(&failed.line), words(&works.line));
    let shared = one.intersection(&other).count();
    let all = one.union(&other).count();
    // `npm test` and `pnpm test`; `python x.py` and `python3 x.py`.
    10 * shared >= 3 * all
}

/// The commands that the project is tested, built and linted with: worth knowing once several sessions use them.
fn checks(done: &[Doing]) -> Vec<LearningDraft> {
    let mut drafts: Vec<LearningDraft> = Vec::new();
    for doing in done {
        let Doing::Ran(run) = doing else { continue };
        if run.went_well != Some(true) || run.narrowed || run.line.contains('…') {
            continue;
        }
        let how = match run.aim {
            Aim::Test => "Run the tests with",
            Aim::Build => "Build with",
            Aim::Lint => "Lint with",
            _ => continue,
        };
        let content = format!("{how} `{}`", run.line);
        if drafts.iter().all(|known| known.content != content) {
            let mut draft = LearningDraft::new(Category::Command, content, sure::DONE);
            draft.sources = vec![run.event];
            drafts.push(draft);
        }
    }
    drafts
}
