//! Every real payload, sent to its verb.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::sandbox::{Sandbox, fixture, run, tool_payload};
use crate::harness::worker::Worker;

/// The wired events and their verbs.
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
fn repeated_prompts_count_twice_and_double_hooks_once() {
    let sandbox = Sandbox::new();
    let say = || {
        let payload = serde_json::json!({"session_id": "s", "cwd": sandbox.path(), "prompt": "continue", "prompt_id": "p1"});
        sandbox.hook("new", payload.to_string()).assert_unnoticed();
    };
    say();
    say();
    let count = "SELECT count(*) FROM user_prompts";
    assert_eq!(sandbox.get::<i64>(count), 1);
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    say();
    say();
    assert_eq!(sandbox.get::<i64>(count), 2);
}

#[test]
fn a_client_without_prompts_leaves_no_session() {
    let sandbox = Sandbox::new();
    let hook = |verb: &str, session: &str, source: &str| {
        let payload = serde_json::json!({"session_id": session, "cwd": sandbox.path(), "source": source, "reason": "other"});
        sandbox.hook(verb, payload.to_string()).assert_unnoticed();
    };
    // Like `claude mcp list`.
    hook("end", "only-an-end", "");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 0);
    // A session that was opened and closed, two hours ago.
    hook("context", "looked", "startup");
    hook("end", "looked", "startup");
    sandbox.prompt("worked", "Repair the greeting");
    hook("end", "worked", "startup");
    let ago = "UPDATE sessions SET started_at = started_at - 7200000, last_activity_at = last_activity_at - 7200000";
    sandbox.database().execute(ago, []).unwrap();
    let worker = Worker::start(&sandbox);
    // A worker checks again at its start, once the queue is settled.
    sandbox.wait_until_settled();
    let gone = || {
        sandbox.get::<String>("SELECT group_concat(id || ' ' || status) FROM sessions") == "worked completed"
    };
    let mut worker = Some(worker);
    for _ in 0..5 {
        drop(worker.take());
        if gone() {
            return;
        }
        worker = Some(Worker::start(&sandbox));
        worker.as_ref().unwrap().wait_for_health("healthy", |health| health["status"] == "ok");
    }
    panic!("{}", sandbox.get::<String>("SELECT group_concat(id || ' ' || status) FROM sessions"));
}

#[test]
fn a_network_file_system_is_refused_with_a_notice_per_session() {
    let sandbox = Sandbox::new();
    let hook = |verb: &str, file_system: &str| {
        let mut command = sandbox.hook_command(verb);
        command.env("CLAUDE_MEM_FILE_SYSTEM", file_system);
        let payload = tool_payload("s", "t", sandbox.path(), &Value::Null);
        run(command, payload.as_bytes())
    };
    for (magic, name) in [("0x6969", "nfs"), ("0xff534d42", "cifs"), ("0xfe534d42", "smb2")] {
        let started = hook("context", magic);
        started.assert_unnoticed();
        let printed: Value = serde_json::from_str(&started.stdout).unwrap();
        let message = printed["systemMessage"].as_str().unwrap();
        assert!(message.contains(&format!("network file system ({name})")), "{message}");
        assert!(message.contains("set CLAUDE_MEM_HOME"), "{message}");
        assert_eq!(hook("save", magic).assert_unnoticed().stdout, "");
        for arguments in [["worker", ""], ["backup", ""], ["install", "--no-hooks"]] {
            let mut command = sandbox.command(crate::harness::sandbox::program("claude-mem"));
            command
                .args(arguments.iter().filter(|word| !word.is_empty()))
                .env("CLAUDE_MEM_FILE_SYSTEM", magic);
            let ran = run(command, b"");
            let output = format!("{}{}", ran.stdout, ran.stderr);
            assert!(ran.code == Some(1) && output.contains("network file system"), "{arguments:?}: {ran:?}");
        }
    }
    assert!(!sandbox.data().exists(), "nothing was made there");
    hook("save", "0xef53").assert_unnoticed();
    assert_eq!(sandbox.rows("raw"), 1);
}

#[test]
fn every_real_payload_is_stored_by_its_verb() {
    for (event, verb) in WIRING {
        for (path, payload) in payloads(event) {
            let sandbox = Sandbox::new();
            if verb == "end" {
                // The end of an unknown session stores nothing.
                sandbox.hook(verb, &payload).assert_unnoticed();
                assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 0, "{path:?}");
                sandbox.hook("context", &payload).assert_unnoticed();
            }
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

/// Tools that are not recorded by default.
const SKIPPED: [&str; 2] = ["Skill", "ToolSearch"];

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
fn a_session_can_resume_but_a_late_tool_does_not_revive_it() {
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
    run(command, payload.as_bytes()).assert_unnoticed();
    assert!(!sandbox.data().exists());
}

#[test]
fn excluded_projects_and_tools_are_never_written() {
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
    assert!(send(sandbox.path(), "Skill"), "the user's list replaces the default");
}

#[test]
fn a_session_started_in_an_excluded_project_stays_excluded() {
    let sandbox = Sandbox::new();
    let off = sandbox.path().join("off");
    fs::create_dir_all(&off).unwrap();
    fs::write(off.join(".claude-mem-off"), "").unwrap();
    let mut command = sandbox.hook_command("save");
    command.env("CLAUDE_PROJECT_DIR", &off);
    let payload = tool_payload("s", "t", sandbox.path(), &Value::Null);
    run(command, payload.as_bytes()).assert_unnoticed();
    assert!(!sandbox.data().exists());
}

#[test]
fn a_later_session_gets_the_earlier_ones_as_context() {
    let sandbox = Sandbox::new();
    let cwd = sandbox.path().display().to_string();
    let start = |session: &str| {
        sandbox.hook("context", format!(r#"{{"session_id":"{session}","cwd":"{cwd}","source":"startup"}}"#))
    };
    assert_eq!(start("one").assert_unnoticed().stdout, "", "an empty memory has nothing to say");
    let prompt = r#""prompt":"Please make the\nparser   faster","prompt_id":"p1""#;
    sandbox.hook("new", format!(r#"{{"session_id":"one","cwd":"{cwd}",{prompt}}}"#)).assert_unnoticed();
    assert_eq!(start("early").assert_unnoticed().stdout, "", "a raw prompt is not shown");
    sandbox.database().execute("UPDATE user_prompts SET is_raw = 0", []).unwrap();
    let printed: Value = serde_json::from_str(&start("two").assert_unnoticed().stdout).unwrap();
    assert_eq!(printed["hookSpecificOutput"]["hookEventName"], "SessionStart");
    let context = printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("- within the hour: Please make the parser faster\n"), "{context}");
    assert_eq!(start("one").assert_unnoticed().stdout, "", "a session does not get its own context");
}

#[test]
fn only_the_user_can_read_the_files() {
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
