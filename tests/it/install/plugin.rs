//! The plugin for Claude Code: the hooks that it wires, and how it finds the programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use claude_mem::hook_events::{self, WIRING};
use serde_json::{Value, json};

use crate::harness::mcp_client::Client;
use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/claude-code")
}

fn json_file(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const RUN: &str = "\"${CLAUDE_PLUGIN_ROOT}\"/scripts/run claude-mem-hook";

#[test]
fn the_plugin_wires_what_install_wires() {
    let mut events = serde_json::Map::new();
    for wire in WIRING {
        let hook =
            json!({"type": "command", "command": format!("{RUN} {}", wire.verb), "timeout": wire.timeout});
        let group = match wire.matcher {
            Some(matcher) => json!({"matcher": matcher, "hooks": [hook]}),
            None => json!({"hooks": [hook]}),
        };
        events.entry(wire.event).or_insert_with(|| json!([])).as_array_mut().unwrap().push(group);
    }
    let expected = json!({ "modules": ["./register.js"], "hooks": events });
    let file = plugin().join("hooks/hooks.json");
    assert_eq!(json_file(&file), expected, "write this into {}:\n{expected:#}", file.display());
    assert!(hook_events::is_ours(&format!("{RUN} save")), "install must know the plugin's hooks as ours");
}

#[test]
fn the_plugins_parts_fit_together() {
    let manifest = json_file(&plugin().join(".claude-plugin/plugin.json"));
    assert_eq!((&manifest["name"], &manifest["version"]), (&json!("mem"), &json!(env!("CARGO_PKG_VERSION"))));
    let name = manifest["name"].as_str().unwrap();
    assert!(!name.starts_with("claude"), "the client keeps such names for its maker's plugins");
    let settings = include_str!("../../../config/claude-mem.toml");
    assert!(settings.contains(&format!("mcp__plugin_{name}_*")), "what our own tools do is not recorded");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for place in [root, plugin().as_path()] {
        let market = json_file(&place.join(".claude-plugin/marketplace.json"));
        let entry = &market["plugins"][0];
        assert_eq!(entry["name"], manifest["name"]);
        assert_eq!(entry["description"], manifest["description"]);
        let source = place.join(entry["source"].as_str().unwrap());
        assert_eq!(json_file(&source.join(".claude-plugin/plugin.json")), manifest);
    }
    for text in ["skills/mem/SKILL.md", "skills/search/SKILL.md", "skills/status/SKILL.md"] {
        let text = std::fs::read_to_string(plugin().join(text)).unwrap();
        let (head, _) = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
        assert!(head.lines().any(|line| line.starts_with("description: ")), "{head}");
    }
    let script = std::fs::read_to_string(plugin().join("scripts/run")).unwrap();
    for word in ["curl", "wget", "http", "npm", "cargo install"] {
        assert!(!script.contains(word), "it never downloads");
    }
}

/// A command of the plugin, run like the client does.
fn shell(sandbox: &Sandbox, command: &str) -> Command {
    let mut shell = sandbox.command("/bin/sh");
    shell.args(["-c", command]).env("CLAUDE_PLUGIN_ROOT", plugin()).env("PATH", "/usr/bin:/bin");
    shell
}

/// Puts a link to the real program of that name into a directory.
fn link(directory: &Path, name: &str) {
    std::fs::create_dir_all(directory).unwrap();
    let program = match name {
        "claude-mem" => env!("CARGO_BIN_EXE_claude-mem"),
        _ => env!("CARGO_BIN_EXE_claude-mem-hook"),
    };
    std::os::unix::fs::symlink(program, directory.join(name)).unwrap();
}

fn prompt(session: &str, cwd: &Path) -> String {
    json!({"session_id": session, "cwd": cwd, "hook_event_name": "UserPromptSubmit", "prompt": "Fix the greeting",
           "prompt_id": "p1"})
    .to_string()
}

fn start(session: &str, cwd: &Path) -> String {
    json!({"session_id": session, "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup"})
        .to_string()
}

#[test]
fn the_plugin_finds_the_installed_programs() {
    let recorded = Sandbox::new();
    let elsewhere = recorded.path().join("else where/bin");
    link(&elsewhere, "claude-mem-hook");
    std::fs::create_dir_all(recorded.data()).unwrap();
    let record = json!({"version": "0.1.0", "service": null, "hook": elsewhere.join("claude-mem-hook")});
    std::fs::write(recorded.data().join("install.json"), format!("{record:#}")).unwrap();
    let usual = Sandbox::new();
    link(&usual.path().join(".local/bin"), "claude-mem-hook");
    for sandbox in [&recorded, &usual] {
        let ran = run(shell(sandbox, &format!("{RUN} new")), prompt("s", sandbox.path()).as_bytes());
        ran.assert_unnoticed();
        assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 1);
    }
    let by_path = Sandbox::new();
    link(&by_path.path().join("tools"), "claude-mem-hook");
    let mut command = shell(&by_path, &format!("{RUN} new"));
    command.env("PATH", format!("{}:/usr/bin:/bin", by_path.path().join("tools").display()));
    run(command, prompt("s", by_path.path()).as_bytes()).assert_unnoticed();
    assert_eq!(by_path.get::<i64>("SELECT count(*) FROM user_prompts"), 1);
}

