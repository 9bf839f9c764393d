//! `claude-mem statusline`: one short line for Claude Code's status line. The client runs it after every message, so it reads
//! the database directly and starts nothing.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

use serde::Deserialize;

use crate::clock;
use crate::model::SessionId;
use crate::paths::Home;
use crate::store::{self, StoreError, overview};
use crate::text::number::{counted, grouped};

/// Print one line for Claude Code's status line
///
/// Reads the client's JSON on stdin and prints the number of memories that the session was shown, the
/// waiting events, and today's cost.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example, in ~/.claude/settings.json:\n  \"statusLine\": { \"type\": \"command\", \"command\": \"claude-mem statusline\" }"
)]
pub struct Arguments {}

/// The part of the client's JSON that matters here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusInput {
    session_id: String,
}

/// Longest input that is read; the client sends a few kilobytes.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// Longest wait for a lock. The next line comes soon.
const BUSY_MS: u32 = 5;

pub fn run(home: &Home) -> anyhow::Result<ExitCode> {
    outln!("claude-mem: {}", line(home, &session()));
    Ok(ExitCode::SUCCESS)
}

/// The session in the client's JSON; empty if there is none.
fn session() -> SessionId {
    let mut text = Vec::new();
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let _ = stdin.lock().take(MAX_INPUT_BYTES).read_to_end(&mut text);
    }
    SessionId(serde_json::from_slice::<StatusInput>(&text).unwrap_or_default().session_id)
}

fn line(home: &Home, session: &SessionId) -> String {
    let day = clock::day_start(clock::now());
    let figures =
        store::open_to_read(home, BUSY_MS).and_then(|database| overview::of_session(&database, session, day));
    match figures {
        Ok(figures) => format!(
            "{} · {} queued · ${:.2} today",
            counted(figures.shown, "memory", "memories"),
            grouped(figures.waiting),
            figures.cost_usd_today
        ),
        Err(StoreError::Missing) => "no memories yet".into(),
        Err(StoreError::Busy) => "busy".into(),
        Err(_) => "run `claude-mem doctor`".into(),
    }
}
