//! Environment variables from other programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::sandbox::{Sandbox, run, tool_payload};

/// Processes started by git, such as its hooks, inherit variables that name another repository.
#[test]
fn git_variables_do_not_redirect_our_git() {
    let sandbox = Sandbox::new();
    let (programs, seen) = (sandbox.path().join("bin"), sandbox.path().join("seen"));
    fs::create_dir_all(sandbox.path().join("project/.git/objects")).unwrap();
    fs::write(sandbox.path().join("project/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("git"), format!("#!/bin/sh\n/usr/bin/env >> {}\n", seen.display())).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.hook("save", tool_payload("s", "t", sandbox.path(), &"x".into()));
    let mut context = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    let foreign = [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_EXEC_PATH",
        "GIT_TRACE",
    ];
    context.envs(foreign.map(|name| (name, "/elsewhere")));
    context.args(["context"]).current_dir(sandbox.path().join("project")).env("PATH", &programs);
    let output = run(context, b"");
    assert_eq!(output.code, Some(0), "{output:?}");
    let seen = fs::read_to_string(seen).expect("git was asked");
    assert!(seen.contains("CLAUDE_MEM_INTERNAL=1") && seen.contains("GIT_ALLOW_PROTOCOL=none"), "{seen}");
    assert!(!seen.contains("/elsewhere"), "{seen}");
}

/// A relative directory would be a different one inside every project.
#[test]
fn a_relative_data_directory_is_refused() {
    let sandbox = Sandbox::new();
    let project = sandbox.path().join("project");
    fs::create_dir(&project).unwrap();
    let mut hook = sandbox.hook_command("save");
    hook.env("CLAUDE_MEM_HOME", "mem").current_dir(&project);
    run(hook, tool_payload("s", "t", &project, &"x".into()).as_bytes()).assert_unnoticed();
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0);
    assert_eq!(sandbox.dropped(), 1, "it is counted");
    let mut status = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    status.arg("status").env("CLAUDE_MEM_HOME", "mem").current_dir(&project);
    let output = run(status, b"");
    assert!(output.code == Some(1) && output.stderr.contains("CLAUDE_MEM_HOME"), "{output:?}");
}

/// A hook records silently despite invalid settings in the environment.
#[test]
fn bad_settings_in_the_environment_lose_no_event() {
    let sandbox = Sandbox::new();
    let mut hook = sandbox.hook_command("save");
    for (name, value) in [
        ("CLAUDE_MEM_HOOK_BUSY_MS", "-1"),
        ("CLAUDE_MEM_HOOK_MAX_PAYLOAD_BYTES", "99999999999999999999"),
        ("CLAUDE_MEM_HOOK_SYNCHRONOUS", "off"),
        ("CLAUDE_MEM_RETENTION_MAX_MB", "[1]"),
        ("CLAUDE_MEM_CAPTURE_SKIP_TOOLS", "[\"Bash\", 1]"),
        ("LD_LIBRARY_PATH", "/nonexistent"),
    ] {
        hook.env(name, value);
    }
    run(hook, tool_payload("s", "t", sandbox.path(), &"x".into()).as_bytes()).assert_unnoticed();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 1);
}
