//! A home directory for each test, and the real hook in it.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use super::wait::skip_even_in_ci;

/// A scratch home directory with a data directory in it.
pub struct Sandbox {
    scratch: tempfile::TempDir,
    data: PathBuf,
}

/// The visible result of a program: exit code, output, duration.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Ran {
    /// Checks that the user noticed nothing: exit code 0, nothing on stderr, nothing but JSON on stdout.
    pub fn assert_unnoticed(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stderr, "", "{self:?}");
        if !self.stdout.is_empty() {
            let printed: Value = serde_json::from_str(&self.stdout).expect("one JSON object");
            assert!(printed.is_object());
        }
        self
    }
}

impl Sandbox {
    pub fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("mem");
        Self { scratch, data }
    }

    /// A sandbox with another data directory.
    pub fn with_data(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into(), ..Self::new() }
    }

    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A command with only this sandbox's environment.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command
            .env_clear()
            .env("HOME", self.path())
            .env("CLAUDE_MEM_HOME", &self.data)
            .env("CLAUDE_CONFIG_DIR", self.path().join("claude"))
            .env("XDG_RUNTIME_DIR", self.path())
            // Tests that need a worker start it.
            .env("CLAUDE_MEM_WORKER_AUTOSTART", "false")
            .env("XDG_CONFIG_HOME", self.path().join("xdg-config"))
            .env("XDG_DATA_HOME", self.path().join("xdg-data"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.path());
        command
    }

    /// Runs git in a directory.
    pub fn git(&self, at: &Path, arguments: &[&str]) {
        let mut command = self.command("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments).current_dir(at);
        let ran = run(command, b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    pub fn hook_command(&self, verb: &str) -> Command {
        let mut command = self.command(program("claude-mem-hook"));
        command.arg(verb);
        command
    }

    pub fn hook(&self, verb: &str, payload: impl AsRef<[u8]>) -> Ran {
        run(self.hook_command(verb), payload.as_ref())
    }

    pub fn database(&self) -> Connection {
        let database = Connection::open(self.data.join("claude-mem.db")).unwrap();
        database.busy_timeout(Duration::from_secs(20)).unwrap();
        database
    }

    /// One value from the database.
    pub fn get<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The number of events in the spool.
    pub fn spooled(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.data.join("spool")) else { return Vec::new() };
        let is_event = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        entries.map(|entry| entry.unwrap().path()).filter(is_event).collect()
    }

    /// The number of events counted as dropped, in the data directory and outside it.
    pub fn dropped(&self) -> usize {
        let outside = std::fs::read_dir(self.path().join("claude-mem")).into_iter().flatten();
        let files = outside.map(|entry| entry.unwrap().path()).chain([self.data.join("dropped.log")]);
        files.filter_map(|file| std::fs::read_to_string(file).ok()).map(|text| text.lines().count()).sum()
    }
}

/// One of the programs under test: built by cargo for the tests, or from `CLAUDE_MEM_TEST_BIN`.
pub fn program(name: &str) -> PathBuf {
    match (std::env::var_os("CLAUDE_MEM_TEST_BIN"), name) {
        (Some(folder), _) => Path::new(&folder).join(name),
        (None, "claude-mem-hook") => env!("CARGO_BIN_EXE_claude-mem-hook").into(),
        (None, _) => env!("CARGO_BIN_EXE_claude-mem").into(),
    }
}

/// Runs a command with this input.
pub fn run(mut command: Command, stdin: &[u8]) -> Ran {
    let start = Instant::now();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A process need not read its whole input.
        scope.spawn(move || drop(pipe.write_all(stdin)));
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            took: start.elapsed(),
        }
    })
}

/// A file under `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A PostToolUse payload.
pub fn tool_payload(session: &str, tool_use_id: &str, cwd: &Path, response: &Value) -> String {
    serde_json::json!({
        "session_id": session, "cwd": cwd, "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": tool_use_id, "tool_input": {"command": "make"}, "tool_response": response,
    })
    .to_string()
}

/// A small tmpfs, if the test may mount one.
pub struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    pub fn new(options: &str) -> Option<Self> {
        let point = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=700,{options}"), "tmpfs"]).arg(point.path());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            skip_even_in_ci("no tmpfs can be mounted here");
            return None;
        }
        Some(Self(point))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
