//! `claude-mem show`: prints memories in full.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::lines;
use super::recall::{ask, encoded, referred, text};
use super::style::{Style, harmless};
use crate::config::Environment;
use crate::paths::Home;
use crate::search::answer;
use crate::worker::clock;

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
    let route = format!("/api/memories?ids={}", encoded(&arguments.ids.join(",")));
    let answer = ask(home, environment, &route, |database, _| {
        Ok(answer::memories(database, &references, clock::now())?)
    })?;
    let memories = answer["memories"].as_array().map(Vec::as_slice).unwrap_or_default();
    if arguments.json {
        outln!("{:#}", json!(memories));
    } else {
        let style = Style::of_stdout();
        memories.iter().for_each(|memory| print(memory, style));
    }
    let found: Vec<_> = memories.iter().filter_map(|memory| answer::referred(text(memory, "ref"))).collect();
    let asked = arguments.ids.iter().zip(&references);
    let missing: Vec<&str> =
        asked.filter(|(_, reference)| !found.contains(reference)).map(|(id, _)| id.as_str()).collect();
    if !missing.is_empty() {
        bail!("not found: {}", harmless(&missing.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(memory: &Value, style: Style) {
    let kind = memory["type"].as_str().unwrap_or(text(memory, "kind"));
    let heading = format!("{}  {kind}  {}", text(memory, "ref"), text(memory, "title"));
    lines::print("", &style.strong(harmless(&heading).trim_end()));
    lines::print(
        "",
        &style.faint(&harmless(&format!("{}, {}", text(memory, "project"), text(memory, "age")))),
    );
    for part in ["summary", "detail"] {
        let body = text(memory, part).trim();
        if !body.is_empty() {
            outln!("");
            lines::print("", &harmless(body));
        }
    }
    let lists =
        [("facts", "Facts"), ("concepts", "Concepts"), ("files_modified", "Changed"), ("files_read", "Read")];
    for (name, heading) in lists {
        let items: Vec<&str> =
            memory[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !items.is_empty() {
            outln!("\n{}", style.strong(heading));
            items.iter().for_each(|item| lines::print("- ", &harmless(item)));
        }
    }
    outln!("");
}
