//! The speed of the provider without a model: microseconds per event over every stored payload and turn, and for events at
//! the hook's size limit. `cargo bench --bench local`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, not the program")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, iter};

use claude_mem::compress::note::{note, summarize};
use claude_mem::compress::routine::{SeenFiles, classify};
use claude_mem::compress::turn::Turn;
use claude_mem::config::Verbosity;
use claude_mem::tools::{RawEvent, ToolEvent};
use serde_json::{Value, json};

fn main() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut turns: Vec<(String, Stored)> =
        files(&fixtures.join("turns")).map(|path| (name(&path), stored_turn(&path))).collect();
    for folder in ["PostToolUse", "PostToolUseFailure", "old-2.0.14/PostToolUse"] {
        turns.extend(
            files(&fixtures.join("hooks").join(folder)).map(|path| (name(&path), single(&read(&path)))),
        );
    }
    let events: usize = turns.iter().map(|(_, turn)| turn.events.len()).sum();
    let mut slowest = (Duration::ZERO, "");
    let mut whole = Duration::ZERO;
    for (name, turn) in &turns {
        let taken = time(turn, 200) / u32::try_from(turn.events.len()).unwrap();
        whole += taken * u32::try_from(turn.events.len()).unwrap();
        slowest = slowest.max((taken, name));
    }
    let each = whole / u32::try_from(events).unwrap();
    println!(
        "{events} events: {:.1} µs per event; slowest {} with {:.1} µs per event",
        micros(each),
        slowest.1,
        micros(slowest.0)
    );
    for (name, turn) in largest() {
        println!("1 MiB, {name}: {:.0} µs", micros(time(&turn, 20)));
    }
}

/// A turn with its events as stored in the queue.
struct Stored {
    turn: Turn,
    events: Vec<RawEvent>,
}

/// Runs all steps on a turn: parsing, classification, note, summary.
fn time(stored: &Stored, rounds: u32) -> Duration {
    let started = Instant::now();
    for _ in 0..rounds {
        let mut seen = SeenFiles::default();
        let mut turn = stored.turn.clone();
        for raw in &stored.events {
            let mut event = ToolEvent::parse(black_box(raw), turn.project_path.as_deref());
            black_box(classify(&event, Verbosity::Normal, &mut seen));
            event.release_texts();
            turn.events.push(event);
        }
        let note = black_box(note(black_box(&turn)));
        black_box(note.map(|note| summarize(&turn, &note)));
    }
    started.elapsed() / rounds
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter()
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn event(hook: &Value) -> RawEvent {
    let mut payload = json!({});
    for part in ["tool_input", "tool_response", "error"] {
        if let Some(value) = hook.get(part) {
            payload[part] = value.clone();
        }
    }
    RawEvent {
        tool_name: text(hook, "tool_name"),
        payload: payload.to_string(),
        failed: hook.get("error").is_some(),
        cwd: text(hook, "cwd"),
        ..RawEvent::default()
    }
}

fn single(hook: &Value) -> Stored {
    let project_path = Some("/home/dev/project".to_owned());
    Stored { turn: Turn { project_path, ..Turn::default() }, events: vec![event(hook)] }
}

fn stored_turn(path: &Path) -> Stored {
    let stored = read(path);
    let turn = Turn {
        project: text(&stored, "project").unwrap(),
        project_path: text(&stored, "project_path"),
        branch: text(&stored, "branch"),
        prompt: text(&stored, "prompt"),
        closings: text(&stored, "last_assistant_message").into_iter().collect(),
        ..Turn::default()
    };
    Stored { turn, events: stored["events"].as_array().unwrap().iter().map(event).collect() }
}

/// Events of the size at which the hook cuts.
fn largest() -> impl Iterator<Item = (&'static str, Stored)> {
    let line = "    let value = compute(3, \"error: something failed\"); // src/a.rs:10:5\n";
    let code: String = iter::repeat_n(line, 1_000_000 / line.len()).collect();
    let edited = code.replacen("compute", "measure", 1);
    [
        ("command output", json!({"tool_name": "Bash", "tool_input": {"command": "cargo test"}, "tool_response": {"stdout": code}})),
        ("edit of a large file", json!({"tool_name": "Edit", "tool_input": {"file_path": "/a.rs", "old_string": "compute", "new_string": "measure"}, "tool_response": {"originalFile": code}})),
        ("written file", json!({"tool_name": "Write", "tool_input": {"file_path": "/a.rs", "content": edited}, "tool_response": {"type": "create"}})),
        ("read file", json!({"tool_name": "Read", "tool_input": {"file_path": "/a.rs"}, "tool_response": {"type": "text", "file": {"filePath": "/a.rs", "content": code, "startLine": 1}}})),
    ]
    .map(|(name, hook)| (name, single(&hook)))
    .into_iter()
}
