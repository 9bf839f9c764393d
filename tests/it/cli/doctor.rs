//! The findings of `doctor`: each test breaks one thing, and expects it to be named with a reason and a fix.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::endpoint::{Endpoint, Reply};
use crate::harness::sandbox::{run, tool_payload};
use crate::install::command::Installed;

/// Runs `doctor` and returns one of its checks.
fn check(home: &Installed, arguments: &[&str], variables: &[(&str, &str)], name: &str) -> Value {
    let mut command =
        home.command(env!("CARGO_BIN_EXE_claude-mem"), &[&["doctor", "--json"], arguments].concat());
    command.envs(variables.iter().copied());
    let ran = run(command, b"");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(report["ok"] == true, ran.code == Some(0), "{ran:?}");
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}")).clone()
}

fn is_bad(finding: &Value, word: &str) {
    assert_eq!(finding["state"], "bad", "{finding:#}");
    assert!(finding["found"].as_str().unwrap().contains(word), "{finding:#}");
    assert!(finding["why"] != "" && finding["repair"] != "", "{finding:#}");
}

#[test]
fn a_hook_of_another_version_is_named() {
    let home = Installed::new();
    let bin = home.path("bin");
    home.mem(&["install", "--no-service", "--bin-dir", bin.to_str().unwrap()]);
    fs::remove_file(bin.join("claude-mem-hook")).unwrap();
    fs::write(bin.join("claude-mem-hook"), "#!/bin/sh\necho claude-mem-hook 0.0.1\n").unwrap();
    fs::set_permissions(bin.join("claude-mem-hook"), fs::Permissions::from_mode(0o755)).unwrap();
    is_bad(&check(&home, &[], &[], "programs"), "0.0.1");
}

#[test]
fn a_database_from_the_future_is_named() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    home.sandbox.database().pragma_update(None, "user_version", 99).unwrap();
    is_bad(&check(&home, &[], &[], "database"), "newer");
}

#[test]
fn a_damaged_database_is_named() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    home.sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = home.sandbox.data().join("claude-mem.db");
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[4096 * 3..end].fill(0x5a);
    fs::write(&file, bytes).unwrap();
    is_bad(&check(&home, &[], &[], "database"), "damaged");
}

#[test]
fn a_session_without_hooks_is_noticed() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    assert_eq!(check(&home, &[], &[], "last hook")["state"], "good");
    let project = home.path("claude/projects/-tmp-x");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("s.jsonl"), "{}\n").unwrap();
    let later = SystemTime::now() + Duration::from_secs(1200);
    fs::File::options().append(true).open(project.join("s.jsonl")).unwrap().set_modified(later).unwrap();
    is_bad(&check(&home, &[], &[], "last hook"), "never");
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    is_bad(&check(&home, &[], &[], "last hook"), "just now");
}

#[test]
fn disabled_and_dangling_hooks_are_named() {
    let home = Installed::new();
    let bin = home.path("bin");
    home.mem(&["install", "--no-service", "--bin-dir", bin.to_str().unwrap()]);
    let wired = fs::read_to_string(home.settings()).unwrap();
    fs::write(home.settings(), wired.replacen('{', "{\n  \"disableAllHooks\": true,", 1)).unwrap();
    is_bad(&check(&home, &[], &[], "hooks"), "disableAllHooks");
    fs::write(home.settings(), wired).unwrap();
    fs::remove_file(bin.join("claude-mem-hook")).unwrap();
    is_bad(&check(&home, &[], &[], "hooks"), "does not run an executable");
}

#[test]
fn only_online_checks_the_key_and_detects_a_bad_one() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    let good = Reply::anthropic(&json!([{"type": "text", "text": "yes"}]), "max_tokens");
    let bad = Reply::error(401, "authentication_error", "invalid x-api-key");
    for (reply, state) in [(good, "good"), (bad, "bad")] {
        let endpoint = Endpoint::always(reply);
        let url = endpoint.url();
        // No worker, because it would call the model for the doctor's own event.
        let variables = [
            ("ANTHROPIC_API_KEY", "sk-ant-test-key"),
            ("ANTHROPIC_BASE_URL", url),
            ("CLAUDE_MEM_WORKER_AUTOSTART", "false"),
        ];
        let offline = check(&home, &[], &variables, "provider");
        assert_eq!((offline["state"] == "good", endpoint.asked().len()), (true, 0), "{offline:#}");
        let online = check(&home, &["--online"], &variables, "provider");
        assert_eq!(online["state"], state, "{online:#}");
        assert_eq!(endpoint.asked().len(), 1, "one request");
        assert_eq!(endpoint.asked()[0].body["max_tokens"], 1, "of one token");
        assert!(!online.to_string().contains("sk-ant-test-key"), "{online:#}");
    }
}

#[test]
fn the_round_trip_calls_no_paid_model() {
    let home = Installed::new();
    let endpoint = Endpoint::always(Reply::error(400, "invalid_request_error", "no"));
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-ant-test-key"),
        ("ANTHROPIC_BASE_URL", endpoint.url()),
        ("CLAUDE_MEM_QUEUE_MAX_ATTEMPTS", "1"),
    ];
    let mut start = home.command(env!("CARGO_BIN_EXE_claude-mem"), &["start"]);
    start.envs(variables);
    assert_eq!(run(start, b"").code, Some(0));
    let walked = check(&home, &[], &variables, "round trip");
    assert_eq!(walked["state"], "good", "{walked:#}");
    assert!(walked["found"].as_str().unwrap().contains("--online also tests the model"), "{walked:#}");
    assert_eq!(endpoint.asked().len(), 0);
    let whole = check(&home, &["--online"], &variables, "round trip");
    is_bad(&whole, "400");
}

#[test]
fn linger_and_disk_are_checked() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    assert_eq!(check(&home, &[], &[], "linger")["state"], "good");
    assert!(check(&home, &[], &[], "disk")["found"].as_str().unwrap().contains("free"));
}
