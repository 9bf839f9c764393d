//! `claude-mem sessions`: lists the remembered sessions.

use std::process::ExitCode;

use crate::api::SessionRow;
use crate::cli::arguments::project_filter;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::table::{Column, Table};
use crate::cli::output::wrap;
use crate::clock;
use crate::config::Environment;
use crate::paths::Home;
use crate::store::sessions::list_sessions;
use crate::store::{self, StoreError};

/// List remembered sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem sessions\n  claude-mem sessions --project my-app --json\n  claude-mem show 5f0c1a2b"
)]
pub struct Arguments {
    /// Only this project: its name or one of its directories
    #[arg(long)]
    project: Option<String>,
    /// Maximum number of sessions, newest first
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let rows = match store::open_to_read(home, 5000) {
        Ok(database) => list_sessions(&database, project.as_deref(), arguments.limit, 0)?,
        Err(StoreError::Missing) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&rows)?);
    } else if rows.is_empty() {
        match &arguments.project {
            Some(project) => outln!("No sessions of project {}.", harmless(project)),
            None => outln!("No sessions yet."),
        }
    } else {
        print(&rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[SessionRow]) {
    let columns = [
        Column::text("TIME"),
        Column::text("PROJECT"),
        Column::flexible("TITLE"),
        Column::text("STATE"),
        Column::number("TURNS"),
        Column::text("SESSION"),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        table.row([
            (&clock::period(row.started_at, row.last_activity_at), Tone::Faint),
            (&row.project, Tone::Plain),
            (row.heading(), Tone::Strong),
            (unusual(&row.status), state_tone(&row.status)),
            (&row.prompt_count.to_string(), Tone::Plain),
            (short_id(&row.id), Tone::Name),
        ]);
    }
    table.print(Style::of_stdout());
}

/// The state of a session, unless it is what most sessions are.
fn unusual(state: &str) -> &str {
    if state == "completed" { "" } else { state }
}

/// The tone of a session's state.
fn state_tone(state: &str) -> Tone {
    match state {
        "active" => Tone::Good,
        "interrupted" => Tone::Warn,
        "failed" => Tone::Bad,
        _ => Tone::Faint,
    }
}

/// The part of an id that a terminal shows; commands accept it.
fn short_id(id: &str) -> &str {
    const SHOWN: usize = 8;
    if wrap::width().is_some() { &id[..id.floor_char_boundary(SHOWN)] } else { id }
}
