//! `claude-mem context`: shows the context of a session that starts here, and the context added
//! later.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::api::{ContextLine, ContextQuery, InSessionQuery, InSessionResponse};
use crate::cli::client;
use crate::cli::output::style::harmless;
use crate::config::Environment;
use crate::paths::Home;

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
    let project_path = directory.to_string_lossy().into_owned();
    let explain = arguments.explain;
    let (json, text, lines, tokens) = match arguments.trigger() {
        Some((name, about)) => {
            let text = about.to_owned();
            let query = InSessionQuery { project_path, text, explain, ..InSessionQuery::default() };
            let asked = client::ask(home, environment, async |client| client.in_session(name, query).await);
            let response = InSessionResponse { log: None, ..asked? };
            let json = serde_json::to_string_pretty(&response)?;
            (json, response.context, response.lines, response.tokens)
        }
        None => {
            let query = ContextQuery {
                cwd: Some(project_path.clone()),
                project_path,
                source: Some(arguments.source.clone()),
                budget: arguments.budget.map(|budget| budget as usize),
                explain,
                ..ContextQuery::default()
            };
            let response = client::ask(home, environment, async |client| client.context(query).await)?;
            let json = serde_json::to_string_pretty(&response)?;
            (json, response.context, response.lines, response.tokens)
        }
    };
    match text.as_str() {
        _ if arguments.json => outln!("{json}"),
        "" if arguments.trigger().is_some() => outln!("No context would be added."),
        "" => outln!("No memories of this project yet."),
        _ if explain => print_explained(&lines.unwrap_or_default(), tokens),
        context => out!("{}", harmless(context)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints each line with its reason and its size.
fn print_explained(lines: &[ContextLine], tokens: usize) {
    let mut layer = "";
    for line in lines {
        if line.layer != layer {
            layer = &line.layer;
            outln!("[{layer}]");
        }
        out!("- {}\n", harmless(&line.text));
        outln!("    why: {} · {} tokens", harmless(&line.why), line.tokens);
    }
    outln!("{tokens} tokens total");
}
