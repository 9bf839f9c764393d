//! Many hooks at once.

use std::sync::Barrier;

use serde_json::Value;

use crate::harness::sandbox::{Sandbox, tool_payload};

#[test]
fn events_wired_twice_from_many_processes_are_stored_once_each() {
    let sandbox = Sandbox::new();
    let (processes, each) = (16, 25);
    let barrier = Barrier::new(processes);
    std::thread::scope(|scope| {
        for process in 0..processes {
            let (sandbox, barrier) = (&sandbox, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for number in 0..each {
                    let (verb, payload) = event(sandbox, process, number);
                    std::thread::scope(|both| {
                        both.spawn(|| sandbox.hook(verb, &payload).assert_unnoticed().took);
                        both.spawn(|| sandbox.hook(verb, &payload).assert_unnoticed().took);
                    });
                }
            });
        }
    });
    assert_eq!(sandbox.dropped(), 0);
    let in_spool = unique_keys_in_spool(&sandbox);
    let rows = sandbox.get::<i64>("SELECT count(*) FROM pending_queue");
    assert_eq!(rows + in_spool, (processes * each) as i64, "{in_spool} of them in the spool");
    let gaps = "SELECT count(*) FROM sessions s WHERE prompt_count <>
                (SELECT count(DISTINCT prompt_number) FROM user_prompts p WHERE p.session_id = s.id)
                OR prompt_count <> (SELECT max(prompt_number) FROM user_prompts p WHERE p.session_id = s.id)";
    assert_eq!(sandbox.get::<i64>(gaps), 0, "prompt numbers are dense");
}

/// An event: every fifth is a prompt, and four processes share a session.
fn event(sandbox: &Sandbox, process: usize, number: usize) -> (&'static str, String) {
    let session = format!("session-{}", process / 4);
    if number.is_multiple_of(5) {
        let payload = serde_json::json!({
            "session_id": session, "cwd": sandbox.path(), "hook_event_name": "UserPromptSubmit",
            "prompt_id": format!("p-{process}-{number}"), "prompt": "continue",
        });
        return ("new", payload.to_string());
    }
    ("save", tool_payload(&session, &format!("t-{process}-{number}"), sandbox.path(), &Value::Null))
}

/// Keys in the spool. On a slow machine the lock may be held longer than hooks wait: then the event is spooled, perhaps in
/// addition to its row.
fn unique_keys_in_spool(sandbox: &Sandbox) -> i64 {
    let keys: std::collections::BTreeSet<String> = sandbox
        .spooled()
        .iter()
        .map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap())
        .map(|event| event["key"]["Exact"].as_str().unwrap().to_owned())
        .collect();
    let database = sandbox.database();
    let mut known = database.prepare("SELECT 1 FROM pending_queue WHERE event_key = ?1").unwrap();
    keys.iter().filter(|key| !known.exists([key]).unwrap()).count() as i64
}

#[test]
fn concurrent_first_hooks_in_an_empty_directory_succeed() {
    for _ in 0..5 {
        let sandbox = Sandbox::new();
        let barrier = Barrier::new(6);
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (sandbox, barrier) = (&sandbox, &barrier);
                scope.spawn(move || {
                    let payload = tool_payload("s", &format!("t{number}"), sandbox.path(), &Value::Null);
                    barrier.wait();
                    sandbox.hook("save", payload).assert_unnoticed();
                });
            }
        });
        let rows = sandbox.get::<i64>("SELECT count(*) FROM pending_queue");
        assert_eq!(rows + unique_keys_in_spool(&sandbox), 6);
        assert_eq!(sandbox.dropped(), 0);
    }
}

#[test]
fn the_same_prompt_a_minute_later_is_another_event() {
    let sandbox = Sandbox::new();
    let payload = r#"{"session_id":"s","cwd":"/","prompt":"continue"}"#;
    sandbox.hook("new", payload).assert_unnoticed();
    sandbox.hook("new", payload).assert_unnoticed();
    assert_eq!(sandbox.get::<i64>("SELECT prompt_count FROM sessions"), 1, "wired twice");
    // Make the first a minute old.
    sandbox.database().execute("UPDATE pending_queue SET created_at = created_at - 60000", []).unwrap();
    sandbox.hook("new", payload).assert_unnoticed();
    assert_eq!(sandbox.get::<i64>("SELECT prompt_count FROM sessions"), 2);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 2);
}
