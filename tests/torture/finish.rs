//! The end of a run: everything is settled, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::sandbox::Sandbox;
use crate::harness::worker::{Worker, request};
use crate::invariants::{self, check_always, check_settled, one};
use crate::machine::Machine;
use crate::meaning;
use crate::scene::Scene;
use crate::writers;

/// Maximum time without progress: longer than the longest back-off.
const PATIENCE: Duration = Duration::from_secs(320);

/// Waits until all work is done. Advances the calendar a little, so that no row waits for its back-off.
pub fn settle(scene: &Scene, worker: &mut Worker) {
    scene.clock.jump(15 * 60);
    wait_until_settled(scene, worker);
    // Retry the errors that a faulty endpoint caused.
    let errors =
        "SELECT count(*) FROM pending_queue WHERE status = 'error' AND event_key NOT LIKE 'rejected:%'";
    if one::<i64>(&invariants::open(scene.sandbox.data()), errors) > 0 {
        assert_eq!(scene.call(&["queue", "retry"]).code, Some(0));
        wait_until_settled(scene, worker);
    }
}

fn wait_until_settled(scene: &Scene, worker: &mut Worker) {
    let database = invariants::open(scene.sandbox.data());
    let open = "SELECT (SELECT count(*) FROM pending_queue WHERE status IN ('raw', 'processing'))
                     + (SELECT count(*) FROM search_pending)";
    let (mut fewest, mut since) = (i64::MAX, Instant::now());
    loop {
        let left = one::<i64>(&database, open) + scene.sandbox.spooled().len() as i64;
        if left == 0 {
            return;
        }
        if left < fewest {
            (fewest, since) = (left, Instant::now());
        }
        assert!(worker.is_alive(), "the worker ended");
        assert!(since.elapsed() < PATIENCE, "{left} are not settled\n{}", health(&scene.sandbox));
        // The worker sleeps until a time that the calendar has skipped.
        let _ = request(&scene.sandbox.socket(), "POST", "/api/nudge", b"");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn health(sandbox: &Sandbox) -> String {
    request(&sandbox.socket(), "GET", "/api/health", b"").map_or("no answer".into(), |answer| answer.body)
}

/// Checks everything that must hold at the end of a run.
pub fn finish(machine: &mut Machine<'_>) {
    let scene = machine.scene;
    machine.end_all_faults();
    let ledger = scene.ledger.lock().unwrap().clone();
    check_always(scene.sandbox.data(), &[scene.sandbox.data().join("spool")], &ledger, || ledger.clone());
    let mut worker = machine.worker.take().unwrap();
    settle(scene, &mut worker);
    check_memory(scene, &mut worker);
    assert!(worker.stop().success(), "SIGTERM at the end");
    let ledger = scene.ledger.lock().unwrap().clone();
    let settled = check_settled(scene.sandbox.data(), &ledger);
    check_files(&scene.sandbox);
    check_no_process(&scene.sandbox);
    check_log(&scene.sandbox);
    check_index(scene);
    check_dropped(scene);
    let vectors = meaning::check(scene);
    let mut figures = scene.figures.lock().unwrap();
    figures.checks += 1;
    figures.vectors = vectors;
    figures.settled = settled;
    figures.events = settled;
    figures.spooled =
        ledger.entries.iter().filter(|entry| entry.fate == crate::ledger::Fate::Spooled).count() as u64;
}

/// The count of dropped events must match the hooks' reports; a killed hook may have counted without reporting.
fn check_dropped(scene: &Scene) {
    let figures = scene.figures.lock().unwrap();
    let counted = scene.sandbox.dropped() as u64;
    let killed = figures.faults.get("hook killed").copied().unwrap_or_default();
    let expected = figures.dropped..=figures.dropped + killed;
    assert!(expected.contains(&counted), "{counted} counted as dropped, and not {expected:?}");
}

/// Checks that the worker's memory does not grow with work, once memory is released. Only private memory counts: its share of
/// the program's file depends on the number of processes that run it.
fn check_memory(scene: &Scene, worker: &mut Worker) {
    let pid = worker.pid();
    let own = || memory(pid, "Pss_Anon:");
    writers::burst(scene, 4);
    settle(scene, worker);
    let floor = own();
    for _ in 0..3 {
        writers::burst(scene, 4);
        settle(scene, worker);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let allowed = floor + floor / 4 + (4 << 20);
    while own() >= allowed {
        assert!(Instant::now() < deadline, "the worker grew from {floor} to {} bytes, and stays so", own());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Proportional set size of a process, in bytes.
pub fn proportional_set_size(pid: u32) -> u64 {
    memory(pid, "Pss:")
}

/// One field of a process's memory statistics, in bytes.
pub fn memory(pid: u32, kind: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Checks that only expected files exist, and that they are small enough.
fn check_files(sandbox: &Sandbox) {
    const KNOWN: [&str; 12] = [
        "claude-mem.db",
        "claude-mem.db-wal",
        "claude-mem.db-shm",
        "config.toml",
        "worker.lock",
        "dropped.log",
        "backups",
        "spool",
        "worker.log",
        "models",
        "reserve",
        "memory.bytes",
    ];
    for name in names(sandbox.data()) {
        assert!(KNOWN.contains(&name.as_str()), "left behind: {name}");
    }
    assert_eq!(names(&sandbox.data().join("spool")), Vec::<String>::new(), "left in the spool");
    for name in names(&sandbox.data().join("backups")) {
        assert!(name.ends_with(".db"), "left among the backups: {name}");
        let copy = rusqlite::Connection::open(sandbox.data().join("backups").join(&name)).unwrap();
        assert_eq!(one::<String>(&copy, "PRAGMA integrity_check"), "ok", "{name}");
    }
    let size = |name: &str| fs::metadata(sandbox.data().join(name)).map_or(0, |meta| meta.len());
    assert!(size("claude-mem.db-wal") < 8 << 20, "the log has {} bytes", size("claude-mem.db-wal"));
    let database = invariants::open(sandbox.data());
    let unused = one::<i64>(&database, "PRAGMA freelist_count");
    // The worker keeps a thousand free pages for new events, and checks once an hour.
    let all = one::<i64>(&database, "PRAGMA page_count");
    assert!(unused < 4000.max(all / 2), "{unused} of {all} pages are unused");
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that no process with this home is left.
fn check_no_process(sandbox: &Sandbox) {
    let home = format!("CLAUDE_MEM_HOME={}\0", sandbox.data().display());
    for entry in fs::read_dir("/proc").unwrap().map_while(Result::ok) {
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let is_ours = environment.windows(home.len()).any(|window| window == home.as_bytes());
        assert!(!is_ours, "process {:?} is left", entry.file_name());
    }
}

/// Checks that nothing panicked.
pub fn check_log(sandbox: &Sandbox) {
    let log = sandbox.logged();
    let panics: Vec<&str> = log.lines().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}");
}

/// Checks that the grown index answers like a rebuilt one.
fn check_index(scene: &Scene) {
    const QUESTIONS: [&str; 8] = [
        "greeting",
        "polite",
        "make it work",
        "AssertionError rude",
        "e1-2-0",
        "politeness",
        "test_e0",
        "\"is polite now\"",
    ];
    let answers =
        || -> Vec<Vec<String>> { QUESTIONS.iter().map(|question| answer(scene, question)).collect() };
    let grown = answers();
    assert_eq!(scene.call(&["reindex"]).code, Some(0));
    let fresh = answers();
    for ((question, grown), fresh) in QUESTIONS.iter().zip(grown).zip(fresh) {
        assert_eq!(grown, fresh, "the index gives other answers to {question:?} after a rebuild");
    }
}

fn answer(scene: &Scene, question: &str) -> Vec<String> {
    let ended = scene.call(&["search", question, "--json", "--limit", "40"]);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let hits = found["hits"].as_array().unwrap().iter().map(|hit| hit["ref"].to_string());
    hits.chain([found["total"].to_string()]).collect()
}
