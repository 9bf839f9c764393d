//! Codex, Gemini CLI, OpenCode and Copilot CLI against a scripted endpoint on this machine: a session is recorded under the agent's name, and
//! the next one gets its context. Runs with the agents in `target/agents`:
//! `npm install --prefix target/agents @openai/codex @google/gemini-cli opencode-ai @github/copilot`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::endpoint::{Asked, Endpoint, Reply};
use crate::harness::sandbox::run;
use crate::install::command::Installed;

const PROMPT: &str = "Make the greeting polite";
const CLOSING: &str = "The root cause was that greet.py never used the name, because the parser dropped it.";

/// One call of the shell, then the closing message, in the form of the API that was asked.
fn answer(asked: &Asked) -> Reply {
    let body = asked.body.to_string();
    if asked.path.contains("/responses") {
        openai_responses(&asked.body, !body.contains("call_output"))
    } else if asked.path.contains("enerateContent") {
        gemini(body.contains("functionDeclarations") && !body.contains("functionResponse"))
    } else if asked.path.contains("/chat/completions") {
        chat(body.contains("\"tools\"") && !body.contains("\"role\":\"tool\""))
    } else {
        Reply::json(200, &json!({"data": [], "models": []}))
    }
}

fn events(events: &[Value]) -> Reply {
    let lines = events.iter().map(|event| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    });
    Reply::text(200, "text/event-stream", &lines.collect::<String>())
}

fn openai_responses(body: &Value, is_first: bool) -> Reply {
    let names: Vec<&str> =
        body["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let (name, input) = match names.contains(&"exec_command") {
        true => ("exec_command", json!({"cmd": "echo hello"})),
        false => ("shell_command", json!({"command": "echo hello"})),
    };
    let item = match is_first {
        true => {
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": input.to_string()})
        }
        false => {
            json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": CLOSING}]})
        }
    };
    let usage = json!({"input_tokens": 5, "input_tokens_details": null, "output_tokens": 5, "output_tokens_details": null, "total_tokens": 10});
    events(&[
        json!({"type": "response.created", "response": {"id": "r1"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "r1", "usage": usage}}),
    ])
}

