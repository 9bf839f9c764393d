//! A session that sends more than the disk can hold.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use claude_mem::capture::{self, Verb};
use claude_mem::config::{Config, Environment};
use claude_mem::paths::Home;
use claude_mem::{spool, store};
use serde_json::json;

use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;

#[test]
fn a_flood_does_not_fill_the_disk_or_affect_other_sessions() {
    const MAX_MB: u64 = 3;
    const EVENTS: usize = 1_200;
    let sandbox = Sandbox::new();
    // Nothing is settled meanwhile: all events wait.
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
    // Some free pages are kept for new events.
    sandbox.wait_until("the file is small", || {
        assert_eq!(worker.post("/api/nudge", &json!({})).status, 202);
        size() <= (MAX_MB + 5) << 20
    });
    let count = |what: &str| sandbox.get::<i64>(&format!("SELECT count(*) FROM pending_queue WHERE {what}"));
    assert_eq!(count("session_id = 'flood'"), EVENTS as i64, "every event has its row");
    assert_eq!(count("session_id = 'flood' AND payload IS NOT NULL AND NOT json_valid(payload)"), 0);
    assert_eq!(count("session_id = 'quiet' AND status = 'raw' AND payload LIKE '%Hello kept%'"), 1);
    assert_eq!(count("status = 'skipped' AND last_error NOT LIKE '%retention.max_mb%'"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 1);
    // The user gets one notice.
    let start = json!({"session_id": "next", "cwd": sandbox.path(), "source": "startup"}).to_string();
    assert!(sandbox.hook("context", &start).stdout.contains("retention.max_mb"));
}

#[test]
fn hooks_keep_a_prefix_while_the_database_is_too_large() {
    let sandbox = Sandbox::new();
    sandbox.configure("[retention]\nmax_mb = 1\n");
    let payload = |id: &str| {
        crate::harness::sandbox::tool_payload(
            "s",
            id,
            sandbox.path(),
            &"a line of output\n".repeat(20_000).into(),
        )
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
    assert!(raw > 300_000, "the original size is recorded");
}

/// The disk usage of a data directory.
fn taken(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => taken(&entry.path()),
        meta => meta.map_or(0, |meta| meta.len()),
    });
    sizes.sum()
}

fn flooding(sandbox: &Sandbox, id: &str) -> String {
    crate::harness::sandbox::tool_payload(
        "flood",
        id,
        sandbox.path(),
        &"a line of output\n".repeat(600).into(),
    )
}

/// Does a hook's work without starting a process, which alone would take longer.
fn as_a_hook_would(sandbox: &Sandbox, home: &Home, id: &str) {
    let environment = Environment::default();
    let (mut config, _) = Config::load_forgiving(&home.config(), &environment);
    capture::limit_payload_on_low_disk(home, &mut config);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let payload = flooding(sandbox, id).into_bytes();
    let event = capture::event_from(Verb::Save, payload, now, &config, &environment).unwrap();
    let stored = store::open_for_hook(home, config.hook.busy_ms)
        .and_then(|mut database| store::record(&mut database, &event));
    if stored.is_err() {
        spool::write(home, &event).unwrap();
    }
    claude_mem::nudge::send(home);
}

/// The number of events; docs/threat-model.md quotes a run with `CLAUDE_MEM_FLOOD_EVENTS=100000`.
fn events() -> usize {
    std::env::var("CLAUDE_MEM_FLOOD_EVENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

#[test]
fn disk_use_stays_bounded_during_a_flood() {
    const MAX_MB: u64 = 8;
    let sandbox = Sandbox::new();
    // Nothing is settled meanwhile: the worst case.
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
    let allowed = (MAX_MB << 20) + sent * 1024;
    sandbox.wait_until("the directory is small", || taken(sandbox.data()) <= allowed + (8 << 20));
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let (peak, at_rest) = (most.load(Ordering::Relaxed), taken(sandbox.data()));
    eprintln!(
        "{sent} events in {seconds:.1} s ({:.0} a minute), {:.0} MB offered: at most {:.1} MB on the disk, {:.1} MB in the end",
        sent as f64 / seconds * 60.0,
        mb(sent * 10_400),
        mb(peak),
        mb(at_rest)
    );
    // The WAL may be full during its checkpoint, and a burst may be slightly ahead.
    assert!(peak < allowed + (48 << 20), "{peak} bytes at the most, {allowed} allowed");
}

/// `CLAUDE_MEM_FLOOD_EVENTS=100000` offers 1 GB to a disk of 100 MB.
#[test]
fn a_flood_on_a_small_disk_with_backups_loses_nothing() {
    let Some(disk) = crate::harness::sandbox::Tmpfs::new("size=100m") else { return };
    let sandbox = Sandbox::with_data(disk.path().join("mem"));
    for number in 0..3 {
        crate::storage::damage::turn(&sandbox, &format!("before-{number}"));
    }
    let _worker = Worker::start(&sandbox);
    let home = Home::at(sandbox.data());
    let space = || claude_mem::files::disk::Space::at(disk.path()).unwrap().free;
    let (is_over, least) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let sent = events() + 100;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                least.fetch_min(space(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let floods: Vec<_> = (0..2)
            .map(|thread| {
                let (sandbox, home) = (&sandbox, &home);
                scope.spawn(move || {
                    for number in 0..50 {
                        let payload = flooding(sandbox, &format!("real-{thread}-{number}"));
                        sandbox.hook("save", payload).assert_unnoticed();
                    }
                    for number in 0..events() / 2 {
                        as_a_hook_would(sandbox, home, &format!("{thread}-{number}"));
                    }
                })
            })
            .collect();
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let taken_in = format!("SELECT count(*) = {sent} FROM pending_queue WHERE session_id = 'flood'");
    sandbox.wait_for("taken in", &taken_in);
    assert_eq!(sandbox.dropped(), 0);
    // The daily backup is made in a quiet period, or refused for lack of space; events continue either way.
    let backups = || {
        let copies = fs::read_dir(sandbox.data().join("backups")).into_iter().flatten().flatten();
        copies.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "db")).count()
    };
    let failures = "SELECT count(*) FROM event_log WHERE event_type = 'backup_failed'";
    let mut sent_meanwhile = 0;
    sandbox.wait_until("a backup is made or refused", || {
        sandbox.edit("other", &format!("other-{sent_meanwhile}"));
        sent_meanwhile += 1;
        std::thread::sleep(Duration::from_millis(700));
        backups() > 0 || sandbox.get::<i64>(failures) > 0
    });
    assert_eq!(sandbox.dropped(), 0);
    let backups = backups();
    eprintln!(
        "{sent} events, {:.0} MB offered, at least {:.1} MB stayed free, {backups} backups, 0 lost",
        sent as f64 * 10_400.0 / 1e6,
        least.load(Ordering::Relaxed) as f64 / 1e6
    );
    assert!(least.load(Ordering::Relaxed) > 2 << 20, "{}", sandbox.logged());
}
