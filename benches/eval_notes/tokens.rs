//! Tokens that a turn costs with a model, counted at an endpoint that stands for the Messages API.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use claude_mem::model::{Event, EventBody, EventKey, SessionId};
use claude_mem::{nudge, tokens};
use serde_json::{Value, json};

use crate::endpoint::{Asked, Endpoint, Reply};
use crate::project::Project;
use crate::replay::Scratch;
use crate::report::percentile;
use crate::{Options, drawn};

const CONFIG: &str =
    "[compress]\nprovider = \"anthropic\"\n[cost]\nmax_usd_per_day = 1000000.0\n[backup]\nkeep = 0\n";

/// Replays turns one by one, each as a session of its own, and prints the size of their requests.
pub fn run(projects: &[Project], options: &Options) -> Result<()> {
    let turns: Vec<Vec<&Event>> = projects.iter().flat_map(|project| turns_of(&project.events)).collect();
    let turns = drawn(turns, options.turns, options.seed, |turn| format!("{:?}", turn[0].key));
    let calls: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noted = calls.clone();
    let endpoint = Endpoint::start(move |asked| answer(asked, &noted));
    let scratch = Scratch::new(CONFIG)?;
    let variables = [("ANTHROPIC_BASE_URL", endpoint.url()), ("ANTHROPIC_API_KEY", "x")];
    let (mut worker, mut sums, mut sizes) = (None, Vec::new(), Vec::new());
    for (number, turn) in turns.iter().enumerate() {
        scratch.record(&as_session(turn, &format!("turn-{number}")))?;
        match &worker {
            Some(_) => drop(nudge::send(&scratch.home())),
            None => worker = Some(scratch.start_worker(&variables)?),
        }
        worker.as_mut().map(|worker| scratch.drain(worker)).transpose()?;
        endpoint.forget_asked();
        let of_turn = std::mem::take(&mut *calls.lock().unwrap());
        sums.push(of_turn.iter().sum());
        sizes.extend(of_turn);
    }
    worker.map(crate::replay::Worker::stop).transpose()?;
    print(&mut sums, &mut sizes);
    Ok(())
}

fn print(sums: &mut [usize], sizes: &mut [usize]) {
    let per_turn = sizes.len() as f64 / sums.len().max(1) as f64;
    println!("\nTokens in, with a model ({} turns, estimated)", sums.len());
    for (label, values) in [("per turn", sums), ("per call", sizes)] {
        let (p50, p95, max) = (percentile(values, 50), percentile(values, 95), percentile(values, 100));
        println!("  {label:<20} p50 {p50:>6}   p95 {p95:>6}   max {max:>6}   of {}", values.len());
    }
    println!("  {:<20} {per_turn:.2}", "calls per turn");
}

/// The events of each turn that ended with a Stop, prompt first.
fn turns_of(events: &[Event]) -> Vec<Vec<&Event>> {
    let mut open: std::collections::BTreeMap<&SessionId, Vec<&Event>> = Default::default();
    let mut turns = Vec::new();
    for event in events {
        let Some(session) = &event.session else { continue };
        let turn = open.entry(&session.id).or_default();
        match &event.body {
            EventBody::Prompt { .. } => *turn = vec![event],
            EventBody::Tool(_) if !turn.is_empty() => turn.push(event),
            EventBody::Summarize(_) if !turn.is_empty() => {
                turn.push(event);
                turns.push(std::mem::take(turn));
            }
            _ => {}
        }
    }
    turns
}

fn as_session(turn: &[&Event], id: &str) -> Vec<Event> {
    let mut events: Vec<Event> = turn.iter().map(|event| (*event).clone()).collect();
    for event in &mut events {
        let (EventKey::Exact(key) | EventKey::Near(key)) = &mut event.key;
        *key = format!("{id}:{key}");
        if let Some(session) = &mut event.session {
            session.id = SessionId(id.to_owned());
        }
    }
    events
}

/// Answers with the shortest input that the offered tool accepts, and notes the size of the request.
fn answer(asked: &Asked, calls: &Mutex<Vec<usize>>) -> Reply {
    let (body, tool) = (&asked.body, &asked.body["tools"][0]);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let parts = [&body["system"], &body["tools"], &body["messages"][0]["content"]];
    calls.lock().unwrap().push(parts.into_iter().map(|part| tokens::estimate(&text(part))).sum());
    let properties = &tool["input_schema"]["properties"];
    let mut input = json!({"summary": "s", "request": "r", "completed": "c"});
    if properties["summary"]["type"] == "object" {
        input = json!({ "summary": input });
    }
    if properties["observations"].is_object() {
        input["observations"] = json!([{"type": "change", "title": "t", "summary": "s"}]);
    }
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": tool["name"], "input": input}]);
    Reply::anthropic(&call, "tool_use")
}
