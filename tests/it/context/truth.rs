//! Memories and the code that they are about, in a real repository: what starts show after the code changed, and the corrections.

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, program, run};
use crate::harness::worker::Worker;

const BEFORE: &str = "def greet(name):\n    return 'Helo ' + name\n";
const AFTER: &str = "def greet(name):\n    polite_greeting = 'Good morning, Captain '\n    return polite_greeting + name.capitalize()\n";

fn repository() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure("[context]\nmoment_timeout_ms = 20000\nworker_timeout_ms = 20000\n");
    sandbox.git(sandbox.path(), &["init", "-q", "-b", "main"]);
    std::fs::write(sandbox.path().join("greet.py"), BEFORE).unwrap();
    sandbox.git(sandbox.path(), &["add", "greet.py"]);
    sandbox.git(sandbox.path(), &["commit", "-q", "-m", "Begin"]);
    sandbox
}

fn mem(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(program("claude-mem"));
    command.args(arguments);
    run(command, b"")
}

/// A turn that changes the file from one text to another.
fn change(sandbox: &Sandbox, session: &str, prompt: &str, before: &str, after: &str) -> i64 {
    let file = sandbox.path().join("greet.py");
    std::fs::write(&file, after).unwrap();
    sandbox.prompt(session, prompt);
    let payload = json!({
        "session_id": session, "cwd": sandbox.path(), "hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_use_id": format!("write-{session}"), "tool_input": {"file_path": file, "content": after},
        "tool_response": {"type": "update", "filePath": file, "content": after, "originalFile": before},
    });
    sandbox.hook("save", payload.to_string()).assert_unnoticed();
    let payload = json!({
        "session_id": session, "cwd": sandbox.path(), "hook_event_name": "Stop", "prompt_id": session,
        "last_assistant_message": format!("{prompt}: done, because the harbour master asked for it."),
    });
    sandbox.hook("summary", payload.to_string()).assert_unnoticed();
    sandbox.wait_until_settled();
    sandbox.get(&format!("SELECT max(id) FROM observations WHERE session_id = '{session}'"))
}

fn start(sandbox: &Sandbox, session: &str) -> String {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "SessionStart", "source": "startup"});
    let ran = sandbox.hook("context", payload.to_string());
    ran.assert_unnoticed();
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_session_whose_code_is_gone_is_not_shown_until_the_user_confirms_it() {
    let sandbox = repository();
    let worker = Worker::start(&sandbox);
    let id = change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER);
    assert!(sandbox.get::<i64>("SELECT count(*) FROM anchors WHERE length(hash) = 40") > 0);
    assert!(start(&sandbox, "two").contains("Greet captains politely"));
    // Somebody takes it out again, without a session.
    std::fs::write(sandbox.path().join("greet.py"), BEFORE).unwrap();
    let text = start(&sandbox, "three");
    assert!(!text.contains("Greet captains politely"), "{text}");
    sandbox.wait_for("recorded", "SELECT standing = 'gone' FROM stale_notes");
    let listed: Value = serde_json::from_str(&mem(&sandbox, &["review", "--json"]).stdout).unwrap();
    assert_eq!((&listed[0]["id"], &listed[0]["standing"]), (&json!(id), &json!("gone")), "{listed}");
    assert!(mem(&sandbox, &["doctor"]).stdout.contains(&format!("#{id}")));
    assert_eq!(worker.get("/api/curated").json()["stale"][0]["id"], id);
    assert_eq!(worker.post(&format!("/api/observations/{id}/keep"), &json!({})).status, 200);
    assert!(start(&sandbox, "four").contains("Greet captains politely"));
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM stale_notes"), 0);
}

#[test]
fn a_turn_that_reverses_another_supersedes_its_note() {
    let sandbox = repository();
    let worker = Worker::start(&sandbox);
    let first = change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER);
    let second = change(&sandbox, "two", "Go back to the short greeting of before", AFTER, BEFORE);
    let link = |id: i64| -> String {
        sandbox.get(&format!("SELECT coalesce(superseded_by, '') FROM observations WHERE id = {id}"))
    };
    let uid: String = sandbox.get(&format!("SELECT uid FROM observations WHERE id = {second}"));
    assert_eq!(link(first), uid);
    assert_eq!(link(second), "");
    let text = start(&sandbox, "now");
    assert!(text.contains("short greeting") && !text.contains("Greet captains politely"), "{text}");
    assert_eq!(worker.get("/api/search?q=captains").json()["hits"][0]["id"], first, "search still has it");
    // The reversal is reversed: the first holds again.
    change(&sandbox, "three", "Greet captains politely after all", BEFORE, AFTER);
    assert_eq!(link(first), "");
    assert_ne!(link(second), "");
}

#[test]
fn a_branch_keeps_its_memories_until_it_is_merged() {
    let sandbox = repository();
    let _worker = Worker::start(&sandbox);
    sandbox.git(sandbox.path(), &["switch", "-q", "-c", "polite"]);
    change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER);
    sandbox.git(sandbox.path(), &["commit", "-q", "-a", "-m", "Greet politely"]);
    sandbox.git(sandbox.path(), &["switch", "-q", "main"]);
    // The first start asks git in the background.
    start(&sandbox, "two");
    sandbox.wait_for("surveyed", "SELECT state = 'open' FROM branches WHERE name = 'polite'");
    let text = start(&sandbox, "three");
    assert!(!text.contains("Greet captains politely"), "{text}");
    sandbox.git(sandbox.path(), &["merge", "-q", "--squash", "polite"]);
    sandbox.git(sandbox.path(), &["commit", "-q", "-m", "Politeness (#1)"]);
    let text = start(&sandbox, "four");
    assert!(text.contains("Greet captains politely"), "its code is here: {text}");
}

