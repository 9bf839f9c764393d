//! `claude-mem timeline`: shows the memories around a memory.

use std::process::ExitCode;

use anyhow::bail;

use super::lines;
use super::recall::{ask, encoded, referred, text};
use super::style::{Style, harmless};
use crate::config::Environment;
use crate::paths::Home;
use crate::search::answer;
use crate::store::search as index;
use crate::worker::clock;

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
    let reference = referred(anchor)?;
    let route = format!("/api/timeline?anchor={}&before={before}&after={after}", encoded(anchor));
    let timeline = ask(home, environment, &route, |database, _| {
        let entries = index::timeline(database, reference, *before, *after)?;
        if entries.is_empty() {
            bail!("there is no memory {anchor}");
        }
        Ok(answer::timeline(&entries, reference, clock::now()))
    })?;
    if *json {
        outln!("{timeline:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of_stdout();
    for entry in timeline["moments"].as_array().into_iter().flatten() {
        let kind = entry["type"].as_str().unwrap_or(text(entry, "kind"));
        let (head, title) =
            (format!("{:>8}  {kind:<11}  ", text(entry, "ref")), harmless(text(entry, "title")));
        let is_anchor = entry["anchor"].as_bool().unwrap_or_default();
        let (mark, head, title) =
            if is_anchor { (">", style.strong(&head), style.strong(&title)) } else { (" ", head, title) };
        lines::print(&format!("{mark} {head}"), &format!("{title}  {}", style.faint(text(entry, "age"))));
    }
    Ok(ExitCode::SUCCESS)
}
