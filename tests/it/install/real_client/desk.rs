//! A home with the real client, a scripted API, and a project; and the client in a terminal.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use claude_mem::hook_events::ClientVersion;
use serde_json::{Value, json};

use crate::harness::endpoint::{Asked, Endpoint, Reply};
use crate::harness::sandbox::run;
use crate::install::command::Installed;

pub const PROMPT: &str = "Make the greeting polite";

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
        .flat_map(|message| match &message["content"] {
            // A message without reminders is one text.
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            blocks => blocks.as_array().cloned().unwrap_or_default(),
        })
        .collect();
    let has_tools = asked.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    // A request that the mod passes on for the provider `session`.
    if asked.body["system"].to_string().contains("JSON schema") {
        let observation =
            json!({"type": "bugfix", "title": "Greet by the session's model", "summary": "It asked itself."});
        let note =
            json!({"observations": [observation], "summary": {"request": "Greet", "completed": "Greeted"}});
        return Reply::anthropic(&json!([{"type": "text", "text": note.to_string()}]), "end_turn");
    }
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
pub fn clients() -> Vec<PathBuf> {
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
pub struct Desk {
    pub home: Installed,
    client: PathBuf,
    endpoint: Endpoint,
    /// The provider of the service.
    pub provider: &'static str,
}

const KEY: &str = "sk-ant-not-a-key";

impl Desk {
    pub fn new(client: &Path) -> Self {
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
        Self { home, client: client.to_owned(), endpoint, provider: "local" }
    }

    pub fn install(&self) -> String {
        self.mem(&["install"])
    }

    /// Runs `claude-mem`.
    pub fn mem(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_claude-mem"), arguments);
        command.env("CLAUDE_MEM_COMPRESS_PROVIDER", self.provider);
        let ran = run(command, b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    }

    fn version(&self) -> ClientVersion {
        let ran = run(self.home.command(&self.client, &["--version"]), b"");
        ClientVersion::parse(&ran.stdout).unwrap()
    }

    pub fn has_mods(&self) -> bool {
        self.version() >= ClientVersion(2, 1, 287)
    }

    /// A command in the project with the scripted API.
    pub fn command(&self, program: impl Into<PathBuf>, arguments: &[&str]) -> Command {
        let mut command = self.home.command(program, arguments);
        command
            .current_dir(self.home.path("harborline"))
            .env("ANTHROPIC_BASE_URL", self.endpoint.url())
            .env("ANTHROPIC_API_KEY", KEY)
            .env("CLAUDE_MEM_COMPRESS_PROVIDER", self.provider)
            .env("CLAUDE_CODE_MAX_RETRIES", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        command
    }

    /// One non-interactive session; returns its first request.
    pub fn session(&self, arguments: &[&str], prompt: &str) -> Value {
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
    pub fn conversations(&self) -> Vec<Value> {
        let asked = self.endpoint.asked().into_iter().map(|asked| asked.body);
        asked.filter(|body| body["tools"].as_array().is_some_and(|tools| !tools.is_empty())).collect()
    }

    pub fn get<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.home.sandbox.get(sql)
    }
}

/// Longest wait for something that the client does.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client in a terminal.
pub struct Terminal<'a> {
    desk: &'a Desk,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Starts it; none if there is no tmux.
    pub fn start(desk: &'a Desk, arguments: &[&str]) -> Option<Self> {
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

    pub fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.desk.command("tmux", &["-S", &self.socket]);
        command.args(arguments);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "t"])
    }

    pub fn type_line(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "t", "-l", text]);
        self.wait_for("the typed line", |screen| screen.contains(text));
        self.tmux(&["send-keys", "-t", "t", "Enter"]);
    }

    pub fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) {
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

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
