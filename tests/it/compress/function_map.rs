//! The effect of edits on functions, from the real client's payloads to the table.

use std::sync::{Mutex, mpsc};

use serde_json::{Value, json};

use crate::harness::endpoint::{Endpoint, Reply};
use crate::harness::sandbox::{Sandbox, fixture};
use crate::harness::worker::Worker;

/// A payload of the real client, as if it came from this sandbox.
fn sent(sandbox: &Sandbox, session: &str, name: &str) -> Value {
    let text = std::fs::read_to_string(fixture(&format!("hooks/PostToolUse/{name}.json"))).unwrap();
    let here = sandbox.path().to_str().unwrap();
    let mut payload: Value = serde_json::from_str(&text.replace("/home/dev/project", here)).unwrap();
    payload["session_id"] = json!(session);
    payload
}

fn write(sandbox: &Sandbox, session: &str, id: &str, file: &str, before: Option<&str>, after: &str) {
    let file = sandbox.path().join(file);
    let kind = if before.is_some() { "update" } else { "create" };
    let payload = json!({
        "session_id": session, "cwd": sandbox.path(), "hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_use_id": id, "tool_input": {"file_path": file, "content": after},
        "tool_response": {"type": kind, "filePath": file, "content": after, "structuredPatch": [],
                          "originalFile": before},
    });
    sandbox.hook("save", payload.to_string()).assert_unnoticed();
}

fn map(sandbox: &Sandbox) -> Vec<String> {
    let database = sandbox.database();
    let sql = "SELECT session_id || ' ' || file_path || ' ' || change_type || ' ' || kind || ' ' || signature
                      || ' ' || line_start || '-' || line_end || coalesce(' was ' || renamed_from, '')
               FROM function_map WHERE project <> '' AND length(body_hash) = 16 ORDER BY session_id, file_path, line_start";
    let mut statement = database.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn every_real_edit_is_in_the_map_with_its_observation() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    for name in ["Edit", "Write-create", "Write-update"] {
        let payload = sent(&sandbox, "s", name);
        sandbox.hook("save", payload.to_string()).assert_unnoticed();
    }
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    assert_eq!(
        map(&sandbox),
        ["s app.py modified function def greet(n) 1-2", "s test_app.py new function def test_greet() 3-4"]
    );
    let named: String =
        sandbox.get("SELECT group_concat(functions_changed, ' ') FROM observations WHERE deleted_at IS NULL");
    assert!(named.contains("greet") && named.contains("test_greet"), "{named}");
}

#[test]
fn edits_accumulate_per_session() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let first = "fn kept() { a(); }\nfn gone() { b(); }\nfn old_name(x: u8) { c(x); }\n";
    let second = "fn kept() { z(); }\nfn new_name(x: u8) { c(x); }\nfn added() {}\n";
    let third = "fn kept() { z(); }\nfn new_name(x: u8) { c(x); }\nfn added() { more(); }\n";
    write(&sandbox, "one", "1", "src/lib.rs", Some(first), second);
    sandbox.end_turn("one");
    write(&sandbox, "one", "2", "src/lib.rs", Some(second), third);
    sandbox.end_turn("one");
    write(&sandbox, "two", "3", "src/lib.rs", Some(third), "fn kept() { z(); }\n");
    sandbox.end_turn("two");
    sandbox.wait_until_settled();
    assert_eq!(
        map(&sandbox),
        [
            "one src/lib.rs modified function fn kept() 1-1",
            "one src/lib.rs deleted function fn gone() 2-2",
            "one src/lib.rs modified function fn new_name(x: u8) 2-2 was old_name",
            "one src/lib.rs new function fn added() 3-3",
            "two src/lib.rs deleted function fn new_name(x: u8) 2-2",
            "two src/lib.rs deleted function fn added() 3-3",
        ]
    );
}

#[test]
fn files_that_cannot_be_parsed_do_not_affect_others() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    write(&sandbox, "s", "1", "notes.md", None, "# fn not_code() {}\n");
    write(&sandbox, "s", "2", "broken.rs", None, "fn broken( {{{ )\n");
    let large = format!("fn large() {{}}\n{}", "// generated\n".repeat(90_000));
    write(&sandbox, "s", "3", "large.rs", None, &large);
    write(&sandbox, "s", "4", "fine.go", None, "package a\n\nfunc Fine() {}\n");
    let notebook = |code: &str| {
        json!({"cells": [{"cell_type": "code", "source": code}], "metadata": {}, "nbformat": 4}).to_string()
    };
    let path = sandbox.path().join("a.ipynb");
    let edit = json!({
        "session_id": "s", "cwd": sandbox.path(), "hook_event_name": "PostToolUse", "tool_name": "NotebookEdit",
        "tool_use_id": "5", "tool_input": {"notebook_path": path, "new_source": "def cell():\n    return 2"},
        "tool_response": {"notebook_path": path, "original_file": notebook("def cell():\n    return 1"),
                          "updated_file": notebook("def cell():\n    return 2")},
    });
    sandbox.hook("save", edit.to_string()).assert_unnoticed();
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    assert_eq!(
        map(&sandbox),
        ["s a.ipynb modified function def cell() 1-2", "s fine.go new function func Fine() 3-3"]
    );
    assert_eq!(sandbox.rows("error"), 0);
}

#[test]
fn signatures_contain_no_private_text_and_no_secrets() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let code = format!(
        "def connect(token=\"{secret}\"):\n    pass\n\ndef other(a=\"<private>mine</private>\"):\n    pass\n"
    );
    write(&sandbox, "s", "1", "a.py", None, &code);
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    let signatures: String = sandbox.get("SELECT group_concat(signature, '|') FROM function_map");
    assert!(signatures.contains("def connect(token="), "{signatures}");
    assert!(!signatures.contains(secret) && !signatures.contains("mine"), "{signatures}");
}

#[test]
fn the_map_is_stored_together_with_the_models_answer() {
    let sandbox = Sandbox::new();
    let (release, released) = mpsc::channel::<()>();
    let (asked, was_asked) = mpsc::channel::<()>();
    let doors = Mutex::new((asked, released));
    let endpoint = Endpoint::start(move |request| {
        if request.body["tools"][0]["name"] == "store_summary" {
            return Reply::tool_call(&json!({"summary": "Made f."}));
        }
        let doors = doors.lock().unwrap();
        doors.0.send(()).unwrap();
        doors.1.recv().unwrap();
        let made = json!({"type": "feature", "title": "Add f", "summary": "It was missing.",
                          "functions_changed": ["f()", "guessed"]});
        Reply::tool_call(&json!({"observations": [made]}))
    });
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", "anthropic").env("ANTHROPIC_API_KEY", "sk-ant-x");
    command.env("ANTHROPIC_BASE_URL", endpoint.url());
    let mut worker = Worker::spawn(command, &sandbox);
    worker.wait_until_it_answers();
    write(&sandbox, "s", "1", "a.py", None, "def f():\n    pass\n");
    sandbox.end_turn("s");
    was_asked.recv().unwrap();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM function_map"), 0);
    release.send(()).unwrap();
    sandbox.wait_until_settled();
    assert_eq!(map(&sandbox), ["s a.py new function def f() 1-2"]);
    let named: String = sandbox.get("SELECT functions_changed FROM observations");
    assert_eq!(named, r#"["f","guessed"]"#, "what was compared comes before what was guessed");
}
