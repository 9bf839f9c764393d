//! `claude-mem forget`: takes memories out for good.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::lines;
use super::progress::{Progress, is_agreed};
use super::recall::referred;
use super::style::harmless;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::spool;
use crate::store::backup::{self, Reason};
use crate::store::forget::{self, Selection};
use crate::store::search::Kind;
use crate::store::{self, StoreError};
use crate::worker::clock;

/// Forget memories, for good
///
/// They are gone from the tables, from the search index, from the bytes of the file, and from every backup that is made from
/// now on. With an observation go the events that it was made of. One way to name them at a time: by ids, session, project or text.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").args(["ids", "session", "project", "text", "all"]).required(true),
    after_help = "Examples:\n  claude-mem forget 1234 S56 P7\n  claude-mem forget --text hunter2 --dry-run\n  claude-mem forget --project harborline\n  claude-mem forget --all"
)]
pub struct Arguments {
    /// Ids that search shows: 12, S12 for a summary, P12 for a prompt
    ids: Vec<String>,
    /// A session, with everything that was made of it
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    /// A project, by its name or path
    #[arg(long)]
    project: Vec<String>,
    /// Whatever holds this text
    #[arg(long)]
    text: Vec<String>,
    /// Everything, after a backup
    #[arg(long)]
    all: bool,
    /// Also delete all earlier backups and damaged copies, which still hold it
    #[arg(long)]
    backups: bool,
    /// Show what would go, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Others may hold the lock for a while.
const PATIENCE_MS: u32 = 10_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let selection = selection(arguments)?;
    let mut database = match store::open_to_read(home, PATIENCE_MS) {
        Ok(reader) => {
            let doomed = forget::find(&reader, &selection)?;
            let waiting = spooled(home, &selection);
            tell_missing(&doomed.missing(&selection));
            if !is_wanted(arguments, &doomed.counts(), waiting.len())? {
                return Ok(ExitCode::SUCCESS);
            }
            drop(reader);
            store::open_to_change(home, PATIENCE_MS)?
        }
        Err(StoreError::Missing) => bail!("nothing is remembered yet"),
        Err(error) => return Err(error.into()),
    };
    let config = Config::load(&home.config(), environment)?;
    let keep = usize::try_from(config.backup.keep).unwrap_or(usize::MAX).max(1);
    if arguments.all && !arguments.backups {
        let progress = Progress::new("copying");
        let (copy, _) =
            backup::make(&database, &home.backups(), Reason::BeforeForget, clock::now(), |_, _| {})?;
        drop(progress);
        backup::prune(&home.backups(), keep, clock::now())?;
        eprintln!("A backup is in {}.", copy.path.display());
    }
    let progress = Progress::new("forgetting");
    let doomed = forget::forget(&mut database, &selection, clock::now())?;
    for file in spooled(home, &selection) {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    let is_wiped = forget::wipe(&database, Duration::from_millis(PATIENCE_MS.into()))?;
    let copies = copies_left(home, arguments.backups)?;
    drop(progress);
    crate::hook::nudge(home);
    tell(arguments, &doomed.counts(), is_wiped, copies);
    Ok(ExitCode::SUCCESS)
}

fn selection(arguments: &Arguments) -> anyhow::Result<Selection> {
    let mut selection = Selection {
        sessions: arguments.session.clone(),
        projects: arguments.project.clone(),
        texts: arguments.text.clone(),
        all: arguments.all,
        ..Selection::default()
    };
    if selection.texts.iter().any(|text| text.trim().is_empty()) {
        bail!("an empty text is in everything: use --all if you mean that");
    }
    for id in &arguments.ids {
        let (kind, number) = referred(id)?;
        match kind {
            Kind::Observation => selection.observations.push(number),
            Kind::Summary => selection.summaries.push(number),
            Kind::Prompt => selection.prompts.push(number),
        }
    }
    Ok(selection)
}

fn tell_missing(missing: &[String]) {
    if !missing.is_empty() {
        eprintln!("claude-mem: not there: {}", harmless(&missing.join(", ")));
    }
}

/// Shows what would go, and asks.
fn is_wanted(
    arguments: &Arguments,
    counts: &BTreeMap<&'static str, usize>,
    waiting: usize,
) -> anyhow::Result<bool> {
    if arguments.dry_run {
        if arguments.json {
            say!("{:#}", json!({"dry_run": true, "rows": counts, "spooled": waiting}));
        } else {
            say!("This would go; nothing was changed:");
            print_counts(counts, waiting);
        }
        return Ok(false);
    }
    if counts.is_empty() && waiting == 0 {
        bail!("there is nothing of that kind");
    }
    if !arguments.yes && !arguments.json {
        eprintln!("This will be forgotten for good:");
        for (table, count) in counts {
            eprintln!("  {count:>7} {}", told(table, *count));
        }
    }
    let is_agreed = is_agreed("Go on?", arguments.yes)?;
    if !is_agreed {
        say!("Nothing was changed.");
    }
    Ok(is_agreed)
}

fn tell(arguments: &Arguments, counts: &BTreeMap<&'static str, usize>, is_wiped: bool, copies: usize) {
    if arguments.json {
        say!("{:#}", json!({"dry_run": false, "rows": counts, "wiped": is_wiped, "older_copies": copies}));
        return;
    }
    say!("Forgotten:");
    print_counts(counts, 0);
    if !is_wiped {
        say!("Somebody reads the database: its log is emptied when they are done.");
    }
    if copies > 0 {
        let told = format!(
            "Earlier backups and damaged copies ({copies}) may still hold it, until they are old enough to go; `claude-mem \
             forget … --backups` deletes them."
        );
        lines::print("", &told);
    }
}

fn print_counts(counts: &BTreeMap<&'static str, usize>, waiting: usize) {
    for (table, count) in counts {
        say!("  {count:>7} {}", told(table, *count));
    }
    if waiting > 0 {
        say!("  {waiting:>7} events that wait outside the database");
    }
    if counts.is_empty() && waiting == 0 {
        say!("  nothing");
    }
}

fn told(table: &str, count: usize) -> String {
    let (one, many) = match table {
        "sessions" => ("session", "sessions"),
        "user_prompts" => ("prompt", "prompts"),
        "pending_queue" => ("recorded event", "recorded events"),
        "observations" => ("observation", "observations"),
        "session_summaries" => ("summary", "summaries"),
        "learnings" => ("learning", "learnings"),
        "function_map" => ("changed function", "changed functions"),
        "event_log" => ("entry of the log", "entries of the log"),
        other => (other, other),
    };
    if count == 1 { one.into() } else { many.into() }
}

/// Events in the spool that the selection names.
fn spooled(home: &Home, selection: &Selection) -> Vec<PathBuf> {
    let texts: Vec<String> = selection.texts.iter().map(|text| text.to_lowercase()).collect();
    let is_meant = |path: &PathBuf| {
        let Ok(event) = spool::read(path) else { return selection.all };
        let is_named = event.session.as_ref().is_some_and(|session| {
            selection.sessions.iter().any(|id| id == session.id.as_str())
                || selection
                    .projects
                    .iter()
                    .any(|name| *name == session.project || *name == session.project_path)
        });
        let body = fs::read_to_string(path).unwrap_or_default().to_lowercase();
        let escaped =
            |text: &String| serde_json::to_string(text).unwrap_or_default().trim_matches('"').to_owned();
        selection.all
            || is_named
            || texts.iter().any(|text| body.contains(text) || body.contains(&escaped(text)))
    };
    spool::waiting(home).unwrap_or_default().into_iter().filter(is_meant).collect()
}

/// How many copies of earlier states there are; deleted first, if that is wanted.
fn copies_left(home: &Home, delete: bool) -> anyhow::Result<usize> {
    let damaged = fs::read_dir(home.damaged()).into_iter().flatten().flatten().map(|entry| entry.path());
    let copies: Vec<PathBuf> =
        backup::list(&home.backups()).into_iter().map(|copy| copy.path).chain(damaged).collect();
    if !delete {
        return Ok(copies.len());
    }
    for copy in &copies {
        fs::remove_file(copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    }
    Ok(0)
}
