//! Text marked private is in no file of the data directory: neither in the tables nor in the WAL nor in the spool.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::sandbox::{Sandbox, run};
use crate::harness::worker::Worker;

/// Every private text below contains this mark.
const MARK: &[u8] = b"zq7secret";

fn payloads(cwd: &Path) -> Vec<(&'static str, String)> {
    let cwd = cwd.display();
    let tool = |number: u32, own: &str| {
        (
            "save",
            format!(
                r#"{{"session_id":"s","cwd":"{cwd}","tool_name":"Bash","tool_use_id":"t{number}",{own}}}"#
            ),
        )
    };
    vec![
        ("new", format!(r#"{{"session_id":"s","cwd":"{cwd}","prompt":"a <private>zq7secret</private> b"}}"#)),
        ("new", format!(r#"{{"session_id":"s","cwd":"{cwd}","prompt":"unclosed <private>zq7secret"}}"#)),
        (
            "summary",
            format!(
                r#"{{"session_id":"s","cwd":"{cwd}","last_assistant_message":"<PRIVATE>zq7secret</PRIVATE>"}}"#
            ),
        ),
        (
            "compact",
            format!(r#"{{"session_id":"s","cwd":"{cwd}","custom_instructions":"<private>zq7secret"}}"#),
        ),
        tool(1, r#""tool_input":{"command":"echo <private>zq7secret</private>"}"#),
        tool(2, r#""tool_response":{"stdout":"<private>zq7secret</private>"}"#),
        tool(3, r#""tool_response":"<private>x<private>zq7secret</private>zq7secret</private>""#),
        tool(4, r#""tool_response":{"lines":["<private>","zq7secret","</private>"]}"#),
        tool(5, r#""tool_input":{"a":"<private>zq7secret","zq7secret":1},"tool_response":"zq7secret""#),
        tool(6, r#""tool_response":"\u003cprivate\u003ezq7secret\u003c/private\u003e""#),
        tool(7, r#""tool_response":"<\u0070rivate>zq7secret""#),
        tool(8, r#""tool_response":"<private\n>zq7secret</private\t>""#),
        tool(9, r#""error":"< Private class='x'>zq7secret"#),
        ("save", "not json <private>zq7secret</private>".to_owned()),
        ("save", r#"{"session_id":"s","tool_response":{"stdout":"<private>zq7secret"#.to_owned()),
    ]
}

fn holds_mark(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

fn assert_nowhere(folder: &Path) {
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_nowhere(&path);
            continue;
        }
        seen += 1;
        let bytes = fs::read(&path).unwrap();
        assert!(!holds_mark(&bytes), "found in {path:?}");
    }
    assert!(seen > 0 || folder.ends_with("spool"), "nothing was written to {folder:?}");
}

#[test]
fn nothing_private_reaches_the_database_or_its_log() {
    let sandbox = Sandbox::new();
    let payloads = payloads(sandbox.path());
    for (verb, payload) in &payloads {
        sandbox.hook(verb, payload).assert_unnoticed();
    }
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), payloads.len() as i64);
    assert_nowhere(sandbox.data());
}

#[test]
fn nothing_private_reaches_the_spool() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.data()).unwrap();
    fs::write(sandbox.data().join("claude-mem.db"), "no database ".repeat(100)).unwrap();
    let payloads = payloads(sandbox.path());
    for (verb, payload) in &payloads {
        sandbox.hook(verb, payload).assert_unnoticed();
    }
    assert_eq!(sandbox.spooled().len(), payloads.len());
    assert_nowhere(sandbox.data());
}

#[test]
fn a_raw_prompt_stays_hidden_until_its_secret_is_redacted() {
    let sandbox = Sandbox::new();
    // One is long enough for overflow pages.
    for filler in ["", &" Look at all of the regions, one after the other.".repeat(400)] {
        let prompt = format!("Deploy the farewell with ghp_zq7secretzq7secretzq7secretzq7secretAB.{filler}");
        sandbox.prompt("s", &prompt);
    }
    let shown = || {
        let commands: [&[&str]; 4] =
            [&["export"], &["context"], &["search", "farewell", "--json"], &["timeline", "P1"]];
        commands.map(|arguments| {
            let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
            command.args(arguments);
            let ran = run(command, b"");
            assert!(!ran.stdout.contains("zq7secret"), "{arguments:?}: {}", ran.stdout);
            ran.stdout
        })
    };
    assert!(shown()[0].contains("Deploy the farewell with"), "an export redacts what no worker has seen");
    let mut worker = Worker::start(&sandbox);
    sandbox.edit("s", "farewell");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    for (shown, what) in shown().iter().zip(["export", "context", "search", "timeline"]) {
        assert!(shown.contains("farewell"), "{what}: the rest of the prompt is there: {shown}");
    }
    // Readers may delay the checkpoint of the WAL.
    sandbox.wait_until("the WAL is emptied", || {
        worker.post("/api/nudge", &Value::Null);
        !fs::read(sandbox.data().join("claude-mem.db-wal")).is_ok_and(|log| holds_mark(&log))
    });
    worker.stop();
    assert_nowhere(sandbox.data());
}
