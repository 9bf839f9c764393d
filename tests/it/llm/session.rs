//! The provider `session`: requests handed over on the socket, as the plugin's mod takes them, and rules when nobody does.

use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, run};
use crate::harness::worker::{Answer, Worker};

const ASK: &str = "/api/session-jobs?wait_ms=4000";
const MADE: &str = "SELECT group_concat(provider || '|' || title) FROM observations WHERE deleted_at IS NULL";
const SPENT: &str = "SELECT coalesce(sum(cost_usd), 0) FROM event_log WHERE event_type = 'llm_call'";

fn start(sandbox: &Sandbox, settings: &str) -> Worker {
    sandbox.configure(settings);
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", "session");
    let mut worker = Worker::spawn(command, sandbox);
    worker.wait_until_it_answers();
    worker
}

fn turn(sandbox: &Sandbox, session: &str) {
    sandbox.prompt(
        session,
        "Correct the greeting; the key is sk-ant-api03-zq7secretzq7secretzq7secretzq7secret",
    );
    sandbox.edit(session, "one");
    sandbox.edit(session, "two");
    sandbox.end_turn(session);
}

/// Asks, as a session does at the end of its turns, until there is a job.
fn next_job(sandbox: &Sandbox, worker: &Worker) -> Value {
    let mut job = Value::Null;
    sandbox.wait_until("a job", || {
        let offer = worker.send("POST", ASK, b"").json();
        assert_eq!(offer["is_chosen"], true, "{offer}");
        job = offer["job"].clone();
        job.is_object()
    });
    job
}

fn answer(worker: &Worker, job: &Value, text: &str) -> Answer {
    let usage = json!({"input_tokens": 1000, "output_tokens": 200, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 4});
    worker.post(&format!("/api/session-jobs/{}", job["id"]), &json!({"text": text, "usage": usage}))
}

fn good() -> String {
    let observation =
        json!({"type": "bugfix", "title": "Make it work", "summary": "It did not.", "concepts": ["work"]});
    json!({"observations": [observation], "summary": {"request": "Make it work", "completed": "Made it work"}}).to_string()
}

fn doctor(sandbox: &Sandbox) -> Value {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(["doctor", "--json"]).env("CLAUDE_MEM_COMPRESS_PROVIDER", "session");
    let report: Value = serde_json::from_str(&run(command, b"").stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == "provider").unwrap().clone()
}

#[test]
fn a_session_answers_for_a_turn_and_is_in_the_ledger() {
    let sandbox = Sandbox::new();
    let worker = start(&sandbox, "");
    turn(&sandbox, "s");
    let job = next_job(&sandbox, &worker);
    assert_eq!(job["model"], "claude-haiku-5-5");
    assert!(job["system"].as_str().unwrap().contains("JSON schema"), "{job}");
    let prompt = job["prompt"].as_str().unwrap();
    assert!(prompt.contains("Correct the greeting") && !prompt.contains("zq7secret"), "{prompt}");
    assert!(sandbox.get::<f64>(SPENT) > 0.0001, "the most that it can cost is booked meanwhile");
    assert_eq!(answer(&worker, &job, &good()).status, 202);
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<String>(MADE), "session|Make it work");
    let spent: f64 = sandbox.get(SPENT);
    assert!((spent - (1034.0 * 0.1 + 200.0 * 0.5) / 1e6).abs() < 1e-9, "{spent}");
    assert_eq!(answer(&worker, &job, &good()).error_code(), "not_found", "an answer counts once");
    let found = doctor(&sandbox);
    assert_eq!(found["state"], "good", "{found}");
    assert!(found["found"].as_str().unwrap().contains("asked for work just now"), "{found}");
}

#[test]
fn unusable_answers_of_a_session_are_repeated_in_halves_then_left_to_rules() {
    let sandbox = Sandbox::new();
    let worker = start(&sandbox, "");
    turn(&sandbox, "s");
    answer(&worker, &next_job(&sandbox, &worker), "I would rather not.");
    sandbox.wait_for("an attempt", "SELECT max(attempts) = 1 FROM pending_queue");
    let half = next_job(&sandbox, &worker);
    answer(&worker, &half, &good());
    answer(&worker, &next_job(&sandbox, &worker), "{\"observations\": 3}");
    sandbox.wait_until_settled();
    assert!(sandbox.get::<String>(MADE).starts_with("local|"), "{}", sandbox.get::<String>(MADE));
    assert_eq!(sandbox.rows("error"), 0);
}

#[test]
fn without_a_session_rules_write_the_note_and_redo_repeats_it() {
    let sandbox = Sandbox::new();
    let worker = start(&sandbox, "[compress]\nsession_wait_s = 0\n");
    turn(&sandbox, "s");
    sandbox.wait_until_settled();
    assert!(sandbox.get::<String>(MADE).starts_with("local|"), "{}", sandbox.get::<String>(MADE));
    assert_eq!(sandbox.get::<f64>(SPENT), 0.0, "nobody was asked");
    let found = doctor(&sandbox);
    assert_eq!(found["state"], "note", "{found}");
    assert!(found["found"].as_str().unwrap().contains("no Claude Code session has asked"), "{found}");
    drop(worker);

    let worker = start(&sandbox, "[compress]\nsession_wait_s = 60\n");
    let mut redo = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    redo.args(["queue", "redo"]).env("CLAUDE_MEM_COMPRESS_PROVIDER", "session");
    let redone = run(redo, b"");
    assert_eq!(redone.code, Some(0), "{redone:?}");
    answer(&worker, &next_job(&sandbox, &worker), &good());
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<String>(MADE), "session|Make it work");
}

#[test]
fn a_session_that_cannot_call_its_model_costs_nothing() {
    let sandbox = Sandbox::new();
    let worker = start(&sandbox, "");
    turn(&sandbox, "s");
    let job = next_job(&sandbox, &worker);
    worker.post(&format!("/api/session-jobs/{}", job["id"]), &json!({"error": "api-error: rate_limit"}));
    sandbox.wait_until_settled();
    assert!(sandbox.get::<String>(MADE).starts_with("local|"), "{}", sandbox.get::<String>(MADE));
    assert_eq!(sandbox.get::<f64>(SPENT), 0.0);
    let why = "SELECT max(last_error) FROM pending_queue";
    assert!(sandbox.get::<String>(why).contains("api-error: rate_limit"));
}

#[test]
fn sessions_get_no_job_above_the_ceiling_or_for_another_provider() {
    let sandbox = Sandbox::new();
    let worker = start(&sandbox, "[cost]\nmax_usd_per_day = 0.0\n");
    turn(&sandbox, "s");
    sandbox.wait_until_settled();
    assert!(sandbox.get::<String>(MADE).starts_with("local|"));
    let offer = worker.send("POST", "/api/session-jobs?wait_ms=0", b"").json();
    assert_eq!(offer, json!({"is_chosen": true, "job": null}));
    drop(worker);
    let worker = Worker::start(&sandbox);
    let offer = worker.send("POST", ASK, b"").json();
    assert_eq!(offer, json!({"is_chosen": false, "job": null}));
}
