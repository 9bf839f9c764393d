//! A scripted MCP client that records every message.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use crate::harness::sandbox::Sandbox;
use crate::harness::wait::{PATIENCE, wait_for_exit};

pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages that arrived while waiting for another one.
    pub unexpected: Vec<Value>,
    /// The answer to a request for roots.
    pub roots: Vec<String>,
    next_id: i64,
}

impl Sandbox {
    pub fn mcp_command(&self) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.arg("mcp");
        command
    }

    /// A client in this directory, after the handshake.
    pub fn mcp(&self) -> Client {
        let mut client = Client::start(self.mcp_command());
        client.initialize("2025-11-25", json!({}));
        client
    }
}

impl Client {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, unexpected: Vec::new(), roots: Vec::new(), next_id: 100 }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// The next message, which is one JSON-RPC message on one line.
    pub fn next(&mut self) -> Option<Value> {
        let line = self.lines.recv_timeout(PATIENCE).ok()?;
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// The answer to a request; answers requests for roots meanwhile.
    pub fn answer_to(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("no answer to {id}"));
            if message["method"] == "roots/list" {
                let roots: Vec<Value> = self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}}));
                continue;
            }
            if message["id"] == *id {
                return message;
            }
            self.unexpected.push(message);
        }
    }

    /// Sends a request and waits for its result or error.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer_to(&id)
    }

    pub fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let hello = json!({"protocolVersion": version, "capabilities": capabilities,
                           "clientInfo": {"name": "test", "version": "1"}});
        let answer = self.ask("initialize", hello);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Calls a tool. Returns true if it failed, and its text.
    pub fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (result["isError"] == true, text.to_owned())
    }

    /// Calls a tool that must succeed.
    pub fn call_ok(&mut self, tool: &str, arguments: Value) -> String {
        let (is_error, text) = self.call(tool, arguments);
        assert!(!is_error, "{tool}: {text}");
        text
    }

    /// Calls a tool that must fail, with advice.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let (is_error, text) = self.call(tool, arguments);
        assert!(is_error, "{tool}: {text}");
        text
    }

    /// Closes the input; the server must exit with 0 and print nothing to stderr.
    pub fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        let status = wait_for_exit(&mut self.child);
        assert!(status.success(), "{status}");
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert_eq!(stderr, "");
        rest
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
