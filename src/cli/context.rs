//! `claude-mem context`: shows the context of a session that starts here, and the context added
//! later.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use super::recall::{ask, encoded, text};
use super::style::harmless;
use crate::config::Environment;
use crate::context::Hint;
use crate::paths::Home;
use crate::repository::Repositories;
use crate::store::context::Shown;
use crate::worker::briefing::{self, Asked, ClientMemory, Happening};

/// Show the context that a session started here would get
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem context\n  claude-mem context ~/src/my-app --budget 500 --json\n  claude-mem context --explain\n  claude-mem context --file src/upload.rs --explain"
)]
pub struct Arguments {
    /// Directory the session starts in [default: current directory]
    directory: Option<PathBuf>,
    /// Reason for the session start
    #[arg(long, default_value = "startup", value_parser = ["startup", "resume", "clear", "compact", "fork"])]
    source: String,
    /// Maximum size in tokens [default: context.budget]
    #[arg(long, value_parser = clap::value_parser!(u32).range(50..))]
    budget: Option<u32>,
    /// Show the context added to this prompt
    #[arg(long, value_name = "TEXT", group = "trigger")]
    prompt: Option<String>,
    /// Show the context added before this file is edited
    #[arg(long, value_name = "PATH", group = "trigger")]
    file: Option<String>,
    /// Show the context added after this failure
    #[arg(long, value_name = "TEXT", group = "trigger")]
    failure: Option<String>,
    /// Show why each line was chosen and its size in tokens
    #[arg(long)]
    explain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The in-session trigger and its subject; none for a session start.
    fn trigger(&self) -> Option<(&'static str, &str)> {
        [("prompt", &self.prompt), ("file", &self.file), ("failure", &self.failure)]
            .into_iter()
            .find_map(|(name, about)| Some((name, about.as_deref()?)))
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let directory = match &arguments.directory {
        Some(directory) => {
            std::fs::canonicalize(directory).with_context(|| format!("{}", directory.display()))?
        }
        None => std::env::current_dir()?,
    };
    let place = directory.to_string_lossy().into_owned();
    let mut answer = match arguments.trigger() {
        Some((name, about)) => at(home, environment, arguments, &place, name, about)?,
        None => at_start(home, environment, arguments, &place)?,
    };
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("log");
    }
    match text(&answer, "context") {
        _ if arguments.json => outln!("{answer:#}"),
        "" if arguments.trigger().is_some() => outln!("No context would be added."),
        "" => outln!("No memories of this project yet."),
        _ if arguments.explain => explain(&answer),
        context => out!("{}", harmless(context)),
    }
    Ok(ExitCode::SUCCESS)
}

fn at_start(
    home: &Home,
    environment: &Environment,
    arguments: &Arguments,
    place: &str,
) -> anyhow::Result<Value> {
    let asked = Asked {
        project_path: place.to_owned(),
        cwd: Some(place.to_owned()),
        source: Some(arguments.source.clone()),
        budget: arguments.budget.map(|budget| budget as usize),
        explain: arguments.explain,
        ..Asked::default()
    };
    let budget = asked.budget.map(|budget| format!("&budget={budget}")).unwrap_or_default();
    let (place, source) = (encoded(place), encoded(&arguments.source));
    let explain = arguments.explain;
    let route =
        format!("/api/context?project_path={place}&cwd={place}&source={source}{budget}&explain={explain}");
    ask(home, environment, &route, |database, config| {
        let began = Instant::now();
        let repositories = Arc::new(Repositories::default());
        let client_memory = ClientMemory::of(environment);
        let built = briefing::build(database, config, &repositories, &asked, &client_memory, Hint::of(home));
        Ok(briefing::as_json(&built, began.elapsed().as_secs_f64() * 1000.0, explain))
    })
}

fn at(
    home: &Home,
    environment: &Environment,
    arguments: &Arguments,
    place: &str,
    name: &str,
    about: &str,
) -> anyhow::Result<Value> {
    let happening = Happening {
        project_path: place.to_owned(),
        text: about.to_owned(),
        explain: arguments.explain,
        ..Happening::default()
    };
    let (explain, about) = (arguments.explain, encoded(about));
    let route = format!("/api/context/{name}?project_path={}&text={about}&explain={explain}", encoded(place));
    ask(home, environment, &route, |database, config| {
        let trigger = happening.trigger(name).context("unknown trigger")?;
        Ok(briefing::at(database, config, &happening, &trigger, &Shown::default())?.1)
    })
}

/// Prints each line with its reason and its size.
fn explain(answer: &Value) {
    let mut layer = String::new();
    for line in answer["lines"].as_array().into_iter().flatten() {
        let name = text(line, "layer");
        if name != layer {
            name.clone_into(&mut layer);
            outln!("[{layer}]");
        }
        out!("- {}\n", harmless(text(line, "text")));
        outln!("    why: {} · {} tokens", harmless(text(line, "why")), line["tokens"]);
    }
    outln!("{} tokens total", answer["tokens"]);
}
