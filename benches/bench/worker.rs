//! The worker: real processes, measured from outside.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::table::{Table, median};

/// Time after which an idle worker has released memory, and the thread that did so has ended.
const AT_REST: Duration = Duration::from_secs(12);

/// A data directory, and the binaries.
pub struct Bench {
    pub hook: PathBuf,
    pub service: PathBuf,
    pub scratch: tempfile::TempDir,
}

/// A running worker, gone when it is dropped.
pub struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(binaries: &Path, table: &mut Table) {
    let bench = || Bench::new(binaries);
    bench().idle(table);
    bench().starts(table);
    bench().latency(table);
    bench().hooks(table);
    bench().memory_after_work(table);
    bench().throughput(table);
}

impl Bench {
    pub fn new(binaries: &Path) -> Self {
        let bench = Self {
            hook: binaries.join("claude-mem-hook"),
            service: binaries.join("claude-mem"),
            scratch: tempfile::tempdir().unwrap(),
        };
        // Hooks must not start a worker here.
        std::fs::create_dir_all(bench.home()).unwrap();
        std::fs::write(bench.home().join("worker.stopped"), "").unwrap();
        bench.spawn_hook("first");
        // The turn has no end: it would wait for minutes of silence, and all others with it.
        let sql = "UPDATE pending_queue SET status = 'skipped', finished_at = created_at";
        bench.database().execute(sql, []).unwrap();
        bench
    }

    pub fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("CLAUDE_MEM_HOME", self.home())
            .env("HOME", self.scratch.path())
            .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts a worker and waits until it reports that it serves. Returns the time in milliseconds.
    pub fn start(&self, settings: &[(&str, &str)]) -> (Worker, f64) {
        let place = self.scratch.path().join("notify");
        let _ = std::fs::remove_file(&place);
        let manager = UnixDatagram::bind(&place).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut command = self.command(&self.service);
        command.arg("worker").env("NOTIFY_SOCKET", &place).envs(settings.iter().copied());
        let began = Instant::now();
        let worker = Worker(command.spawn().unwrap());
        let mut word = [0; 7];
        while word != *b"READY=1" {
            manager.recv(&mut word).unwrap();
        }
        (worker, began.elapsed().as_secs_f64() * 1000.0)
    }

    pub fn database(&self) -> Connection {
        let database = Connection::open(self.home().join("claude-mem.db")).unwrap();
        database.busy_timeout(Duration::from_secs(20)).unwrap();
        database
    }

    fn starts(&self, table: &mut Table) {
        self.database()
            .execute_batch(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
                 INSERT INTO observations (uid, session_id, project, title, summary, created_at)
                 SELECT 'o' || i, 'bench', 'bench', 'Replace the tree by a walk', 'It was slow', i FROM n;
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        let (mut ours, mut baseline) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            let began = Instant::now();
            assert!(self.command(&self.service).arg("--version").status().unwrap().success());
            baseline.push(began.elapsed().as_secs_f64() * 1000.0);
            ours.push(self.start(&[]).1);
        }
        let what = "worker: start to READY, 100,000 observations (baseline: --version)";
        table.time(what, median(&mut baseline), median(&mut ours), "≤ 4×, ≤ 15 ms");
    }

    /// The cost of an idle worker.
    fn idle(&self, table: &mut Table) {
        let (worker, _) = self.start(&[]);
        std::thread::sleep(AT_REST);
        table.figure("worker: PSS when idle", format!("{:.1} MB", pss_mb(&worker)), "≤ 8 MB");
        let (cpu, wakes) = (cpu_ms(&worker), switches(&worker));
        std::thread::sleep(Duration::from_secs(60));
        table.figure("worker: CPU in 60 idle seconds", format!("{:.2} ms", cpu_ms(&worker) - cpu), "≤ 10 ms");
        let wakes = switches(&worker) - wakes;
        table.figure("worker: context switches in 60 idle seconds", wakes.to_string(), "one wake-up");
    }

    fn memory_after_work(&self, table: &mut Table) {
        let (worker, _) = self.start(&[]);
        for part in 0..20 {
            self.fill(500, &format!("part{part}"));
            self.nudge();
            self.wait_until_settled();
        }
        std::thread::sleep(AT_REST);
        table.figure("worker: PSS after 10,000 events", format!("{:.1} MB", pss_mb(&worker)), "≤ 14 MB");
    }

