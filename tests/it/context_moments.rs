//! What a session is told, seen from outside: at its start in a repository, and later.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, run};
use crate::service::{PATIENCE, Worker};

/// A sandbox whose project is a repository with a history.
fn with_memories() -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, "");
    git(&sandbox, &["init", "-q", "-b", "main"]);
    sandbox.prompt("earlier", "Make uploads survive an outage");
    let path = std::fs::canonicalize(sandbox.path()).unwrap();
    let project = path.file_name().unwrap().to_string_lossy().into_owned();
    let database = sandbox.database();
    for (kind, title, summary, file, fact) in [
        (
            "decision",
            "A loop of our own instead of the backoff crate",
            "Twenty lines against a second runtime.",
            "src/upload.rs",
            "",
        ),
        (
            "bugfix",
            "Parse timestamps with a Z suffix",
            "pytest failed until dates.py changed.",
            "dates.py",
            "Error signature: ValueError: unconverted data remains: Z",
        ),
        ("change", "Sort the imports", "Mechanical.", "src/main.rs", ""),
    ] {
        let sql = "INSERT INTO observations (uid, session_id, project, type, title, summary, files_modified, facts, created_at)
                   VALUES (hex(randomblob(8)), 'earlier', ?1, ?2, ?3, ?4, json_array(?5), json_array(?6), 1)";
        database.execute(sql, (&project, kind, title, summary, file, fact)).unwrap();
    }
    sandbox
}

/// Settings for a machine that may be busy, and some more.
fn configure(sandbox: &Sandbox, more: &str) {
    sandbox.configure(&format!("[context]\nmoment_timeout_ms = 20000\nworker_timeout_ms = 20000\n{more}"));
}

fn git(sandbox: &Sandbox, arguments: &[&str]) {
    let mut command = sandbox.command("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
    let ran = run(command, b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

fn told(ran: &Ran) -> Option<(String, String)> {
    ran.assert_unnoticed();
    let printed: Value = serde_json::from_str(&ran.stdout).ok()?;
    let specific = &printed["hookSpecificOutput"];
    Some((specific["hookEventName"].as_str()?.into(), specific["additionalContext"].as_str()?.into()))
}

fn start(sandbox: &Sandbox, session: &str, source: &str) -> Option<(String, String)> {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "SessionStart", "source": source});
    told(&sandbox.hook("context", payload.to_string()))
}

fn ask(sandbox: &Sandbox, session: &str, prompt: &str) -> Option<(String, String)> {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "UserPromptSubmit", "prompt": prompt});
    told(&sandbox.hook("new", payload.to_string()))
}

fn before_edit(sandbox: &Sandbox, session: &str, file: &str) -> Option<(String, String)> {
    let path = sandbox.path().join(file);
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "PreToolUse", "tool_name": "Edit",
                         "tool_use_id": "t", "tool_input": {"file_path": path, "old_string": "a", "new_string": "b"}});
    told(&sandbox.hook("file", payload.to_string()))
}

fn failure(sandbox: &Sandbox, session: &str, id: &str) -> Option<(String, String)> {
    let error = "Exit code 1\nTraceback (most recent call last):\n  File \"x.py\", line 3\nValueError: unconverted data remains: Z";
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "PostToolUseFailure", "tool_name": "Bash",
                         "tool_use_id": id, "tool_input": {"command": "pytest"}, "error": error, "is_interrupt": false});
    told(&sandbox.hook("save", payload.to_string()))
}

#[test]
fn a_prompt_a_file_and_a_failure_bring_their_memories_once() {
    let sandbox = with_memories();
    let worker = Worker::start(&sandbox);
    assert_eq!(worker.get("/api/context/nonsense?project_path=/&session_id=s&text=x").status, 404);
    assert_eq!(worker.get("/api/context/prompt?project_path=/").status, 400);
    let (event, text) = ask(&sandbox, "p", "which backoff crate did we take for the loop?").unwrap();
    assert_eq!(event, "UserPromptSubmit");
    assert!(text.contains("#1 decision"), "{text}");
    assert_eq!(ask(&sandbox, "p", "and why not the backoff crate, a loop of our own?"), None);
    assert_eq!(ask(&sandbox, "p", "thanks"), None);

    let (event, text) = before_edit(&sandbox, "f", "src/upload.rs").unwrap();
    assert_eq!(event, "PreToolUse");
    assert!(text.contains("#1 decision") && !text.contains("#3"), "{text}");
    assert_eq!(before_edit(&sandbox, "f", "src/upload.rs"), None);
    assert_eq!(before_edit(&sandbox, "f", "src/other.rs"), None);
    // Nothing is recorded before something has happened.
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE session_id = 'f'"), 0);

    let (event, text) = failure(&sandbox, "e", "t1").unwrap();
    assert_eq!(event, "PostToolUseFailure");
    assert!(text.contains("#2 bugfix"), "{text}");
    assert_eq!(failure(&sandbox, "e", "t2"), None);
    assert_eq!(
        sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE session_id = 'e' AND failed = 1"),
        2
    );
    let logged = "SELECT group_concat(event_type || ' ' || (data ->> 'shown'), ', ') FROM event_log
                  WHERE event_type LIKE 'context_%' ORDER BY id";
    assert_eq!(sandbox.get::<String>(logged), "context_prompt [1], context_file [1], context_failure [2]");
}

