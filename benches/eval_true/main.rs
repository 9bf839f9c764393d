//! `make eval-true DATA=dir`: replays transcripts as `make eval-recall` does, and prints how many of the memories that each start
//! showed were about code that had been taken out or reversed by then.
//!
//! The judge follows every edit of the transcripts line by line (`eval_recall/tree.rs`). A memory whose turns added lines counts as
//! gone if at most a fifth of them is left, and as reversed if the lines that it removed are back as well. Then the table of vetoes
//! (`vetoes.rs`), by meaning if `CLAUDE_MEM_EVAL_MODELS` names a directory of models.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs
)]

#[path = "../eval_recall/history.rs"]
#[allow(dead_code, reason = "the recall needs more of it")]
mod history;
#[path = "../eval_notes/project.rs"]
#[allow(dead_code, reason = "the notes need more of it")]
mod project;
#[path = "../eval_notes/prompt.rs"]
mod prompt;
#[path = "../eval_notes/replay.rs"]
#[allow(dead_code, reason = "the notes need more of it")]
mod replay;
#[path = "../eval_recall/repo.rs"]
mod repo;
#[path = "../eval_notes/response.rs"]
mod response;
#[path = "../eval_recall/session.rs"]
#[allow(dead_code, reason = "the recall needs more of it")]
mod session;
#[path = "../eval_notes/transcript.rs"]
mod transcript;
#[path = "../eval_recall/tree.rs"]
mod tree;
mod vetoes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::project::Project;
use crate::replay::Scratch;
use crate::session::{Case, Kind};
use crate::tree::Fate;

const CONFIG: &str = "[compress]\nprovider = \"local\"\n[retention]\nmax_mb = 0\n[backup]\nkeep = 0\n";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let data = std::env::var("DATA").unwrap_or_default();
    ensure!(
        !data.is_empty(),
        "DATA is missing; run `make eval-true DATA=dir`, with transcripts in dir/PROJECT/claude/**/*.jsonl"
    );
    let models = std::env::var_os("CLAUDE_MEM_EVAL_MODELS").map(PathBuf::from);
    vetoes::print(models.as_deref())?;
    let mut cases = Vec::new();
    for folder in project::folders(Path::new(&data))? {
        let project = Project::read(&folder)?;
        cases.extend(session::replay(&Scratch::new(CONFIG)?, &project)?.0);
        eprintln!("{}: {} moments so far", project.name, cases.len());
    }
    print(&cases);
    Ok(())
}

/// Counts of one kind of line in one project.
#[derive(Default, Clone, Copy)]
struct Count {
    shown: usize,
    followed: usize,
    changed: usize,
    gone: usize,
    reversed: usize,
}

impl Count {
    fn add(&mut self, fate: Fate) {
        self.shown += 1;
        self.followed += usize::from(fate != Fate::Unknown);
        self.changed += usize::from(fate == Fate::Changed);
        self.gone += usize::from(fate == Fate::Gone);
        self.reversed += usize::from(fate == Fate::Reversed);
    }
}

fn print(cases: &[Case]) {
    let mut counts: BTreeMap<(&str, &str), Count> = BTreeMap::new();
    let mut stale = Vec::new();
    for case in cases {
        let moment = if case.kind == Kind::Start { "at the start" } else { "in the session" };
        for shown in &case.shown {
            let kind = if case.kind == Kind::Start { shown.layer } else { moment };
            for project in [case.project.as_str(), "all"] {
                counts.entry((project, kind)).or_default().add(shown.fate);
                if case.kind == Kind::Start {
                    counts.entry((project, moment)).or_default().add(shown.fate);
                }
            }
            if shown.fate >= Fate::Gone && case.kind == Kind::Start {
                stale.push(format!("{} {:?} {}: {}", case.project, shown.fate, case.session, shown.text));
            }
        }
    }
    println!(
        "| project | memories | shown | followed | changed | gone | reversed | gone or reversed, of those shown |\n|---|---|---|---|---|---|---|---|"
    );
    for ((project, kind), count) in &counts {
        let share = 100.0 * (count.gone + count.reversed) as f64 / count.shown.max(1) as f64;
        println!(
            "| {project} | {kind} | {} | {} | {} | {} | {} | {share:.1} % |",
            count.shown, count.followed, count.changed, count.gone, count.reversed
        );
    }
    println!("\nGone or reversed, at a start:\n");
    stale.dedup();
    stale.iter().take(40).for_each(|line| println!("- {}", history::short(line, 300)));
}
