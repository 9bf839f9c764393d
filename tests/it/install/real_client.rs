//! The real Claude Code against a scripted API on this machine: hooks fire once, the context reaches the model, the plugin's tools
//! are there. Runs only if the client is named: `CLAUDE_MEM_TEST_CLIENT=/path/of/claude make test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::endpoint::{Asked, Endpoint, Reply};
use crate::harness::sandbox::run;
use crate::install::command::Installed;

const PROMPT: &str = "Make the greeting polite";

/// The answer as the API streams it.
fn streamed(block: &Value) -> Reply {
    let (start, delta, stop) = match block["type"].as_str() {
        Some("tool_use") => (
            json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            "tool_use",
        ),
        _ => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": block["text"]}),
            "end_turn",
        ),
    };
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
                         "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1}});
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    let lines =
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    Reply::text(200, "text/event-stream", &lines.collect::<String>())
}

/// A turn of three steps: a file is written, a command fails, and the turn is closed.
fn answer(asked: &Asked, file: &Path) -> Reply {
    let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
    let blocks =
        messages.iter().flat_map(|message| message["content"].as_array().cloned().unwrap_or_default());
    let steps = blocks.filter(|block| block["type"] == "tool_use").count();
    if asked.body["tools"].as_array().is_none_or(Vec::is_empty) || steps > 1 {
        return streamed(&json!({"type": "text", "text": "The greeting is polite now."}));
    }
    let id = format!("toolu_{}_{steps}", asked.body.to_string().len());
    let (name, input) = match steps {
        0 => (
            "Write",
            json!({"file_path": file, "content": "def greet(name):\n    return 'Good day ' + name\n"}),
        ),
        _ => (
            "Bash",
            json!({"command": "echo 'ImportError: no module flask' >&2; exit 3", "description": "run it"}),
        ),
    };
    streamed(&json!({"type": "tool_use", "id": id, "name": name, "input": input}))
}

/// One non-interactive session of the client.
fn session(home: &Installed, client: &Path, endpoint: &Endpoint, arguments: &[&str]) {
    let project = home.path("harborline");
    let mut command: Command =
        home.command(client, &["-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write"]);
    command.args(arguments).arg("--").arg(PROMPT).current_dir(&project);
    command
        .env("ANTHROPIC_BASE_URL", endpoint.url())
        .env("ANTHROPIC_API_KEY", "sk-ant-not-a-key")
        .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1");
    let ran = run(command, b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("polite now"), "{ran:?}");
}

/// The client's requests, one for each conversation.
fn conversations(endpoint: &Endpoint) -> Vec<Value> {
    let asked = endpoint.asked().into_iter().map(|asked| asked.body);
    asked.filter(|body| body["tools"].as_array().is_some_and(|tools| !tools.is_empty())).collect()
}

#[test]
fn the_real_client_runs_hooks_once_and_finds_the_tools() {
    let Some(client) = std::env::var_os("CLAUDE_MEM_TEST_CLIENT").map(PathBuf::from) else {
        eprintln!("SKIPPED: CLAUDE_MEM_TEST_CLIENT names no Claude Code");
        return;
    };
    let home = Installed::new();
    std::fs::create_dir(home.path("harborline")).unwrap();
    let file = home.path("harborline").join("greet.py");
    let endpoint = Endpoint::start(move |asked| answer(asked, &file));
    // `install` runs it to get the version.
    std::fs::create_dir_all(home.path(".local/bin")).unwrap();
    std::os::unix::fs::symlink(&client, home.path(".local/bin/claude")).unwrap();
    let mut install = home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install"]);
    install.env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
    let installed = run(install, b"");
    assert_eq!(installed.code, Some(0), "{installed:?}");
    session(&home, &client, &endpoint, &[]);
    home.sandbox.wait_until_settled();
    let recorded = "SELECT group_concat(kind || ' ' || coalesce(tool_name, '') || ' ' || failed, ', ')
                    FROM (SELECT * FROM pending_queue WHERE kind <> 'flush' ORDER BY id)";
    assert_eq!(
        home.sandbox.get::<String>(recorded),
        "observation Write 0, observation Bash 1, summarize  0",
        "each event once"
    );
    assert_eq!(home.sandbox.get::<String>("SELECT status FROM sessions"), "completed");

    // The same hooks twice, by the settings and by the plugin. The client does not overwrite a file that it has not read.
    std::fs::remove_file(home.path("harborline/greet.py")).unwrap();
    let before = conversations(&endpoint).len();
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/claude-code");
    session(&home, &client, &endpoint, &["--plugin-dir", plugin.to_str().unwrap()]);
    home.sandbox.wait_until_settled();
    let second = conversations(&endpoint).split_off(before);
    let text = second.last().unwrap().to_string();
    assert_eq!(text.matches("# Memory of harborline").count(), 1, "the context appears once");
    assert!(text.contains("SessionStart hook additional context: # Memory of harborline"), "{text}");
    let tools: Vec<&str> = second.last().unwrap()["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(tools.iter().any(|name| name.ends_with("_recall__search")), "{tools:?}");
    assert_eq!(home.sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 2);
    let events = "SELECT count(*) FROM pending_queue WHERE kind <> 'flush'";
    assert_eq!(home.sandbox.get::<i64>(events), 6, "each event of both sessions once");
}
