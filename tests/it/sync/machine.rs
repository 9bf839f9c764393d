//! A machine with its own home directory, database and calendar.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use claude_mem::paths::Home;
use claude_mem::store::corrections::vetoes;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::harness::clock::Clock;
use crate::harness::sandbox::{Ran, Sandbox, program, run};

pub struct Machine {
    pub sandbox: Sandbox,
    pub clock: Clock,
    worker: Option<Child>,
    made: u64,
    name: String,
}

impl Machine {
    pub fn new(name: &str, clock: &Clock) -> Self {
        let sandbox = Sandbox::new();
        let clock = clock.copy(sandbox.path());
        drop(claude_mem::store::open_for_hook(&Home::at(sandbox.data()), 1000).unwrap());
        Self { sandbox, clock, worker: None, made: 0, name: name.to_owned() }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(program("claude-mem"));
        command.args(words);
        self.clock.rule(&mut command);
        command
    }

    pub fn mem(&self, words: &[&str]) -> Ran {
        run(self.command(words), b"")
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, words: &[&str]) -> String {
        let ran = self.mem(words);
        assert_eq!(ran.code, Some(0), "{} {words:?}: {ran:?}", self.name);
        ran.stdout
    }

    /// Runs a command that must fail with these words.
    pub fn fails(&self, words: &[&str], expected: &str) {
        let ran = self.mem(words);
        assert_eq!(ran.code, Some(1), "{} {words:?}: {ran:?}", self.name);
        assert!(ran.stderr.contains(expected), "{} {words:?}: {ran:?}", self.name);
    }

    /// Founds a team, and returns the invitation for further machines.
    pub fn found(&self, url: &str, flags: &[&str]) -> String {
        let words = [&["sync", "init", "--url", url, "--label", &self.name], flags].concat();
        invitation_in(&self.ok(&words))
    }

    pub fn join(&self, invitation: &str) {
        self.ok(&["sync", "join", invitation, "--label", &self.name]);
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["sync", "status", "--json"])).unwrap()
    }

    pub fn database(&self) -> Connection {
        self.sandbox.database()
    }

    pub fn now(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        since.as_millis() as i64 + *self.clock.steady() * 1000
    }

    /// Adds an observation, as the worker would. Returns its uid.
    pub fn observe(&mut self, project: &str, session: &str, title: &str) -> String {
        self.made += 1;
        let uid = format!("{}-{}-{title}", self.name, self.made);
        let key = format!("git:example.org/{project}");
        let database = self.database();
        let sql = "INSERT OR IGNORE INTO projects (key, name) VALUES (?1, ?2)";
        database.execute(sql, [&key, project]).unwrap();
        let sql = "INSERT INTO sessions (id, project_key, project, status, started_at, last_activity_at, prompt_count)
                   VALUES (?1, ?2, ?3, 'completed', ?4, ?4, 1)
                   ON CONFLICT (id) DO UPDATE SET last_activity_at = max(last_activity_at, ?4)";
        database.execute(sql, params![session, key, project, self.now()]).unwrap();
        let sql = "INSERT INTO observations (uid, session_id, project, title, summary, facts, created_at)
                   VALUES (?1, ?2, ?3, ?4, 'because it was so', '[\"a fact\"]', ?5)";
        database.execute(sql, params![uid, session, project, title, self.now()]).unwrap();
        claude_mem::nudge::send(&Home::at(self.sandbox.data()));
        uid
    }

    /// Blocks a statement, as the viewer does. Returns the veto's id.
    pub fn veto(&self, project: &str, statement: &str) -> i64 {
        vetoes::add(&mut self.database(), project.into(), statement.into(), None, self.now()).unwrap().id
    }

    /// The uids of all memories.
    pub fn uids(&self) -> std::collections::BTreeSet<String> {
        let sql = "SELECT uid FROM observations UNION SELECT uid FROM session_summaries UNION SELECT uid FROM learnings";
        lines(&self.database(), sql).into_iter().collect()
    }

    pub fn titles(&self) -> Vec<String> {
        lines(&self.database(), "SELECT title FROM observations WHERE deleted_at IS NULL ORDER BY title")
    }

    pub fn start_worker(&mut self) {
        let mut command = self.command(&["worker"]);
        let log = std::fs::File::create(self.sandbox.path().join("worker.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.worker = Some(command.spawn().unwrap());
    }

    pub fn worker_pid(&self) -> u32 {
        self.worker.as_ref().unwrap().id()
    }

    pub fn worker_log(&self) -> String {
        std::fs::read_to_string(self.sandbox.path().join("worker.log")).unwrap_or_default()
    }

    /// Kills the worker with SIGKILL.
    pub fn kill_worker(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
    }

    /// Runs `sync now`, and kills it with SIGKILL after this time.
    pub fn sync_killed_after(&self, time: Duration) {
        let mut command = self.command(&["sync", "now"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(time);
        let _ = child.kill();
        child.wait().unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill_worker();
    }
}

/// The invitation in the output of `sync init` or `sync invite`.
pub fn invitation_in(output: &str) -> String {
    let word = output.split_whitespace().find(|word| word.starts_with("claude-mem-invitation-"));
    word.unwrap_or_else(|| panic!("no invitation in {output}")).to_owned()
}

/// The first column of a query.
pub fn lines(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
