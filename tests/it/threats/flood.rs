//! A session that sends more than the disk can hold.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use claude_mem::config::{Config, Environment};
use claude_mem::hook::{self, Verb};
use claude_mem::paths::Home;
use claude_mem::{spool, store};
use serde_json::json;

use crate::sandbox::Sandbox;
use crate::service::{PATIENCE, Worker};

#[test]
fn a_flood_of_events_does_not_fill_the_disk_and_leaves_others_alone() {
    const MAX_MB: u64 = 3;
    const EVENTS: usize = 1_200;
    let sandbox = Sandbox::new();
    // Nothing is settled meanwhile: all of it waits.
    sandbox.configure(&format!("[retention]\nmax_mb = {MAX_MB}\n[batch]\nmax_size = 1000000\n"));
    let worker = Worker::start(&sandbox);
    sandbox.prompt("quiet", "Remember me");
    sandbox.edit("quiet", "kept");
    let output = "a line of output, again and again\n".repeat(300);
    for batch in 0..EVENTS / 100 {
        let event = |number: usize| {
            json!({"tool_name": "Bash", "tool_use_id": format!("t{batch}-{number}"), "cwd": sandbox.path(),
                   "tool_input": {"command": "yes"}, "tool_response": {"stdout": output}})
        };
        let events: Vec<_> = (0..100).map(event).collect();
        assert_eq!(worker.post("/api/sessions/flood/observations", &json!(events)).status, 202);
    }
    let size = || fs::metadata(sandbox.data().join("claude-mem.db")).unwrap().len();
    let deadline = Instant::now() + PATIENCE;
    // Some free pages are kept for what comes next.
    while size() > (MAX_MB + 5) << 20 {
        assert!(Instant::now() < deadline, "{} bytes\n{}", size(), sandbox.logged());
        assert_eq!(worker.post("/api/nudge", &json!({})).status, 202);
        std::thread::sleep(Duration::from_millis(20));
    }
    let count = |what: &str| sandbox.get::<i64>(&format!("SELECT count(*) FROM pending_queue WHERE {what}"));
    assert_eq!(count("session_id = 'flood'"), EVENTS as i64, "every event has its row");
    assert_eq!(count("session_id = 'flood' AND payload IS NOT NULL AND NOT json_valid(payload)"), 0);
    assert_eq!(count("session_id = 'quiet' AND status = 'raw' AND payload LIKE '%Hello kept%'"), 1);
    assert_eq!(count("status = 'skipped' AND last_error NOT LIKE '%retention.max_mb%'"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 1);
    // The user is told, once.
    let start = json!({"session_id": "next", "cwd": sandbox.path(), "source": "startup"}).to_string();
    assert!(sandbox.hook("context", &start).stdout.contains("retention.max_mb"));
}

#[test]
fn a_hook_keeps_the_beginning_of_an_event_while_the_database_is_too_large() {
    let sandbox = Sandbox::new();
    sandbox.configure("[retention]\nmax_mb = 1\n");
    let payload = |id: &str| {
        crate::sandbox::tool_payload("s", id, sandbox.path(), &"a line of output\n".repeat(20_000).into())
    };
    for number in 0..5 {
        sandbox.hook("save", payload(&format!("t{number}"))).assert_unnoticed();
    }
    sandbox.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    sandbox.hook("save", payload("late")).assert_unnoticed();
    let kept = |id: &str| {
        sandbox.get::<i64>(&format!(
            "SELECT octet_length(payload) FROM pending_queue WHERE tool_use_id = '{id}'"
        ))
    };
    assert!(kept("t0") > 300_000 && kept("late") < 8_192, "{} {}", kept("t0"), kept("late"));
    let raw: i64 = sandbox.get("SELECT raw_bytes FROM pending_queue WHERE tool_use_id = 'late'");
    assert!(raw > 300_000, "what it was is told");
}

/// What the files of a data directory take.
fn taken(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => taken(&entry.path()),
        meta => meta.map_or(0, |meta| meta.len()),
    });
    sizes.sum()
}

fn flooding(sandbox: &Sandbox, id: &str) -> String {
    crate::sandbox::tool_payload("flood", id, sandbox.path(), &"a line of output\n".repeat(600).into())
}

/// What a hook does between its start and its end, without the process around it: that alone would take longer.
fn as_a_hook_would(sandbox: &Sandbox, home: &Home, id: &str) {
    let environment = Environment::default();
    let (mut config, _) = Config::load_forgiving(&home.config(), &environment);
    hook::spare_the_disk(home, &mut config);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let payload = flooding(sandbox, id).into_bytes();
    let event = hook::accept(Verb::Save, payload, now, &config, &environment).unwrap();
    let stored = store::open_for_hook(home, config.hook.busy_ms)
        .and_then(|mut database| store::record(&mut database, &event));
    if stored.is_err() {
        spool::write(home, &event).unwrap();
    }
    hook::nudge(home);
}

/// How many events; `CLAUDE_MEM_FLOOD_EVENTS=100000` is what docs/threat-model.md tells about.
fn events() -> usize {
    std::env::var("CLAUDE_MEM_FLOOD_EVENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

#[test]
fn while_a_session_sends_as_fast_as_it_can_the_disk_is_bounded_at_every_moment() {
    const MAX_MB: u64 = 8;
    let sandbox = Sandbox::new();
    // Nothing is settled meanwhile: the worst that can be.
    sandbox.configure(&format!("[retention]\nmax_mb = {MAX_MB}\n[batch]\nmax_size = 1000000\n"));
    let _worker = Worker::start(&sandbox);
    let home = Home::at(sandbox.data());
    let (is_over, most, sent) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(taken(sandbox.data()), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let floods: Vec<_> = (0..4)
            .map(|thread| {
                let (sandbox, home, sent) = (&sandbox, &home, &sent);
                scope.spawn(move || {
                    for number in 0..50 {
                        let payload = flooding(sandbox, &format!("real-{thread}-{number}"));
                        sandbox.hook("save", payload).assert_unnoticed();
                    }
                    for number in 0..events() / 4 {
                        as_a_hook_would(sandbox, home, &format!("{thread}-{number}"));
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let (seconds, sent) = (began.elapsed().as_secs_f64(), sent.load(Ordering::Relaxed) + 200);
    let rows = || sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE session_id = 'flood'");
    sandbox.wait_for(
        "taken in",
        &format!("SELECT count(*) = {sent} FROM pending_queue WHERE session_id = 'flood'"),
    );
    assert_eq!((rows(), sandbox.dropped()), (sent as i64, 0), "every event has its row");
    let deadline = Instant::now() + PATIENCE;
    let allowed = (MAX_MB << 20) + sent * 1024;
    while taken(sandbox.data()) > allowed + (8 << 20) {
        assert!(Instant::now() < deadline, "{}\n{}", taken(sandbox.data()), sandbox.logged());
        std::thread::sleep(Duration::from_millis(50));
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let (peak, at_rest) = (most.load(Ordering::Relaxed), taken(sandbox.data()));
    eprintln!(
        "{sent} events in {seconds:.1} s ({:.0} a minute), {:.0} MB offered: at most {:.1} MB on the disk, {:.1} MB in the end",
        sent as f64 / seconds * 60.0,
        mb(sent * 10_400),
        mb(peak),
        mb(at_rest)
    );
    // The log may be full while it is written back, and a burst may be a moment ahead.
    assert!(peak < allowed + (48 << 20), "{peak} bytes at the most, {allowed} allowed");
}
