//! Search over the worker's socket, with 100,000 and 1,000,000 observations, and the index's cost per insert.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use claude_mem::paths::Home;
use claude_mem::store;
use rusqlite::Connection;

use crate::meaning;
use crate::table::{Table, median};

pub const ASKED: usize = 41;

/// Fills databases and queries workers on them. `CLAUDE_MEM_BENCH_ROWS` sets other sizes: "100000,1000000".
pub fn run(binaries: &Path, table: &mut Table) {
    insert_cost(table);
    let sizes = std::env::var("CLAUDE_MEM_BENCH_ROWS").unwrap_or_else(|_| "100000,1000000".to_owned());
    let mut before: Option<(Vec<f64>, Option<f64>)> = None;
    for rows in sizes.split(',').map(|rows| rows.trim().parse::<usize>().unwrap()) {
        let times = measure(binaries, table, rows, before.as_ref());
        before.get_or_insert(times);
    }
}

/// A query, and its maximum time with 100,000 rows.
const QUESTIONS: [(&str, &str, &str); 7] = [
    ("common word", "q=cache", "≤ 10 ms"),
    ("rare word", "q=zanzibar77", "≤ 3 ms"),
    ("five words", "q=parser+deadlock+index+connection+socket", "≤ 10 ms"),
    ("five words, one project", "q=parser+deadlock+index+connection+socket&project=project3", "≤ 10 ms"),
    ("common word, one type, a year", "q=cache&type=decision&since=365d", "–"),
    ("misspelt word", "q=conection+pool", "–"),
    (
        "40 words",
        "q=lock+token+parser+index+socket+queue+buffer+thread+schema+border+deadlock+timeout+retry+header+layout+font+button+colour+window+signal+branch+commit+merge+rebase+module+import+export+class+method+string+number+array+stream+file+folder+path+network+packet+router+proxy",
        "≤ 100 ms",
    ),
];

/// The time of every query, and of a hybrid one.
fn measure(
    binaries: &Path,
    table: &mut Table,
    rows: usize,
    before: Option<&(Vec<f64>, Option<f64>)>,
) -> (Vec<f64>, Option<f64>) {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    let began = Instant::now();
    fill(&home, rows);
    let each = began.elapsed().as_secs_f64() * 1e6 / rows as f64;
    table.figure(&format!("filling {rows} rows, words learnt"), format!("{each:.0} µs a row"), "–");
    let worker = Worker::start(binaries, &home, scratch.path());
    let mut medians = Vec::new();
    for (at, (what, query, bound)) in QUESTIONS.into_iter().enumerate() {
        let mut times: Vec<f64> = (0..ASKED).map(|_| worker.ask(&format!("/api/search?{query}"))).collect();
        let ours = median(&mut times);
        let what = format!("search {rows}: {what}");
        match before.and_then(|(before, _)| before.get(at)) {
            Some(before) => table.time(&format!("{what} (baseline: the first size)"), *before, ours, "≤ 4×"),
            None => table.figure(&what, format!("{ours:.2} ms"), bound),
        }
        medians.push(ours);
    }
    table.figure(&format!("PSS without a model, {rows} rows"), format!("{:.1} MB", worker.memory_mb()), "–");
    drop(worker);
    let hybrid = before.and_then(|(_, hybrid)| *hybrid);
    (medians, meaning::measure(binaries, &home, scratch.path(), rows, hybrid, table))
}

/// A worker to query.
pub struct Worker {
    child: Child,
    socket: PathBuf,
}