#[test]
fn without_the_programs_one_line_explains_the_installation() {
    let sandbox = Sandbox::new();
    let hook = |verb: &str, payload: &str| -> Ran {
        let ran = run(shell(&sandbox, &format!("{RUN} {verb}")), payload.as_bytes());
        ran.assert_unnoticed();
        ran
    };
    let output: Value = serde_json::from_str(&hook("context", &start("s", sandbox.path())).stdout).unwrap();
    assert!(output["systemMessage"].as_str().unwrap().contains("make install"), "{output}");
    let large = format!("{{\"prompt\": \"{}\"}}", "x".repeat(1 << 20));
    for verb in ["new", "save", "summary", "end"] {
        assert_eq!(hook(verb, &large).stdout, "");
    }
    let server = run(shell(&sandbox, "\"${CLAUDE_PLUGIN_ROOT}\"/scripts/run claude-mem mcp"), b"");
    assert_eq!((server.code, server.stdout.as_str()), (Some(1), ""));
    assert!(server.stderr.contains("make install") && server.stderr.lines().count() == 1, "{server:?}");
    assert!(!sandbox.data().exists());
}

/// Runs the hooks of the settings and of the plugin at once, as the client does.
fn both(sandbox: &Sandbox, verb: &str, payload: &str) -> Vec<String> {
    let installed = format!("{} {verb}", env!("CARGO_BIN_EXE_claude-mem-hook"));
    let mut children: Vec<_> = [installed, format!("{RUN} {verb}")]
        .iter()
        .map(|command| {
            let mut shell = shell(sandbox, command);
            let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
            child
        })
        .collect();
    let outputs = children.drain(..).map(|child| child.wait_with_output().unwrap());
    outputs.map(|output| String::from_utf8(output.stdout).unwrap()).filter(|text| !text.is_empty()).collect()
}

#[test]
fn plugin_and_install_together_do_nothing_twice() {
    for has_worker in [false, true] {
        let sandbox = Sandbox::new();
        link(&sandbox.path().join(".local/bin"), "claude-mem-hook");
        sandbox.seen_prompt("earlier", "Paint the boat");
        let _worker = has_worker.then(|| Worker::start(&sandbox));
        for round in 0..2 {
            let session = format!("s{round}");
            let output = both(&sandbox, "context", &start(&session, sandbox.path()));
            assert_eq!(output.len(), 1, "printed twice, or not at all: {output:?}");
            assert!(output[0].contains("# Memory of "), "{output:?}");
            both(&sandbox, "new", &prompt(&session, sandbox.path()));
            let count = format!("SELECT count(*) FROM user_prompts WHERE session_id = '{session}'");
            assert_eq!(sandbox.get::<i64>(&count), 1);
        }
    }
}

#[test]
fn the_plugins_servers_offer_all_tools() {
    let sandbox = Sandbox::new();
    link(&sandbox.path().join(".local/bin"), "claude-mem");
    let servers = json_file(&plugin().join(".mcp.json"))["mcpServers"].clone();
    let mut names = Vec::new();
    for (_, server) in servers.as_object().unwrap() {
        let program =
            server["command"].as_str().unwrap().replace("${CLAUDE_PLUGIN_ROOT}", plugin().to_str().unwrap());
        let mut command = sandbox.command(program);
        command.args(server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        let mut client = Client::start(command);
        let greeting = client.initialize("2025-11-25", json!({}));
        // The client passes on the instructions of every server.
        assert_eq!(
            greeting["result"]["instructions"].is_string(),
            server["alwaysLoad"] == true,
            "{greeting}"
        );
        let tools = client.ask("tools/list", json!({}))["result"]["tools"].clone();
        let own: Vec<String> =
            tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(server["alwaysLoad"] == true, own == ["search", "timeline", "get"]);
        names.extend(own);
    }
    names.sort();
    assert_eq!(names, ["correct", "forget", "get", "recent", "save", "search", "timeline"]);
}

#[test]
fn other_agents_get_the_tools_and_uninstall_removes_them() {
    let sandbox = Sandbox::new();
    let mem = |arguments: &[&str]| {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.args(arguments);
        let ran = run(command, b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let files = [
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("cursor", ".cursor/mcp.json"),
        ("opencode", "xdg-config/opencode/opencode.json"),
    ];
    std::fs::create_dir(sandbox.path().join(".gemini")).unwrap();
    let mine = "{\n  \"theme\": \"dark\"\n}\n";
    std::fs::write(sandbox.path().join(".gemini/settings.json"), mine).unwrap();
    for (agent, file) in files {
        let file = sandbox.path().join(file);
        assert!(mem(&["install", "--agent", agent, "--dry-run"]).contains("nothing was changed"));
        for _ in 0..2 {
            assert!(mem(&["install", "--agent", agent]).contains(file.to_str().unwrap()));
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(env!("CARGO_BIN_EXE_claude-mem")), "{text}");
        assert_eq!(text.matches("\"mcp\"]").count() + text.matches("\"mcp\"\n").count(), 1, "{text}");
    }
    let hooks = std::fs::read_to_string(sandbox.path().join(".codex/hooks.json")).unwrap();
    assert!(hooks.contains("claude-mem-hook summary --agent codex"), "{hooks}");
    assert!(sandbox.path().join("xdg-config/opencode/plugin/claude-mem.js").exists());
    mem(&["uninstall"]);
    assert!(!sandbox.path().join(".codex/hooks.json").exists());
    assert!(!sandbox.path().join("xdg-config/opencode/plugin").exists());
    for (agent, file) in files {
        let left = std::fs::read_to_string(sandbox.path().join(file)).ok();
        assert_eq!(left.as_deref(), (agent == "gemini").then_some(mine), "{agent}");
    }
}
