//! The context: built by the worker, and end to end through the hook, with 100,000 observations of 2,000 sessions in one
//! project, which is a repository with changes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use claude_mem::paths::Home;
use claude_mem::store;

use crate::meaning;
use crate::search::{Shape, Worker, fill_shaped};
use crate::table::{Table, median};

const OBSERVATIONS: usize = 100_000;
const SESSIONS: usize = 2_000;
const ASKED: usize = 300;

/// A project, its memory, and the binaries.
struct Bench {
    binaries: PathBuf,
    home: Home,
    scratch: tempfile::TempDir,
}

/// Measures both paths.
pub fn run(binaries: &Path, table: &mut Table) {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    let bench = Bench { binaries: binaries.to_owned(), home, scratch };
    bench.make_repository();
    fill_shaped(&bench.home, OBSERVATIONS, Shape { for_each_session: OBSERVATIONS / SESSIONS, projects: 1 });
    bench.fill_rest();
    // Hooks must not start a worker here.
    File::create(bench.home.dir().join("worker.stopped")).unwrap();
    bench.end_to_end(table, "context, hook alone: 100,000 observations", "context", "≤ 15×");
    let worker = Worker::start(binaries, &bench.home, bench.scratch.path());
    bench.build(table, &worker, "by words");
    drop(worker);
    meaning::give_vectors(&bench.home);
    let worker = Worker::start(binaries, &bench.home, bench.scratch.path());
    bench.build(table, &worker, "by words and meaning");
    bench.end_to_end(table, "context, asked of the worker: 100,000 observations", "context", "≤ 15×");
    bench.end_to_end(table, "new, with memories for the prompt", "new", "–");
    bench.end_to_end(table, "file, with memories for the file", "file", "–");
    bench.end_to_end(table, "save of a failure, with a look for its fix", "save", "–");
}

impl Bench {
    fn project(&self) -> PathBuf {
        fs::canonicalize(self.scratch.path()).unwrap().join("project0")
    }

    fn make_repository(&self) {
        let root = self.scratch.path().join("project0");
        fs::create_dir_all(root.join("src/cache")).unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=b", "-c", "user.email=b@example.org"]).args(arguments);
            assert!(command.current_dir(&root).stdout(Stdio::null()).status().unwrap().success());
        };
        git(&["init", "-q", "-b", "fix/parser-deadlock"]);
        for number in 0..300 {
            fs::write(root.join(format!("src/file{number}.rs")), "fn main() {}\n").unwrap();
        }
        fs::write(root.join("src/cache/mod.rs"), "fn main() {}\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "Lock the parser before the index"]);
        fs::write(root.join("src/cache/mod.rs"), "fn changed() {}\n").unwrap();
    }

    /// Fills all tables but observations. The next steps share words with some hundred observations, so that search has work;
    /// learnings are dated today, because old ones are not shown.
    fn fill_rest(&self) {
        let database = store::open_for_worker(&self.home, 0).unwrap();
        let path = self.project();
        database
            .execute("UPDATE sessions SET project_path = ?1, prompt_count = 1", [path.to_string_lossy()])
            .unwrap();
        database
            .execute_batch(
                "INSERT INTO session_summaries (uid, session_id, project, request, summary, next_steps, created_at)
                 SELECT 'u' || id, id, project, 'Task ' || hex(randomblob(4)) || ' about ' || hex(randomblob(4)) || ' of the parser', 'Result ' || hex(randomblob(6)) || ' and ' || hex(randomblob(6)),
                        'Look at name1f4, name3e8 and namebb8 of the socket', started_at FROM sessions;
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                 INSERT INTO function_map (session_id, project, file_path, qualified_name, signature, line_start, change_type, snapshot_at)
                 SELECT s.id, s.project, 'src/file' || (i % 7) || '.rs', 'step_' || s.id || i,
                        'fn step_' || s.id || i || '(input: &str, limit: usize) -> Result<Vec<Token>, Error>', i, 'modified', s.started_at
                 FROM sessions s, n;
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO learnings (uid, project, category, content, confidence, created_at, updated_at)
                 SELECT 'l' || i, 'project0', 'gotcha', 'Number ' || i || ': the thing ' || hex(randomblob(8)) || ' needs the other', 0.5 + i / 2000.0,
                        unixepoch() * 1000 - i, unixepoch() * 1000 - i FROM n;
                 PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
    }

    /// The worker's own build time, as it reports it.
    fn build(&self, table: &mut Table, worker: &Worker, how: &str) {
        let project = self.project();
        let route = format!("/api/context?project_path={0}&cwd={0}&source=startup", project.display());
        let mut times: Vec<f64> = (0..ASKED)
            .map(|_| {
                let answer = worker.answer(&route);
                let body = &answer[answer.find("\r\n\r\n").unwrap() + 4..];
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert_eq!(body["layers"].as_array().unwrap().len(), 4, "{body}");
                body["build_ms"].as_f64().unwrap()
            })
            .collect();
        let middle = median(&mut times);
        let what = format!("context, build in the worker, {how}");
        table.figure(&format!("{what}, p50"), format!("{middle:.2} ms"), "≤ 10 ms");
        let p99 = times[ASKED * 99 / 100];
        table.figure(&format!("{what}, p99"), format!("{p99:.2} ms"), "≤ 30 ms");
    }

    fn end_to_end(&self, table: &mut Table, what: &str, verb: &str, bound: &str) {
        let (mut ours, mut baseline) = (Vec::new(), Vec::new());
        for number in 0..ASKED {
            let payload = self.payload(verb, number);
            // Alternating, so that noise affects both alike.
            baseline.push(time(Command::new(self.binaries.join("nothing")), &payload));
            let mut hook = Command::new(self.binaries.join("claude-mem-hook"));
            hook.arg(verb).env("CLAUDE_MEM_HOME", self.home.dir()).env("HOME", self.scratch.path());
            ours.push(time(hook, &payload));
        }
        table.time(what, median(&mut baseline), median(&mut ours), bound);
    }

    fn payload(&self, verb: &str, number: usize) -> PathBuf {
        let project = self.project();
        let own = match verb {
            // With words that some hundred observations have: those that all have are not searched for.
            "new" => format!(
                r#""hook_event_name":"UserPromptSubmit","prompt_id":"{number}","prompt":"Why does name1f4 of the parser deadlock with name3e8 and the socket queue of namebb8?""#
            ),
            "file" => format!(
                r#""hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{{"file_path":"{}/src/cache/mod.rs"}}"#,
                project.display()
            ),
            "save" => format!(
                r#""hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_use_id":"t{number}","tool_input":{{"command":"make"}},"error":"Exit code 2\nerror: cannot find the cache of parser {number}""#
            ),
            _ => r#""hook_event_name":"SessionStart","source":"startup""#.to_owned(),
        };
        let path = self.scratch.path().join("payload.json");
        // Each memory is shown once in a session: every query uses a new session to measure the full path.
        let text = format!(r#"{{"session_id":"{verb}{number}","cwd":"{}",{own}}}"#, project.display());
        fs::write(&path, text).unwrap();
        path
    }
}

fn time(mut command: Command, payload: &Path) -> f64 {
    command.stdin(File::open(payload).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    assert!(command.status().unwrap().success());
    start.elapsed().as_secs_f64() * 1000.0
}
