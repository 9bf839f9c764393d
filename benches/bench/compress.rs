//! The cost of compression with a model in tokens and calls, at an endpoint that counts them honestly.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use claude_mem::tokens;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::endpoint::{Asked, Endpoint, Reply};
use crate::table::Table;

const TURNS: usize = 50;
const TOOLS: usize = 8;

/// Plays fifty turns of eight real events each, and counts.
pub fn run(binaries: &Path, table: &mut Table) {
    let sizes: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let tokens = Arc::new(AtomicUsize::new(0));
    let (noted_sizes, counted) = (sizes.clone(), tokens.clone());
    let endpoint = Endpoint::start(move |asked| answer(asked, &noted_sizes, &counted));
    let scratch = tempfile::tempdir().unwrap();
    let worker = start(binaries, scratch.path(), endpoint.url());
    let payloads = payloads();
    for turn in 0..TURNS {
        play(binaries, scratch.path(), turn, &payloads);
    }
    let database = Connection::open(scratch.path().join("mem/claude-mem.db")).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while count("SELECT count(*) FROM session_summaries") < TURNS as i64 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(worker);
    let observations = count("SELECT count(*) FROM observations");
    let each = tokens.load(Ordering::Relaxed) as i64 / observations.max(1);
    table.figure(
        "tokens in + out per stored observation, 50 turns of 8 events",
        format!("{each}"),
        "≤ 3,000",
    );
    let calls = endpoint.asked().len();
    table.figure("calls per turn of 8 tools", format!("{:.1}", calls as f64 / TURNS as f64), "1");
    let sizes = sizes.lock().unwrap();
    let ratio = sizes[sizes.len() - 1] as f64 / sizes[0] as f64;
    table.figure("request for a turn, last against the first", format!("{ratio:.2}×"), "≤ 1.3×");
}

/// A model's answer, with the usage that it would report.
fn answer(asked: &Asked, sizes: &std::sync::Mutex<Vec<usize>>, counted: &AtomicUsize) -> Reply {
    let request = asked.body.to_string();
    sizes.lock().unwrap().push(request.len());
    let observation = |title: &str| {
        json!({"type": "bugfix", "title": title, "summary": "The greeting was misspelt; the constant was corrected.",
               "why": "greet() in app.py built its text from a misspelt constant. Corrected, and verified by a run.",
               "facts": ["greet is in app.py"], "concepts": ["greeting", "spelling"], "files_modified": ["app.py"]})
    };
    let input = json!({
        "observations": [observation("Correct the greeting in app.py"), observation("Cover greet with a test")],
        "summary": {"request": "Fix the greeting", "completed": "Fixed greet in app.py and verified it by a run."},
    });
    let (used, written) = (tokens::estimate(&request), tokens::estimate(&input.to_string()));
    counted.fetch_add(used + written, Ordering::Relaxed);
    let call = json!([{"type": "tool_use", "id": "t", "name": "store", "input": input}]);
    Reply::json(
        200,
        &json!({"id": "m", "type": "message", "role": "assistant", "model": "claude-haiku-4-5-20251001",
                "content": call, "stop_reason": "tool_use", "usage": {"input_tokens": used, "output_tokens": written}}),
    )
}

/// Real payloads of tools that are recorded.
fn payloads() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hooks/PostToolUse");
    let names = [
        "Edit",
        "Bash",
        "Write-create",
        "Write-update",
        "Agent-completed",
        "Grep-content",
        "Bash-insubagent",
        "Read-text",
    ];
    let read = |name| std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    names.into_iter().map(|name| serde_json::from_str(&read(name)).unwrap()).collect()
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(binaries: &Path, scratch: &Path, url: &str) -> Worker {
    let mut command = Command::new(binaries.join("claude-mem"));
    command.arg("worker").env("CLAUDE_MEM_HOME", scratch.join("mem")).env("HOME", scratch);
    command.env("ANTHROPIC_API_KEY", "sk-bench").env("ANTHROPIC_BASE_URL", url).stderr(Stdio::null());
    Worker(command.spawn().unwrap())
}

fn play(binaries: &Path, scratch: &Path, turn: usize, payloads: &[Value]) {
    let hook = |verb: &str, mut payload: Value| {
        payload["session_id"] = json!("bench");
        payload["prompt_id"] = json!(format!("p{turn}"));
        let mut command = Command::new(binaries.join("claude-mem-hook"));
        command
            .arg(verb)
            .env("CLAUDE_MEM_HOME", scratch.join("mem"))
            .env("HOME", scratch)
            .stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), payload.to_string().as_bytes()).unwrap();
        child.wait().unwrap();
    };
    hook(
        "new",
        json!({"cwd": "/home/dev/project", "prompt": "Please fix the greeting, add a test, and run it."}),
    );
    for tool in 0..TOOLS {
        let mut payload = payloads[tool % payloads.len()].clone();
        payload["tool_use_id"] = json!(format!("t{turn}-{tool}"));
        hook("save", payload);
    }
    hook(
        "summary",
        json!({"cwd": "/home/dev/project", "last_assistant_message": "Fixed the greeting and ran it."}),
    );
}
