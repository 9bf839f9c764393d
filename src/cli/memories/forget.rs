//! `claude-mem forget`: deletes memories permanently.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::cli::arguments::{project_named, referred};
use crate::cli::output::progress::{Progress, is_agreed};
use crate::cli::output::style::harmless;
use crate::cli::output::wrap;
use crate::compress::digest::digest;
use crate::config::{Config, Environment};
use crate::model::SessionStamp;
use crate::paths::Home;
use crate::store::files::backup::{self, Reason};
use crate::store::index::search::Kind;
use crate::store::maintenance::forget::{self, Selection};
use crate::store::sessions::whole_id;
use crate::store::{self, projects};
use crate::{clock, spool};

/// Delete memories permanently
///
/// Deletes them from the tables, the search index, the bytes of the file and all future backups,
/// along with the events they were made from. Select by ids, session, project or text, one kind at
/// a time.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").args(["ids", "session", "project", "text", "all"]).required(true),
    after_help = "Examples:\n  claude-mem forget 1234 S56 P7\n  claude-mem forget --text hunter2 --dry-run\n  claude-mem forget --project harborline\n  claude-mem forget --all"
)]
pub struct Arguments {
    /// Ids as printed by search: 12, S12 for a summary, P12 for a prompt
    ids: Vec<String>,
    /// A session, by its id or the beginning of it, and everything derived from it
    #[arg(long, value_name = "ID")]
    session: Vec<String>,
    /// A project: its name or one of its directories
    #[arg(long)]
    project: Vec<String>,
    /// All memories that contain this text
    #[arg(long)]
    text: Vec<String>,
    /// Everything, after making a backup
    #[arg(long)]
    all: bool,
    /// Also delete all earlier backups and damaged copies, which may still contain them
    #[arg(long)]
    backups: bool,
    /// Show what would be deleted without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Busy timeout, because other writers may hold the lock for a while.
const BUSY_TIMEOUT_MS: u32 = 10_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let mut selection = selection(arguments)?;
    let reader = store::open_to_read(home, BUSY_TIMEOUT_MS)?;
    for project in &mut selection.projects {
        *project = project_named(&reader, &config, project)?;
    }
    for session in &mut selection.sessions {
        *session = whole_id(&reader, session)?.0;
    }
    let doomed = forget::find(&reader, &selection)?;
    let waiting = spooled(home, &reader, &selection);
    warn_missing(&doomed.missing(&selection));
    if !is_confirmed(arguments, &doomed.counts(), waiting.len())? {
        return Ok(ExitCode::SUCCESS);
    }
    drop(reader);
    let mut database = store::open_to_change(home, BUSY_TIMEOUT_MS)?;
    let keep = usize::try_from(config.backup.keep).unwrap_or(usize::MAX).max(1);
    if arguments.all && !arguments.backups {
        let progress = Progress::new("copying");
        let (copy, _) =
            backup::make(&database, &home.backups(), Reason::BeforeForget, clock::now(), |_, _| {})?;
        drop(progress);
        backup::prune(&home.backups(), keep, clock::now())?;
        eprintln!("Backup: {}", copy.path.display());
    }
    let progress = Progress::new("forgetting");
    let waiting = spooled(home, &database, &selection);
    let doomed = forget::forget(&mut database, &selection, digest, clock::now())?;
    for file in waiting {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    let is_wiped = forget::wipe(&database, Duration::from_millis(BUSY_TIMEOUT_MS.into()))?;
    let copies = copies_left(home, arguments.backups)?;
    drop(progress);
    crate::nudge::send(home);
    report(arguments, &doomed.counts(), is_wiped, copies);
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
        bail!("an empty text matches everything; use --all to delete everything");
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

fn warn_missing(missing: &[String]) {
    if !missing.is_empty() {
        eprintln!("claude-mem: not found: {}", harmless(&missing.join(", ")));
    }
}

/// Shows what would be deleted, and asks for confirmation.
fn is_confirmed(
    arguments: &Arguments,
    counts: &BTreeMap<&'static str, usize>,
    waiting: usize,
) -> anyhow::Result<bool> {
    if arguments.dry_run {
        if arguments.json {
            outln!("{:#}", json!({"dry_run": true, "rows": counts, "spooled": waiting}));
        } else {
            outln!("Would delete (nothing was changed):");
            print_counts(counts, waiting);
        }
        return Ok(false);
    }
    if counts.is_empty() && waiting == 0 {
        bail!("no memories match");
    }
    if !arguments.yes && !arguments.json {
        eprintln!("This will be deleted permanently:");
        for (table, count) in counts {
            eprintln!("  {count:>7} {}", label(table, *count));
        }
    }
    let is_agreed = is_agreed("Continue?", arguments.yes)?;
    if !is_agreed {
        outln!("Nothing was changed.");
    }
    Ok(is_agreed)
}

fn report(arguments: &Arguments, counts: &BTreeMap<&'static str, usize>, is_wiped: bool, copies: usize) {
    if arguments.json {
        outln!("{:#}", json!({"dry_run": false, "rows": counts, "wiped": is_wiped, "older_copies": copies}));
        return;
    }
    outln!("Deleted:");
    print_counts(counts, 0);
    if !is_wiped {
        outln!(
            "The file could not be rewritten now (it is in use, or the disk has no room for a second copy); run \
             `claude-mem forget` again later to remove the last traces."
        );
    }
    if copies > 0 {
        let note = format!(
            "Earlier backups and damaged copies ({copies}) may still contain it until they expire; `claude-mem \
             forget … --backups` deletes them."
        );
        wrap::print("", &note);
    }
}

fn print_counts(counts: &BTreeMap<&'static str, usize>, waiting: usize) {
    for (table, count) in counts {
        outln!("  {count:>7} {}", label(table, *count));
    }
    if waiting > 0 {
        outln!("  {waiting:>7} spooled events");
    }
    if counts.is_empty() && waiting == 0 {
        outln!("  nothing");
    }
}

fn label(table: &str, count: usize) -> String {
    let (one, many) = match table {
        "sessions" => ("session", "sessions"),
        "user_prompts" => ("prompt", "prompts"),
        "pending_queue" => ("recorded event", "recorded events"),
        "observations" => ("observation", "observations"),
        "session_summaries" => ("summary", "summaries"),
        "learnings" => ("learning", "learnings"),
        "function_map" => ("changed function", "changed functions"),
        "edit_traces" => ("edit trace", "edit traces"),
        "repairs" => ("repair", "repairs"),
        "event_log" => ("event log entry", "event log entries"),
        other => (other, other),
    };
    if count == 1 { one.into() } else { many.into() }
}

/// Returns the files in the spool that the selection matches: waiting events and rejected ones.
fn spooled(home: &Home, database: &rusqlite::Connection, selection: &Selection) -> Vec<PathBuf> {
    let is_of = |session: &SessionStamp| {
        let name = projects::known(database, &session.project_key).ok().flatten();
        let name = name.unwrap_or_else(|| session.project.clone());
        selection.projects.contains(&name)
    };
    let texts: Vec<String> = selection.texts.iter().map(|text| text.to_lowercase()).collect();
    let is_selected = |path: &PathBuf| {
        let body = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).to_lowercase();
        let is_named = match spool::read(path) {
            Ok(event) => event.session.as_ref().is_some_and(|session| {
                selection.sessions.iter().any(|id| id == session.id.as_str()) || is_of(session)
            }),
            // Not a readable event: search its text instead.
            Err(_) => {
                let mut names = selection.sessions.iter().chain(&selection.projects);
                names.any(|name| body.contains(&name.to_lowercase()))
            }
        };
        let escaped =
            |text: &String| serde_json::to_string(text).unwrap_or_default().trim_matches('"').to_owned();
        selection.all
            || is_named
            || texts.iter().any(|text| body.contains(text) || body.contains(&escaped(text)))
    };
    let rejected = fs::read_dir(home.rejected()).into_iter().flatten().flatten().map(|entry| entry.path());
    spool::waiting(home).unwrap_or_default().into_iter().chain(rejected).filter(is_selected).collect()
}

/// Returns the number of older copies, after deleting them if `delete` is set.
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
