//! The hook: a real process per event, spawned without a shell.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rusqlite::Connection;

use crate::table::{Table, median};

const SPAWNS: usize = 300;

/// A data directory, and payloads for the hook in it.
struct Bench {
    hook: PathBuf,
    nothing: PathBuf,
    scratch: tempfile::TempDir,
}

/// Measures every verb against a process that does nothing.
pub fn run(binaries: &Path, table: &mut Table) {
    let bench = Bench {
        hook: binaries.join("claude-mem-hook"),
        nothing: binaries.join("nothing"),
        scratch: tempfile::tempdir().unwrap(),
    };
    // Hooks must not start a worker here.
    std::fs::create_dir_all(bench.home()).unwrap();
    File::create(bench.home().join("worker.stopped")).unwrap();
    bench.warm_up();
    let open_elsewhere = bench.connect();
    let worker = Some(&open_elsewhere);
    bench.measure(table, "save, 4 KB, database open elsewhere", ("save", 4 << 10), worker, "≤ 1.8×");
    bench.measure(table, "save, 500 KB", ("save", 500 << 10), worker, "≤ 5×");
    bench.measure(table, "new", ("new", 200), worker, "≤ 2.5×");
    bench.measure(table, "summary", ("summary", 1000), worker, "≤ 2.5×");
    bench.measure(table, "end", ("end", 0), worker, "≤ 2.5×");
    bench.growth(table, &open_elsewhere);
    bench.fill_history(&open_elsewhere);
    bench.measure(table, "context, 500 sessions, 10,000 observations", ("context", 0), worker, "≤ 4×");
    drop(open_elsewhere);
    bench.measure(table, "save, nobody else has the database open", ("save", 4 << 10), None, "≤ 3×");
    let size = std::fs::metadata(&bench.hook).unwrap().len();
    table.figure("hook binary", format!("{:.2} MB", size as f64 / 1e6), "≤ 3 MB");
}

impl Bench {
    fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// A connection that keeps the database open, like the worker's: it must have read to count.
    fn connect(&self) -> Connection {
        let database = Connection::open(self.home().join("claude-mem.db")).unwrap();
        checkpoint(&database);
        database
    }

    fn warm_up(&self) {
        for number in 0..5 {
            self.spawn_hook("save", &self.payload("save", 4 << 10, number));
        }
    }

    fn measure(
        &self,
        table: &mut Table,
        what: &str,
        (verb, bytes): (&str, usize),
        worker: Option<&Connection>,
        bound: &str,
    ) {
        let (mut ours, mut baseline) = (Vec::new(), Vec::new());
        for number in 0..SPAWNS {
            worker.into_iter().for_each(|worker| self.keep_log_short(worker));
            let payload = self.payload(verb, bytes, number);
            // Alternating, so that noise affects both alike.
            baseline.push(time(|| self.spawn_nothing(&payload)));
            ours.push(time(|| self.spawn_hook(verb, &payload)));
        }
        table.time(what, median(&mut baseline), median(&mut ours), bound);
    }

    /// Size of the WAL at which the worker checkpoints.
    fn keep_log_short(&self, worker: &Connection) {
        const LOG_LARGE: u64 = 4 << 20;
        let log = self.home().join("claude-mem.db-wal");
        if std::fs::metadata(log).map_or(0, |meta| meta.len()) > LOG_LARGE {
            checkpoint(worker);
        }
    }

    /// The cost of a save with a million finished rows against that with none.
    fn growth(&self, table: &mut Table, database: &Connection) {
        let mut before = self.times("save", database);
        database
            .execute_batch(
                "INSERT OR IGNORE INTO sessions (id, started_at, last_activity_at) VALUES ('old', 1, 1);
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
                 INSERT INTO pending_queue (event_key, session_id, kind, status, created_at, finished_at)
                 SELECT 'tool:old:' || hex(randomblob(12)), 'old', 'observation', 'done', i, i FROM n;
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        let mut after = self.times("save", database);
        table.time(
            "save, 1,000,000 finished rows (baseline: none)",
            median(&mut before),
            median(&mut after),
            "≤ 1.2×",
        );
    }

    fn times(&self, verb: &str, worker: &Connection) -> Vec<f64> {
        (0..SPAWNS)
            .map(|number| {
                self.keep_log_short(worker);
                let payload = self.payload(verb, 4 << 10, number);
                time(|| self.spawn_hook(verb, &payload))
            })
            .collect()
    }

    fn fill_history(&self, database: &Connection) {
        let project = std::fs::canonicalize(self.scratch.path()).unwrap();
        database
            .execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO sessions (id, project, project_path, status, started_at, last_activity_at, prompt_count)
                 SELECT 'h' || i, 'bench', ?1, 'completed', i * 1000, i * 1000, 1 FROM n",
                [project.to_string_lossy()],
            )
            .unwrap();
        database
            .execute_batch(
                "INSERT INTO session_summaries (uid, session_id, request, completed, created_at)
                 SELECT 'u' || id, id, 'Make the parser faster', 'Replaced the tree by a walk over tokens', started_at
                 FROM sessions WHERE id LIKE 'h%';
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                 INSERT INTO observations (uid, session_id, project, title, summary, created_at)
                 SELECT 'o' || i, 'h' || (i % 500 + 1), 'bench', 'Replace the tree by a walk', 'It was slow', i FROM n;",
            )
            .unwrap();
    }

    fn payload(&self, verb: &str, bytes: usize, number: usize) -> PathBuf {
        let unique = format!("{}-{number}", Instant::now().elapsed().as_nanos() + rand());
        let text = "A line of output that looks like any other.\\n".repeat(bytes / 45 + 1);
        let cwd = self.scratch.path().display();
        let own = match verb {
            "save" => format!(
                r#""tool_name":"Bash","tool_use_id":"toolu_{unique}","tool_input":{{"command":"make"}},"tool_response":{{"stdout":"{text}","stderr":"","interrupted":false}}"#
            ),
            "new" => format!(r#""prompt_id":"{unique}","prompt":"{text}""#),
            "summary" => format!(r#""prompt_id":"{unique}","last_assistant_message":"{text}""#),
            "context" => r#""source":"startup""#.to_owned(),
            _ => format!(r#""reason":"other","prompt_id":"{unique}""#),
        };
        let path = self.scratch.path().join("payload.json");
        let mut file = File::create(&path).unwrap();
        // A repeated start of one session would count as another hook set's, and get no answer.
        let session = if verb == "context" { &unique } else { "bench" };
        write!(file, r#"{{"session_id":"{session}","cwd":"{cwd}",{own}}}"#).unwrap();
        path
    }

    fn spawn_hook(&self, verb: &str, payload: &Path) {
        let mut command = Command::new(&self.hook);
        command.arg(verb).env("CLAUDE_MEM_HOME", self.home()).env("HOME", self.scratch.path());
        run_with(command, payload);
    }

    fn spawn_nothing(&self, payload: &Path) {
        run_with(Command::new(&self.nothing), payload);
    }
}

/// Checkpoints, as the worker does from time to time.
fn checkpoint(database: &Connection) {
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

fn run_with(mut command: Command, payload: &Path) {
    let stdin = File::open(payload).unwrap();
    assert!(command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1000.0
}

/// A value that differs in every run.
fn rand() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}