#[test]
fn what_the_start_has_shown_is_not_shown_again_until_a_compaction() {
    let sandbox = with_memories();
    let _worker = Worker::start(&sandbox);
    let (_, text) = start(&sandbox, "s", "startup").unwrap();
    assert!(text.contains("#1 decision") && text.contains("#2 bugfix"), "{text}");
    sandbox.wait_for("noted", "SELECT count(*) > 0 FROM event_log WHERE event_type = 'context'");
    assert_eq!(before_edit(&sandbox, "s", "src/upload.rs"), None);
    assert_eq!(failure(&sandbox, "s", "t1"), None);
    // A session that was never told anything is told now.
    assert!(before_edit(&sandbox, "other", "src/upload.rs").is_some());
}

#[test]
fn each_has_its_switch_and_so_has_each_project() {
    for setting in ["per_prompt = false\nper_file = false\non_failure = false", "enabled = false"] {
        let sandbox = with_memories();
        configure(&sandbox, setting);
        let _worker = Worker::start(&sandbox);
        assert_eq!(ask(&sandbox, "p", "which backoff crate did we take for the loop?"), None);
        assert_eq!(before_edit(&sandbox, "f", "src/upload.rs"), None);
        assert_eq!(failure(&sandbox, "e", "t1"), None);
        assert_eq!(start(&sandbox, "s", "startup").is_some(), setting != "enabled = false");
    }
    for off in [".claude-mem-no-context", ".claude-mem-off"] {
        let sandbox = with_memories();
        std::fs::write(sandbox.path().join(off), "").unwrap();
        let _worker = Worker::start(&sandbox);
        assert_eq!(start(&sandbox, "s", "startup"), None);
        assert_eq!(ask(&sandbox, "p", "which backoff crate did we take for the loop?"), None);
        let recorded: i64 = sandbox.get("SELECT count(*) FROM sessions WHERE id IN ('s', 'p')");
        assert_eq!(recorded, if off == ".claude-mem-off" { 0 } else { 2 }, "{off}");
    }
    let sandbox = with_memories();
    let path = std::fs::canonicalize(sandbox.path()).unwrap();
    configure(&sandbox, &format!("exclude_projects = ['{}']", path.display()));
    assert_eq!(start(&sandbox, "s", "startup"), None);
}

#[test]
fn every_way_to_start_is_served_and_can_be_left_out() {
    let sandbox = with_memories();
    for source in ["startup", "resume", "clear", "compact", "fork", "a-new-way"] {
        assert!(start(&sandbox, source, source).is_some(), "{source}");
    }
    configure(&sandbox, "sources = ['startup', 'clear']");
    for (source, is_served) in
        [("startup", true), ("resume", false), ("clear", true), ("compact", false), ("fork", false)]
    {
        // Another session: the same start a moment later would be taken for another hook set's.
        let session = format!("{source} later");
        assert_eq!(start(&sandbox, &session, source).is_some(), is_served, "{source}");
    }
}

#[test]
fn without_a_worker_nothing_is_said_later_and_nothing_is_waited_for() {
    let sandbox = with_memories();
    assert_eq!(ask(&sandbox, "p", "which backoff crate did we take for the loop?"), None);
    assert_eq!(before_edit(&sandbox, "f", "src/upload.rs"), None);
    assert_eq!(failure(&sandbox, "e", "t1"), None);
}

#[test]
fn files_that_were_changed_since_the_last_commit_bring_their_work_forward() {
    let sandbox = with_memories();
    std::fs::create_dir(sandbox.path().join("src")).unwrap();
    std::fs::write(sandbox.path().join("src/main.rs"), "fn main() {}").unwrap();
    std::fs::write(sandbox.path().join(".gitignore"), "mem\n").unwrap();
    git(&sandbox, &["add", "src", ".gitignore"]);
    git(&sandbox, &["commit", "-q", "-m", "Begin"]);
    std::fs::write(sandbox.path().join("dates.py"), "new").unwrap();
    let _worker = Worker::start(&sandbox);
    // Git may be late; then its answer serves the next session.
    let mut sessions = 0;
    let mut is_first = || {
        sessions += 1;
        let (_, text) = start(&sandbox, &format!("s{sessions}"), "startup").unwrap();
        text.find("#2 bugfix").unwrap() < text.find("#1 decision").unwrap()
    };
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_first() {
        assert!(std::time::Instant::now() < deadline, "the changed file makes no difference");
    }
}

#[test]
fn the_command_line_shows_what_a_session_is_told() {
    let sandbox = with_memories();
    let mem = |arguments: &[&str], directory: &Path| {
        let mut command: Command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.arg("context").args(arguments).current_dir(directory);
        run(command, b"")
    };
    // What others wrote is in the index once somebody has searched.
    let mut search: Command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    search.args(["search", "uploads"]);
    run(search, b"");
    let directly = mem(&[], sandbox.path());
    assert!(
        directly.stdout.starts_with("# Memory of ") && directly.stdout.contains("#1 decision"),
        "{directly:?}"
    );
    let _worker = Worker::start(&sandbox);
    assert_eq!(mem(&[], sandbox.path()).stdout, directly.stdout);
    let json: Value =
        serde_json::from_str(&mem(&["--json", "--budget", "100"], sandbox.path()).stdout).unwrap();
    assert!(json["tokens"].as_u64().unwrap() <= 100 && json["layers"][0] == "session_index", "{json}");
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(mem(&[], elsewhere.path()).stdout, "Nothing is known about this project yet.\n");
    assert_eq!(mem(&["--budget", "10"], sandbox.path()).code, Some(2));
    // Looking is not telling: no session was given anything.
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'context'"), 0);
}
