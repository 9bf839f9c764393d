//! `claude-mem timeline`: shows the memories around a memory.

use std::process::ExitCode;

use crate::cli::arguments::referred;
use crate::cli::client;
use crate::cli::output::style::{Style, Tone};
use crate::cli::output::table::{Column, Table};
use crate::client::MemoryClient;
use crate::clock;
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
    let columns = [
        Column::text(""),
        Column::number("ID"),
        Column::text("TYPE"),
        Column::text("TIME"),
        Column::flexible("TITLE"),
    ];
    let mut table = Table::new(&columns);
    for entry in &timeline.entries {
        let (mark, tone) = if entry.anchor { (">", Tone::Strong) } else { ("", Tone::Plain) };
        table.row([
            (mark, tone),
            (&entry.reference, Tone::Name),
            (entry.label(), Tone::of_kind(entry.label())),
            (&clock::local_time(entry.created_at), Tone::Faint),
            (&entry.title, tone),
        ]);
    }
    table.print(Style::of_stdout());
    Ok(ExitCode::SUCCESS)
}
