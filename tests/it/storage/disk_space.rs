//! Small and full disks: work that can wait leaves room for new events.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use claude_mem::files::disk::Space;

use crate::harness::sandbox::{Sandbox, Tmpfs, tool_payload};
use crate::harness::wait::PATIENCE;
use crate::harness::worker::Worker;
use crate::storage::damage::{mem, turn};

const MB: u64 = 1 << 20;

/// Fills the event log with this many megabytes of rows that nothing drops.
fn fill_database(sandbox: &Sandbox, megabytes: i64) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
               INSERT INTO event_log (event_type, data, created_at)
               SELECT 'filler', json_quote(hex(zeroblob(500000))), 1e15 FROM n";
    let database = sandbox.database();
    database.execute(sql, [megabytes]).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// Fills the disk except for `left` bytes. Returns the file.
fn fill_disk(place: &Path, left: u64) -> std::path::PathBuf {
    let path = place.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    let block = vec![7; 64 << 10];
    while Space::at(place).unwrap().free > left {
        if file.write_all(&block).is_err() {
            break;
        }
    }
    path
}

#[test]
fn a_backup_that_would_use_the_reserve_is_reported_and_waits() {
    let Some(disk) = Tmpfs::new("size=60m") else { return };
    let sandbox = Sandbox::with_data(disk.path().join("mem"));
    turn(&sandbox, "before");
    fill_database(&sandbox, 25);
    let failures = "SELECT count(*) FROM event_log WHERE event_type = 'backup_failed'";
    let mut worker = Worker::start(&sandbox);
    sandbox.wait_for("reported", &format!("SELECT ({failures}) = 1"));
    turn(&sandbox, "after");
    sandbox.wait_until_settled();
    assert!(Space::at(disk.path()).unwrap().free > 15 * MB);
    worker.stop();
    // The next worker does not try again, and `status` shows the reason.
    let _next = Worker::start(&sandbox);
    turn(&sandbox, "later");
    sandbox.wait_until_settled();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((sandbox.get::<i64>(failures), sandbox.dropped()), (1, 0));
    let asked = mem(&sandbox, &["backup"]);
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stderr.contains("MB are kept for new events"), "{asked:?}");
    let left = fs::read_dir(sandbox.data().join("backups")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left of the tries");
}

#[test]
fn events_that_find_a_full_disk_use_the_reserve() {
    let Some(disk) = Tmpfs::new("size=100m") else { return };
    let sandbox = Sandbox::with_data(disk.path().join("mem"));
    // Spooled events may be drained after the end of their turn.
    sandbox.configure("[batch]\nmax_wait_s = 1\n");
    turn(&sandbox, "before");
    let mut worker = Worker::start(&sandbox);
    let reserve = sandbox.data().join("reserve");
    sandbox.wait_until("reserved", || fs::metadata(&reserve).is_ok_and(|meta| meta.len() == 8 * MB));
    sandbox.wait_until_settled();
    worker.stop();
    let filler = fill_disk(disk.path(), 0);
    for number in 0..100 {
        sandbox.edit("full", &format!("full-{number}"));
    }
    sandbox.end_turn("full");
    assert_eq!(sandbox.dropped(), 0);
    assert!(!reserve.exists());
    fs::remove_file(filler).unwrap();
    let _worker = Worker::start(&sandbox);
    sandbox.wait_for(
        "taken in",
        "SELECT count(*) = 100 FROM pending_queue WHERE session_id = 'full' AND kind = 'observation'",
    );
    sandbox.wait_until_settled();
}

#[test]
fn a_recovery_waits_until_there_is_room_for_it() {
    let Some(disk) = Tmpfs::new("size=90m") else { return };
    let sandbox = Sandbox::with_data(disk.path().join("mem"));
    turn(&sandbox, "before");
    fill_database(&sandbox, 15);
    let filler = fill_disk(disk.path(), 35 * MB);
    let file = fs::OpenOptions::new().write(true).open(sandbox.data().join("claude-mem.db")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 100], 0).unwrap();
    let worker = Worker::start(&sandbox);
    let health = worker.wait_for_health("degraded", |health| health["status"] == "degraded");
    assert!(health["reason"].as_str().unwrap().contains("kept for new events"), "{health:#}");
    assert!(!sandbox.data().join("recovering").exists());
    // The check uses the size of the file, which may grow by the salvaged rows.
    fs::remove_file(filler).unwrap();
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'recovery'"), 1);
}

