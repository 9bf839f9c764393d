//! `claude-mem sessions`: lists the remembered sessions.

use std::process::ExitCode;

use crate::api::SessionRow;
use crate::cli::arguments::project_filter;
use crate::cli::output::style::harmless;
use crate::cli::output::wrap::{self, counted};
use crate::clock;
use crate::config::Environment;
use crate::paths::Home;
use crate::store::sessions::list_sessions;
use crate::store::{self, StoreError};
use crate::text::age;

/// List remembered sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem sessions\n  claude-mem sessions --project my-app --json")]
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
        rows.iter().for_each(print_row);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_row(row: &SessionRow) {
    let (id, project) = (harmless(&row.id), harmless(&row.project));
    let (prompts, ago) =
        (counted(row.prompt_count, "prompt", "prompts"), age::ago(row.last_activity_at, clock::now()));
    let wide = format!("{id}  {:<11} {project:<20} {prompts:>11}  {ago}", row.status);
    wrap::print_row(&wide, &format!("{id}  "), &format!("{}, {project}, {prompts}, {ago}", row.status));
}
