//! The context of a new session: from the worker, or without it.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox};
use crate::harness::worker::Worker;

/// A sandbox with memories.
fn with_history() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.seen_prompt("earlier", "Fix the greeting");
    sandbox
}

fn begin(sandbox: &Sandbox, session: &str) -> Ran {
    let payload = json!({"session_id": session, "cwd": sandbox.path(), "source": "startup"});
    let ran = sandbox.hook("context", payload.to_string());
    ran.assert_unnoticed();
    ran
}

fn assert_has_context(ran: &Ran) {
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let context = printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("Fix the greeting"), "{context}");
}

/// The path by which the latest context was built, from the event log.
fn path_of(sandbox: &Sandbox, session: &str) -> String {
    sandbox.wait_for(
        "logged",
        &format!(
            "SELECT count(*) > 0 FROM event_log WHERE event_type = 'context' AND session_id = '{session}'"
        ),
    );
    sandbox.get(&format!(
        "SELECT data ->> 'path' FROM event_log WHERE event_type = 'context' AND session_id = '{session}' ORDER BY id"
    ))
}

#[test]
fn worker_and_hook_render_the_same_context() {
    let sandbox = with_history();
    let alone = begin(&sandbox, "alone");
    assert_has_context(&alone);
    assert_eq!(path_of(&sandbox, "alone"), "hook");
    let _worker = Worker::start(&sandbox);
    let asked = begin(&sandbox, "asked");
    assert_eq!(path_of(&sandbox, "asked"), "worker");
    assert_eq!(asked.stdout, alone.stdout);
    let noted =
        "SELECT data ->> 'layers' || ' ' || (data ->> 'budget') || ' ' || (duration_ms > 0) FROM event_log
                 WHERE event_type = 'context'";
    assert_eq!(
        sandbox.get::<String>(&format!("{noted} AND session_id = 'alone'")),
        r#"["session_index"] 2000 1"#
    );
    assert_eq!(
        sandbox.get::<String>(&format!("{noted} AND session_id = 'asked'")),
        r#"["session_index"] 2000 1"#
    );
}

#[test]
fn a_worker_that_hangs_costs_a_fraction_of_the_deadline() {
    let sandbox = with_history();
    sandbox.configure("[context]\nworker_timeout_ms = 10000");
    let worker = Worker::start(&sandbox);
    worker.freeze(&sandbox);
    let ran = begin(&sandbox, "s");
    assert_has_context(&ran);
    assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
    assert_eq!(path_of(&sandbox, "s"), "hook");
    // Nothing else waits for it.
    sandbox.edit("s", "a");
    worker.signal(Signal::CONT);
}

#[test]
fn an_unreachable_worker_costs_no_more_than_the_deadline() {
    let sandbox = with_history();
    sandbox.configure("[context]\nworker_timeout_ms = 300");
    // Nothing accepts, and the backlog is full: a plain connect would wait for ever.
    let _deaf = UnixListener::bind(sandbox.socket()).unwrap();
    rustix::net::listen(&_deaf, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(sandbox.socket()).unwrap();
    let ran = begin(&sandbox, "s");
    assert_has_context(&ran);
    assert_eq!(path_of(&sandbox, "s"), "hook");
}

#[test]
fn a_degraded_worker_does_not_block_the_context() {
    let sandbox = with_history();
    sandbox.configure("not toml at all [");
    let worker = Worker::start(&sandbox);
    assert_eq!(worker.get("/api/health").json()["status"], "degraded");
    assert_has_context(&begin(&sandbox, "s"));
}

#[test]
fn an_invalid_answer_does_not_block_the_context() {
    let answers: [&[u8]; 4] = [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ];
    for answer in answers {
        let sandbox = with_history();
        let impostor = UnixListener::bind(sandbox.socket()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::io::{Read, Write};
                let (mut stream, _) = impostor.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            });
            assert_has_context(&begin(&sandbox, "s"));
        });
    }
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let sandbox = with_history();
    let impostor = UnixListener::bind(sandbox.socket()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            let (mut stream, _) = impostor.accept().unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n");
            while stream.write_all(&[b' '; 65536]).is_ok() {}
        });
        assert_has_context(&begin(&sandbox, "s"));
    });
}

#[test]
fn a_project_directory_may_have_any_name() {
    let sandbox = Sandbox::new();
    let place = sandbox.path().join("a b&c=d?#%é\"'");
    std::fs::create_dir(&place).unwrap();
    let prompt = json!({"session_id": "earlier", "cwd": place, "prompt": "Fix the greeting"});
    sandbox.hook("new", prompt.to_string()).assert_unnoticed();
    let _worker = Worker::start(&sandbox);
    let payload = json!({"session_id": "s", "cwd": place, "source": "a new & strange=source"});
    let ran = sandbox.hook("context", payload.to_string());
    assert_has_context(ran.assert_unnoticed());
    assert_eq!(path_of(&sandbox, "s"), "worker");
}
