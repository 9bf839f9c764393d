//! Every real payload, each to its verb.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Sandbox, fixture, tool_payload};

/// The events that are wired, and to which verb.
const WIRING: [(&str, &str); 8] = [
    ("SessionStart", "context"),
    ("UserPromptSubmit", "new"),
    ("PostToolUse", "save"),
    ("PostToolUseFailure", "save"),
    ("Stop", "summary"),
    ("StopFailure", "summary"),
    ("PreCompact", "compact"),
    ("SessionEnd", "end"),
];

fn payloads(event: &str) -> Vec<(PathBuf, String)> {
    let folders = [fixture("hooks").join(event), fixture("hooks/old-2.0.14").join(event)];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut found: Vec<_> = files
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no payload for {event}");
    found
}

#[test]
fn every_real_payload_is_stored_as_its_verb_says() {
    for (event, verb) in WIRING {
        for (path, payload) in payloads(event) {
            let sandbox = Sandbox::new();
            sandbox.hook(verb, &payload).assert_unnoticed();
            let sent: Value = serde_json::from_str(&payload).unwrap();
            if SKIPPED.contains(&sent["tool_name"].as_str().unwrap_or_default()) {
                assert!(!sandbox.data().exists(), "{path:?}: something was written for a skipped tool");
                continue;
            }
            let session = sandbox.get::<String>("SELECT id FROM sessions");
            assert_eq!(session, sent["session_id"].as_str().unwrap(), "{path:?}");
            check_rows(&sandbox, verb, &sent, &format!("{path:?}"));
        }
    }
}

fn check_rows(sandbox: &Sandbox, verb: &str, sent: &Value, path: &str) {
    let rows = sandbox.get::<i64>("SELECT count(*) FROM pending_queue");
    let kinds: Option<String> = sandbox.get("SELECT group_concat(kind) FROM pending_queue");
    match verb {
        "context" => assert_eq!(rows, 0, "{path}"),
        "new" => {
            assert_eq!(kinds.as_deref(), Some("flush"), "{path}");
            let prompt = sandbox.get::<String>("SELECT prompt FROM user_prompts WHERE prompt_number = 1");
            assert_eq!(prompt, sent["prompt"].as_str().unwrap(), "{path}");
        }
        "save" => check_tool(sandbox, rows, sent, path),
        "summary" | "compact" => {
            assert_eq!(kinds.as_deref(), Some("summarize"), "{path}");
            let kept: Value =
                serde_json::from_str(&sandbox.get::<String>("SELECT payload FROM pending_queue")).unwrap();
            assert_eq!(kept.get("last_assistant_message"), sent.get("last_assistant_message"), "{path}");
        }
        "end" => {
            assert_eq!(kinds.as_deref(), Some("flush"), "{path}");
            assert_eq!(sandbox.get::<String>("SELECT status FROM sessions"), "completed", "{path}");
        }
        other => panic!("{other} is no verb"),
    }
}

/// Tools that are not recorded unless the user says otherwise.
const SKIPPED: [&str; 3] = ["TodoWrite", "Skill", "ToolSearch"];

fn check_tool(sandbox: &Sandbox, rows: i64, sent: &Value, path: &str) {
    let tool = sent["tool_name"].as_str().unwrap();
    assert_eq!(rows, 1, "{path}");
    assert_eq!(sandbox.get::<String>("SELECT tool_name FROM pending_queue"), tool, "{path}");
    let failed = sent["hook_event_name"] == "PostToolUseFailure";
    assert_eq!(sandbox.get::<bool>("SELECT failed FROM pending_queue"), failed, "{path}");
    let kept: Value =
        serde_json::from_str(&sandbox.get::<String>("SELECT payload FROM pending_queue")).unwrap();
    assert_eq!(kept["tool_input"], sent["tool_input"], "{path}");
    if tool != "Read" || sent["tool_response"]["type"] != "image" {
        assert_eq!(kept["tool_response"], sent["tool_response"], "{path}");
    }
    let agent: Option<String> = sandbox.get("SELECT agent_type FROM pending_queue");
    assert_eq!(agent.as_deref(), sent["agent_type"].as_str(), "{path}");
}

#[test]
fn an_image_is_replaced_by_a_note_of_its_kind_and_size() {
    let sandbox = Sandbox::new();
    let payload = fs::read_to_string(fixture("hooks/PostToolUse/Read-image.json")).unwrap();
    sandbox.hook("save", &payload).assert_unnoticed();
    let kept: Value =
        serde_json::from_str(&sandbox.get::<String>("SELECT payload FROM pending_queue")).unwrap();
    assert_eq!(kept["tool_response"]["file"]["base64"], "[claude-mem: image/png, 84 bytes, not kept]");
    assert_eq!(sandbox.get::<i64>("SELECT raw_bytes FROM pending_queue"), payload.len() as i64);
}

