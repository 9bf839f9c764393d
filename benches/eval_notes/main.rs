//! `make eval-notes DATA=dir`: replays transcripts through the hook's code and a real worker, and prints figures about the
//! resulting notes.
//!
//! `DATA` has a folder for each project, with Claude Code's transcripts in `claude/**/*.jsonl`. Everything happens in scratch
//! directories; only `target/eval-notes` is written: a sample of notes with their sources, all active learnings, and the
//! database. Options, as environment variables:
//!
//! - `ONLY=notes` or `ONLY=tokens`: one of the two parts
//! - `SAMPLE=60`: turns in the sample
//! - `TURNS=200`: turns that are replayed against a fake Messages API, to count tokens
//! - `SEED=1`: the seed of both samples
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs
)]

#[path = "../../tests/it/harness/endpoint.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod endpoint;
mod notes;
mod project;
mod prompt;
mod replay;
mod report;
mod response;
mod sample;
mod tokens;
mod transcript;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use claude_mem::store;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::notes::Note;
use crate::project::Project;
use crate::replay::Scratch;
use crate::report::Replayed;

const CONFIG: &str = "[compress]\nprovider = \"local\"\n[retention]\nmax_mb = 0\n[backup]\nkeep = 0\n";

/// The options of a run.
pub struct Options {
    data: PathBuf,
    only: Option<String>,
    seed: u64,
    sample: usize,
    turns: usize,
}

impl Options {
    fn from_environment() -> Result<Self> {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str, default: u64| {
            value(name).map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
        };
        let data = value("DATA").context(
            "DATA is missing; run `make eval-notes DATA=dir`, with transcripts in dir/PROJECT/claude/**/*.jsonl",
        )?;
        let only = value("ONLY");
        ensure!(matches!(only.as_deref(), None | Some("notes" | "tokens")), "ONLY must be notes or tokens");
        let (sample, turns) = (number("SAMPLE", 60)?.try_into()?, number("TURNS", 200)?.try_into()?);
        Ok(Self { data: data.into(), only, seed: number("SEED", 1)?, sample, turns })
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn main() -> ExitCode {
    let options = match Options::from_environment() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let began = Instant::now();
    let projects = read(&options.data)?;
    let events: usize = projects.iter().map(|project| project.events.len()).sum();
    println!("Read {events} events in {:.1} s", began.elapsed().as_secs_f64());
    if options.wants("notes") {
        measure_notes(&projects, options)?;
    }
    if options.wants("tokens") {
        tokens::run(&projects, options)?;
    }
    Ok(())
}

/// Reads every project below `data`.
fn read(data: &Path) -> Result<Vec<Project>> {
    project::folders(data)?.iter().map(|folder| Project::read(folder)).collect()
}

fn measure_notes(projects: &[Project], options: &Options) -> Result<()> {
    let scratch = Scratch::new(CONFIG)?;
    let replayed: Vec<Replayed> =
        projects.iter().map(|project| replay(&scratch, project)).collect::<Result<_>>()?;
    let database = scratch.database()?;
    let notes = Note::all(&database)?;
    println!();
    report::counts(&database, projects, &replayed)?;
    report::bad_phrases(&notes);
    report::digests(&database)?;
    report::shape(&database, &notes, &replayed)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/eval-notes");
    fs::create_dir_all(&folder)?;
    let sample = sample::write(&database, &notes, projects, options, &folder)?;
    let learnings = sample::write_learnings(&database, &folder)?;
    drop(database);
    store::checkpoint_into_one_file(&scratch.home())?;
    let copy = folder.join("notes.db");
    fs::copy(scratch.home().database(), &copy)?;
    println!("\nWritten: {}, {}, {}", sample.display(), learnings.display(), copy.display());
    Ok(())
}

/// Records a project, and processes it with its own worker.
fn replay(scratch: &Scratch, project: &Project) -> Result<Replayed> {
    let recorded = scratch.record(&project.events)?;
    let mut worker = scratch.start_worker(&[])?;
    let seconds = scratch.drain(&mut worker)?.as_secs_f64();
    scratch.settle()?;
    let peak_mb = worker.peak_mb().unwrap_or_default();
    worker.stop()?;
    Ok(Replayed { name: project.name.clone(), recorded, seconds, peak_mb })
}

/// Draws `count` of the items. The order depends on the seed and on each item's own id only.
fn drawn<T>(mut items: Vec<T>, count: usize, seed: u64, id: impl Fn(&T) -> String) -> Vec<T> {
    items.sort_by_cached_key(|item| xxh3_64_with_seed(id(item).as_bytes(), seed));
    items.truncate(count);
    items
}
