//! Each agent's history in its own format.

use serde_json::Value;

use super::{backfill, cli, history};
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;

/// Reads a history with a worker running, and returns what a search finds.
fn found_after(agent: &str, question: &str) -> (Sandbox, Value) {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let report = backfill(&sandbox, &[], &[&history(agent)]);
    assert_eq!(report["unreadable"], serde_json::json!([]), "{report:#}");
    sandbox.wait_until_settled();
    sandbox.wait_for("indexed", "SELECT count(*) = 0 FROM search_pending");
    let found = worker.get(&format!("/api/search?q={question}")).json();
    drop(worker);
    (sandbox, found)
}

fn assert_read(agent: &str, question: &str, word: &str, tools: i64) -> Sandbox {
    let (sandbox, found) = found_after(agent, question);
    let origin = format!(
        "SELECT count(*) FROM sessions WHERE origin = 'backfill' AND agent = '{agent}' AND project = 'harbor'"
    );
    assert_eq!(sandbox.get::<i64>(&origin), 1);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE kind = 'observation'"), tools);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE status = 'error'"), 0);
    assert!(sandbox.get::<i64>("SELECT count(*) FROM observations") >= 1);
    let hits = found["hits"].to_string();
    assert!(hits.contains(word), "{found:#}");
    sandbox
}

#[test]
fn codex_sessions_become_notes_that_search_finds() {
    let sandbox = assert_read("codex", "sunday%20sailing", "Sunday", 3);
    let failed = "SELECT payload ->> 'error' FROM pending_queue WHERE failed = 1";
    assert!(sandbox.get::<String>(failed).starts_with("Exit code 101\n"));
    assert_eq!(sandbox.get::<String>("SELECT branch FROM sessions"), "ferries");
    let files: String = sandbox.get("SELECT files_modified FROM observations");
    assert!(files.contains("src/ferries.rs") && files.contains("tests/sunday.rs"), "{files}");
}

#[test]
fn opencode_sessions_become_notes_that_search_finds() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    backfill(&sandbox, &[], &[&history("opencode").join("export.json")]);
    sandbox.wait_until_settled();
    sandbox.wait_for("indexed", "SELECT count(*) = 0 FROM search_pending");
    let found = worker.get("/api/search?q=crane%20wind").json();
    assert!(found["hits"].to_string().contains("25 tonnes"), "{found:#}");
    assert_eq!(sandbox.get::<String>("SELECT agent || title FROM sessions"), "opencodeCrane load limits");
    assert_eq!(sandbox.get::<i64>("SELECT sum(failed) FROM pending_queue"), 1);
}

#[test]
fn gemini_sessions_become_notes_that_search_finds() {
    assert_read("gemini", "foghorn%20dawn", "mute switch", 2);
}

#[test]
fn copilot_sessions_become_notes_that_search_finds() {
    let sandbox = assert_read("copilot", "buoys%20starboard", "IALA", 2);
    assert_eq!(sandbox.get::<String>("SELECT branch FROM sessions"), "buoys");
}

#[test]
fn claude_code_sessions_keep_only_the_users_own_prompts() {
    let sandbox = Sandbox::new();
    let report = backfill(&sandbox, &[], &[&history("claude")]);
    assert_eq!(report["sessions"], 3, "{report:#}");
    let prompts: String = sandbox
        .get("SELECT group_concat(prompt, '|') FROM (SELECT prompt FROM user_prompts ORDER BY created_at)");
    assert_eq!(
        prompts,
        "Round the tide tables to whole minutes: the printed almanac shows 05:59:60 at midnight.|\
         Keep the seconds in the raw export, the harbour master needs them.|\
         Delete the old almanac template  too.|Which pier has the deepest berth?|Why does the beacon blink twice?"
    );
    let everything: String = sandbox.get("SELECT group_concat(coalesce(payload, '')) FROM pending_queue");
    assert!(
        !everything.contains("4711") && !everything.contains("likes tea") && !everything.contains("Injected")
    );
    assert!(
        everything.contains("https://example.org/harbor/pull/12"),
        "the pull request is in the closing message"
    );
    let agent = "SELECT agent_id || agent_type FROM pending_queue WHERE tool_use_id = 'toolu_s1'";
    assert_eq!(sandbox.get::<String>(agent), "ab12Explore");
    let edited =
        "SELECT count(*) FROM pending_queue WHERE tool_use_id LIKE 'edited:%' AND payload LIKE '%README.md%'";
    assert_eq!(sandbox.get::<i64>(edited), 1);
}

#[test]
fn forks_do_not_repeat_what_they_copied() {
    let sandbox = Sandbox::new();
    let report = backfill(&sandbox, &[], &[&history("claude")]);
    assert!(report["left_out"]["copies_of_another_session's_records"].as_i64().unwrap() > 5, "{report:#}");
    let of_fork = "SELECT count(*) FROM pending_queue WHERE session_id LIKE '%0002' AND kind = ";
    assert_eq!(sandbox.get::<i64>(&format!("{of_fork} 'observation'")), 1);
    assert_eq!(sandbox.get::<i64>(&format!("{of_fork} 'summarize'")), 1);
    let twice = "SELECT count(*) FROM (SELECT tool_use_id FROM pending_queue WHERE tool_use_id IS NOT NULL
                 GROUP BY 1 HAVING count(*) > 1)";
    assert_eq!(sandbox.get::<i64>(twice), 0);
}

#[test]
fn windows_paths_name_the_project_and_its_files() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    backfill(&sandbox, &[], &[&history("claude").join("D--harbor")]);
    sandbox.wait_until_settled();
    drop(worker);
    assert_eq!(
        sandbox.get::<String>("SELECT project || '|' || project_path FROM sessions"),
        "harbor|D:/harbor"
    );
    assert_eq!(sandbox.get::<String>("SELECT files_modified FROM observations"), "[\"src/beacon.go\"]");
}

#[test]
fn memories_have_the_time_and_the_title_of_their_session() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    backfill(&sandbox, &[], &[&history("claude")]);
    sandbox.wait_until_settled();
    let in_march = "created_at BETWEEN 1772323200000 AND 1775001600000";
    for table in ["observations", "session_summaries", "user_prompts"] {
        let late = format!("SELECT count(*) FROM {table} WHERE NOT {in_march}");
        assert_eq!(sandbox.get::<i64>(&late), 0, "{table}");
    }
    assert_eq!(worker.get("/api/health").json()["observations_today"], 0);
    let title = "SELECT title FROM sessions WHERE id LIKE '%0001'";
    assert_eq!(sandbox.get::<String>(title), "Round tide tables to whole minutes");
    let kept: String = sandbox.get("SELECT group_concat(coalesce(facts, '') || summary) FROM observations");
    assert!(kept.contains("museum prints from it"), "the refusal's reason is remembered: {kept}");
}

#[test]
fn a_dry_run_reports_and_stores_nothing() {
    let sandbox = Sandbox::new();
    let ran = cli(&sandbox, &["backfill", "--dry-run"], &[&history("claude")]);
    for part in ["3 of claude-code", "5 prompts", "This takes about", "With --with-model about $"] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    assert!(!sandbox.data().join("claude-mem.db").exists());
}
