//! The provider with no model and no network: observations and summaries by rules, from the events themselves.
//!
//! Everything here is a pure function of the turn: no I/O, no clock, no randomness. Text from tools is data; it can
//! appear, bounded, in the observation of its own event and nowhere else. Knows nothing of the queue or the store.

mod command_line;
mod commands;
mod concepts;
mod definitions;
mod edits;
pub(in crate::compress) mod events;
mod git;
mod grouping;
mod kind;
mod patch;
pub(in crate::compress) mod payload;
pub(in crate::compress) mod place;
pub(in crate::compress) mod programs;
mod prose;
mod reports;
mod runs;
mod searches;
pub(in crate::compress) mod shell;
mod signature;
mod statements;
mod story;
mod summary;
mod telling;
mod test_results;
mod text;
mod title;
mod title_of_steps;
mod verbs;

#[cfg(test)]
mod any_turn;
#[cfg(test)]
mod turns;

use crate::compress::turn::Turn;
use crate::model::ObservationDraft;

use events::{Act, Step};
use grouping::{Role, Unit};
use searches::Look;
use telling::{Said, Telling};

pub use runs::{Aim, Doing, Run, runs};
pub use signature::error_signature;
pub use summary::summarize;

/// The version of these rules, stored with what they make.
pub const VERSION: &str = "local-1";

/// An observation, and the events that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalObservation {
    /// What is to be stored.
    pub draft: ObservationDraft,
    /// Rows of the queue.
    pub sources: Vec<i64>,
}

/// What is worth remembering of a turn: a handful of observations, each of one intent; none if nothing is.
pub fn observe(turn: &Turn) -> Vec<LocalObservation> {
    let steps = events::steps(turn);
    let said = Said::read(turn);
    let units: Vec<Unit<'_>> =
        grouping::units(&steps).into_iter().filter(|unit| is_worth_telling(unit, &said)).collect();
    let telling_of_work = units.iter().filter(|unit| unit.role != Role::Research).count();
    units
        .iter()
        .map(|unit| observation(unit, &said, telling_of_work == 1 && unit.role != Role::Research))
        .collect()
}

fn observation(unit: &Unit<'_>, said: &Said<'_>, alone: bool) -> LocalObservation {
    let mut telling = Telling::of(unit, said, alone);
    if unit.role == Role::Exploration && title::reports_work(&telling) {
        telling.role = Role::Operation;
    }
    let title = title::title(&telling);
    let draft = ObservationDraft {
        kind: kind::kind(&telling, &title),
        summary: story::summary(&telling, &title),
        detail: story::detail(&telling, &title),
        facts: story::facts(&telling, &title),
        concepts: concepts::concepts(&telling, &title.text),
        files_read: telling.files_only_read(),
        files_modified: telling.files_modified(),
        functions_changed: telling.functions(),
        title: Some(title.text),
    };
    LocalObservation { draft, sources: unit.steps.iter().map(|step| step.event.id).collect() }
}

/// Work always is. Looking around is, if it ended in words or came to something.
fn is_worth_telling(unit: &Unit<'_>, said: &Said<'_>) -> bool {
    if unit.role != Role::Exploration {
        return true;
    }
    let looks = unit
        .steps
        .iter()
        .filter(|step| matches!(step.act, Act::Look(Look::File(_) | Look::Search { .. })))
        .count();
    let came_to_something = unit.steps.iter().any(|step| brought_something(step));
    let words = said.closing.iter().map(|sentence| sentence.text.len()).sum::<usize>();
    let asked = !said.request.is_empty();
    came_to_something
        || (looks >= 1 && words >= 40)
        || (looks >= 2 && (asked || words > 0))
        || looks >= 4
        || (words >= 160 && asked)
}

fn brought_something(step: &Step<'_>) -> bool {
    match &step.act {
        Act::Command(command) => {
            command.matters() && (command.verifies() || command.is_failure() || !command.printed.is_empty())
        }
        Act::Call(call) => !call.said.is_empty(),
        Act::Choices(choices) => !choices.is_empty(),
        _ => step.is_research(),
    }
}