#[test]
fn a_large_payload_loses_its_middle_and_keeps_its_size() {
    let sandbox = Sandbox::new();
    let output = format!("begin {} end", "word ".repeat(1_000_000));
    let payload = tool_payload("s", "t", sandbox.path(), &serde_json::json!({"stdout": output, "exit": 0}));
    sandbox.hook("save", &payload).assert_unnoticed();
    let kept = sandbox.get::<String>("SELECT payload FROM pending_queue");
    assert!(kept.len() <= 1 << 20, "{}", kept.len());
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let stdout = kept["tool_response"]["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("begin ") && stdout.contains(" bytes cut]") && stdout.ends_with(" end"));
    assert_eq!(sandbox.get::<i64>("SELECT raw_bytes FROM pending_queue"), payload.len() as i64);
}

#[test]
fn a_session_ends_and_comes_back_and_a_late_tool_does_not_revive_it() {
    let sandbox = Sandbox::new();
    let send = |verb, own: &str| {
        let cwd = sandbox.path().display();
        sandbox.hook(verb, format!(r#"{{"session_id":"s","cwd":"{cwd}",{own}}}"#)).assert_unnoticed();
        sandbox.get::<String>("SELECT status || ' ' || (ended_at IS NOT NULL) FROM sessions")
    };
    assert_eq!(send("context", r#""source":"startup""#), "active 0");
    assert_eq!(send("end", r#""reason":"other""#), "completed 1");
    assert_eq!(send("save", r#""tool_name":"Bash","tool_use_id":"t""#), "completed 1");
    assert_eq!(send("context", r#""source":"resume""#), "active 0");
    assert_eq!(sandbox.get::<String>("SELECT source FROM sessions"), "resume");
}

#[test]
fn a_hook_started_by_the_worker_itself_does_nothing() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.hook_command("save");
    command.env("CLAUDE_MEM_INTERNAL", "1");
    let payload = tool_payload("s", "t", sandbox.path(), &Value::Null);
    crate::sandbox::run(command, payload.as_bytes()).assert_unnoticed();
    assert!(!sandbox.data().exists());
}

#[test]
fn what_the_user_excludes_is_never_written() {
    let sandbox = Sandbox::new();
    let secret = sandbox.path().join("clients/acme");
    let off = sandbox.path().join("off");
    fs::create_dir_all(secret.join("deep")).unwrap();
    fs::create_dir_all(&off).unwrap();
    fs::write(off.join(".claude-mem-off"), "").unwrap();
    fs::create_dir_all(sandbox.data()).unwrap();
    fs::write(
        sandbox.data().join("config.toml"),
        "[capture]\nexclude_projects = ['~/clients/*']\nskip_tools = ['mcp__*', 'Glob']",
    )
    .unwrap();
    let send = |cwd: &std::path::Path, tool: &str| {
        let payload = tool_payload("s", "t", cwd, &Value::Null).replace("Bash", tool);
        sandbox.hook("save", payload).assert_unnoticed();
        sandbox.data().join("claude-mem.db").exists()
    };
    assert!(!send(&secret, "Bash") && !send(&secret.join("deep"), "Bash") && !send(&off, "Bash"));
    assert!(!send(sandbox.path(), "mcp__x__y") && !send(sandbox.path(), "Glob"));
    assert!(send(sandbox.path(), "TodoWrite"), "the user's list replaces the default");
}

#[test]
fn a_session_that_was_started_in_an_excluded_project_stays_excluded() {
    let sandbox = Sandbox::new();
    let off = sandbox.path().join("off");
    fs::create_dir_all(&off).unwrap();
    fs::write(off.join(".claude-mem-off"), "").unwrap();
    let mut command = sandbox.hook_command("save");
    command.env("CLAUDE_PROJECT_DIR", &off);
    let payload = tool_payload("s", "t", sandbox.path(), &Value::Null);
    crate::sandbox::run(command, payload.as_bytes()).assert_unnoticed();
    assert!(!sandbox.data().exists());
}

#[test]
fn a_later_session_is_told_about_the_earlier_ones() {
    let sandbox = Sandbox::new();
    let cwd = sandbox.path().display().to_string();
    let start = |session: &str| {
        sandbox.hook("context", format!(r#"{{"session_id":"{session}","cwd":"{cwd}","source":"startup"}}"#))
    };
    assert_eq!(start("one").assert_unnoticed().stdout, "", "an empty memory has nothing to say");
    let prompt = r#""prompt":"Please make the\nparser   faster","prompt_id":"p1""#;
    sandbox.hook("new", format!(r#"{{"session_id":"one","cwd":"{cwd}",{prompt}}}"#)).assert_unnoticed();
    let printed: Value = serde_json::from_str(&start("two").assert_unnoticed().stdout).unwrap();
    assert_eq!(printed["hookSpecificOutput"]["hookEventName"], "SessionStart");
    let context = printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("- just now: Please make the parser faster\n"), "{context}");
    assert_eq!(start("one").assert_unnoticed().stdout, "", "a session is not told about itself");
}

#[test]
fn the_files_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let keep_open = {
        sandbox.hook("save", tool_payload("s", "t", sandbox.path(), &Value::Null)).assert_unnoticed();
        sandbox.database()
    };
    sandbox.hook("save", tool_payload("s", "u", sandbox.path(), &Value::Null)).assert_unnoticed();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(sandbox.data()), 0o700);
    for name in ["claude-mem.db", "claude-mem.db-wal", "claude-mem.db-shm"] {
        assert_eq!(mode(&sandbox.data().join(name)), 0o600, "{name}");
    }
    drop(keep_open);
}