    /// Time from the start of a hook to the claim of its event: slightly more than from commit to claim.
    fn latency(&self, table: &mut Table) {
        let mut times = self.times_to_claim(500);
        let p50 = median(&mut times);
        let p99 = times[times.len() * 99 / 100];
        table.figure(
            "worker: hook's start to claim, p50 / p99",
            format!("{p50:.0} / {p99:.0} ms"),
            "≤ 5 / ≤ 50 ms",
        );
    }

    /// Waiting times of this many events, sent one after the other to a worker that claims each separately.
    pub fn times_to_claim(&self, events: usize) -> Vec<f64> {
        let (_worker, _) = self.start(&[("CLAUDE_MEM_BATCH_ENABLED", "false")]);
        self.wait_until_settled();
        for number in 0..events {
            self.spawn_hook(&format!("latency-{number}"));
        }
        self.wait_until_settled();
        let database = self.database();
        let sql = "SELECT finished_at - created_at FROM pending_queue WHERE tool_use_id LIKE 'latency-%'";
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The cost of a hanging or dead worker for a hook.
    fn hooks(&self, table: &mut Table) {
        let (mut worker, _) = self.start(&[]);
        let process = Pid::from_raw(worker.0.id() as i32).unwrap();
        let (mut live, mut hanging, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..300 {
            live.push(self.spawn_hook(&format!("live-{number}")));
            kill_process(process, Signal::STOP).unwrap();
            hanging.push(self.spawn_hook(&format!("hanging-{number}")));
            kill_process(process, Signal::CONT).unwrap();
        }
        worker.0.kill().unwrap();
        worker.0.wait().unwrap();
        for number in 0..300 {
            dead.push(self.spawn_hook(&format!("dead-{number}")));
        }
        let live = median(&mut live);
        table.time("save, the worker hangs (baseline: it lives)", live, median(&mut hanging), "≤ 50 ms more");
        table.time(
            "save, the worker is dead (baseline: it lives)",
            live,
            median(&mut dead),
            "as with a live one",
        );
    }

    fn throughput(&self, table: &mut Table) {
        let few = self.events_per_second("few");
        table.figure("worker: events/s, queue of 20,000, local provider", format!("{few:.0}/s"), "≥ 2,000/s");
        self.database()
            .execute_batch(
                "INSERT OR IGNORE INTO sessions (id, status, started_at, last_activity_at)
                 VALUES ('old', 'completed', 1, 1);
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
                 INSERT INTO pending_queue (event_key, session_id, kind, status, created_at, finished_at)
                 SELECT 'tool:old:' || i, 'old', iif(i % 20 = 0, 'summarize', 'observation'), 'done',
                        unixepoch() * 1000, unixepoch() * 1000 FROM n;
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        let many = self.events_per_second("many");
        let share = format!("{many:.0}/s, {:.0} %", 100.0 * many / few);
        table.figure("worker: the same with 1,000,000 finished rows", share, "≥ 80 %");
        let (_worker, _) = self.start(&[]);
        for (what, target) in [("health", "/api/health"), ("queue stats", "/api/queue/stats")] {
            self.get(target);
            let mut times: Vec<f64> = (0..500).map(|_| self.get(target)).collect();
            let time = format!("{:.2} ms", median(&mut times));
            table.figure(
                &format!("worker: {what}, p50 over the socket, 1,000,000 finished rows"),
                time,
                "≤ 1 ms",
            );
        }
    }

    /// The speed at which a new worker processes a full queue.
    fn events_per_second(&self, name: &str) -> f64 {
        let events = 20_000;
        self.fill(events, name);
        let (_worker, _) = self.start(&[]);
        let began = Instant::now();
        self.wait_until_settled();
        events as f64 / began.elapsed().as_secs_f64()
    }

    /// Adds this many rows to the queue: twenty sessions, turns of 19 events and an end.
    fn fill(&self, rows: usize, name: &str) {
        let mut database = self.database();
        let transaction = database.transaction().unwrap();
        for row in 0..rows {
            let session = format!("{name}-{}", row / 20 % 20);
            let sql = "INSERT OR IGNORE INTO sessions (id, project, project_path, started_at, last_activity_at, prompt_count)
                       VALUES (?1, 'bench', '/bench', unixepoch() * 1000, unixepoch() * 1000, 1)";
            transaction.prepare_cached(sql).unwrap().execute([&session]).unwrap();
            let (kind, tool, payload) = if row % 20 == 19 {
                (
                    "summarize",
                    None,
                    json!({"last_assistant_message": "Replaced the tree by a walk over tokens."}),
                )
            } else {
                event(row)
            };
            let payload = payload.to_string();
            let sql = "INSERT INTO pending_queue (event_key, session_id, kind, tool_name, payload, raw_bytes, prompt_number,
                                                  cwd, created_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, '/bench', unixepoch() * 1000)";
            let key = format!("tool:{name}:{row}");
            let values = params![key, session, kind, tool, payload, payload.len() as i64];
            transaction.prepare_cached(sql).unwrap().execute(values).unwrap();
        }
        transaction.commit().unwrap();
    }

    pub fn wait_until_settled(&self) {
        let database = self.database();
        let sql = "SELECT EXISTS (SELECT 1 FROM pending_queue WHERE status IN ('raw', 'processing'))";
        let mut open = database.prepare(sql).unwrap();
        while open.query_row([], |row| row.get::<_, bool>(0)).unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn nudge(&self) {
        let _ = UnixDatagram::unbound().unwrap().send_to(b"n", self.home().join("nudge.sock"));
    }

    /// Time of a request on its own connection, in milliseconds.
    pub fn get(&self, target: &str) -> f64 {
        let began = Instant::now();
        self.answer(target);
        began.elapsed().as_secs_f64() * 1000.0
    }

    /// The answer to a request, head and all.
    pub fn answer(&self, target: &str) -> String {
        let mut stream = UnixStream::connect(self.home().join("worker.sock")).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    /// Time of one event by a real hook, in milliseconds.
    pub fn spawn_hook(&self, id: &str) -> f64 {
        let file = self.payload(id);
        let mut command = self.command(&self.hook);
        command.arg("save").stdin(std::fs::File::open(&file).unwrap());
        let began = Instant::now();
        assert!(command.status().unwrap().success());
        began.elapsed().as_secs_f64() * 1000.0
    }

    /// A file with the client's payload of that event.
    pub fn payload(&self, id: &str) -> PathBuf {
        let (_, tool, payload) = event(1);
        let mut payload = payload;
        payload["session_id"] = json!("bench");
        payload["cwd"] = json!(self.scratch.path());
        payload["tool_name"] = json!(tool);
        payload["tool_use_id"] = json!(id);
        let file = self.scratch.path().join("payload.json");
        std::fs::write(&file, payload.to_string()).unwrap();
        file
    }
}

/// A typical session: reads, edits, commands, of a few kilobytes.
fn event(number: usize) -> (&'static str, Option<&'static str>, serde_json::Value) {
    let file = format!("/bench/src/module_{}.rs", number % 37);
    let text = format!("fn walk_{number}(tokens: &[Token]) -> usize {{ tokens.len() }}\n").repeat(40);
    let (tool, payload) = match number % 3 {
        0 => (
            "Edit",
            json!({"tool_input": {"file_path": file, "old_string": "fn walk() {}", "new_string": "fn walk(tokens: &[Token]) {}"},
                   "tool_response": {"filePath": file, "originalFile": format!("fn walk() {{}}\n{text}")}}),
        ),
        1 => (
            "Bash",
            json!({"tool_input": {"command": "cargo test"},
                   "tool_response": {"stdout": format!("{text}test result: ok. 12 passed; 0 failed"), "stderr": ""}}),
        ),
        _ => (
            "Read",
            json!({"tool_input": {"file_path": file},
                   "tool_response": {"type": "text", "file": {"filePath": file, "content": text, "startLine": 1}}}),
        ),
    };
    ("observation", Some(tool), payload)
}

fn pss_mb(worker: &Worker) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", worker.0.id())).unwrap();
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// CPU time of all threads, finer than clock ticks.
fn cpu_ms(worker: &Worker) -> f64 {
    let nanos =
        |text: String| text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0);
    of_threads(worker, "schedstat").map(nanos).sum::<f64>() / 1e6
}

fn switches(worker: &Worker) -> u64 {
    let count = |text: String| {
        let lines = text.lines().filter(|line| line.contains("ctxt_switches"));
        lines.filter_map(|line| line.split('\t').nth(1)?.parse::<u64>().ok()).sum::<u64>()
    };
    of_threads(worker, "status").map(count).sum()
}

fn of_threads(worker: &Worker, file: &'static str) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", worker.0.id())).unwrap();
    threads.filter_map(move |thread| std::fs::read_to_string(thread.unwrap().path().join(file)).ok())
}
