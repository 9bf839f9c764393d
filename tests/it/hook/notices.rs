//! The line that a session start shows to the user.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::sandbox::Sandbox;

/// Starts a new session and returns the line.
fn shown(sandbox: &Sandbox) -> Option<String> {
    static SESSIONS: AtomicUsize = AtomicUsize::new(0);
    let session = format!("s{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "SessionStart", "source": "startup"});
    let ran = sandbox.hook("context", payload.to_string());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    let line = answer["systemMessage"].as_str().map(str::to_owned);
    assert!(line.as_ref().is_none_or(|line| line.lines().count() == 1), "{line:?}");
    line
}

/// A memory with everything that a session start could mention.
fn with_everything_to_say() -> Sandbox {
    let sandbox = Sandbox::new();
    assert_eq!(shown(&sandbox), None, "there is nothing to say");
    let two_hours_ago = "(unixepoch() - 7200) * 1000";
    let rows = format!(
        "INSERT INTO event_log (event_type, data, created_at) VALUES
           ('notice', json_object('message', 'claude-mem: the provider refuses' || char(10) || 'the key'), {two_hours_ago});
         INSERT INTO pending_queue (event_key, session_id, kind, created_at, payload) VALUES
           ('old', (SELECT max(id) FROM sessions), 'observation', {two_hours_ago}, '{{}}');"
    );
    sandbox.database().execute_batch(&rows).unwrap();
    fs::write(sandbox.data().join("dropped.log"), "1 full\n2 full\n").unwrap();
    fs::write(sandbox.data().join("install.json"), "{}").unwrap();
    sandbox
}

#[test]
fn a_session_start_shows_one_line_the_most_urgent_first_and_each_once() {
    let sandbox = with_everything_to_say();
    for words in ["refuses the key", "2 events were lost", "waited for over an hour", "installed"] {
        let line = shown(&sandbox).unwrap_or_default();
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(shown(&sandbox), None, "everything was said");
    fs::write(sandbox.data().join("dropped.log"), "1 full\n2 full\n3 full\n").unwrap();
    assert!(shown(&sandbox).unwrap().contains("3 events were lost"));
}

#[test]
fn a_backlog_of_less_than_an_hour_is_not_mentioned() {
    let sandbox = Sandbox::new();
    shown(&sandbox);
    let payload = crate::harness::sandbox::tool_payload("s", "t", sandbox.path(), &Value::Null);
    sandbox.hook("save", payload).assert_unnoticed();
    assert_eq!(shown(&sandbox), None);
}

#[test]
fn notices_are_for_those_who_want_them() {
    let sandbox = with_everything_to_say();
    sandbox.configure("[context]\nnotice = \"never\"\n");
    assert_eq!(shown(&sandbox), None);
    sandbox.configure("[context]\nnotice = \"always\"\n");
    for _ in 0..4 {
        assert!(shown(&sandbox).is_some_and(|line| !line.contains("memories")));
    }
    let line = shown(&sandbox).unwrap();
    assert!(line.starts_with("claude-mem: 0 memories of ") && line.ends_with("tokens)"), "{line}");
}
