//! The worker's life cycle: one worker per data directory, signals, settings, sockets that vanish.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, run};
use crate::harness::wait::PATIENCE;
use crate::harness::worker::{Worker, edit_payload, get, request};

#[test]
fn a_turn_becomes_observations_and_a_summary() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    sandbox.prompt("s", "Show a polite greeting on the landing page");
    sandbox.edit("s", "a");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 1);
    assert_eq!(
        sandbox.get::<String>("SELECT request FROM session_summaries"),
        "Show a polite greeting on the landing page"
    );
    assert_eq!(sandbox.rows("error"), 0);
}

#[test]
fn a_second_foreground_worker_fails_with_a_message() {
    let sandbox = Sandbox::new();
    let first = Worker::start(&sandbox);
    let second = run(sandbox.worker_command(), b"");
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains(&format!("another worker (pid {})", first.pid())), "{}", second.stderr);
    assert_eq!(first.get("/api/health").json()["pid"], first.pid(), "the first is not disturbed");
}

#[test]
fn of_many_concurrent_starts_one_serves_and_all_succeed() {
    let sandbox = Sandbox::new();
    let _stopped = Stopped(&sandbox);
    let program = env!("CARGO_BIN_EXE_claude-mem");
    let start = || {
        let mut command = sandbox.command(program);
        command.arg("start").env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
        run(command, b"")
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        for started in started {
            let ran = started.join().unwrap();
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
    });
    let pid = get(&sandbox.socket(), "/api/health").unwrap().json()["pid"].clone();
    let again = start();
    assert_eq!(
        (again.code, again.stdout),
        (Some(0), format!("The service is already running (pid {pid}).\n"))
    );
    let mut stop = sandbox.command(program);
    stop.arg("stop");
    assert_eq!(run(stop, b"").code, Some(0));
    assert!(get(&sandbox.socket(), "/api/health").is_none());
}

/// Stops the worker that `start` detached, even if the test fails.
struct Stopped<'a>(&'a Sandbox);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut stop = self.0.command(env!("CARGO_BIN_EXE_claude-mem"));
        let _ = stop.arg("stop").stdout(Stdio::null()).status();
    }
}

#[test]
fn a_reload_restores_a_removed_socket() {
    let sandbox = Sandbox::new();
    let mut worker = Worker::start(&sandbox);
    fs::remove_file(sandbox.socket()).unwrap();
    fs::remove_file(sandbox.data().join("nudge.sock")).unwrap();
    worker.signal(Signal::HUP);
    worker.wait_until_it_answers();
    let nudge = UnixDatagram::unbound().unwrap();
    nudge.send_to(b"n", sandbox.data().join("nudge.sock")).unwrap();
    assert!(worker.stop().success());
    assert!(!sandbox.socket().exists(), "what it made again it also takes away");
}

#[test]
fn a_worker_exits_when_its_data_directory_is_removed() {
    for is_degraded in [false, true] {
        let sandbox = Sandbox::new();
        if is_degraded {
            sandbox.configure("nonsense");
        }
        let mut worker = Worker::start(&sandbox);
        fs::remove_dir_all(sandbox.data()).unwrap();
        assert!(worker.wait().success());
        assert!(!sandbox.data().exists());
        // The next hook records, and a new worker processes its event.
        sandbox.edit("s", "a");
        sandbox.end_turn("s");
        let _next = Worker::start(&sandbox);
        sandbox.wait_until_settled();
    }
}

#[test]
fn a_worker_leaves_a_replaced_data_directory_alone() {
    let sandbox = Sandbox::new();
    let mut worker = Worker::start(&sandbox);
    fs::remove_dir_all(sandbox.data()).unwrap();
    sandbox.edit("s", "a");
    worker.signal(Signal::HUP);
    assert!(worker.wait().success());
    assert!(!sandbox.socket().exists() && !sandbox.data().join("worker.lock").exists());
}

