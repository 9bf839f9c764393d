//! The installed service from its user's point of view: units, hook, socket, journal, database.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Pid;
use serde_json::Value;

use super::machine::{PLACE, TESTS};
use crate::harness::sandbox::run;
use crate::harness::wait::{skip_even_in_ci, wait_until};

pub const SERVICE: &str = "claude-mem.service";
pub const SOCKET: &str = "claude-mem.socket";

/// Freshly installed for each test, with an empty database, and removed afterwards.
pub struct Service {
    pub home: PathBuf,
}

impl Service {
    /// Installs it and starts the socket. `None` outside the machine that was booted for it.
    pub fn install() -> Option<Self> {
        if std::env::current_exe().unwrap() != Path::new(TESTS) {
            skip_even_in_ci("this is not the machine that was booted for it");
            return None;
        }
        let service = Self { home: std::env::var_os("HOME").unwrap().into() };
        fs::create_dir_all(service.home.join(".local/bin")).unwrap();
        for name in ["claude-mem", "claude-mem-hook"] {
            fs::copy(Path::new(PLACE).join(name), service.home.join(".local/bin").join(name)).unwrap();
        }
        fs::create_dir_all(service.units()).unwrap();
        fs::create_dir_all(service.scratch()).unwrap();
        for name in [SERVICE, SOCKET] {
            fs::copy(packaged(name), service.units().join(name)).unwrap();
        }
        // systemd reloads the units by itself.
        service.systemctl(&["enable", "--now", SOCKET]);
        Some(service)
    }

    pub fn units(&self) -> PathBuf {
        self.home.join(".config/systemd/user")
    }

    /// The service's data directory.
    pub fn data(&self) -> PathBuf {
        self.home.join(".claude-mem")
    }

    /// A directory for files of the tests and their scripts.
    pub fn scratch(&self) -> PathBuf {
        self.home.join("scratch")
    }

    /// Runs `systemctl --user` with these arguments and returns its output.
    pub fn systemctl(&self, arguments: &[&str]) -> String {
        let output = Command::new("systemctl").arg("--user").args(arguments).output().unwrap();
        assert!(output.status.success(), "systemctl --user {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.systemctl(&["show", "--value", "-p", name, unit]).trim().to_owned()
    }

    /// The worker's process id, once it runs.
    pub fn pid(&self) -> Pid {
        wait_until("there is a worker", || self.property(SERVICE, "ActiveState") == "active");
        Pid::from_raw(self.property(SERVICE, "MainPID").parse().unwrap()).unwrap()
    }

    /// The process id of the worker after this one.
    pub fn next_pid(&self, before: Pid) -> Pid {
        let is_new = || {
            let pid = Pid::from_raw(self.property(SERVICE, "MainPID").parse().unwrap());
            pid.is_some_and(|pid| pid != before)
        };
        wait_until("there is another worker", || {
            is_new() && self.property(SERVICE, "ActiveState") == "active"
        });
        self.pid()
    }

    /// Changes the unit as a user would.
    pub fn drop_in(&self, name: &str, text: &str) {
        let folder = self.units().join(format!("{SERVICE}.d"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
        self.systemctl(&["daemon-reload"]);
    }

    pub fn remove_drop_in(&self, name: &str) {
        fs::remove_file(self.units().join(format!("{SERVICE}.d")).join(name)).unwrap();
        self.systemctl(&["daemon-reload"]);
    }

    /// Installs a packaged drop-in of this name.
    pub fn packaged_drop_in(&self, name: &str) {
        let text = fs::read_to_string(packaged(&format!("{SERVICE}.d/{name}"))).unwrap();
        self.drop_in(name, &text);
    }

    /// systemd's complaints about the installed units.
    pub fn verify(&self) -> Output {
        let units = [SERVICE, SOCKET].map(|name| self.units().join(name));
        Command::new("systemd-analyze").args(["--user", "verify"]).args(units).output().unwrap()
    }

    /// Runs the hook with a payload from the fixtures, in a session of this name.
    pub fn hook(&self, verb: &str, fixture: &str, session: &str) {
        let path = Path::new(PLACE).join("tests/fixtures/hooks").join(fixture);
        let mut payload: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        payload["session_id"] = session.into();
        let mut command = Command::new(self.home.join(".local/bin/claude-mem-hook"));
        command.arg(verb);
        run(command, payload.to_string().as_bytes()).assert_unnoticed();
    }

    /// The hooks of one turn of a session.
    pub fn turn(&self, session: &str) {
        self.hook("new", "UserPromptSubmit/plain-1.json", session);
        self.hook("save", "PostToolUse/Edit.json", session);
        self.hook("summary", "Stop/plain-1.json", session);
    }

    /// Waits until the turn has exactly one observation and one summary.
    pub fn wait_until_remembered(&self, session: &str) {
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table} WHERE session_id = ?1");
            self.database().query_row(&sql, [session], |row| row.get::<_, i64>(0)).unwrap()
        };
        wait_until("the turn is summarised", || count("session_summaries") > 0);
        assert_eq!((count("observations"), count("session_summaries")), (1, 1), "{session}");
    }

    pub fn database(&self) -> Connection {
        let database = Connection::open(self.data().join("claude-mem.db")).unwrap();
        database.busy_timeout(Duration::from_secs(20)).unwrap();
        database
    }

    /// Journal entries by and about the service since its installation.
    pub fn journal(&self) -> Vec<Value> {
        let mut command = Command::new("journalctl");
        let output = command.args(["--user", "-o", "json", "--user-unit", SERVICE]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for a message in the journal of this run of the worker.
    pub fn wait_for_message(&self, text: &str) -> Value {
        let invocation = self.property(SERVICE, "InvocationID");
        let is_it = |entry: &Value| {
            let of_run = [&entry["_SYSTEMD_INVOCATION_ID"], &entry["USER_INVOCATION_ID"]];
            let says = entry["MESSAGE"].as_str().is_some_and(|message| message.contains(text));
            says && of_run.contains(&&Value::from(invocation.as_str()))
        };
        let find = || self.journal().into_iter().find(is_it);
        wait_until(&format!("the journal says {text:?}"), || find().is_some());
        find().unwrap()
    }

    /// The health status that the worker reports.
    pub fn health(&self) -> Value {
        let (status, body) = self.ask("GET", "/api/health", "").unwrap();
        assert_eq!(status, 200);
        serde_json::from_str(&body).unwrap()
    }

    /// One request on its own connection.
    pub fn ask(&self, method: &str, route: &str, body: &str) -> io::Result<(u16, String)> {
        let mut stream = UnixStream::connect(self.data().join("worker.sock"))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let length = body.len();
        let head = format!("{method} {route} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all((head + &more).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = status.filter(|_| !head.is_empty());
        Ok((status.ok_or(io::ErrorKind::UnexpectedEof)?, body.to_owned()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Command::new("systemctl").args(["--user", "disable", "--now", SOCKET, SERVICE]).output();
        let _ = Command::new("systemctl").args(["--user", "reset-failed"]).output();
        for place in [".config", ".local", ".claude", ".claude-mem", "scratch"] {
            let _ = fs::remove_dir_all(self.home.join(place));
        }
    }
}

fn packaged(name: &str) -> PathBuf {
    Path::new(PLACE).join("packaging/systemd").join(name)
}
