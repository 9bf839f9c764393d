//! `claude-mem show`: prints memories and sessions in full.

use std::process::ExitCode;

use anyhow::bail;

use crate::api::{Memory, NoteLine, SessionHistory, SessionTurn};
use crate::cli::client;
use crate::cli::output::fields::Fields;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::wrap;
use crate::clock;
use crate::config::Environment;
use crate::paths::Home;
use crate::responses;
use crate::store::index::search::Kind;

/// Show memories or sessions in full
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem show 1234 S56 P7\n  claude-mem show 5f0c1a2b")]
pub struct Arguments {
    /// Memories as printed by search (12, S12 for a summary, P12 for a prompt), or sessions (the beginning of an id
    /// is enough)
    #[arg(required = true, value_name = "ID|SESSION")]
    ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lines of a prompt that are shown with a session.
const PROMPT_LINES: usize = 4;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (memories, sessions): (Vec<_>, Vec<_>) =
        arguments.ids.iter().partition(|id| responses::referred(id).is_some());
    let wanted: Vec<(Kind, i64)> = memories.iter().filter_map(|id| responses::referred(id)).collect();
    let found = match wanted.is_empty() {
        true => Vec::new(),
        false => client::ask(home, environment, async |client| client.memories(wanted).await)?.memories,
    };
    let histories = sessions.iter().map(|id| history(home, environment, id));
    let histories = histories.collect::<anyhow::Result<Vec<_>>>()?;
    if arguments.json {
        let mut all = Vec::new();
        all.extend(found.iter().map(serde_json::to_value));
        all.extend(histories.iter().map(serde_json::to_value));
        outln!("{}", serde_json::to_string_pretty(&all.into_iter().collect::<Result<Vec<_>, _>>()?)?);
    } else {
        let style = Style::of_stdout();
        found.iter().for_each(|memory| print(memory, style));
        histories.iter().for_each(|history| print_session(history, style));
    }
    let is_missing = |id: &&&String| {
        let reference = responses::referred(id);
        !found.iter().any(|memory| responses::referred(&memory.reference) == reference)
    };
    let missing: Vec<&str> = memories.iter().filter(is_missing).map(|id| id.as_str()).collect();
    if !missing.is_empty() {
        bail!("not found: {}", harmless(&missing.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a session with all of its turns.
fn history(home: &Home, environment: &Environment, id: &str) -> anyhow::Result<SessionHistory> {
    client::ask(home, environment, async |client| {
        let mut whole = client.session(id, 0).await?;
        while let Some(from) = whole.next_from {
            let page = client.session(id, from).await?;
            whole.turns.extend(page.turns);
            whole.next_from = page.next_from;
        }
        Ok::<_, crate::client::ClientError>(whole)
    })
}

fn print(memory: &Memory, style: Style) {
    let head =
        format!("#{}  {}  ", memory.reference, style.tone(Tone::of_kind(memory.label()), memory.label()));
    wrap::print("", &(head + &style.strong(&harmless(&memory.title))));
    let mut fields = Fields::default();
    let of_turn = memory.prompt_number.map(|number| format!(", turn {number}")).unwrap_or_default();
    fields
        .add("Project", harmless(&memory.project))
        .add("Made", format!("{}, {}", clock::local_time(memory.created_at), memory.age))
        .add("Session", harmless(&format!("{}{of_turn}", memory.session_id)))
        .add("Changed", harmless(&memory.files_modified.join("\n")))
        .add("Read", harmless(&memory.files_read.join("\n")))
        .add("Topics", harmless(&memory.concepts.join(", ")));
    fields.print(style);
    for body in [memory.summary.trim(), memory.detail.trim()] {
        if !body.is_empty() {
            outln!("");
            wrap::print("", &harmless(body));
        }
    }
    if !memory.facts.is_empty() {
        outln!("");
        memory.facts.iter().for_each(|fact| wrap::print("- ", &harmless(fact)));
    }
    outln!("");
}

fn print_session(history: &SessionHistory, style: Style) {
    let session = &history.session;
    wrap::print("", &style.strong(&harmless(session.heading())));
    let mut fields = Fields::default();
    let recorded = match session.origin.as_str() {
        "backfill" => "read from the agent's history",
        "sync" => "by another machine",
        _ => "live, by hooks",
    };
    fields
        .add("Project", harmless(&session.project))
        .add("Branch", harmless(session.branch.as_deref().unwrap_or_default()))
        .add(
            "Time",
            format!("{}, {}", clock::period(session.started_at, session.last_activity_at), session.status),
        )
        .add("Session", harmless(&session.id))
        .add("Recorded", harmless(&format!("{recorded} ({})", session.agent)))
        .add("Outcome", harmless(session.outcome.as_deref().unwrap_or_default()))
        .add("Left open", harmless(&history.open_items.join("\n")));
    fields.print(style);
    for turn in &history.turns {
        outln!("");
        print_turn(turn, style);
    }
    outln!("");
}

fn print_turn(turn: &SessionTurn, style: Style) {
    let name = turn.prompt_number.map_or("Before the first prompt".into(), |number| format!("Turn {number}"));
    let at = turn.created_at.map(clock::local_time).unwrap_or_default();
    outln!("{}  {}", style.strong(&name), style.faint(&at));
    if let Some(prompt) = &turn.prompt {
        let mut lines: Vec<&str> = prompt.trim().lines().collect();
        let rest = lines.len().saturating_sub(PROMPT_LINES);
        lines.truncate(PROMPT_LINES);
        lines.iter().for_each(|line| wrap::print("  > ", &style.faint(&harmless(line))));
        if rest > 0 {
            outln!("  > {}", style.faint(&format!("({} more)", wrap::counted(rest as i64, "line", "lines"))));
        }
    }
    turn.notes.iter().for_each(|note| print_note(note, style));
    if turn.notes.is_empty() {
        let summary = turn.completed.as_deref().unwrap_or_default();
        if !summary.is_empty() {
            wrap::print("  ", &harmless(summary));
        }
    }
}

fn print_note(note: &NoteLine, style: Style) {
    let head = format!("  #{}  {}  ", note.id, style.tone(Tone::of_kind(&note.kind), &note.kind));
    wrap::print(&head, &style.strong(&harmless(note.heading())));
    if !note.title.is_empty() && !note.summary.is_empty() {
        wrap::print("      ", &harmless(&note.summary));
    }
}