#[test]
fn under_a_manager_the_worker_waits_for_a_held_lock() {
    let sandbox = Sandbox::new();
    let mut first = Worker::start(&sandbox);
    let manager = UnixDatagram::bind(sandbox.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = sandbox.worker_command();
    command.env("NOTIFY_SOCKET", sandbox.path().join("notify"));
    let mut second = Worker::spawn(command, &sandbox);
    let hear = |words: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = manager.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..length]).contains(words) {
                return;
            }
        }
    };
    hear("READY=1");
    hear(&format!("waiting: another worker (pid {})", first.pid()));
    assert!(second.is_alive());
    first.stop();
    hear("0 waiting");
    assert_eq!(second.get("/api/health").json()["pid"], second.pid());
    // A waiting worker can be stopped.
    let mut command = sandbox.worker_command();
    command.env("NOTIFY_SOCKET", sandbox.path().join("notify"));
    let mut third = Worker::spawn(command, &sandbox);
    hear("waiting: another worker");
    assert!(third.stop().success());
    assert!(second.is_alive());
}

#[test]
fn status_does_not_trigger_socket_activation() {
    let sandbox = Sandbox::new();
    sandbox.edit("s", "a");
    let listener = std::os::unix::net::UnixListener::bind(sandbox.socket()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut command = sandbox.command(crate::harness::sandbox::program("claude-mem"));
    command.arg("status");
    let ran = run(command, b"");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("stopped"), "{ran:?}");
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "no connection was made"
    );
}

#[test]
fn a_worker_that_lost_its_socket_leaves_no_trace() {
    let sandbox = Sandbox::new();
    let mut first = Worker::start(&sandbox);
    fs::remove_dir_all(sandbox.data()).unwrap();
    let mut second = Worker::start(&sandbox);
    first.signal(Signal::HUP);
    first.wait();
    assert!(second.is_alive());
    assert_eq!(second.get("/api/health").json()["pid"], second.pid());
}

#[test]
fn a_bad_setting_degrades_the_service_until_it_is_repaired() {
    let sandbox = Sandbox::new();
    sandbox.configure("[worker]\nconcurrency = 'many'");
    let worker = Worker::start(&sandbox);
    let health = worker.get("/api/health").json();
    assert_eq!(health["status"], "degraded");
    let reason = health["reason"].as_str().unwrap();
    assert!(reason.contains("config.toml:2") && reason.contains("worker.concurrency"), "{reason}");
    assert_eq!(worker.post("/api/nudge", &json!({})).status, 202);
    let refused = worker.get("/api/queue/stats");
    assert_eq!((refused.status, refused.error_code().as_str()), (503, "degraded"));
    sandbox.edit("s", "a");
    sandbox.end_turn("s");
    sandbox.configure("[worker]\nconcurrency = 1");
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    sandbox.wait_until_settled();
    assert_eq!(sandbox.logged().matches("degraded").count(), 1, "logged once: {}", sandbox.logged());
}

#[test]
fn a_reload_changes_the_settings_and_fails_no_request() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    sandbox.edit("s", "waits");
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(worker.get("/api/queue/stats").status, 200);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..10 {
            let before = asked.load(Ordering::Relaxed);
            worker.signal(Signal::HUP);
            while asked.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(sandbox.rows("raw"), 1, "the batch is open");
    sandbox.configure("[batch]\nenabled = false");
    worker.signal(Signal::HUP);
    sandbox.wait_until_settled();
}

#[test]
fn a_bad_setting_at_a_reload_is_reported_and_ignored() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    sandbox.configure("[no_such_section]\nkey = 1");
    worker.signal(Signal::HUP);
    let is_reported =
        |health: &Value| health["reason"].as_str().is_some_and(|reason| reason.contains("no_such_section"));
    let health = worker.wait_for_health("reported", is_reported);
    assert_eq!(health["status"], "degraded");
    sandbox.configure("");
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
}

#[test]
fn a_reload_is_not_lost_while_the_database_is_being_opened() {
    let sandbox = Sandbox::new();
    sandbox.prompt("s", "so that there is a database");
    // The exclusive lock blocks readers too.
    let holder = sandbox.database();
    holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").unwrap();
    let worker = Worker::start(&sandbox);
    let is_opening =
        |health: &Value| health["reason"].as_str().is_some_and(|reason| reason.contains("being opened"));
    worker.wait_for_health("opening", is_opening);
    sandbox.configure("[no_such_section]\nkey = 1");
    worker.signal(Signal::HUP);
    drop(holder);
    let is_reported =
        |health: &Value| health["reason"].as_str().is_some_and(|reason| reason.contains("no_such_section"));
    worker.wait_for_health("reported", is_reported);
}