#[test]
fn corrections_work_from_the_command_line() {
    let sandbox = repository();
    let _worker = Worker::start(&sandbox);
    let id = change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER).to_string();
    let ok = |arguments: &[&str]| {
        let ran = mem(&sandbox, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout
    };
    assert!(ok(&["pin", &id]).starts_with("Pinned"));
    assert!(ok(&["pin", &id, "--undo"]).starts_with("Unpinned"));
    ok(&["edit", &id, "--summary", "Captains are greeted by the time of day"]);
    assert!(ok(&["edit", &id, "--versions"]).contains("until"));
    ok(&["veto", &id]);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations WHERE deleted_at IS NULL"), 0);
    assert!(ok(&["veto", "--list"]).contains("Captains are greeted"));
    for arguments in [vec!["supersede", "99", "--by", "98"], vec!["merge", "99", "98"], vec!["pin", "99"]] {
        assert_eq!(mem(&sandbox, &arguments).code, Some(1), "{arguments:?}");
    }
    assert_eq!(mem(&sandbox, &["pin", "nonsense"]).code, Some(2));
}

#[test]
fn a_withheld_session_gets_nothing_and_is_counted() {
    let sandbox = repository();
    let _worker = Worker::start(&sandbox);
    change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER);
    sandbox.configure(
        "[context]\nmoment_timeout_ms = 20000\nworker_timeout_ms = 20000\n[value]\nholdout_percent = 50\n",
    );
    let sessions: Vec<String> = (0..12).map(|at| format!("session-{at}")).collect();
    let given: Vec<bool> = sessions.iter().map(|session| !start(&sandbox, session).is_empty()).collect();
    assert!(given.contains(&true) && given.contains(&false), "{given:?}");
    for (session, given) in sessions.iter().zip(given) {
        let event = if given { "context" } else { "withheld" };
        let sql = format!(
            "SELECT count(*) = 1 FROM event_log WHERE session_id = '{session}' AND event_type = '{event}'"
        );
        sandbox.wait_for("logged", &sql);
    }
    let value: Value = serde_json::from_str(&mem(&sandbox, &["value", "--json"]).stdout).unwrap();
    assert_eq!(value["effects"]["holdout"]["percent"], 50, "{value:#}");
    let text = mem(&sandbox, &["value"]).stdout;
    assert!(text.contains("holdout"), "{text}");
}

#[test]
fn anchors_of_a_session_in_a_folder_of_a_worktree_are_relative_to_its_root() {
    let sandbox = repository();
    let _worker = Worker::start(&sandbox);
    let elsewhere = tempfile::tempdir().unwrap();
    let tree = elsewhere.path().join("tree");
    sandbox.git(sandbox.path(), &["worktree", "add", "-q", "-b", "polite", tree.to_str().unwrap()]);
    let folder = tree.join("harbour");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("greet.py"), AFTER).unwrap();
    let send = |verb: &str, payload: Value| {
        sandbox.hook(verb, payload.to_string()).assert_unnoticed();
    };
    send("new", json!({"session_id": "one", "cwd": folder, "prompt": "Greet captains politely"}));
    let file = folder.join("greet.py");
    send(
        "save",
        json!({
            "session_id": "one", "cwd": folder, "hook_event_name": "PostToolUse", "tool_name": "Write",
            "tool_use_id": "write", "tool_input": {"file_path": file, "content": AFTER},
            "tool_response": {"type": "create", "filePath": file, "content": AFTER},
        }),
    );
    let closing = "Captains are greeted politely now, because the harbour master asked for it.";
    send(
        "summary",
        json!({"session_id": "one", "cwd": folder, "hook_event_name": "Stop", "prompt_id": "one", "last_assistant_message": closing}),
    );
    sandbox.wait_until_settled();
    let anchored: String = sandbox.get("SELECT file_path FROM anchors WHERE symbol = ''");
    assert_eq!(anchored, "harbour/greet.py");
}

#[test]
fn a_kept_note_keeps_its_anchors_although_no_session_has_seen_the_rename() {
    let sandbox = repository();
    let worker = Worker::start(&sandbox);
    let id = change(&sandbox, "one", "Greet captains politely in the morning", BEFORE, AFTER);
    sandbox.git(sandbox.path(), &["commit", "-q", "-a", "-m", "Greet politely"]);
    sandbox.git(sandbox.path(), &["mv", "greet.py", "hello.py"]);
    sandbox.git(sandbox.path(), &["commit", "-q", "-m", "Rename the greeting"]);
    assert_eq!(worker.post(&format!("/api/observations/{id}/keep"), &json!({})).status, 200);
    assert!(sandbox.get::<i64>("SELECT count(*) FROM anchors WHERE length(hash) = 40") > 0);
}
