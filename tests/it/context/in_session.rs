//! The context that a session gets, seen from outside: at its start in a repository, and at later recall moments.

use std::path::Path;
use std::process::Command;

use claude_mem::store::memory::traces::hash;
use claude_mem::tools::error_signature;
use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

/// A sandbox whose project is a repository with a history.
fn with_memories() -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, "");
    sandbox.git(sandbox.path(), &["init", "-q", "-b", "main"]);
    sandbox.seen_prompt("earlier", "Make uploads survive an outage");
    let path = std::fs::canonicalize(sandbox.path()).unwrap();
    let project = path.file_name().unwrap().to_string_lossy().into_owned();
    let database = sandbox.database();
    for (kind, title, summary, file, fact) in [
        (
            "decision",
            "A loop of our own instead of the backoff crate",
            "Twenty lines of retryLoop, because the crate brings its own BackoffRuntime.",
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
    let signature = error_signature("ValueError: unconverted data remains: Z").unwrap();
    let sql =
        "INSERT INTO repairs (session_id, project, prompt_number, signature, command, files, created_at)
               VALUES ('earlier', ?1, 1, ?2, 'pytest --utc', '[]', unixepoch() * 1000)";
    database.execute(sql, (&project, hash(&signature))).unwrap();
    sandbox
}

/// Puts the first note into every context.
fn pin(sandbox: &Sandbox) {
    sandbox.database().execute("UPDATE observations SET pinned_at = 1 WHERE id = 1", []).unwrap();
}

/// Settings for a machine that may be busy, and some more.
fn configure(sandbox: &Sandbox, more: &str) {
    sandbox.configure(&format!("[context]\nmoment_timeout_ms = 20000\nworker_timeout_ms = 20000\n{more}"));
}

fn printed_context(ran: &Ran) -> Option<(String, String)> {
    ran.assert_unnoticed();
    let printed: Value = serde_json::from_str(&ran.stdout).ok()?;
    let specific = &printed["hookSpecificOutput"];
    Some((specific["hookEventName"].as_str()?.into(), specific["additionalContext"].as_str()?.into()))
}

fn start(sandbox: &Sandbox, session: &str, source: &str) -> Option<(String, String)> {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "SessionStart", "source": source});
    printed_context(&sandbox.hook("context", payload.to_string()))
}

fn ask(sandbox: &Sandbox, session: &str, prompt: &str) -> Option<(String, String)> {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "UserPromptSubmit", "prompt": prompt});
    printed_context(&sandbox.hook("new", payload.to_string()))
}

fn before_edit(sandbox: &Sandbox, session: &str, file: &str) -> Option<(String, String)> {
    let path = sandbox.path().join(file);
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "PreToolUse", "tool_name": "Edit",
                         "tool_use_id": "t", "tool_input": {"file_path": path, "old_string": "BackoffRuntime::new().run(retryLoop);", "new_string": "b"}});
    printed_context(&sandbox.hook("file", payload.to_string()))
}

fn failure(sandbox: &Sandbox, session: &str, id: &str) -> Option<(String, String)> {
    let error = "Exit code 1\nTraceback (most recent call last):\n  File \"x.py\", line 3\nValueError: unconverted data remains: Z";
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "PostToolUseFailure", "tool_name": "Bash",
                         "tool_use_id": id, "tool_input": {"command": "pytest"}, "error": error, "is_interrupt": false});
    printed_context(&sandbox.hook("save", payload.to_string()))
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
    // A session without events leaves no record.
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE session_id = 'f'"), 0);

    let (event, text) = failure(&sandbox, "e", "t1").unwrap();
    assert_eq!(event, "PostToolUseFailure");
    assert!(text.contains("`pytest --utc` then succeeded"), "{text}");
    assert_eq!(failure(&sandbox, "e", "t2"), None);
    assert_eq!(
        sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE session_id = 'e' AND failed = 1"),
        2
    );
    let logged = "SELECT group_concat(event_type || ' ' || (data ->> 'shown'), ', ') FROM event_log
                  WHERE event_type LIKE 'context_%' ORDER BY id";
    assert_eq!(sandbox.get::<String>(logged), "context_prompt [1], context_file [1], context_failure []");
}

