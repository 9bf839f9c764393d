//! The pages of `claude-mem open` with 100,000 observations: time to the first byte, bytes of a first visit, and memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use claude_mem::clock;
use claude_mem::paths::Home;
use claude_mem::store;

use crate::search::{Worker, fill, memory_mb, ticks};
use crate::table::{Table, median};

const ROWS: usize = 100_000;
const ASKED: usize = 21;
/// A page each, and those of their parts that read the most.
const PAGES: [&str; 16] = [
    "/",
    "/search",
    "/search?q=cache",
    "/search?q=parser+deadlock+index+connection+socket",
    "/search?file=src/cache/mod.rs",
    "/timeline",
    "/timeline?project=project3",
    "/timeline?offset=4000",
    "/session/s4999",
    "/memory",
    "/memory?project=project3",
    "/memory/50000",
    "/context?project=project3",
    "/value",
    "/value?days=90",
    "/health",
];

/// Fills a database and looks at every page.
pub fn run(binaries: &Path, table: &mut Table) {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    fill(&home, ROWS);
    fill_rest(&home, scratch.path());
    let worker = Worker::start(binaries, &home, scratch.path());
    let bridge = Bridge::start(binaries, &home, scratch.path());
    let day = format!("/day/{}", clock::date(clock::now() - 30 * clock::DAY));
    for page in PAGES.into_iter().chain([day.as_str()]) {
        let ticks = || worker.ticks() + ticks(bridge.child.id());
        let before = ticks();
        let mut times: Vec<f64> = (0..ASKED).map(|_| bridge.get(page).0).collect();
        let cpu = (ticks() - before) as f64 * 10.0 / ASKED as f64;
        let time = format!("{:.1} ms ({cpu:.1} ms CPU)", median(&mut times));
        table.figure(&format!("viewer, first byte of {page}"), time, "≤ 50 ms");
    }
    let first = bridge.get("/").1;
    let assets =
        first.split('"').filter(|part| part.starts_with("/assets/")).map(|path| bridge.get(path).1.len());
    let visit = first.len() + assets.sum::<usize>();
    table.figure("viewer, bytes of a first visit", format!("{:.1} KB", visit as f64 / 1e3), "≤ 60 KB");
    table.figure("viewer, PSS of the bridge", format!("{:.1} MB", memory_mb(bridge.child.id())), "≤ 15 MB");
    drop(worker);
}

/// Moves the notes to the last year, and adds prompts, events, contexts and learnings.
fn fill_rest(home: &Home, scratch: &Path) {
    let database = store::open_for_worker(home, 0).unwrap();
    let sql = format!(
        "UPDATE observations SET created_at = (unixepoch() - 365 * 86400 + id * 86400 * 365 / {ROWS}) * 1000;
         UPDATE sessions SET project_path = '{0}', prompt_count = 1, started_at = coalesce((SELECT min(created_at) FROM observations o WHERE o.session_id = sessions.id), started_at);
         UPDATE sessions SET last_activity_at = started_at, ended_at = started_at;
         INSERT INTO projects (key, name, path) SELECT 'path:' || project, project, '{0}' FROM sessions GROUP BY project;
         INSERT INTO user_prompts (session_id, prompt_number, prompt, created_at) SELECT id, 1, 'Repair the ' || id, started_at FROM sessions;
         INSERT INTO pending_queue (event_key, session_id, kind, tool_name, prompt_number, status, created_at, finished_at, payload)
           SELECT 'k' || id, session_id, 'observation', 'Edit', 1, 'done', created_at, created_at, hex(randomblob(300)) FROM observations;
         INSERT INTO observation_sources SELECT o.id, q.id FROM observations o JOIN pending_queue q ON q.event_key = 'k' || o.id;
         INSERT INTO event_log (event_type, session_id, data, created_at)
           SELECT 'context_injected', id, json_object('tokens', 900, 'shown', (SELECT json_group_array(o.id) FROM (SELECT id FROM observations WHERE session_id = sessions.id LIMIT 15) o)), started_at FROM sessions;
         INSERT INTO event_log (event_type, session_id, data, tokens_in, tokens_out, cost_usd, created_at)
           SELECT 'llm_call', session_id, json_object('model', 'haiku'), 3000, 300, 0.004, created_at FROM observations;
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
           INSERT INTO learnings (uid, project, category, content, confidence, created_at, updated_at)
           SELECT 'l' || i, 'project' || (i % 8), 'gotcha', 'Number ' || i || ' needs the other', 0.5 + i / 2000.0, unixepoch() * 1000 - i, unixepoch() * 1000 - i FROM n;",
        scratch.display()
    );
    database.execute_batch(&sql).unwrap();
    drop(database);
    let mut database = store::open_for_worker(home, 0).unwrap();
    while claude_mem::search::indexing::index_and_merge_some(&mut database).unwrap() {}
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

/// A bridge, entered.
struct Bridge {
    child: Child,
    host: String,
    cookie: String,
}

impl Bridge {
    fn start(binaries: &Path, home: &Home, scratch: &Path) -> Self {
        let mut child = Command::new(binaries.join("claude-mem"))
            .args(["open", "--no-browser"])
            .env("CLAUDE_MEM_HOME", home.dir())
            .env("HOME", scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address =
            lines.map(|line| line.trim().to_owned()).find(|line| line.starts_with("http://")).unwrap();
        let (host, token) = address.trim_start_matches("http://").split_once('/').unwrap();
        let mut bridge = Self { child, host: host.to_owned(), cookie: String::new() };
        let entered = bridge.get(&format!("/{token}")).1;
        let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        bridge.cookie = cookie.split(';').next().unwrap().to_owned();
        bridge
    }

    /// Milliseconds until the first byte, including the connection, and the response, head and all.
    fn get(&self, path: &str) -> (f64, String) {
        let began = Instant::now();
        let port: u16 = self.host.rsplit(':').next().unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (host, cookie) = (&self.host, &self.cookie);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        let time = began.elapsed().as_secs_f64() * 1000.0;
        let mut response = String::from_utf8(first.to_vec()).unwrap();
        stream.read_to_string(&mut response).unwrap();
        assert!(
            ["HTTP/1.1 200", "HTTP/1.1 303"].iter().any(|start| response.starts_with(start)),
            "{path}: {response}"
        );
        (time, response)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
