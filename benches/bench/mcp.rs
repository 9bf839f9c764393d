//! The MCP server: its start, the time of a search through it, and its memory.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use claude_mem::paths::Home;
use serde_json::{Value, json};

use crate::search::{Worker, fill};
use crate::table::{Table, median};

const STARTS: usize = 100;
const ASKED: usize = 41;
const ROWS: usize = 100_000;
const GIVEN_BACK: Duration = Duration::from_secs(1);

pub fn run(binaries: &Path, table: &mut Table) {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    let program = binaries.join("claude-mem");
    starts(&program, &home, scratch.path(), table);
    fill(&home, ROWS);
    let mut alone = Server::start(&program, &home, scratch.path());
    alone.searches(table, "without a worker");
    memory(&alone, table, "without a worker");
    let _worker = Worker::start(binaries, &home, scratch.path());
    let mut server = Server::start(&program, &home, scratch.path());
    server.searches(table, "with a worker");
    memory(&server, table, "with a worker");
}

/// Memory of the process between two calls. It releases a search's memory after the answer.
fn memory(server: &Server, table: &mut Table, how: &str) {
    table.figure(&format!("mcp: memory at the moment of an answer, {how}"), pss(&server.child), "–");
    std::thread::sleep(GIVEN_BACK);
    table.figure(&format!("mcp: memory a second after it, {how}"), pss(&server.child), "≤ 8 MB");
}

/// Time from the process's start to the answer of `initialize`, compared with a process that only prints its version.
fn starts(program: &Path, home: &Home, scratch: &Path, table: &mut Table) {
    let (mut baseline, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let began = Instant::now();
        let told = command(program, home, scratch).arg("--version").output().unwrap();
        baseline.push(began.elapsed().as_secs_f64() * 1000.0);
        assert!(told.status.success());
        let began = Instant::now();
        let server = Server::start(program, home, scratch);
        ours.push(began.elapsed().as_secs_f64() * 1000.0);
        drop(server);
    }
    let what = "mcp: start to the answer of initialize (baseline: --version)";
    table.time(what, median(&mut baseline), median(&mut ours), "≤ 3×");
}

fn command(program: &Path, home: &Home, scratch: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("CLAUDE_MEM_HOME", home.dir()).env("HOME", scratch).current_dir(scratch);
    command
}

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// A server that has answered `initialize`.
    fn start(program: &Path, home: &Home, scratch: &Path) -> Self {
        let mut command = command(program, home, scratch);
        command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, input, output };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                           "clientInfo": {"name": "bench", "version": "1"}});
        server.ask("initialize", &hello);
        server
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.input.write_all(format!("{request}\n").as_bytes()).unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn searches(&mut self, table: &mut Table, how: &str) {
        for (what, query) in [
            ("common word", "cache"),
            ("rare word", "zanzibar77"),
            ("five words", "parser deadlock index connection socket"),
        ] {
            let call = json!({"name": "search", "arguments": {"query": query, "project": "project3"}});
            self.ask("tools/call", &call);
            let mut times: Vec<f64> = (0..ASKED)
                .map(|_| {
                    let began = Instant::now();
                    let answer = self.ask("tools/call", &call);
                    assert!(answer["result"]["isError"] != true, "{answer}");
                    began.elapsed().as_secs_f64() * 1000.0
                })
                .collect();
            let what = format!("mcp: search {ROWS} through stdio, {how}: {what}");
            table.figure(&what, format!("{:.2} ms", median(&mut times)), "≤ 20 ms");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Proportional set size of the process.
fn pss(child: &Child) -> String {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id())).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or_else(|| "not available here".to_owned(), |kib| format!("{:.1} MB", kib / 1000.0))
}
