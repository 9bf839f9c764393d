//! The real Claude Code against a scripted API on this machine: hooks fire once, the context reaches the model, tools and commands
//! are there, and what only a terminal shows. Runs with every client in `target/claude-code`, where `.ci/run` puts them, or with
//! the one that `CLAUDE_MEM_TEST_CLIENT` names.

mod desk;

use serde_json::Value;

use desk::{Desk, PROMPT, Terminal, clients, wait_for};

/// The names of our tools in a request.
fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str());
    tools.filter(|name| name.contains("mem")).collect()
}

fn plugin() -> String {
    format!("{}/packaging/claude-code", env!("CARGO_MANIFEST_DIR"))
}

const CONTEXT: &str = "# Memory of harborline";
const EVENTS: &str = "SELECT group_concat(kind || ' ' || coalesce(tool_name, '') || ' ' || failed, ', ')
                      FROM (SELECT * FROM pending_queue WHERE kind <> 'flush' ORDER BY id)";

#[test]
fn install_connects_the_real_client() {
    for client in clients() {
        let desk = Desk::new(&client);
        let report = desk.install();
        assert!(report.contains("registered the MCP server claude-mem"), "{report}");
        let first = desk.session(&[], PROMPT);
        assert!(
            tools(&first).contains(&"mcp__claude-mem__search"),
            "listed in the first request: {:?}",
            tools(&first)
        );
        assert_eq!(
            desk.get::<String>(EVENTS),
            "observation Write 0, observation Bash 1, summarize  0",
            "each event once"
        );
        assert_eq!(desk.get::<String>("SELECT status FROM sessions"), "completed");

        let second = desk.session(&[], "/mem greeting").to_string();
        assert!(second.contains("what earlier sessions recorded about: greeting"), "{second}");
        assert_eq!(second.matches(CONTEXT).count(), 1, "{second}");
        assert!(second.contains("SessionStart hook additional context: # Memory of harborline"), "{second}");

        let continued = desk.session(&["--continue"], "Thanks").to_string();
        assert_eq!(
            continued.matches(CONTEXT).count(),
            1,
            "a continued session gets no second block: {continued}"
        );

        assert!(desk.install().contains("kept the MCP server claude-mem"), "repeating changes nothing");
        let removed = desk.home.mem(&["uninstall"]);
        assert!(removed.contains("removed the MCP server claude-mem"), "{removed}");
        let left = std::fs::read_to_string(desk.home.path("claude/.claude.json")).unwrap();
        assert!(!left.contains("claude-mem"), "{left}");
        assert!(!desk.home.path("claude/skills").exists());
    }
}

#[test]
fn a_prompt_brings_a_memory_into_the_request_of_the_real_client() {
    for client in clients() {
        let desk = Desk::new(&client);
        desk.install();
        desk.session(&[], PROMPT);
        let note: String = desk.get("SELECT title FROM observations");
        // Otherwise the start of the session has the only memory, and no memory comes twice.
        desk.mem(&["config", "set", "context.sources", "[]"]);
        let asked = desk.session(&[], "Why is the greeting of greet.py polite now?").to_string();
        assert!(!asked.contains(CONTEXT), "{asked}");
        assert!(asked.contains("UserPromptSubmit hook additional context"), "{asked}");
        assert_eq!(asked.matches(&note).count(), 1, "{note}: {asked}");
        let other = desk.session(&[], "Which harbour has the deepest water?").to_string();
        assert!(!other.contains(&note), "{other}");
    }
}

#[test]
fn plugin_and_install_together_double_nothing_in_the_real_client() {
    for client in clients() {
        let desk = Desk::new(&client);
        desk.install();
        desk.session(&[], PROMPT);
        let both = desk.session(&["--plugin-dir", &plugin()], PROMPT);
        assert_eq!(
            tools(&both).iter().filter(|name| name.ends_with("__search")).count(),
            1,
            "{:?}",
            tools(&both)
        );
        assert_eq!(both.to_string().matches(CONTEXT).count(), 1, "{both}");
        assert_eq!(desk.get::<i64>("SELECT count(*) FROM user_prompts"), 2);
        let events = "SELECT count(*) FROM pending_queue WHERE kind <> 'flush'";
        assert_eq!(desk.get::<i64>(events), 6, "each event of both sessions once");
    }
}

