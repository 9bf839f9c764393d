//! A session that sends more than the disk can hold.

use std::fs;

use serde_json::json;

use crate::sandbox::Sandbox;
use crate::service::{PATIENCE, Worker};

#[test]
fn a_flood_of_events_does_not_fill_the_disk_and_leaves_others_alone() {
    const MAX_MB: u64 = 3;
    const EVENTS: usize = 1_200;
    let sandbox = Sandbox::new();
    // Nothing is settled meanwhile: all of it waits.
    sandbox.configure(&format!("[retention]\nmax_mb = {MAX_MB}\n[batch]\nmax_size = 1000000\n"));
    let worker = Worker::start(&sandbox);
    sandbox.prompt("quiet", "Remember me");
    sandbox.edit("quiet", "kept");
    let output = "a line of output, again and again\n".repeat(300);
    for batch in 0..EVENTS / 100 {
        let event = |number: usize| {
            json!({"tool_name": "Bash", "tool_use_id": format!("t{batch}-{number}"), "cwd": sandbox.path(),
                   "tool_input": {"command": "yes"}, "tool_response": {"stdout": output}})
        };
        let events: Vec<_> = (0..100).map(event).collect();
        assert_eq!(worker.post("/api/sessions/flood/observations", &json!(events)).status, 202);
    }
    let size = || fs::metadata(sandbox.data().join("claude-mem.db")).unwrap().len();
    let deadline = std::time::Instant::now() + PATIENCE;
    // Some free pages are kept for what comes next.
    while size() > (MAX_MB + 5) << 20 {
        assert!(std::time::Instant::now() < deadline, "{} bytes\n{}", size(), sandbox.logged());
        assert_eq!(worker.post("/api/nudge", &json!({})).status, 202);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let count = |what: &str| sandbox.get::<i64>(&format!("SELECT count(*) FROM pending_queue WHERE {what}"));
    assert_eq!(count("session_id = 'flood'"), EVENTS as i64, "every event has its row");
    assert_eq!(count("session_id = 'flood' AND payload IS NOT NULL AND NOT json_valid(payload)"), 0);
    assert_eq!(count("session_id = 'quiet' AND status = 'raw' AND payload LIKE '%Hello kept%'"), 1);
    assert_eq!(count("status = 'skipped' AND last_error NOT LIKE '%retention.max_mb%'"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 1);
    // The user is told, once.
    let start = json!({"session_id": "next", "cwd": sandbox.path(), "source": "startup"}).to_string();
    assert!(sandbox.hook("context", &start).stdout.contains("retention.max_mb"));
}

#[test]
fn a_hook_keeps_the_beginning_of_an_event_while_the_database_is_too_large() {
    let sandbox = Sandbox::new();
    sandbox.configure("[retention]\nmax_mb = 1\n");
    let payload = |id: &str| {
        crate::sandbox::tool_payload("s", id, sandbox.path(), &"a line of output\n".repeat(20_000).into())
    };
    for number in 0..5 {
        sandbox.hook("save", payload(&format!("t{number}"))).assert_unnoticed();
    }
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    sandbox.hook("save", payload("late")).assert_unnoticed();
    let kept = |id: &str| {
        sandbox.get::<i64>(&format!(
            "SELECT octet_length(payload) FROM pending_queue WHERE tool_use_id = '{id}'"
        ))
    };
    assert!(kept("t0") > 300_000 && kept("late") < 8_192, "{} {}", kept("t0"), kept("late"));
    let raw: i64 = sandbox.get("SELECT raw_bytes FROM pending_queue WHERE tool_use_id = 'late'");
    assert!(raw > 300_000, "what it was is told");
}