#[test]
fn a_terminated_worker_returns_its_claims_without_an_attempt() {
    let sandbox = Sandbox::new();
    sandbox.configure("[worker]\nstop_s = 1");
    let mut worker = Worker::start(&sandbox);
    let holder = claimed_and_held(&sandbox);
    worker.signal(Signal::TERM);
    // Release the lock only after the worker gave up on its result, so that it can return the claim.
    std::thread::sleep(Duration::from_millis(1500));
    drop(holder);
    assert!(worker.wait().success());
    let left = sandbox.get::<String>(
        "SELECT group_concat(DISTINCT status || ' ' || attempts) FROM pending_queue WHERE kind = 'observation'",
    );
    assert!(left == "raw 0" || left == "done 0", "{left}");
    assert_eq!(sandbox.rows("processing"), 0);
    let _next = Worker::start(&sandbox);
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) - count(DISTINCT queue_id) FROM observation_sources"), 0);
}

/// Waits for a claimed batch and takes the write lock before the worker can settle it.
fn claimed_and_held(sandbox: &Sandbox) -> rusqlite::Connection {
    let database = sandbox.database();
    for attempt in 0..50 {
        let session = format!("held-{attempt}");
        for number in 0..8 {
            let payload = edit_payload(&session, &format!("e{attempt}-{number}"), sandbox.path(), 500_000);
            sandbox.hook("save", payload).assert_unnoticed();
        }
        sandbox.end_turn(&session);
        sandbox.wait_for(
            "claimed or settled",
            &format!("SELECT NOT EXISTS (SELECT 1 FROM pending_queue WHERE session_id = '{session}' AND status = 'raw'
                      AND kind = 'observation')"),
        );
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let sql = "SELECT count(*) FROM pending_queue WHERE status = 'processing' AND kind = 'observation'";
        if database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() > 0 {
            return database;
        }
        database.execute_batch("ROLLBACK").unwrap();
    }
    panic!("the worker is too fast for this test");
}

/// As under systemd: the test holds the socket while one worker replaces another.
#[test]
fn a_restart_under_load_fails_no_request() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data()).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(sandbox.socket()).unwrap();
    let restarts = 5;
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..4 {
            let (sandbox, stop, asked) = (&sandbox, &stop, &asked);
            clients.push(scope.spawn(move || {
                let mut event = 0;
                while !stop.load(Ordering::Relaxed) {
                    event += 1;
                    let body = json!({"tool_name": "Bash", "tool_use_id": format!("{number}-{event}"),
                                      "tool_input": {"command": "make"}, "tool_response": "ok"});
                    let target = format!("/api/sessions/s{number}/observations");
                    let answer = request(&sandbox.socket(), "POST", &target, body.to_string().as_bytes());
                    let answer = answer.expect("an answer, from this worker or the next");
                    assert_eq!((answer.status, answer.body.as_str()), (202, r#"{"queued":1}"#));
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        for _ in 0..restarts {
            let mut worker = Worker::spawn(handed_over(&sandbox, &listener), &sandbox);
            let before = asked.load(Ordering::Relaxed);
            while asked.load(Ordering::Relaxed) < before + 100 && !clients.iter().any(|it| it.is_finished()) {
                assert!(worker.is_alive(), "{}", sandbox.logged());
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(worker.stop().success());
        }
        // Requests in flight must still be answered.
        let _last = Worker::spawn(handed_over(&sandbox, &listener), &sandbox);
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    let stored = sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE kind = 'observation'");
    assert_eq!(stored, asked.load(Ordering::Relaxed) as i64, "every answer was true");
    assert!(sandbox.socket().exists(), "the socket is the holder's");
}

/// A worker that gets our listening socket as descriptor 3, through a shell that sets LISTEN_PID.
fn handed_over(sandbox: &Sandbox, listener: &std::os::unix::net::UnixListener) -> std::process::Command {
    let mut command = sandbox.command("/bin/sh");
    command
        .args([
            "-c",
            "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=api; exec 3<&0 </dev/null; exec \"$0\" worker",
        ])
        .arg(env!("CARGO_BIN_EXE_claude-mem"))
        .env("CLAUDE_MEM_COMPRESS_PROVIDER", "local");
    let socket = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    command.stdin(Stdio::from(socket));
    command
}
