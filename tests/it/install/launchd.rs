//! The property list, checked without launchd.

use std::process::Command;

use claude_mem::paths::Home;
use serde_json::{Value, json};

use crate::harness::sandbox::run;
use crate::harness::wait::skip;

/// The property list as a system reads it, for a user whose home is `/Users/me`; nothing without Python to read it.
fn agent() -> Option<Value> {
    let text = include_str!("../../../packaging/launchd/claude-mem.plist").replace("__HOME__", "/Users/me");
    let read = "import json, plistlib, sys; json.dump(plistlib.loads(sys.stdin.buffer.read()), sys.stdout)";
    if Command::new("python3").arg("--version").output().is_err() {
        skip("there is no python3 to read the property list");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", read]);
    let ran = run(python, text.as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    Some(serde_json::from_str(&ran.stdout).unwrap())
}

#[test]
fn the_agent_gets_the_sockets_that_hooks_and_worker_use() {
    let Some(agent) = agent() else { return };
    let home = Home::at("/Users/me/.claude-mem");
    let socket = |path: std::path::PathBuf, kind: &str| json!({"SockType": kind, "SockPathName": path, "SockPathMode": 0o600});
    // The names that src/worker/system/launchd.rs uses.
    let expected =
        json!({"api": socket(home.socket(), "stream"), "nudge": socket(home.nudge_socket(), "dgram")});
    assert_eq!(agent["Sockets"], expected);
    let source = include_str!("../../../src/worker/system/launchd.rs");
    assert!(source.contains("c\"api\"") && source.contains("c\"nudge\""));
}

#[test]
fn the_agent_restarts_after_a_crash_with_private_files() {
    let Some(agent) = agent() else { return };
    assert_eq!(agent["Label"], "io.github.claude-mem.worker");
    assert_eq!(agent["ProgramArguments"], json!(["/Users/me/.local/bin/claude-mem", "worker"]));
    assert_eq!(agent["KeepAlive"], json!({"SuccessfulExit": false}));
    assert_eq!((&agent["ProcessType"], &agent["Umask"]), (&json!("Adaptive"), &json!(0o077)));
    assert!(!agent.to_string().contains("__"), "something is left to fill in: {agent}");
}
