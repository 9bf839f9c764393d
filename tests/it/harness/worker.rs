//! The real worker in a sandbox, and a client for its socket that can also misbehave.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, program};
use crate::harness::wait::{PATIENCE, wait_for, wait_for_exit, wait_until};

/// A worker that runs until it is dropped.
pub struct Worker {
    child: Child,
    socket: PathBuf,
}

impl Worker {
    /// Starts a worker and waits until it serves or reports why it cannot.
    pub fn start(sandbox: &Sandbox) -> Self {
        let mut worker = Self::spawn(sandbox.worker_command(), sandbox);
        worker.wait_until_it_answers();
        worker
    }

    /// Starts a worker without waiting.
    pub fn spawn(mut command: Command, sandbox: &Sandbox) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(sandbox.log()).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { child, socket: sandbox.socket() }
    }

    pub fn wait_until_it_answers(&mut self) {
        wait_until("the worker answers", || {
            assert!(self.is_alive(), "the worker ended");
            get(&self.socket, "/api/health").is_some_and(|answer| answer.json()["reason"] != "starting")
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Freezes it (SIGSTOP) while it holds no lock that others wait for.
    pub fn freeze(&self, sandbox: &Sandbox) {
        let database = sandbox.database();
        database.busy_timeout(Duration::ZERO).unwrap();
        loop {
            self.signal(Signal::STOP);
            if database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
                return;
            }
            self.signal(Signal::CONT);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for_exit(&mut self.child)
    }

    /// The exit status, if it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn is_alive(&mut self) -> bool {
        self.ended().is_none()
    }

    pub fn get(&self, target: &str) -> Answer {
        get(&self.socket, target).expect("an answer")
    }

    pub fn post(&self, target: &str, body: &Value) -> Answer {
        self.send("POST", target, body.to_string().as_bytes())
    }

    pub fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, b"")
    }

    pub fn send(&self, method: &str, target: &str, body: &[u8]) -> Answer {
        request(&self.socket, method, target, body).expect("an answer")
    }

    /// Waits until health satisfies a condition.
    pub fn wait_for_health(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let health = || self.get("/api/health").json();
        wait_for(|| format!("{what}: {:#}", health()), || Some(health()).filter(&is_so))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sandbox {
    pub fn socket(&self) -> PathBuf {
        self.data().join("worker.sock")
    }

    /// The stderr of all workers.
    pub fn log(&self) -> PathBuf {
        self.path().join("worker.log")
    }

    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    pub fn worker_command(&self) -> Command {
        let mut command = self.command(program("claude-mem"));
        command.arg("worker").env("CLAUDE_MEM_COMPRESS_PROVIDER", "local").stdin(Stdio::null());
        command
    }

    /// Sends a prompt.
    pub fn prompt(&self, session: &str, text: &str) {
        let payload = json!({"session_id": session, "cwd": self.path(), "prompt": text});
        self.hook("new", payload.to_string()).assert_unnoticed();
    }

    /// Stores a prompt of an earlier session, redacted by a worker and so visible to others.
    pub fn seen_prompt(&self, session: &str, text: &str) {
        self.prompt(session, text);
        self.database().execute("UPDATE user_prompts SET is_raw = 0", []).unwrap();
    }

    /// Sends an edit: an event that is worth an observation.
    pub fn edit(&self, session: &str, id: &str) {
        self.hook("save", edit_payload(session, id, self.path(), 0)).assert_unnoticed();
    }

    /// Sends a `git commit`.
    pub fn commit(&self, session: &str, id: &str, subject: &str) {
        let payload = json!({
            "session_id": session, "cwd": self.path(), "hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_use_id": id, "tool_input": {"command": format!("git commit -am \"{subject}\"")},
            "tool_response": {"stdout": format!("[main 1a2b3c4] {subject}\n 1 file changed, 1 insertion(+)"),
                              "stderr": "", "interrupted": false},
        });
        self.hook("save", payload.to_string()).assert_unnoticed();
    }

    /// Ends the turn.
    pub fn end_turn(&self, session: &str) {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let turn = format!("turn-{}", TURN.fetch_add(1, Ordering::Relaxed));
        let payload = json!({"session_id": session, "cwd": self.path(), "hook_event_name": "Stop", "prompt_id": turn,
                             "last_assistant_message": CLOSING});
        self.hook("summary", payload.to_string()).assert_unnoticed();
    }

    /// Waits until a query returns 1.
    pub fn wait_for(&self, what: &str, sql: &str) {
        let database = self.database();
        self.wait_until(what, || database.query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap_or(false));
    }

    /// Waits until a condition holds; a failure shows the log of the workers.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        wait_for(|| format!("{what}\n{}", self.logged()), || holds().then_some(()));
    }

    /// Waits until no queue row is open.
    pub fn wait_until_settled(&self) {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM pending_queue WHERE status IN ('raw', 'processing'))";
        self.wait_for("settled", sql);
    }

    /// The number of queue rows in that state.
    pub fn rows(&self, status: &str) -> i64 {
        self.get(&format!("SELECT count(*) FROM pending_queue WHERE status = '{status}'"))
    }

    /// Settings for hook and worker.
    pub fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.data()).unwrap();
        std::fs::write(self.data().join("config.toml"), text).unwrap();
    }
}

/// The closing message of a turn that repaired the greeting.
pub const CLOSING: &str = "Corrected the greeting in `greet`: it said \"Helo\" because the template had a typo. All callers use it.";

/// An edit with this many bytes of text around it.
pub fn edit_payload(session: &str, id: &str, cwd: &Path, bytes: usize) -> String {
    let around = "    print(\"a line like any other\")\n".repeat(bytes / 36);
    let file = cwd.join(format!("{id}.py"));
    json!({
        "session_id": session, "cwd": cwd, "hook_event_name": "PostToolUse", "tool_name": "Edit",
        "tool_use_id": id,
        "tool_input": {"file_path": file, "old_string": format!("Helo {id}"), "new_string": format!("Hello {id}")},
        "tool_response": {"filePath": file, "oldString": "Helo", "newString": "Hello",
                          "originalFile": format!("def greet(n):\n    return 'Helo'\n{around}")},
    })
    .to_string()
}

/// A response of the worker.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error, which must have the common shape.
    pub fn error_code(&self) -> String {
        let body = self.json();
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{self:?}");
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

pub fn get(socket: &Path, target: &str) -> Option<Answer> {
    request(socket, "GET", target, b"")
}

/// One request on its own connection. `None` if there is no answer.
pub fn request(socket: &Path, method: &str, target: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    // A server that refuses early may close before everything is sent.
    let _ = stream.write_all(body);
    read_answer(&mut stream)
}

/// Reads the response up to the end of the connection.
pub fn read_answer(stream: &mut UnixStream) -> Option<Answer> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

/// Resident memory of a process on systems without /proc.
#[cfg(not(target_os = "linux"))]
pub fn resident_kib(pid: u32) -> u64 {
    let output = Command::new("ps").args(["-o", "rss=", "-p", &pid.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}
