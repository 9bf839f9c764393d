//! What was run, in order, for whoever learns from it: commands, how they ended, and where files were edited in between.

use super::commands::Ended;
use super::events::{Act, steps};
use super::programs::Purpose;
use crate::compress::turn::Turn;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// A command was run.
    Ran(Run),
    /// A file was changed, by a tool or by the shell: what failed before may work for that reason.
    Edited,
}

/// A command and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its event.
    pub event: i64,
    /// What was run, short, without what surrounds it.
    pub line: String,
    /// What makes two runs the same command.
    pub key: String,
    /// What it is for.
    pub aim: Aim,
    /// How it ended; nothing if it was stopped or still runs.
    pub went_well: Option<bool>,
    /// What went wrong, readable.
    pub error: Option<String>,
    /// Whether it came to running tests, whatever they said.
    pub tested: bool,
    /// Whether it was narrowed down to files, tests or packages.
    pub narrowed: bool,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Aim {
    Test,
    Build,
    Lint,
    Install,
    /// Anything else that does something.
    Other,
    /// It only looks.
    Look,
}

/// The turn's commands and edits, in order.
pub fn runs(turn: &Turn) -> Vec<Doing> {
    let mut done = Vec::new();
    for step in steps(turn) {
        if let Act::Command(command) = &step.act {
            done.push(Doing::Ran(Run {
                event: step.event.id,
                line: command.line.clone(),
                key: command.key.clone(),
                aim: aim(command.purpose),
                went_well: match command.ended {
                    Ended::Well => Some(true),
                    Ended::Badly => Some(false),
                    Ended::Stopped | Ended::Running => None,
                },
                error: command.error.as_ref().map(|(line, _)| line.clone()),
                tested: command.tests.is_some(),
                narrowed: !command.arguments.is_empty(),
            }));
        }
        if !step.edits().is_empty() {
            done.push(Doing::Edited);
        }
    }
    done
}

fn aim(purpose: Purpose) -> Aim {
    match purpose {
        Purpose::Nothing | Purpose::Look => Aim::Look,
        Purpose::Test => Aim::Test,
        Purpose::Build => Aim::Build,
        Purpose::Lint => Aim::Lint,
        Purpose::Install => Aim::Install,
        _ => Aim::Other,
    }
}