#[test]
fn shown_memories_do_not_repeat_until_a_compaction() {
    let sandbox = with_memories();
    pin(&sandbox);
    let _worker = Worker::start(&sandbox);
    let (_, text) = start(&sandbox, "s", "startup").unwrap();
    assert!(text.contains("#1 decision"), "{text}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'context'"), 1);
    // A note that is neither pinned nor about this branch or a changed file waits for a prompt.
    assert!(!text.contains("#2 bugfix"), "{text}");
    assert_eq!(before_edit(&sandbox, "s", "src/upload.rs"), None);
    // A repair is a command, which no start shows: it comes with the failure, and once.
    assert!(failure(&sandbox, "s", "t1").unwrap().1.contains("`pytest --utc` then succeeded"));
    assert_eq!(failure(&sandbox, "s", "t2"), None);
    // A session that was never told anything is told now.
    assert!(before_edit(&sandbox, "other", "src/upload.rs").is_some());
}

#[test]
fn an_answer_that_no_hook_printed_was_not_shown() {
    let sandbox = with_memories();
    let worker = Worker::start(&sandbox);
    let path = std::fs::canonicalize(sandbox.path()).unwrap();
    let asked = "which+backoff+crate+did+we+take+for+the+loop";
    let route = format!("/api/context/prompt?project_path={}&session_id=p&text={asked}", path.display());
    // A hook that timed out: the answer is discarded.
    assert!(worker.get(&route).body.contains("#1 decision"));
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'context_prompt'"), 0);
    // It may still be printing.
    assert!(!worker.get(&route).body.contains("#1 decision"));
    std::thread::sleep(std::time::Duration::from_millis(2_200));
    assert!(ask(&sandbox, "p", "which backoff crate did we take for the loop?").is_some());
    assert_eq!(ask(&sandbox, "p", "which backoff crate did we take for the loop, and why?"), None);
}

#[test]
fn a_resumed_session_gets_no_repeats() {
    let sandbox = with_memories();
    let _worker = Worker::start(&sandbox);
    let (_, first) = start(&sandbox, "s", "startup").unwrap();
    assert_eq!(start(&sandbox, "s", "resume"), None);
    assert_eq!(start(&sandbox, "s", "compact").unwrap().1, first);
}

#[test]
fn every_recall_moment_and_project_can_be_switched_off() {
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
fn every_session_source_gets_context_and_can_be_excluded() {
    let sandbox = with_memories();
    for source in ["startup", "resume", "clear", "compact", "fork", "a-new-way"] {
        assert!(start(&sandbox, source, source).is_some(), "{source}");
    }
    configure(&sandbox, "sources = ['startup', 'clear']");
    for (source, is_served) in
        [("startup", true), ("resume", false), ("clear", true), ("compact", false), ("fork", false)]
    {
        // Another session: the same start right afterwards would count as a second hook set's.
        let session = format!("{source} later");
        assert_eq!(start(&sandbox, &session, source).is_some(), is_served, "{source}");
    }
}

#[test]
fn without_a_worker_later_hooks_print_nothing_and_do_not_wait() {
    let sandbox = with_memories();
    assert_eq!(ask(&sandbox, "p", "which backoff crate did we take for the loop?"), None);
    assert_eq!(before_edit(&sandbox, "f", "src/upload.rs"), None);
    assert_eq!(failure(&sandbox, "e", "t1"), None);
}

#[test]
fn uncommitted_files_rank_their_memories_first() {
    let sandbox = with_memories();
    std::fs::create_dir(sandbox.path().join("src")).unwrap();
    std::fs::write(sandbox.path().join("src/main.rs"), "fn main() {}").unwrap();
    std::fs::write(sandbox.path().join(".gitignore"), "mem\n").unwrap();
    sandbox.git(sandbox.path(), &["add", "src", ".gitignore"]);
    sandbox.git(sandbox.path(), &["commit", "-q", "-m", "Begin"]);
    std::fs::write(sandbox.path().join("dates.py"), "new").unwrap();
    let _worker = Worker::start(&sandbox);
    // Git may answer late; then its answer serves the next session.
    let mut sessions = 0;
    let is_first = || {
        sessions += 1;
        let (_, text) = start(&sandbox, &format!("s{sessions}"), "startup").unwrap();
        let place = |memory: &str| text.find(memory).unwrap_or(usize::MAX);
        place("#2 bugfix") < place("#1 decision")
    };
    sandbox.wait_until("the changed file comes first", is_first);
}

#[test]
fn the_context_command_prints_what_a_session_gets() {
    let sandbox = with_memories();
    pin(&sandbox);
    let mem = |arguments: &[&str], directory: &Path| {
        let mut command: Command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.arg("context").args(arguments).current_dir(directory);
        run(command, b"")
    };
    // Rows written by other processes are indexed at the next search.
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
    assert_eq!(mem(&[], elsewhere.path()).stdout, "No memories of this project yet.\n");
    assert_eq!(mem(&["--budget", "10"], sandbox.path()).code, Some(2));
    // The command only looks: it records nothing as shown.
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'context'"), 0);
}