fn gemini(is_first: bool) -> Reply {
    let part = match is_first {
        true => {
            json!({"functionCall": {"name": "run_shell_command", "args": {"command": "echo hello", "description": "say"}}})
        }
        false => json!({"text": CLOSING}),
    };
    let content = json!({"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0});
    events(&[json!({"candidates": [content], "modelVersion": "g",
                    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 5, "totalTokenCount": 10}})])
}

fn chat(is_first: bool) -> Reply {
    let input = json!({"command": "echo hello", "description": "say"}).to_string();
    let (delta, reason) = match is_first {
        true => (
            json!({"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                   "function": {"name": "bash", "arguments": input}}]}),
            "tool_calls",
        ),
        false => (json!({"role": "assistant", "content": CLOSING}), "stop"),
    };
    let chunk = |delta: Value, reason: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut end = chunk(json!({}), reason.into());
    end["usage"] = json!({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10});
    let Reply::Http { status, headers, body } = events(&[chunk(delta, Value::Null), end]) else {
        unreachable!()
    };
    Reply::Http { status, headers, body: body + "data: [DONE]\n\n" }
}

/// An agent, its settings for the scripted endpoint, and the arguments of a session without a terminal.
struct Case {
    name: &'static str,
    settings: &'static str,
    text: fn(&str) -> String,
    arguments: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case {
        name: "codex",
        settings: ".codex/config.toml",
        text: |url| {
            format!(
                "model = \"scripted\"\nmodel_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\n\
                 base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"SCRIPTED_KEY\"\n"
            )
        },
        arguments: &[
            "exec",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
        ],
    },
    Case {
        name: "gemini",
        settings: ".gemini/settings.json",
        text: |_| "{\n  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}\n}\n".into(),
        arguments: &["-m", "gemini-2.5-flash", "--yolo", "-p"],
    },
    Case {
        name: "opencode",
        settings: "xdg-config/opencode/opencode.json",
        text: |url| {
            let model =
                json!({"name": "m", "tool_call": true, "limit": {"context": 100_000, "output": 1000}});
            let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "s", "models": {"m": model},
                                  "options": {"baseURL": format!("{url}/v1"), "apiKey": "x"}});
            format!(
                "{:#}\n",
                json!({"$schema": "https://opencode.ai/config.json", "model": "scripted/m", "small_model": "scripted/m", "autoupdate": false,
                                     "share": "disabled", "permission": {"bash": "allow"}, "provider": {"scripted": provider}})
            )
        },
        arguments: &["run"],
    },
    Case {
        name: "copilot",
        settings: ".copilot/mcp-config.json",
        text: |_| {
            "{\n  \"mcpServers\": {\n    \"other\": {\"type\": \"local\", \"command\": \"true\", \"args\": [], \"tools\": []}\n  }\n}\n".into()
        },
        arguments: &["--allow-all-tools", "-p"],
    },
];

fn program(name: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/agents/node_modules/.bin").join(name);
    if !program.exists() {
        eprintln!("SKIPPED: {name} is not in target/agents");
        return None;
    }
    Some(program)
}

#[test]
fn real_agents_are_recorded_and_get_their_context() {
    for case in CASES {
        let Some(program) = program(case.name) else { continue };
        let home = Installed::new();
        let endpoint = Endpoint::start(answer);
        let settings = home.path(case.settings);
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        let mine = (case.text)(endpoint.url());
        std::fs::write(&settings, &mine).unwrap();
        std::fs::create_dir(home.path("harborline")).unwrap();
        let mut install = home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install", "--no-hooks"]);
        install.env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
        assert_eq!(run(install, b"").code, Some(0));
        home.mem(&["install", "--agent", case.name]);
        let session = || {
            let before = endpoint.asked().len();
            let mut command = home.command(&program, case.arguments);
            command
                .arg(PROMPT)
                .current_dir(home.path("harborline"))
                .env("SCRIPTED_KEY", "x")
                .env("GEMINI_API_KEY", "x")
                .env("GOOGLE_GEMINI_BASE_URL", endpoint.url())
                .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
                .env("COPILOT_OFFLINE", "true")
                .env("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", endpoint.url()))
                .env("COPILOT_MODEL", "m")
                .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
            let ran = run(command, b"");
            assert_eq!(ran.code, Some(0), "{}: {ran:?}", case.name);
            home.sandbox.wait_until_settled();
            endpoint.asked().split_off(before).iter().map(|asked| asked.body.to_string()).collect::<String>()
        };
        session();
        let get = |sql: &str| home.sandbox.get::<String>(sql);
        assert_eq!(get("SELECT agent FROM sessions"), case.name);
        assert_eq!(get("SELECT project FROM sessions"), "harborline");
        assert!(
            get("SELECT prompt FROM user_prompts").contains(PROMPT),
            "{}",
            get("SELECT prompt FROM user_prompts")
        );
        let recorded = "SELECT group_concat(kind || ' ' || coalesce(tool_name, ''), ', ')
                        FROM (SELECT * FROM pending_queue WHERE kind <> 'flush' ORDER BY id)";
        assert_eq!(get(recorded), "observation Bash, summarize ", "{}", case.name);
        let note = get("SELECT title || ' ' || coalesce(summary, '') FROM observations");
        assert!(note.contains("the parser dropped it"), "{}: {note}", case.name);
        let second = session();
        assert!(second.contains("claude-mem"), "{}: its tools", case.name);
        assert!(second.contains("# Memory of harborline"), "{}: {second}", case.name);

        home.mem(&["uninstall"]);
        assert_eq!(std::fs::read_to_string(&settings).unwrap(), mine, "{}", case.name);
        for left in [".codex/hooks.json", "xdg-config/opencode/plugin", ".copilot/hooks"] {
            assert!(!home.path(left).exists(), "{left}");
        }
    }
}
