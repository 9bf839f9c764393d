//! `claude-mem pin`, `veto`, `supersede`, `merge` and `edit`: corrections of memories. They use the database directly, so they work
//! without the service.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rusqlite::Connection;
use serde_json::json;

use crate::api::{EditRequest, Veto};
use crate::cli::UsageError;
use crate::cli::arguments::{project_named, project_of};
use crate::cli::output::style::harmless;
use crate::cli::output::wrap;
use crate::clock;
use crate::config::{Config, Environment};
use crate::manual_memories;
use crate::paths::Home;
use crate::store::corrections::{self, vetoes};
use crate::store::memory::manual::{ChangeOutcome, Forgettable};
use crate::store::{self, projects};
use crate::text::age;
use crate::text::line::one_line;

/// Pin memories, so that they are in every context of their project
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem pin 12 L3\n  claude-mem pin 12 --undo")]
pub struct PinArguments {
    /// Ids as printed by search: 12, or L12 for a learning
    #[arg(required = true)]
    ids: Vec<String>,
    /// Unpin them
    #[arg(long)]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Veto statements: they are never shown or stored again
///
/// A veto is by value: it also holds for the same statement in other words, as far as the embedding model recognises it.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").args(["ids", "statement", "list", "lift"]).required(true),
    after_help = "Examples:\n  claude-mem veto 12 L3\n  claude-mem veto --statement \"Use npm\"\n  claude-mem veto --list\n  claude-mem veto --lift 2"
)]
pub struct VetoArguments {
    /// Memories whose statements are vetoed: 12, or L12 for a learning
    ids: Vec<String>,
    /// A statement
    #[arg(long)]
    statement: Option<String>,
    /// The statement's project: a name or a directory [default: the current directory's]
    #[arg(long, requires = "statement", conflicts_with = "everywhere")]
    project: Option<String>,
    /// In every project
    #[arg(long, requires = "statement")]
    everywhere: bool,
    /// List the vetoes
    #[arg(long)]
    list: bool,
    /// Lift a veto by the number that --list prints; what it hid stays forgotten until it is restored
    #[arg(long, value_name = "NUMBER")]
    lift: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Mark a memory as replaced by a later one
///
/// A superseded memory is found by search, and not shown unasked.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("how").args(["by", "undo"]).required(true),
    after_help = "Examples:\n  claude-mem supersede 12 --by 40\n  claude-mem supersede 12 --undo"
)]
pub struct SupersedeArguments {
    /// The memory that no longer holds
    id: String,
    /// The memory that replaces it
    #[arg(long, value_name = "ID")]
    by: Option<String>,
    /// Undo it
    #[arg(long)]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Merge memories that say the same into one
///
/// The first gets the facts and files of the others, which are forgotten and can be restored.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem merge 12 40 41")]
pub struct MergeArguments {
    /// The memory to keep
    id: String,
    /// The memories to merge into it
    #[arg(required = true)]
    others: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Change the text of a memory; earlier versions are kept
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("text").args(["title", "summary", "detail", "revert", "versions"]).multiple(true).required(true),
    after_help = "Examples:\n  claude-mem edit 12 --summary \"The timeout is 45 minutes\"\n  claude-mem edit 12 --versions\n  claude-mem edit 12 --revert 3"
)]
pub struct EditArguments {
    /// The memory
    id: String,
    /// Its new title
    #[arg(long)]
    title: Option<String>,
    /// Its new summary
    #[arg(long)]
    summary: Option<String>,
    /// Its new detail
    #[arg(long)]
    detail: Option<String>,
    /// List its earlier versions
    #[arg(long)]
    versions: bool,
    /// Return to the version with this number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["title", "summary", "detail"])]
    revert: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum characters of a statement in a list; `--json` has all of it.
const LISTED: usize = 200;
/// Busy timeout, because other writers may hold the lock for a while.
const BUSY_MS: u32 = 10_000;

/// Opens the database for a change.
pub fn open(home: &Home) -> anyhow::Result<Connection> {
    Ok(store::open_to_change(home, BUSY_MS)?)
}

/// Parses the id of an observation.
fn observation(id: &str) -> anyhow::Result<i64> {
    match manual_memories::forgettable(id).map_err(UsageError)? {
        Forgettable::Observation(id) => Ok(id),
        Forgettable::Learning(_) => {
            Err(UsageError(format!("{id} is a learning; only observations (12) have this")).into())
        }
    }
}

/// Prints the outcome of each change.
fn report(
    home: &Home,
    json: bool,
    words: (&str, &str),
    outcomes: Vec<(String, Option<ChangeOutcome>)>,
) -> anyhow::Result<ExitCode> {
    crate::nudge::send(home);
    let missing: Vec<&str> =
        outcomes.iter().filter(|(_, outcome)| outcome.is_none()).map(|(id, _)| id.as_str()).collect();
    if json {
        let rows: Vec<_> = outcomes
            .iter()
            .filter_map(|(id, outcome)| Some((id, outcome.as_ref()?)))
            .map(|(id, outcome)| json!({"id": id, "title": outcome.title, "changed": outcome.changed}))
            .collect();
        outln!("{:#}", json!({"memories": rows}));
    } else {
        for (id, outcome) in &outcomes {
            let Some(outcome) = outcome else { continue };
            let word = if outcome.changed { words.0 } else { words.1 };
            wrap::print("", &harmless(&format!("{word}: {id} {}", outcome.title)));
        }
    }
    if !missing.is_empty() {
        bail!("not found: {}", harmless(&missing.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn pin(home: &Home, arguments: &PinArguments) -> anyhow::Result<ExitCode> {
    let wanted: Vec<Forgettable> = arguments
        .ids
        .iter()
        .map(|id| manual_memories::forgettable(id))
        .collect::<Result<_, _>>()
        .map_err(UsageError)?;
    let mut database = open(home)?;
    let mut outcomes = Vec::new();
    for (id, what) in arguments.ids.iter().zip(wanted) {
        outcomes.push((id.clone(), corrections::pin(&mut database, what, !arguments.undo, clock::now())?));
    }
    let words = if arguments.undo { ("Unpinned", "Was not pinned") } else { ("Pinned", "Already pinned") };
    report(home, arguments.json, words, outcomes)
}

pub fn veto(home: &Home, environment: &Environment, arguments: &VetoArguments) -> anyhow::Result<ExitCode> {
    let mut database = open(home)?;
    if arguments.list {
        return list_vetoes(&database, arguments.json);
    }
    if let Some(id) = arguments.lift {
        let lifted = vetoes::lift(&database, id)?.with_context(|| format!("there is no veto {id}"))?;
        crate::nudge::send(home);
        wrap::print("", &harmless(&format!("Lifted: {}", one_line(&lifted, LISTED))));
        return Ok(ExitCode::SUCCESS);
    }
    let mut statements = Vec::new();
    for id in &arguments.ids {
        let what = manual_memories::forgettable(id).map_err(UsageError)?;
        let found = manual_memories::statements(&database, what)?;
        if found.is_empty() {
            bail!("not found: {}", harmless(id));
        }
        statements.extend(found);
    }
    if let Some(statement) = &arguments.statement {
        let config = Config::load(&home.config(), environment)?;
        let project = match (&arguments.project, arguments.everywhere) {
            (_, true) => String::new(),
            (Some(project), _) => project_named(&database, &config, project)?,
            (None, _) => projects::name_of(&database, &project_of(".", &config)?)?,
        };
        statements.push((project, statement.clone()));
    }
    let add = |(project, statement)| vetoes::add(&mut database, project, statement, None, clock::now());
    let made: Vec<Veto> = statements.into_iter().map(add).collect::<Result<_, _>>()?;
    crate::nudge::send(home);
    if arguments.json {
        outln!("{:#}", json!({"vetoes": made}));
    } else {
        for veto in &made {
            wrap::print(
                "",
                &harmless(&format!("Vetoed ({}): {}", veto.id, one_line(&veto.statement, LISTED))),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list_vetoes(database: &Connection, json: bool) -> anyhow::Result<ExitCode> {
    let known = vetoes::list(database)?;
    if json {
        outln!("{:#}", json!({"vetoes": known}));
    } else if known.is_empty() {
        outln!("No vetoes.");
    }
    for veto in known.iter().filter(|_| !json) {
        let project = if veto.project.is_empty() { "every project" } else { &veto.project };
        let when = age::ago(veto.created_at, clock::now());
        wrap::print(
            &format!("{:>4}  ", veto.id),
            &harmless(&format!("{} ({project}, {when})", one_line(&veto.statement, LISTED))),
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub fn supersede(home: &Home, arguments: &SupersedeArguments) -> anyhow::Result<ExitCode> {
    let id = observation(&arguments.id)?;
    let by = arguments.by.as_deref().map(observation).transpose()?;
    let mut database = open(home)?;
    let outcome = corrections::supersede(&mut database, id, by)?;
    let words = if by.is_some() {
        ("Superseded", "Already superseded")
    } else {
        ("Holds again", "Was not superseded")
    };
    report(home, arguments.json, words, vec![(arguments.id.clone(), outcome)])
}

pub fn merge(home: &Home, arguments: &MergeArguments) -> anyhow::Result<ExitCode> {
    let id = observation(&arguments.id)?;
    let others: Vec<i64> = arguments.others.iter().map(|id| observation(id)).collect::<Result<_, _>>()?;
    let mut database = open(home)?;
    let outcome = corrections::merge(&mut database, id, &others, clock::now())?;
    report(home, arguments.json, ("Merged", "Nothing to merge"), vec![(arguments.id.clone(), outcome)])
}

pub fn edit(home: &Home, arguments: &EditArguments) -> anyhow::Result<ExitCode> {
    let id = observation(&arguments.id)?;
    let mut database = open(home)?;
    if arguments.versions {
        return list_versions(&database, id, arguments.json);
    }
    let outcome = match arguments.revert {
        Some(version) => corrections::revert(&mut database, id, version, clock::now())?,
        None => {
            let request = EditRequest {
                title: arguments.title.clone(),
                summary: arguments.summary.clone(),
                detail: arguments.detail.clone(),
                ..EditRequest::default()
            };
            let amendment = manual_memories::amendment(request).map_err(UsageError)?;
            corrections::edit(&mut database, id, &amendment, clock::now())?
        }
    };
    report(home, arguments.json, ("Edited", "Unchanged"), vec![(arguments.id.clone(), outcome)])
}

fn list_versions(database: &Connection, id: i64, json: bool) -> anyhow::Result<ExitCode> {
    let versions = corrections::versions(database, id)?;
    if json {
        outln!("{:#}", json!({"versions": versions}));
        return Ok(ExitCode::SUCCESS);
    }
    if versions.is_empty() {
        outln!("No earlier versions.");
    }
    for version in versions {
        let when = age::ago(version.replaced_at, clock::now());
        let text = [version.title, version.summary]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        wrap::print(
            &format!("{:>4}  ", version.id),
            &harmless(&format!("until {when}: {}", one_line(&text, LISTED))),
        );
    }
    Ok(ExitCode::SUCCESS)
}
