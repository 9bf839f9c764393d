//! A worker in a sandbox, and what can be asked of it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Nothing here takes long; a loaded machine may.
const PATIENCE: Duration = Duration::from_secs(40);

/// A running worker, gone with the test.
pub struct Service {
    pub child: Child,
}

impl Service {
    /// Starts `claude-mem worker` and waits until it answers.
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, |_| ())
    }

    /// The same, with something changed about the command.
    pub fn start_with(sandbox: &Sandbox, change: impl FnOnce(&mut Command)) -> Self {
        let log = std::fs::File::create(sandbox.path().join("worker.log")).unwrap();
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.arg("worker").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        change(&mut command);
        let service = Self { child: command.spawn().unwrap() };
        wait_for("the worker to answer", || try_get(sandbox, "/api/health").is_some());
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a route answers, whatever its status.
pub fn get(sandbox: &Sandbox, route: &str) -> Value {
    try_get(sandbox, route).unwrap_or_else(|| panic!("no answer to {route}"))
}

fn try_get(sandbox: &Sandbox, route: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(sandbox.data().join("worker.sock")).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}
