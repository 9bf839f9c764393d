//! `claude-mem queue`: what waits, what went wrong, and what to do about it.

use std::process::ExitCode;

use super::lines::{self, counted};
use super::style::harmless;
use crate::config::{Config, Environment};
use crate::context::age;
use crate::paths::Home;
use crate::store::queue_admin::{self, ListedRow};
use crate::store::{self, StoreError};
use crate::worker::clock;

/// Look at the queue, and repair it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem queue errors\n  claude-mem queue retry 1234\n  claude-mem queue redo"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// What waits and what is worked on
    List(Listing),
    /// What went wrong, and why
    Errors(Listing),
    /// Try again what went wrong or was stopped
    Retry {
        /// Only this row
        id: Option<i64>,
    },
    /// Do again, with a model, what was done without one because the daily ceiling was reached
    Redo,
    /// Delete finished rows; what was made of them stays
    Purge,
}

#[derive(Debug, clap::Args)]
struct Listing {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// At most so many rows
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let patience = config.hook.busy_ms.max(5_000);
    match &arguments.action {
        Action::List(listing) => list(home, patience, &["raw", "processing"], listing)?,
        Action::Errors(listing) => list(home, patience, &["error"], listing)?,
        Action::Retry { id } => {
            let count = queue_admin::retry(&mut store::open_to_change(home, patience)?, *id, clock::now())?;
            crate::hook::nudge(home);
            if let Some(id) = id.filter(|_| count == 0) {
                anyhow::bail!(
                    "{id} is not there, or neither failed nor was stopped (see `claude-mem queue errors`)"
                );
            }
            say!("{count} brought back.");
        }
        Action::Redo => {
            let count = queue_admin::redo(&mut store::open_to_change(home, patience)?, clock::now())?;
            crate::hook::nudge(home);
            say!("{count} will be done again.");
        }
        Action::Purge => {
            say!("{} deleted.", queue_admin::purge(&store::open_to_change(home, patience)?)?)
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(home: &Home, patience: u32, states: &[&str], listing: &Listing) -> anyhow::Result<()> {
    let rows = match store::open_to_read(home, patience) {
        Ok(database) => queue_admin::list(&database, states, listing.limit)?,
        Err(StoreError::Missing) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if listing.json {
        say!("{}", serde_json::to_string_pretty(&rows)?);
    } else if rows.is_empty() {
        say!("Nothing.");
    } else {
        rows.iter().for_each(print_row);
    }
    Ok(())
}

fn print_row(row: &ListedRow) {
    let what = harmless(row.tool_name.as_deref().unwrap_or(&row.kind));
    let session = harmless(row.session_id.as_deref().unwrap_or("no session"));
    let (head, ago) = (format!("{:>8}  ", row.id), age::ago(row.created_at, clock::now()));
    let wide = format!("{head}{:<10} {what:<16} {ago}  {session}", row.status);
    lines::print_row(&wide, &head, &format!("{}, {what}, {ago}, {session}", row.status));
    if let Some(error) = &row.last_error {
        let reason = harmless(error.lines().next().unwrap_or_default());
        let attempts = counted(row.attempts, "attempt", "attempts");
        lines::print(&" ".repeat(head.len()), &format!("after {attempts}: {reason}"));
    }
}