impl Worker {
    /// Starts a worker and warms it up. The first worker of a day also checks the file and makes a backup: measurements start
    /// after that.
    pub fn start(binaries: &Path, home: &Home, scratch: &Path) -> Self {
        let child = Command::new(binaries.join("claude-mem"))
            .arg("worker")
            .env("CLAUDE_MEM_HOME", home.dir())
            .env("HOME", scratch)
            .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local")
            .env("CLAUDE_MEM_SEARCH_MODEL_IDLE_S", "3")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let worker = Self { child, socket: home.socket() };
        while UnixStream::connect(&worker.socket).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(1));
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut before = worker.ticks();
        loop {
            std::thread::sleep(Duration::from_millis(700));
            let now = worker.ticks();
            if now <= before + 1 || Instant::now() > deadline {
                break;
            }
            before = now;
        }
        // The first queries fill the page cache.
        for (_, query, _) in QUESTIONS {
            worker.ask(&format!("/api/search?{query}"));
        }
        worker
    }

    /// CPU time used, in hundredths of a second.
    pub fn ticks(&self) -> u64 {
        ticks(self.child.id())
    }

    /// Time of an answer including the connection, in milliseconds.
    pub fn ask(&self, route: &str) -> f64 {
        let began = Instant::now();
        self.answer(route);
        began.elapsed().as_secs_f64() * 1000.0
    }

    /// The answer to a route, head and all.
    pub fn answer(&self, route: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(stream, "GET {route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    /// Wakes it up.
    pub fn nudge(&self) {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(stream, "POST /api/nudge HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let _ = stream.read_to_string(&mut String::new());
    }

    /// Proportional set size.
    pub fn memory_mb(&self) -> f64 {
        memory_mb(self.child.id())
    }
}

/// CPU time that a process used, in hundredths of a second.
pub fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Proportional set size of a process.
pub fn memory_mb(pid: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Words of everyday work; the earlier ones are the more common.
const WORDS: &str = "the to a of in and is for it with on cache test error request token file user when not from that after \
    add fix use config query build server connection lock parser index socket queue buffer thread schema border deadlock \
    timeout retry header layout font button colour window signal branch commit merge rebase module import export class method \
    string number array stream folder path network packet router proxy session cookie upload download image video audio \
    table column row key value map list tree graph node edge hash sort filter search match replace split join trim parse \
    format print log trace debug release version upgrade migrate rollback deploy container volume cluster pod service \
    endpoint payload schema validate sanitize escape encode decode encrypt decrypt sign verify certificate issuer";

/// A database with this many observations.
pub fn fill(home: &Home, rows: usize) {
    fill_shaped(home, rows, Shape { for_each_session: 20, projects: 8 });
}

/// The distribution of observations over projects and sessions.
#[derive(Clone, Copy)]
pub struct Shape {
    pub for_each_session: usize,
    pub projects: usize,
}

/// Fills a database: project0 and so on, sessions s0 and so on.
pub fn fill_shaped(home: &Home, rows: usize, shape: Shape) {
    let mut database = store::open_for_worker(home, 0).unwrap();
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut at = 0;
    while at < rows {
        let transaction = database.transaction().unwrap();
        for number in at..(at + 2_000).min(rows) {
            let mut text = |count: usize| {
                let mut text = String::new();
                for _ in 0..count {
                    // Squared, so that a few words are in most texts; one in four comes from a long tail of names.
                    let uniform = (next() % 1_000_000) as f64 / 1e6;
                    if next() % 4 == 0 {
                        let _ = write!(text, "name{:x} ", (uniform * uniform * 200_000.0) as u64);
                    } else {
                        text.push_str(words[(uniform * uniform * words.len() as f64) as usize]);
                        text.push(' ');
                    }
                }
                text
            };
            let rare = if number % 20_000 == 77 { "zanzibar77" } else { "" };
            insert(&transaction, (number, shape), &(text(7) + rare), &text(30), &text(35), &text(12));
        }
        transaction.commit().unwrap();
        at += 2_000;
    }
    while claude_mem::search::indexing::index_and_merge_some(&mut database).unwrap() {}
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

const TYPES: [&str; 6] = ["bugfix", "feature", "refactor", "change", "discovery", "decision"];

fn insert(
    database: &Connection,
    (number, shape): (usize, Shape),
    title: &str,
    summary: &str,
    detail: &str,
    fact: &str,
) {
    let of_session = number / shape.for_each_session;
    let (session, project) = (format!("s{of_session}"), format!("project{}", of_session % shape.projects));
    let at = 1_750_000_000_000 + number as i64 * 60_000;
    if number.is_multiple_of(shape.for_each_session) {
        // Ended, or the worker would begin to close thousands of silent sessions.
        let sql = "INSERT INTO sessions (id, project, status, started_at, last_activity_at, ended_at)
                   VALUES (?1, ?2, 'completed', ?3, ?3, ?3)";
        database.prepare_cached(sql).unwrap().execute((&session, &project, at)).unwrap();
    }
    let sql =
        "INSERT INTO observations (uid, session_id, project, type, title, summary, detail, facts, concepts,
                 files_modified, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, json_array(?8), json_array('cache', 'parser'),
                 json_array('src/' || ?9 || '/mod.rs'), ?10)";
    let uid = format!("{number:036}");
    let folder = title.split(' ').next();
    let mut statement = database.prepare_cached(sql).unwrap();
    let kind = TYPES[number % 6];
    statement
        .execute(rusqlite::params![uid, session, project, kind, title, summary, detail, fact, folder, at])
        .unwrap();
}

/// Stores one observation per transaction, like the worker, with the index and without it.
fn insert_cost(table: &mut Table) {
    let mut medians = Vec::new();
    for indexed in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
        fill(&home, 10_000);
        let mut database = store::open_for_worker(&home, 0).unwrap();
        while claude_mem::search::indexing::index_and_merge_some(&mut database).unwrap() {}
        if !indexed {
            database.execute_batch("DROP TRIGGER search_observation_came").unwrap();
        }
        let texts: Vec<String> = {
            let sql = "SELECT summary FROM observations WHERE id <= 2000";
            let mut statement = database.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut times = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let began = Instant::now();
            database.execute_batch("BEGIN IMMEDIATE").unwrap();
            let place = (10_000 + number, Shape { for_each_session: 20, projects: 8 });
            insert(&database, place, &text[..40], text, text, &text[..60]);
            if indexed {
                claude_mem::search::indexing::index_batch(&database).unwrap();
            }
            database.execute_batch("COMMIT").unwrap();
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        // The mean, because a few inserts merge the index on behalf of all.
        medians.push(times.iter().sum::<f64>() / times.len() as f64);
    }
    table.time("insert of an observation, indexed (baseline: not)", medians[0], medians[1], "≤ 3×");
}
