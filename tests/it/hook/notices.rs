//! The line that a session start shows to the user.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, program, run};

/// Starts a new session and returns the line.
fn shown(sandbox: &Sandbox) -> Option<String> {
    shown_with(sandbox, &[])
}

/// The same with these variables.
fn shown_with(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Option<String> {
    static SESSIONS: AtomicUsize = AtomicUsize::new(0);
    let session = format!("s{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "SessionStart", "source": "startup"});
    let mut hook = sandbox.hook_command("context");
    hook.envs(variables.iter().copied());
    let ran = run(hook, payload.to_string().as_bytes());
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
    assert!(
        line.starts_with("claude-mem: 0 memories of ") && line.ends_with("(0 tokens) · claude-mem open"),
        "{line}"
    );
}

#[test]
fn sessions_without_a_reader_keep_the_messages_for_the_next_one() {
    let sandbox = with_everything_to_say();
    sandbox.configure("[context]\nnotice = \"always\"\n");
    for unattended in [
        [("CLAUDE_CODE_SESSION_ATTENDED", "0"), ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")],
        // As older clients have it.
        [("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"), ("CLAUDECODE", "1")],
        [("CLAUDE_CODE_ENTRYPOINT", "sdk-ts"), ("CLAUDECODE", "1")],
    ] {
        assert_eq!(shown_with(&sandbox, &unattended), None, "{unattended:?}");
    }
    let attended = [("CLAUDE_CODE_SESSION_ATTENDED", "1"), ("CLAUDE_CODE_ENTRYPOINT", "cli")];
    assert!(shown_with(&sandbox, &attended).unwrap().contains("refuses the key"));
}

/// The status line for this input.
fn status_line(sandbox: &Sandbox, input: &str) -> String {
    let mut command = sandbox.command(program("claude-mem"));
    command.arg("statusline");
    let ran = run(command, input.as_bytes());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    ran.stdout.trim_end().to_owned()
}

#[test]
fn the_status_line_has_the_sessions_memories_the_queue_and_the_cost() {
    let sandbox = Sandbox::new();
    assert_eq!(status_line(&sandbox, "{}"), "claude-mem: no memories yet");
    assert!(!sandbox.data().exists(), "looking creates nothing");
    let payload = crate::harness::sandbox::tool_payload("s", "t", sandbox.path(), &Value::Null);
    sandbox.hook("save", payload).assert_unnoticed();
    let now = "(unixepoch() + 1) * 1000";
    let rows = format!(
        "INSERT INTO event_log (event_type, session_id, data, cost_usd, created_at) VALUES
           ('context', 's', json_object('shown', json_array(3, 4, 5), 'source', 'startup'), NULL, {now}),
           ('context_prompt', 's', json_object('shown', json_array(5, 6)), NULL, {now} + 1),
           ('context', 'other', json_object('shown', json_array(7), 'source', 'startup'), NULL, {now}),
           ('llm_call', 's', '{{}}', 0.034, {now}), ('llm_call', 's', '{{}}', 5, 0);"
    );
    sandbox.database().execute_batch(&rows).unwrap();
    let input =
        r#"{"session_id": "s", "cwd": "/w", "model": {"id": "m"}, "prompt_cache": {"hit_ratio": 0.9}}"#;
    assert_eq!(status_line(&sandbox, input), "claude-mem: 4 memories · 1 queued · $0.03 today");
    for input in [r#"{"session_id": "other"}"#, "", "[1", r#"{"session_id": 7}"#] {
        let line = status_line(&sandbox, input);
        let shown = if input.contains("other") { "1 memory" } else { "0 memories" };
        assert_eq!(line, format!("claude-mem: {shown} · 1 queued · $0.03 today"), "{input}");
    }
}
