//! Existing histories are offered by install, by doctor and at the first start; agents without hooks are followed.

use std::fs;

use serde_json::{Value, json};

use super::{backfill, cli, history, write_sessions};
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;

/// A sandbox whose client has sessions from before.
fn with_history() -> Sandbox {
    let sandbox = Sandbox::new();
    write_sessions(&sandbox.path().join("claude/projects"), 3, 2);
    sandbox
}

#[test]
fn the_usual_places_are_read_by_agent_project_and_time() {
    let sandbox = with_history();
    let codex = sandbox.path().join(".codex/sessions/2026/03/05");
    fs::create_dir_all(&codex).unwrap();
    let rollout = history("codex").join("2026/03/05");
    for entry in fs::read_dir(rollout).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), codex.join(entry.file_name())).unwrap();
    }
    let dry = |arguments: &[&str]| {
        backfill(&sandbox, &[&["--dry-run"], arguments].concat(), &[])["sessions"].clone()
    };
    assert_eq!(dry(&[]), 4);
    assert_eq!(dry(&["--agent", "codex"]), 1);
    assert_eq!(dry(&["--since", "2026-03-04"]), 1);
    assert_eq!(dry(&["--project", "/nowhere/harbor"]), 4);
    assert_eq!(dry(&["--project", "/nowhere/else"]), 0);
}

#[test]
fn the_first_start_in_a_project_offers_its_history_once() {
    let sandbox = with_history();
    let start = |session: &str| {
        let payload = json!({"session_id": session, "cwd": "/nowhere/harbor", "hook_event_name": "SessionStart",
                             "source": "startup"});
        let ran = sandbox.hook("context", payload.to_string());
        ran.assert_unnoticed();
        serde_json::from_str::<Value>(&ran.stdout).unwrap_or_default()["systemMessage"].clone()
    };
    let told = start("first");
    assert!(told.as_str().is_some_and(|told| told.contains("3 earlier sessions")), "{told}");
    assert_eq!(start("second"), Value::Null);
}

#[test]
fn doctor_mentions_histories_until_they_are_read() {
    let sandbox = with_history();
    let finding = || {
        let ran = cli(&sandbox, &["doctor", "--json"], &[]);
        let told: Value = serde_json::from_str(&ran.stdout).unwrap();
        told["checks"].as_array().unwrap().iter().find(|check| check["name"] == "histories").unwrap().clone()
    };
    let before = finding();
    assert_eq!(before["state"], "note");
    assert!(before["found"].as_str().unwrap().contains("3 of claude-code"), "{before}");
    backfill(&sandbox, &[], &[]);
    assert_eq!(finding()["state"], "good");
}

#[test]
fn install_finds_histories_and_reads_them_on_demand() {
    let sandbox = with_history();
    let ran = cli(&sandbox, &["install", "--no-service"], &[]);
    assert!(ran.stdout.contains("Sessions from before were found: 3 of claude-code"), "{ran:?}");
    assert!(!sandbox.data().join("claude-mem.db").exists());
    let ran = cli(&sandbox, &["install", "--no-service", "--backfill"], &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions WHERE origin = 'backfill'"), 3);
}

#[test]
fn the_service_follows_histories_of_agents_that_the_user_names() {
    let sandbox = with_history();
    sandbox.configure("[backfill]\nfollow = [\"claude-code\"]");
    let _worker = Worker::start(&sandbox);
    sandbox.wait_for("read", "SELECT count(*) = 3 FROM backfill_files WHERE is_done = 1");
    sandbox.wait_until_settled();
    write_sessions(&sandbox.path().join("claude/projects"), 4, 3);
    sandbox.wait_for("followed", "SELECT count(*) = 12 FROM user_prompts");
    sandbox.wait_until_settled();
    assert_eq!(sandbox.rows("done"), sandbox.get::<i64>("SELECT count(*) FROM pending_queue"));
}
