//! `claude-mem show`: prints memories in full.

use std::process::ExitCode;

use anyhow::bail;

use crate::api::Memory;
use crate::cli::arguments::referred;
use crate::cli::client;
use crate::cli::output::style::{Style, harmless};
use crate::cli::output::wrap;
use crate::config::Environment;
use crate::paths::Home;
use crate::search::response;

/// Show memories in full
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem show 1234 S56 P7")]
pub struct Arguments {
    /// Ids as printed by search: 12, S12 for a summary, P12 for a prompt
    #[arg(required = true)]
    ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let references: Vec<_> = arguments.ids.iter().map(|id| referred(id)).collect::<Result<_, _>>()?;
    let wanted = references.clone();
    let memories = client::ask(home, environment, async |client| client.memories(wanted).await)?.memories;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&memories)?);
    } else {
        let style = Style::of_stdout();
        memories.iter().for_each(|memory| print(memory, style));
    }
    let found: Vec<_> = memories.iter().filter_map(|memory| response::referred(&memory.reference)).collect();
    let asked = arguments.ids.iter().zip(&references);
    let missing: Vec<&str> =
        asked.filter(|(_, reference)| !found.contains(reference)).map(|(id, _)| id.as_str()).collect();
    if !missing.is_empty() {
        bail!("not found: {}", harmless(&missing.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(memory: &Memory, style: Style) {
    let heading = format!("{}  {}  {}", memory.reference, memory.label(), memory.title);
    wrap::print("", &style.strong(harmless(&heading).trim_end()));
    wrap::print("", &style.faint(&harmless(&format!("{}, {}", memory.project, memory.age))));
    for body in [memory.summary.trim(), memory.detail.trim()] {
        if !body.is_empty() {
            outln!("");
            wrap::print("", &harmless(body));
        }
    }
    let lists = [
        ("Facts", &memory.facts),
        ("Concepts", &memory.concepts),
        ("Changed", &memory.files_modified),
        ("Read", &memory.files_read),
    ];
    for (heading, items) in lists {
        if !items.is_empty() {
            outln!("\n{}", style.strong(heading));
            items.iter().for_each(|item| wrap::print("- ", &harmless(item)));
        }
    }
    outln!("");
}
