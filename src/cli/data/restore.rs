//! `claude-mem restore`: replaces the database with a backup.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::backup as listing;
use crate::cli::output::progress::{Progress, is_agreed};
use crate::cli::output::wrap;
use crate::cli::service;
use crate::cli::service::status::held_by_copy;
use crate::clock;
use crate::config::Environment;
use crate::paths::Home;
use crate::store::files::backup::{self, CheckedBackup};
use crate::store::files::restore::{self, PreviousDatabase};
use crate::text::age;
use crate::worker::system::lock::Lock;

/// Replace the database with a backup
///
/// Backs up the current database first. Stops the service meanwhile; hooks keep recording, and no
/// event is lost.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem restore --list\n  claude-mem restore\n  claude-mem restore ~/.claude-mem/backups/daily-20260921T141320123Z.db"
)]
pub struct Arguments {
    /// Backup to restore [default: the newest valid one]
    file: Option<PathBuf>,
    /// List existing backups
    #[arg(long)]
    list: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        return listing::list(home, arguments.json);
    }
    let (file, checked) = choose(home, arguments.file.as_deref())?;
    if !is_agreed(&question(&file, &checked), arguments.yes)? {
        outln!("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::new("restoring");
    let manager = service::manager(home, environment);
    let was_running = service::stop_quietly(home, environment, manager)?;
    let restored = with_lock(home, || Ok(restore::restore(home, &file, clock::now())?));
    // Start the service again in any case, if it was running.
    let started =
        if was_running { service::start_quietly(home, environment, manager).map(drop) } else { Ok(()) };
    drop(progress);
    let kept = restored?;
    started?;
    if arguments.json {
        outln!("{:#}", json!({"restored": file, "rows": checked.rows, "kept": kept.path()}));
    } else {
        wrap::print("", &format!("Restored from {}.", file.display()));
        let was = match &kept {
            PreviousDatabase::Damaged(_) => " was damaged, and",
            PreviousDatabase::Nothing | PreviousDatabase::Backup(_) => "",
        };
        if let Some(path) = kept.path() {
            wrap::print("", &format!("The previous database{was} is in {}.", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn choose(home: &Home, named: Option<&Path>) -> anyhow::Result<(PathBuf, CheckedBackup)> {
    let Some(file) = named else {
        let (copy, checked, _) = backup::newest_good(&home.backups(), clock::now())
            .context("no valid backup found (see `claude-mem backup --list`)")?;
        return Ok((copy.path, checked));
    };
    if !file.is_file() {
        bail!("{} is not a file", file.display());
    }
    let checked = backup::open(file)
        .and_then(|database| backup::check(&database))
        .with_context(|| format!("cannot use {}", file.display()))?;
    Ok((std::path::absolute(file)?, checked))
}

fn question(file: &Path, checked: &CheckedBackup) -> String {
    let made =
        backup::list(file.parent().unwrap_or(Path::new("/"))).into_iter().find(|copy| copy.path == file);
    let age = made.map_or(String::new(), |copy| format!("{}, ", age::ago(copy.made_at, clock::now())));
    format!("Replace the database with {} ({age}{})?", file.display(), held_by_copy(checked))
}

/// Runs `work` while no worker can run.
fn with_lock<T>(home: &Home, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    home.prepare()?;
    let _lock = Lock::take(home)?;
    work()
}