#[test]
fn only_raw_events_count_towards_the_limit() {
    let sandbox = Sandbox::new();
    sandbox.configure("[retention]\nmax_mb = 2\n[batch]\nmax_size = 1000000\n");
    sandbox.prompt("s", "Repair the greeting");
    fill_database(&sandbox, 10);
    let worker = Worker::start(&sandbox);
    sandbox.wait_until("measured", || sandbox.data().join("memory.bytes").exists());
    let long = |id: &str| {
        let output = "a line of output\n".repeat(1_000);
        tool_payload("s", id, sandbox.path(), &output.into())
    };
    for number in 0..30 {
        sandbox.hook("save", long(&format!("t{number}"))).assert_unnoticed();
    }
    let whole = "SELECT count(*) FROM pending_queue WHERE status = 'raw' AND octet_length(payload) > 15000";
    assert_eq!(sandbox.get::<i64>(whole), 30);
    let status = mem(&sandbox, &["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    for number in 0..400 {
        sandbox.hook("save", long(&format!("flood{number}"))).assert_unnoticed();
    }
    worker.wait_for_health("degraded", |health| {
        health["reason"].as_str().is_some_and(|reason| reason.contains("retention.max_mb"))
    });
    let status = mem(&sandbox, &["status"]);
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.stdout.contains("retention.max_mb"), "{status:?}");
}

/// Sends events of this size from two clients while `goes_on` holds. Returns their number.
fn flood(sandbox: &Sandbox, name: &str, bytes: usize, goes_on: impl Fn(usize) -> bool + Sync) -> usize {
    let sent = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|both| {
        for _ in 0..2 {
            both.spawn(|| {
                loop {
                    let number = sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if !goes_on(number) {
                        sent.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                        break;
                    }
                    let stdout = format!("{number} {}", "output of a long build ".repeat(bytes / 23));
                    let response = serde_json::json!({"stdout": stdout, "stderr": ""});
                    let payload =
                        tool_payload("flood", &format!("{name}-{number}"), sandbox.path(), &response);
                    sandbox.hook("save", payload).assert_unnoticed();
                }
            });
        }
    });
    sent.into_inner()
}

#[test]
fn a_daily_backup_during_a_flood_loses_no_event() {
    let Some(disk) = Tmpfs::new("size=300m") else { return };
    let sandbox = Sandbox::with_data(disk.path().join("mem"));
    turn(&sandbox, "before");
    fill_database(&sandbox, 40);
    let began: i64 = sandbox.get("SELECT unixepoch() * 1000");
    let _worker = Worker::start(&sandbox);
    let made = || sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'backup'") > 0;
    let deadline = Instant::now() + PATIENCE;
    let beside = flood(&sandbox, "beside", 500, |number| {
        assert!(Instant::now() < deadline, "no backup was made\n{}", sandbox.logged());
        number < 50 || !made()
    });
    // More than the disk holds: raw payloads give way, events do not.
    let after = flood(&sandbox, "after", 1_000_000, |number| number < 350);
    let backups = || fs::read_dir(sandbox.data().join("backups")).map_or(0, Iterator::count);
    assert!(
        made()
            && sandbox.get::<i64>("SELECT min(created_at) FROM event_log WHERE event_type = 'backup'")
                >= began
    );
    eprintln!("{beside} events beside the backup, {after} after it, {} backups left", backups());
    assert_eq!(sandbox.dropped(), 0);
    let kept = format!(
        "SELECT count(*) = {} FROM pending_queue WHERE session_id = 'flood' AND tool_use_id IS NOT NULL",
        beside + after
    );
    sandbox.wait_for("every event is kept", &kept);
}
