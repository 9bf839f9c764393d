//! The real Claude Code against a scripted API on this machine: hooks fire once, the context reaches the model, tools and commands
//! are there, and what only a terminal shows. Runs with every client in `target/claude-code`, where `.ci/run` puts them, or with
//! the one that `CLAUDE_MEM_TEST_CLIENT` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use claude_mem::hook_events::ClientVersion;
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

/// A turn by the prompt's first word: a file is written and a command fails, an edit fails before it runs, nothing is answered, or
/// the turn is closed at once.
fn answer(asked: &Asked, file: &Path) -> Reply {
    let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
    let blocks: Vec<Value> = messages
        .iter()
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .collect();
    let has_tools = asked.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let words = |text: &str| {
        has_tools && blocks.iter().any(|block| block["text"].as_str().is_some_and(|it| it.starts_with(text)))
    };
    let steps = blocks.iter().filter(|block| block["type"] == "tool_use").count();
    let call = |name: &str, input: Value| {
        let id = format!("toolu_{}_{steps}", asked.body.to_string().len());
        streamed(&json!({"type": "tool_use", "id": id, "name": name, "input": input}))
    };
    match steps {
        0 if words("Wait for") => Reply::Hang,
        0 if words("Edit the") => call(
            "Edit",
            json!({"file_path": file.with_file_name("none.py"), "old_string": "a", "new_string": "b"}),
        ),
        0 if words(PROMPT) => call(
            "Write",
            json!({"file_path": file, "content": "def greet(name):\n    return 'Good day ' + name\n"}),
        ),
        1 if words(PROMPT) => call(
            "Bash",
            json!({"command": "echo 'ImportError: no module flask' >&2; exit 3", "description": "run it"}),
        ),
        _ => streamed(&json!({"type": "text", "text": "The greeting is polite now."})),
    }
}

/// The clients to test with, by their real paths; none is a skipped test.
fn clients() -> Vec<PathBuf> {
    let named = std::env::var_os("CLAUDE_MEM_TEST_CLIENT").map(PathBuf::from);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/claude-code");
    let fetched = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fetched = fetched.map(|version| version.path().join("node_modules/.bin/claude"));
    let found: Vec<PathBuf> =
        named.into_iter().chain(fetched).filter_map(|client| client.canonicalize().ok()).collect();
    if found.is_empty() {
        eprintln!("SKIPPED: no Claude Code in target/claude-code, and CLAUDE_MEM_TEST_CLIENT names none");
    }
    found
}

/// A home with a client, a scripted API, and a project.
struct Desk {
    home: Installed,
    client: PathBuf,
    endpoint: Endpoint,
}

const KEY: &str = "sk-ant-not-a-key";

impl Desk {
    fn new(client: &Path) -> Self {
        let home = Installed::new();
        let project = home.path("harborline");
        std::fs::create_dir(&project).unwrap();
        let file = project.join("greet.py");
        let endpoint = Endpoint::start(move |asked| answer(asked, &file));
        // `install` runs it.
        std::fs::create_dir_all(home.path(".local/bin")).unwrap();
        std::os::unix::fs::symlink(client, home.path(".local/bin/claude")).unwrap();
        // As after the first start in a terminal.
        let settings = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": {"approved": [KEY], "rejected": []},
            "projects": {(project.to_str().unwrap()): {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
        });
        std::fs::write(home.path("claude/.claude.json"), settings.to_string()).unwrap();
        Self { home, client: client.to_owned(), endpoint }
    }

    fn install(&self) -> String {
        let mut install = self.home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install"]);
        install.env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
        let installed = run(install, b"");
        assert_eq!(installed.code, Some(0), "{installed:?}");
        installed.stdout
    }

    fn version(&self) -> ClientVersion {
        let ran = run(self.home.command(&self.client, &["--version"]), b"");
        ClientVersion::parse(&ran.stdout).unwrap()
    }

    fn has_mods(&self) -> bool {
        self.version() >= ClientVersion(2, 1, 287)
    }

    /// A command in the project with the scripted API.
    fn command(&self, program: impl Into<PathBuf>, arguments: &[&str]) -> Command {
        let mut command = self.home.command(program, arguments);
        command
            .current_dir(self.home.path("harborline"))
            .env("ANTHROPIC_BASE_URL", self.endpoint.url())
            .env("ANTHROPIC_API_KEY", KEY)
            .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local")
            .env("CLAUDE_CODE_MAX_RETRIES", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        command
    }

    /// One non-interactive session; returns its first request.
    fn session(&self, arguments: &[&str], prompt: &str) -> Value {
        // The client does not overwrite a file that it has not read.
        let _ = std::fs::remove_file(self.home.path("harborline/greet.py"));
        let before = self.conversations().len();
        let mut command = self.command(
            &self.client,
            &["-p", "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write,Edit"],
        );
        command.args(arguments).arg("--").arg(prompt);
        let ran = run(command, b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("polite now"), "{ran:?}");
        assert!(!ran.stdout.contains("claude-mem:"), "nobody reads notices there: {ran:?}");
        self.home.sandbox.wait_until_settled();
        self.conversations().swap_remove(before)
    }

    /// The client's requests with tools.
    fn conversations(&self) -> Vec<Value> {
        let asked = self.endpoint.asked().into_iter().map(|asked| asked.body);
        asked.filter(|body| body["tools"].as_array().is_some_and(|tools| !tools.is_empty())).collect()
    }

    fn get<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.home.sandbox.get(sql)
    }
}

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
        let mut install = desk.home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install", "--no-hooks"]);
        install.env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
        assert_eq!(run(install, b"").code, Some(0));
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
        desk.session(&["--plugin-dir", &plugin()], "Edit the greeting");
        let failed = "SELECT count(*) FROM pending_queue WHERE tool_name = 'Edit' AND failed";
        assert_eq!(desk.get::<i64>(failed), i64::from(desk.has_mods()), "a call that fires no hook");
    }
}

/// Longest wait for something that the client does.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client in a terminal.
struct Terminal<'a> {
    desk: &'a Desk,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Starts it; none if there is no tmux.
    fn start(desk: &'a Desk, arguments: &[&str]) -> Option<Self> {
        // A server that was told to end may still hold its socket.
        let socket =
            (0..).map(|at| desk.home.path(&format!("tmux{at}"))).find(|socket| !socket.exists()).unwrap();
        let terminal = Self { desk, socket: socket.to_str().unwrap().to_owned() };
        let client = desk.client.to_str().unwrap();
        let start =
            ["-S", &terminal.socket, "new-session", "-d", "-s", "t", "-x", "170", "-y", "45", "--", client];
        let mut command = desk.command("tmux", &start);
        command.args(arguments).env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        match command.output() {
            Ok(ran) => assert!(ran.status.success(), "{ran:?}"),
            Err(_) => {
                eprintln!("SKIPPED: there is no tmux");
                return None;
            }
        }
        terminal.wait_for("the prompt", |screen| screen.contains('❯'));
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.desk.command("tmux", &["-S", &self.socket]);
        command.args(arguments);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "t"])
    }

    fn type_line(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "t", "-l", text]);
        self.wait_for("the typed line", |screen| screen.contains(text));
        self.tmux(&["send-keys", "-t", "t", "Enter"]);
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.screen()) {
            assert!(Instant::now() < deadline, "waited in vain for {what}:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        // Keeps the name taken.
        let _ = std::fs::write(&self.socket, "");
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
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
