//! `claude-mem timeline`: shows the memories around a memory.

use std::process::ExitCode;

use crate::cli::arguments::referred;
use crate::cli::client;
use crate::cli::output::style::{Style, harmless};
use crate::cli::output::wrap;
use crate::client::MemoryClient;
use crate::config::Environment;
use crate::paths::Home;

/// Show the memories around a memory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem timeline 1234\n  claude-mem timeline S56 --before 10 --after 0"
)]
pub struct Arguments {
    /// Id as printed by search: 12, S12 for a summary, P12 for a prompt
    anchor: String,
    /// Number of memories before it
    #[arg(long, short, default_value_t = 5)]
    before: u32,
    /// Number of memories after it
    #[arg(long, short, default_value_t = 5)]
    after: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { anchor, before, after, json } = arguments;
    let anchor = referred(anchor)?;
    let around = async |client: MemoryClient| client.timeline(anchor, *before, *after).await;
    let timeline = client::ask(home, environment, around)?;
    if *json {
        outln!("{}", serde_json::to_string_pretty(&timeline)?);
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of_stdout();
    for entry in &timeline.entries {
        let head = format!("{:>8}  {:<11}  ", entry.reference, entry.label());
        let title = harmless(&entry.title);
        let (mark, head, title) =
            if entry.anchor { (">", style.strong(&head), style.strong(&title)) } else { (" ", head, title) };
        wrap::print(&format!("{mark} {head}"), &format!("{title}  {}", style.faint(&entry.age)));
    }
    Ok(ExitCode::SUCCESS)
}
