//! `claude-mem review`: walks through the memories whose code has changed.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use crate::api::{EditRequest, StaleNote};
use crate::cli::UsageError;
use crate::cli::arguments::project_filter;
use crate::cli::memories::correct::open;
use crate::cli::output::style::{Style, harmless};
use crate::cli::output::wrap;
use crate::clock;
use crate::config::Environment;
use crate::manual_memories::{self, Confirmation};
use crate::paths::Home;
use crate::repository::Repositories;
use crate::store::browse;
use crate::store::corrections;
use crate::store::memory::manual::{self, Forgettable};
use crate::text::age;

/// Walk through the memories whose code has changed: keep, edit or forget each
///
/// A kept memory is compared with the code as it is now from then on. Without a terminal the memories are only listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem review\n  claude-mem review --project . --json")]
pub struct Arguments {
    /// Only this project: its name or one of its directories
    #[arg(long)]
    project: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let mut database = open(home)?;
    let stale = browse::stale(&database, project.as_deref())?;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&stale)?);
        return Ok(ExitCode::SUCCESS);
    }
    if stale.is_empty() {
        outln!("No memory is about changed code.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut input = std::io::stdin().lock();
    let is_asked = input.is_terminal() && std::io::stdout().is_terminal();
    let style = Style::of_stdout();
    for (at, note) in stale.iter().enumerate() {
        print(note, style);
        if is_asked && !decide(&mut database, note, (at + 1, stale.len()), &mut input)? {
            break;
        }
    }
    crate::nudge::send(home);
    Ok(ExitCode::SUCCESS)
}

fn print(stale: &StaleNote, style: Style) {
    let note = &stale.note;
    let state = if stale.standing == "gone" { "its code is gone" } else { "its code has changed" };
    wrap::print("", &style.strong(&harmless(&format!("#{}  {}  {}", note.id, note.kind, note.title))));
    let about = format!("{}, {}, {state}", note.project, age::ago(note.created_at, clock::now()));
    wrap::print("", &style.faint(&harmless(&about)));
    if !note.summary.is_empty() {
        wrap::print("    ", &harmless(&note.summary));
    }
    outln!("");
}

/// Asks what to do with a note, and does it. False to stop.
fn decide(
    database: &mut rusqlite::Connection,
    stale: &StaleNote,
    (at, all): (usize, usize),
    input: &mut impl BufRead,
) -> anyhow::Result<bool> {
    let id = stale.note.id;
    loop {
        let answer = ask(&format!("{at} of {all}: [k]eep, [e]dit, [f]orget, [s]kip, [q]uit? "), input)?;
        match answer.as_deref() {
            Some("k" | "keep") => {
                confirm(database, id)?;
                outln!("Kept.\n");
            }
            Some("e" | "edit") => {
                let Some(summary) = ask("New summary: ", input)?.filter(|text| !text.is_empty()) else {
                    outln!("Unchanged.\n");
                    continue;
                };
                let request = EditRequest { summary: Some(summary), ..EditRequest::default() };
                let amendment = manual_memories::amendment(request).map_err(UsageError)?;
                corrections::edit(database, id, &amendment, clock::now())?;
                confirm(database, id)?;
                outln!("Edited.\n");
            }
            Some("f" | "forget") => {
                manual::forget(database, Forgettable::Observation(id), clock::now())?;
                outln!("Forgotten. `claude-mem open` can restore it.\n");
            }
            Some("s" | "skip" | "") => outln!(""),
            Some("q" | "quit") | None => return Ok(false),
            Some(_) => continue,
        }
        return Ok(true);
    }
}

/// Compares the note with the code as it is now from now on.
fn confirm(database: &mut rusqlite::Connection, id: i64) -> anyhow::Result<()> {
    let Some(mut confirmation) = Confirmation::of(database, id)? else { return Ok(()) };
    confirmation.retake(Repositories::default().surveyed_tree(&confirmation.root));
    confirmation.store(database)?;
    Ok(())
}

/// Prints a question and reads a line; none at the end of the input.
fn ask(question: &str, input: &mut impl BufRead) -> anyhow::Result<Option<String>> {
    out!("{question}");
    std::io::stdout().flush()?;
    let mut line = String::new();
    let is_end = input.read_line(&mut line)? == 0;
    Ok((!is_end).then(|| line.trim().to_owned()))
}
