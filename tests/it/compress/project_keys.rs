//! Repositories with the same folder name share nothing; all clones of one repository share everything.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::mcp_client::Client;
use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

/// A repository in `folder` with that origin.
fn repository(sandbox: &Sandbox, folder: &str, origin: &str) -> PathBuf {
    let path = sandbox.path().join(folder);
    fs::create_dir_all(&path).unwrap();
    sandbox.git(&path, &["init", "-q", "-b", "main"]);
    if !origin.is_empty() {
        sandbox.git(&path, &["remote", "add", "origin", origin]);
    }
    fs::canonicalize(path).unwrap()
}

fn cli(sandbox: &Sandbox, at: &Path, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments).current_dir(at);
    run(command, b"")
}

fn client_in(sandbox: &Sandbox, directory: &Path) -> Client {
    let mut command = sandbox.mcp_command();
    command.env("CLAUDE_PROJECT_DIR", directory);
    let mut client = Client::start(command);
    client.initialize("2025-11-25", json!({}));
    client
}

/// The context of a session that starts there.
fn context(sandbox: &Sandbox, session: &str, cwd: &Path) -> String {
    let payload =
        json!({"session_id": session, "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup"});
    let ran = sandbox.hook("context", payload.to_string());
    ran.assert_unnoticed();
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}

