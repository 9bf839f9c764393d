//! `make eval-recall DATA=dir`: replays transcripts in order of time through the hook's code and a real worker, queries the
//! memory at each start, prompt, edit and failure, and prints figures about the answers.
//!
//! `DATA` is the same as for `make eval-notes`. Only `target/eval-recall` is written: a sample of starts and moments with the
//! sessions' actions, for people to grade. Options, as environment variables:
//!
//! - `SEED=1`: the seed of the sample
//! - `STARTS=24`, `MOMENTS=25`: the number of starts, and of prompts, edits and failures
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs
)]

mod facts;
mod history;
mod lines;
#[path = "../eval_notes/project.rs"]
#[allow(dead_code, reason = "the notes need more of it")]
mod project;
#[path = "../eval_notes/prompt.rs"]
mod prompt;
#[path = "../eval_notes/replay.rs"]
#[allow(dead_code, reason = "the notes need more of it")]
mod replay;
mod repo;
mod report;
#[path = "../eval_notes/response.rs"]
mod response;
mod sample;
#[allow(dead_code, reason = "`make eval-true` needs more of it")]
mod session;
#[path = "../eval_notes/transcript.rs"]
mod transcript;
#[allow(dead_code, reason = "the judge of `make eval-true`")]
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::history::History;
use crate::project::Project;
use crate::replay::Scratch;

const CONFIG: &str = "[compress]\nprovider = \"local\"\n[retention]\nmax_mb = 0\n[backup]\nkeep = 0\n";

/// The options of a run.
pub struct Options {
    data: PathBuf,
    seed: u64,
    starts: usize,
    moments: usize,
}

impl Options {
    fn from_environment() -> Result<Self> {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str, default: u64| {
            value(name).map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
        };
        let data = value("DATA").context(
            "DATA is missing; run `make eval-recall DATA=dir`, with transcripts in dir/PROJECT/claude/**/*.jsonl",
        )?;
        let (starts, moments) = (number("STARTS", 24)?.try_into()?, number("MOMENTS", 25)?.try_into()?);
        Ok(Self { data: data.into(), seed: number("SEED", 1)?, starts, moments })
    }
}

fn main() -> ExitCode {
    let outcome = Options::from_environment().map_err(|error| (2, error));
    match outcome.and_then(|options| run(&options).map_err(|error| (1, error))) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            eprintln!("{error:#}");
            ExitCode::from(code)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    let mut told = Vec::new();
    let mut histories = Vec::new();
    for project in read(&options.data)? {
        let scratch = Scratch::new(CONFIG)?;
        let (cases, memories) = session::replay(&scratch, &project)?;
        let history = History { memories, ..History::of(&project) };
        println!("{}: {} events, {} moments", project.name, project.events.len(), cases.len());
        told.extend(cases);
        histories.push(history);
    }
    println!("Replayed in {:.0} s\n", began.elapsed().as_secs_f64());
    report::print(&told, &histories);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/eval-recall");
    std::fs::create_dir_all(&folder)?;
    let file = sample::write(&told, &histories, options, &folder)?;
    println!("\nWritten: {}", file.display());
    Ok(())
}

/// Reads every project below `data`.
fn read(data: &Path) -> Result<Vec<Project>> {
    project::folders(data)?.iter().map(|folder| Project::read(folder)).collect()
}
