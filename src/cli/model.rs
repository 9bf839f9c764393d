//! `claude-mem model`: the model that lets search find by meaning.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::lines;
use crate::config::Environment;
use crate::llm::download::download;
use crate::paths::{Home, create_private_dir};
use crate::search::meaning::{self, package};
use crate::store::{self, StoreError, vectors};

/// The model that lets search find by meaning
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem model install\n  claude-mem model install --file model.whl\n  claude-mem model status --json"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Fetch the model (21 MB) and check it; memories are then read in the background
    Install {
        /// Take this file instead: the published archive, or the model itself
        #[arg(long)]
        file: Option<PathBuf>,
    },
    /// Whether there is a model, and how many memories it has read
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the model and what it has read
    Remove,
}

/// A hook or the service may write at the same moment.
const PATIENCE_MS: u32 = 10_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Install { file } => install(home, environment, file.as_deref()),
        Action::Status { json } => status(home, *json),
        Action::Remove => remove(home),
    }
}

fn install(home: &Home, environment: &Environment, file: Option<&Path>) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    create_private_dir(&home.models())?;
    if file.is_none() && package::is_intact(&home.models()) == Some(true) {
        say!("The model is installed already.");
        return Ok(ExitCode::SUCCESS);
    }
    match file {
        Some(file) => package::install(file, &home.models())?,
        None => fetch(home, environment)?,
    };
    crate::hook::nudge(home);
    say!("The model is installed; the service reads what is remembered in the background.");
    Ok(ExitCode::SUCCESS)
}

fn fetch(home: &Home, environment: &Environment) -> anyhow::Result<PathBuf> {
    let part = home.models().join("download.part");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let watched = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let tell = |got: u64, all: Option<u64>| {
        if watched && told.elapsed() > Duration::from_millis(200) {
            told = Instant::now();
            let share = all.map(|all| format!(" of {:.1}", all as f64 / 1e6)).unwrap_or_default();
            eprint!("\r\u{1b}[K{:.1}{share} MB", got as f64 / 1e6);
            let _ = std::io::stderr().flush();
        }
    };
    let fetched = runtime.block_on(download(package::URL, &part, &environment.outgoing.proxies, tell));
    if watched {
        eprint!("\r\u{1b}[K");
    }
    fetched.context("the model could not be fetched; the next try goes on where this one stopped, and --file takes one that you have")?;
    let installed = package::install(&part, &home.models());
    // Right or wrong, it is of no more use.
    let _ = std::fs::remove_file(&part);
    Ok(installed?)
}

fn status(home: &Home, json: bool) -> anyhow::Result<ExitCode> {
    let intact = package::is_intact(&home.models());
    let (read, all) = match store::open_to_read(home, PATIENCE_MS) {
        Ok(database) => vectors::coverage(&database)?,
        Err(StoreError::Missing) => (0, 0),
        Err(error) => return Err(error.into()),
    };
    if json {
        let file = meaning::file(&home.models());
        say!(
            "{:#}",
            json!({"installed": intact.is_some(), "intact": intact, "file": file, "read": read, "memories": all})
        );
    } else {
        match intact {
            None => lines::print(
                "",
                "No model is installed: search works by words alone. `claude-mem model install` fetches one.",
            ),
            Some(false) => {
                lines::print("", "The model's file is damaged: `claude-mem model install` fetches it again.")
            }
            Some(true) => {
                let read = format!("{read} of {all} memories are read");
                lines::print("", &format!("The model is installed ({}); {read}.", package::LICENCE))
            }
        }
    }
    Ok(if intact == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn remove(home: &Home) -> anyhow::Result<ExitCode> {
    let removed = std::fs::remove_file(meaning::file(&home.models()));
    let was_there = match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("the model cannot be deleted");
        }
        removed => removed.is_ok(),
    };
    match store::open_to_read(home, PATIENCE_MS) {
        Ok(_) => vectors::forget_all(&mut store::open_to_change(home, PATIENCE_MS)?)?,
        Err(StoreError::Missing) => {}
        Err(error) => return Err(error.into()),
    }
    say!("{}", if was_there { "The model and what it has read are gone." } else { "No model is installed." });
    Ok(ExitCode::SUCCESS)
}