/// A session with a prompt, a rule that the user states, a note and a learning.
fn work(sandbox: &Sandbox, cwd: &Path, session: &str) {
    for (verb, payload) in [
        ("context", json!({"hook_event_name": "SessionStart", "source": "startup"})),
        (
            "new",
            json!({"hook_event_name": "UserPromptSubmit", "prompt": "Always deploy the zanzibar service with blue-green"}),
        ),
        ("end", json!({"hook_event_name": "SessionEnd", "reason": "other"})),
    ] {
        let mut payload = payload;
        payload["session_id"] = json!(session);
        payload["cwd"] = json!(cwd);
        sandbox.hook(verb, payload.to_string()).assert_unnoticed();
    }
    let added = cli(sandbox, cwd, &["learn", "add", "The zanzibar staging host is slow"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    client_in(sandbox, cwd).call_ok("save", json!({"text": "The zanzibar contract forbids cloud regions"}));
}

/// The output of every way to recall memories in a directory.
fn all_recall_output(sandbox: &Sandbox, cwd: &Path, session: &str) -> String {
    let mut client = client_in(sandbox, cwd);
    [
        context(sandbox, session, cwd),
        client.call_ok("search", json!({"query": "zanzibar"})),
        client.call_ok("recent", json!({})),
        cli(sandbox, cwd, &["learn", "list"]).stdout,
        cli(sandbox, cwd, &["search", "--project", ".", "zanzibar"]).stdout,
        cli(sandbox, cwd, &["sessions", "--project", "."]).stdout.replace(session, ""),
        cli(sandbox, cwd, &["context"]).stdout,
    ]
    .join("\n---\n")
}

fn share_nothing(sandbox: &Sandbox) {
    let ours = repository(sandbox, "clients/red/app", "git@github.com:red/app.git");
    let theirs = repository(sandbox, "clients/blue/app", "git@github.com:blue/app.git");
    let plain = sandbox.path().join("notes/app");
    fs::create_dir_all(&plain).unwrap();
    work(sandbox, &ours, "red-1");
    for (cwd, session) in [(&theirs, "blue-1"), (&plain, "plain-1")] {
        for _ in 0..2 {
            let output = all_recall_output(sandbox, cwd, session);
            assert!(!output.contains("zanzibar") && !output.contains("red-1"), "{output}");
        }
        let forgotten = cli(sandbox, cwd, &["forget", "--project", ".", "--dry-run"]).stdout;
        assert!(!forgotten.contains("learning"), "{forgotten}");
    }
    let again = all_recall_output(sandbox, &ours, "red-2");
    assert!(again.contains("staging host") && again.contains("contract"), "{again}");
    let names: String =
        sandbox.get("SELECT group_concat(name, ' ') FROM (SELECT name FROM projects ORDER BY name)");
    assert_eq!(names, "app blue/app notes/app");
}

#[test]
fn repositories_with_the_same_folder_name_share_nothing() {
    let sandbox = Sandbox::new();
    sandbox.configure("[context]\nworker_timeout_ms = 20000\n");
    let _worker = Worker::start(&sandbox);
    share_nothing(&sandbox);
}

#[test]
fn repositories_of_one_name_share_nothing_without_a_worker() {
    share_nothing(&Sandbox::new());
}

#[test]
fn clones_worktrees_and_subdirectories_are_one_project() {
    let sandbox = Sandbox::new();
    let first = repository(&sandbox, "a/app", "https://token@github.com/red/app.git");
    sandbox.git(&first, &["commit", "-q", "--allow-empty", "-m", "x"]);
    sandbox.git(&first, &["worktree", "add", "-q", "-b", "w", "../elsewhere"]);
    work(&sandbox, &first, "s1");
    let second = repository(&sandbox, "b/another-name", "git@github.com:Red/App");
    fs::create_dir_all(second.join("src/deep")).unwrap();
    sandbox.git(sandbox.path(), &["clone", "-q", first.to_str().unwrap(), "local-clone"]);
    let local = sandbox.path().join("local-clone");
    for (number, cwd) in
        [second.join("src/deep"), second, sandbox.path().join("a/elsewhere"), local].iter().enumerate()
    {
        let output = all_recall_output(&sandbox, cwd, &format!("later-{number}"));
        assert!(output.contains("staging host") && output.contains("contract"), "{cwd:?}: {output}");
    }
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM projects"), 1);
    let keys: String = sandbox.get("SELECT group_concat(DISTINCT project_key) FROM sessions");
    assert_eq!(keys, "git:github.com/red/app", "no password, one spelling");
}

#[test]
fn a_repository_keeps_its_memories_when_it_gets_a_remote() {
    let sandbox = Sandbox::new();
    let app = repository(&sandbox, "app", "");
    work(&sandbox, &app, "s1");
    sandbox.git(&app, &["remote", "add", "origin", "https://example.org/red/app"]);
    assert!(context(&sandbox, "s2", &app).contains("staging host"));
}

#[test]
fn an_import_matches_projects_by_key() {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let ours = repository(&here, "app", "https://example.org/red/app");
    work(&there, &repository(&there, "app", "https://example.org/blue/app"), "blue-1");
    let same = repository(&there, "another", "https://example.org/red/app");
    client_in(&there, &same).call_ok("save", json!({"text": "The quokka limit is seven"}));
    client_in(&here, &ours).call_ok("save", json!({"text": "Ours"}));
    let file = there.path().join("export.jsonl");
    let file = file.to_str().unwrap();
    assert_eq!(cli(&there, there.path(), &["export", file]).code, Some(0));
    let imported = cli(&here, here.path(), &["import", file]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let output = all_recall_output(&here, &ours, "red-9");
    assert!(!output.contains("zanzibar"), "{output}");
    let found = client_in(&here, &ours).call_ok("search", json!({"query": "quokka"}));
    assert!(found.contains("quokka"), "{found}");
    let blue = repository(&here, "elsewhere/app", "https://example.org/blue/app");
    assert!(context(&here, "blue-9", &blue).contains("staging host"));
    let again = cli(&here, here.path(), &["import", file]);
    assert!(again.stdout.starts_with("Imported 0 rows"), "{again:?}");
}

#[test]
fn an_alias_renames_and_joins_projects() {
    let sandbox = Sandbox::new();
    let api = repository(&sandbox, "api", "https://example.org/red/api");
    let web = repository(&sandbox, "web", "https://example.org/red/web");
    work(&sandbox, &api, "s1");
    client_in(&sandbox, &web).call_ok("save", json!({"text": "The quokka limit is seven"}));
    sandbox.configure("[capture.project_aliases]\napi = \"shop\"\n\"git:example.org/red/web\" = \"shop\"\n");
    let _worker = Worker::start(&sandbox);
    let output = all_recall_output(&sandbox, &web, "s2");
    assert!(output.contains("staging host") && output.contains("contract"), "{output}");
    let found = client_in(&sandbox, &api).call_ok("search", json!({"query": "quokka", "project": "shop"}));
    assert!(found.contains("quokka"), "{found}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM projects WHERE name = 'shop'"), 2);
}