#[test]
fn the_plugin_alone_connects_the_real_client() {
    for client in clients() {
        let desk = Desk::new(&client);
        // Only the programs and the service.
        desk.mem(&["install", "--no-hooks"]);
        std::os::unix::fs::symlink(
            env!("CARGO_BIN_EXE_claude-mem-hook"),
            desk.home.path(".local/bin/claude-mem-hook"),
        )
        .unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_claude-mem"), desk.home.path(".local/bin/claude-mem"))
            .unwrap();
        let request = desk.session(&["--plugin-dir", &plugin()], "/mem greeting");
        assert!(request.to_string().contains("what earlier sessions recorded about: greeting"), "{request}");
        assert!(
            tools(&request).iter().any(|name| name.ends_with("_recall__search")),
            "{:?}",
            tools(&request)
        );
        let status = desk.session(&["--plugin-dir", &plugin()], "/mem:status").to_string();
        assert!(status.contains("Status report of claude-mem") && status.contains("provider"), "{status}");
        desk.session(&["--plugin-dir", &plugin()], "Edit the greeting");
        let failed = "SELECT count(*) FROM pending_queue WHERE tool_name = 'Edit' AND failed";
        assert_eq!(desk.get::<i64>(failed), i64::from(desk.has_mods()), "a call that fires no hook");
    }
}

#[test]
fn the_terminal_shows_the_notice_once_and_records_an_interrupted_turn() {
    for client in clients() {
        let desk = Desk::new(&client);
        desk.install();
        {
            let Some(terminal) = Terminal::start(&desk, &[]) else { return };
            terminal.wait_for("the notice", |screen| screen.contains("claude-mem: installed"));
        }
        let Some(terminal) = Terminal::start(&desk, &["--plugin-dir", &plugin()]) else { return };
        terminal.type_line("Greet the captain");
        terminal.wait_for("the answer", |screen| screen.contains("polite now"));
        assert!(!terminal.screen().contains("claude-mem: installed"), "{}", terminal.screen());
        if !desk.has_mods() {
            continue;
        }
        terminal.type_line("Wait for the tide");
        wait_for("the request", || {
            desk.conversations().iter().any(|body| body.to_string().contains("the tide"))
        });
        let aborted =
            "SELECT count(*) FROM pending_queue WHERE kind = 'summarize' AND payload LIKE '%TurnAborted%'";
        terminal.wait_for("the interrupted turn", |screen| {
            // A key that comes too early is lost.
            if screen.contains("esc to interrupt") {
                terminal.tmux(&["send-keys", "-t", "t", "Escape"]);
            }
            desk.get::<i64>(aborted) > 0
        });
    }
}

#[test]
fn a_session_writes_its_own_note_if_the_user_chose_that() {
    for client in clients() {
        let mut desk = Desk::new(&client);
        desk.provider = "session";
        if !desk.has_mods() {
            continue;
        }
        desk.install();
        let Some(terminal) = Terminal::start(
            &desk,
            &["--plugin-dir", &plugin(), "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write"],
        ) else {
            return;
        };
        terminal.type_line(PROMPT);
        let made = "SELECT count(*) FROM observations WHERE provider = 'session' AND title LIKE 'Greet by%'";
        terminal.wait_for("the note of the session's model", |_| desk.get::<i64>(made) == 1);
        let spent = "SELECT count(*) FROM event_log WHERE event_type = 'llm_call' AND tokens_in = 1234";
        assert_eq!(desk.get::<i64>(spent), 1, "in the ledger as the client counts it");
        let report = desk.mem(&["doctor"]);
        assert!(report.contains("session: a Claude Code session last asked for work just now"), "{report}");
    }
}
