//! Repairs of several ecosystems: nothing here may depend on one of them.

use serde_json::json;

use super::*;
use crate::tools::{RawEvent, error_signature};

fn event(tool: &str, payload: serde_json::Value, failed: bool) -> ToolEvent {
    let raw = RawEvent {
        id: 1,
        tool_name: Some(tool.into()),
        payload: payload.to_string(),
        failed,
        worktree: None,
        cwd: Some("/w/app".into()),
        agent_type: None,
        by_subagent: false,
        raw_bytes: 0,
    };
    ToolEvent::parse(&raw, Some("/w/app"))
}

fn fails(command: &str, error: &str) -> ToolEvent {
    let error = format!("Exit code 1\n{error}");
    event("Bash", json!({"tool_input": {"command": command}, "error": error}), true)
}

fn succeeds(command: &str) -> ToolEvent {
    let response = json!({"stdout": "fine", "stderr": "", "interrupted": false});
    event("Bash", json!({"tool_input": {"command": command}, "tool_response": response}), false)
}

fn edits(file: &str) -> ToolEvent {
    let path = format!("/w/app/{file}");
    let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
    event("Edit", json!({"tool_input": input, "tool_response": {"filePath": path}}), false)
}

/// A failure, where it was met again, and the command that it takes.
const BY_COMMAND: [(&str, &str, &str, &str); 7] = [
    (
        "cargo build",
        "error: failed to run custom build command for `openssl-sys v0.9.99`",
        "   Compiling app v0.2.0\nerror: failed to run custom build command for `openssl-sys v0.9.102`",
        "apt-get install -y libssl-dev",
    ),
    (
        "pytest -q",
        "E   ModuleNotFoundError: No module named 'httpx'",
        "Traceback (most recent call last):\nE   ModuleNotFoundError: No module named 'httpx'",
        "pip install httpx",
    ),
    (
        "npm install",
        "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree",
        "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree",
        "npm install --legacy-peer-deps",
    ),
    (
        "go build ./...",
        "go: updates to go.mod needed; to update it run go mod tidy",
        "go: updates to go.mod needed; to update it run go mod tidy",
        "go mod tidy",
    ),
    (
        "docker compose up -d",
        "Error response from daemon: Bind for 0.0.0.0:5432 failed: port is already allocated",
        "Error response from daemon: Bind for 0.0.0.0:5433 failed: port is already allocated",
        "docker stop old-postgres",
    ),
    (
        "pip install psycopg",
        "error: externally-managed-environment",
        "error: externally-managed-environment",
        "",
    ),
    (
        "rtk bun run test",
        "error: unrecognized subcommand 'bun'",
        "error: unrecognized subcommand 'bun'",
        "bun run test",
    ),
];

#[test]
fn a_failure_of_any_ecosystem_is_repaired_by_the_command_that_followed_it() {
    for (command, error, again, repair) in BY_COMMAND {
        let mut events = vec![fails(command, error), succeeds("ls -la")];
        if repair.is_empty() {
            events.push(succeeds("git status"));
        } else {
            events.push(succeeds(repair));
            events.push(succeeds(command));
        }
        let found = repairs(&events);
        let commands: Vec<&str> = found.iter().filter_map(|repair| repair.command.as_deref()).collect();
        let expected: Vec<&str> = Some(repair).filter(|repair| !repair.is_empty()).into_iter().collect();
        assert_eq!(commands, expected, "{command}");
        if let Some(found) = found.first() {
            let signature = error_signature(&format!("Exit code 2\n{again}")).unwrap();
            assert_eq!(found.signature, hash(&signature), "{command} fails again: {signature}");
        }
    }
}

#[test]
fn a_failure_of_any_ecosystem_is_repaired_by_the_change_after_which_it_is_gone() {
    for (command, error, file) in [
        (
            "cargo test",
            "error[E0502]: cannot borrow `self.queue` as mutable because it is also borrowed as immutable",
            "src/queue.rs",
        ),
        (
            "pytest",
            "E   sqlalchemy.exc.InvalidRequestError: Table 'jobs' is already defined",
            "tests/conftest.py",
        ),
        (
            "npm run build",
            "src/api.ts(3,7): error TS2345: Argument of type 'string' is not assignable to parameter of type 'Url'",
            "src/api.ts",
        ),
        ("go test ./...", "panic: sql: Register called twice for driver sqlite3", "internal/db/open.go"),
        (
            "docker build .",
            "ERROR: failed to solve: node:21-alpine-slim: manifest unknown for the tag",
            "Dockerfile",
        ),
    ] {
        let found = repairs(&[fails(command, error), edits(file), succeeds(command)]);
        assert_eq!(found.len(), 1, "{command}");
        assert_eq!(
            (found[0].command.as_deref(), found[0].files.as_slice()),
            (None, [file.to_owned()].as_slice())
        );
        // Without a success nothing is known to have helped.
        assert_eq!(repairs(&[fails(command, error), edits(file)]), [], "{command}");
        assert_eq!(repairs(&[fails(command, error), edits(file), fails(command, error)]), [], "{command}");
    }
}

#[test]
fn what_merely_came_between_is_no_repair() {
    let error = "Error response from daemon: Bind for 0.0.0.0:5432 failed: port is already allocated";
    let up = "docker compose up -d";
    for between in [
        vec![
            succeeds("docker ps"),
            succeeds("systemctl stop postgresql"),
            succeeds("docker stop a"),
            succeeds("docker stop b"),
        ],
        vec![succeeds("python3 -c 'import socket'")],
        vec![succeeds("ls"), succeeds("git status")],
    ] {
        let events: Vec<ToolEvent> =
            [fails(up, error)].into_iter().chain(between).chain([succeeds(up)]).collect();
        assert_eq!(repairs(&events), [], "{:?}", events.iter().filter_map(ToolEvent::command).count());
    }
    // A narrower run of the same tests proves nothing.
    let error = "E   ModuleNotFoundError: No module named 'httpx'";
    assert_eq!(repairs(&[fails("pytest", error), succeeds("pytest tests/test_a.py")]), []);
}

#[test]
fn the_same_line_in_another_directory_is_a_repair() {
    let error = "pattern ./...: directory prefix . does not contain main module or its selected dependencies";
    let line = "go build ./... && go test ./terminal/... && gofmt -l .";
    let commands = |next: ToolEvent| -> Vec<Option<String>> {
        let found = repairs(&[fails(line, error), succeeds("pwd"), next]);
        found.into_iter().map(|repair| repair.command).collect()
    };
    let there = commands(succeeds(&format!("cd src && {line}")));
    assert_eq!(there, [Some("cd src && go test ./terminal/...".to_owned())]);
    assert!(commands(succeeds("cd src && go vet ./...")).is_empty());
    assert!(commands(fails(&format!("cd src && {line}"), error)).is_empty());
}
