//! What is known when a unit is put into words: the request, the closing message, and which of their sentences are
//! about this unit.

use super::commands::Command;
use super::edits::{Edit, merged};
use super::events::{Act, Step};
use super::git::Commit;
use super::grouping::{Repair, Role, Unit, repairs, unrepaired};
use super::place::{file_name, is_generic_stem, stem};
use super::prose::{Sentence, is_filler, sentences};
use super::searches::Look;
use super::text::push_new;
use crate::compress::turn::Turn;

/// What was said in a turn.
#[derive(Debug)]
pub(super) struct Said<'t> {
    /// The user's prompt, whole.
    pub asked: &'t str,
    /// What the user asked for.
    pub request: Vec<Sentence>,
    /// How the assistant closed.
    pub closing: Vec<Sentence>,
}

impl<'t> Said<'t> {
    /// Takes the turn's words apart.
    pub fn read(turn: &'t Turn) -> Self {
        Self {
            asked: turn.request().unwrap_or_default(),
            request: turn.request().map(sentences).unwrap_or_default(),
            closing: turn.closing().map(sentences).unwrap_or_default(),
        }
    }
}

/// A unit, ready to be told.
#[derive(Debug)]
pub(super) struct Telling<'s> {
    pub role: Role,
    pub steps: &'s [&'s Step<'s>],
    /// Files as they were changed, taken together.
    pub edits: Vec<Edit>,
    pub commands: Vec<&'s Command>,
    pub commits: Vec<&'s Commit>,
    pub repairs: Vec<Repair<'s>>,
    /// What failed and stayed so.
    pub open: Vec<&'s Command>,
    /// What the user asked for, whole and in sentences.
    pub asked: &'s str,
    pub request: &'s [Sentence],
    /// The closing sentences that are about this unit.
    pub closing: Vec<&'s Sentence>,
    /// Whether the turn is about nothing else.
    pub alone: bool,
}

const MOST_FILES: usize = 30;

impl<'s> Telling<'s> {
    /// Gathers what belongs to the unit. `alone`: no other unit of the turn is told.
    pub fn of(unit: &'s Unit<'s>, said: &'s Said<'_>, alone: bool) -> Self {
        let steps = unit.steps.as_slice();
        let commands: Vec<&Command> = steps.iter().filter_map(|step| step.command()).collect();
        let mut telling = Self {
            role: unit.role,
            steps,
            edits: merged(steps.iter().flat_map(|step| step.edits())),
            commits: commands.iter().flat_map(|command| &command.commits).collect(),
            commands,
            repairs: repairs(steps),
            open: unrepaired(steps),
            asked: said.asked,
            request: &said.request,
            closing: Vec::new(),
            alone,
        };
        let names = telling.names();
        let about = |sentence: &&Sentence| alone || mentions(&sentence.text, &names);
        telling.closing =
            said.closing.iter().filter(|sentence| !is_filler(&sentence.text)).filter(about).collect();
        telling
    }

    /// Names that a sentence about this unit would use.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for edit in &self.edits {
            push_new(&mut names, file_name(&edit.path), 64);
            let stem = stem(&edit.path);
            if !is_generic_stem(stem) && stem.len() >= 4 {
                push_new(&mut names, stem, 64);
            }
            for touched in &edit.touched {
                let own = touched.name.rsplit([':', '.']).next().unwrap_or_default();
                if own.len() >= 4 {
                    push_new(&mut names, own, 64);
                }
            }
        }
        for package in self.commands.iter().flat_map(|command| &command.packages) {
            push_new(&mut names, package, 64);
        }
        names
    }

    /// Files that were looked at.
    pub fn files_read(&self) -> Vec<String> {
        let mut files = Vec::new();
        for step in self.steps {
            if let Act::Look(Look::File(path)) = &step.act {
                push_new(&mut files, path, MOST_FILES);
            }
        }
        files
    }

    /// Files that were looked at and left as they are.
    pub fn files_only_read(&self) -> Vec<String> {
        let mut files = self.files_read();
        files.retain(|path| !self.edits.iter().any(|edit| edit.path == *path));
        files
    }

    /// Files that were changed.
    pub fn files_modified(&self) -> Vec<String> {
        let mut files = Vec::new();
        for edit in &self.edits {
            push_new(&mut files, &edit.path, MOST_FILES);
        }
        files
    }

    /// Functions and types that were changed.
    pub fn functions(&self) -> Vec<String> {
        let mut names = Vec::new();
        for touched in self.edits.iter().flat_map(|edit| &edit.touched) {
            push_new(&mut names, &touched.name, MOST_FILES);
        }
        names
    }

    /// The last run of each command that checks the work.
    pub fn last_checks(&self) -> Vec<&'s Command> {
        let mut checks: Vec<&Command> = Vec::new();
        for command in self.commands.iter().filter(|command| command.verifies() && !command.is_failure()) {
            checks.retain(|known| known.key != command.key);
            checks.push(command);
        }
        checks
    }

    /// The same without those that a repair ends with, which tells of them.
    pub fn checks(&self) -> Vec<&'s Command> {
        let mut checks = self.last_checks();
        checks.retain(|command| !self.repairs.iter().any(|repair| repair.mended.key == command.key));
        checks
    }
}

/// Whether a sentence uses one of the names.
pub(super) fn mentions(sentence: &str, names: &[String]) -> bool {
    let lower = sentence.to_lowercase();
    names.iter().any(|name| lower.contains(&name.to_lowercase()))
}
