//! Users of the programs: sessions full of turns, and readers.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::rng::Dice;
use crate::harness::worker::{edit_payload, request};
use crate::scene::Scene;

/// Number of concurrent writers; two of them share a session.
pub const WRITERS: usize = 6;

/// Writes turns until the run ends.
pub fn write(scene: &Scene, writer: usize, pause_ms: u64) {
    let mut dice = Dice::new(scene.seed.wrapping_mul(31).wrapping_add(writer as u64 + 1));
    for turn in 0.. {
        for (verb, payload) in turn_of(scene.sandbox.path(), writer, turn, &mut dice) {
            if scene.is_over() {
                return;
            }
            scene.send(writer, verb, &payload, &mut dice);
            std::thread::sleep(Duration::from_millis(dice.below(pause_ms)));
        }
    }
}

/// The payloads of one turn. Every event has something unique, so that its key is unique.
fn turn_of(cwd: &Path, writer: usize, turn: usize, dice: &mut Dice) -> Vec<(&'static str, String)> {
    let session = format!("session-{}", writer / 2);
    let mark = format!("{writer}-{turn}");
    let of_session = |more: Value| {
        let mut payload = json!({"session_id": session, "cwd": cwd, "prompt_id": format!("p{mark}")});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload.to_string()
    };
    let mut events = Vec::new();
    if dice.once_in(6) {
        events.push(("context", of_session(json!({"source": dice.pick(&["startup", "resume", "compact"])}))));
    }
    events.push(("new", of_session(json!({"prompt": format!("Make the greeting {mark} polite")}))));
    for number in 0..dice.below(6) {
        let id = format!("e{mark}-{number}");
        let bytes = *dice.pick(&[0, 500, 2_000, 2_000, 8_000, 60_000]);
        events.push(match dice.below(40) {
            0 => ("save", format!("no JSON at all {id}")),
            1..8 => ("save", failure(&session, &id, cwd)),
            _ => ("save", edit_payload(&session, &id, cwd, bytes)),
        });
    }
    if dice.once_in(10) {
        events.push(("compact", of_session(json!({"hook_event_name": "PreCompact", "trigger": "auto"}))));
    }
    // Some turns are interrupted: the next prompt closes them.
    if !dice.once_in(5) {
        let words = format!("The greeting {mark} is polite now.");
        events.push((
            "summary",
            of_session(json!({"hook_event_name": "Stop", "last_assistant_message": words})),
        ));
    }
    if dice.once_in(12) {
        events.push(("end", of_session(json!({"hook_event_name": "SessionEnd", "reason": "other"}))));
    }
    events
}

fn failure(session: &str, id: &str, cwd: &Path) -> String {
    json!({
        "session_id": session, "cwd": cwd, "hook_event_name": "PostToolUseFailure", "tool_name": "Bash",
        "tool_use_id": id, "tool_input": {"command": format!("pytest tests/test_{}.py", id.replace('-', "_"))},
        "error": format!("Exit code 1\nE   AssertionError: greeting {id} is rude\n1 failed in 0.{}s", id.len()),
    })
    .to_string()
}

const ROUTES: [&str; 9] = [
    "/api/health",
    "/api/queue/stats",
    "/api/search?q=polite+greeting&limit=5",
    "/api/search?q=AssertionError",
    "/api/sessions",
    "/api/sessions/session-0/status",
    "/api/timeline?anchor=1",
    "/metrics",
    "/api/context?session_id=other&source=startup",
];

const COMMANDS: [&[&str]; 6] = [
    &["search", "greeting", "--json"],
    &["stats", "--json"],
    &["status", "--json"],
    &["sessions", "--json"],
    &["context"],
    &["queue", "list"],
];

/// Sends requests and commands until the run ends. There may be no answer, but an answer must have the right shape.
pub fn ask(scene: &Scene, pause_ms: u64) {
    let mut dice = Dice::new(scene.seed ^ 0xa5c);
    while !scene.is_over() {
        if dice.once_in(8) {
            let command: &&[&str] = dice.pick(&COMMANDS);
            scene.call(command);
        } else {
            let route: &&str = dice.pick(&ROUTES);
            ask_worker(scene, route);
        }
        std::thread::sleep(Duration::from_millis(dice.below(pause_ms)));
    }
}

fn ask_worker(scene: &Scene, route: &str) {
    scene.figures.lock().unwrap().requests += 1;
    let Some(answer) = request(&scene.sandbox.socket(), "GET", route, b"") else { return };
    match answer.status {
        200 if route == "/metrics" => assert!(answer.body.contains("claude_mem_"), "{answer:?}"),
        200 => drop(answer.json()),
        _ => drop(answer.error_code()),
    }
}

/// Sends this many events from one writer, without faults.
pub fn burst(scene: &Scene, turns: usize) {
    static BURST: AtomicUsize = AtomicUsize::new(1_000_000);
    let mut dice = Dice::new(scene.seed ^ 0xb0b);
    for _ in 0..turns {
        let turn = BURST.fetch_add(1, Ordering::Relaxed);
        for (verb, payload) in turn_of(scene.sandbox.path(), WRITERS, turn, &mut dice) {
            scene.send(WRITERS, verb, &payload, &mut dice);
        }
    }
}
