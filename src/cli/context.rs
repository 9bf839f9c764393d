//! `claude-mem context`: what a session that starts here is told.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;

use super::recall::{ask, encoded, text};
use super::style::harmless;
use crate::config::Environment;
use crate::context::Hint;
use crate::paths::Home;
use crate::repository::Repositories;
use crate::worker::briefing::{self, Asked};

/// Show what a session that starts here is told
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem context\n  claude-mem context ~/src/my-app --budget 500 --json"
)]
pub struct Arguments {
    /// The directory that the session starts in [default: this one]
    directory: Option<PathBuf>,
    /// How it starts
    #[arg(long, default_value = "startup", value_parser = ["startup", "resume", "clear", "compact", "fork"])]
    source: String,
    /// The most tokens that it may take [default: context.budget]
    #[arg(long, value_parser = clap::value_parser!(u32).range(50..))]
    budget: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let directory = match &arguments.directory {
        Some(directory) => {
            std::fs::canonicalize(directory).with_context(|| format!("{}", directory.display()))?
        }
        None => std::env::current_dir()?,
    };
    let place = directory.to_string_lossy().into_owned();
    let asked = Asked {
        project_path: place.clone(),
        cwd: Some(place.clone()),
        source: Some(arguments.source.clone()),
        budget: arguments.budget.map(|budget| budget as usize),
        ..Asked::default()
    };
    let budget = asked.budget.map(|budget| format!("&budget={budget}")).unwrap_or_default();
    let (place, source) = (encoded(&place), encoded(&arguments.source));
    let route = format!("/api/context?project_path={place}&cwd={place}&source={source}{budget}");
    let told = ask(home, environment, &route, |database, config| {
        let began = Instant::now();
        let repositories = Arc::new(Repositories::default());
        let built = briefing::build(database, config, &repositories, &asked, Hint::of(home));
        Ok(briefing::as_json(&built, began.elapsed().as_secs_f64() * 1000.0))
    })?;
    match text(&told, "context") {
        _ if arguments.json => say!("{told:#}"),
        "" => say!("Nothing is known about this project yet."),
        context => say_as_is!("{}", harmless(context)),
    }
    Ok(ExitCode::SUCCESS)
}
