//! Clients that misbehave, and those that have no business here: the worker answers all others meanwhile.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::{Sandbox, run};
use crate::service::{PATIENCE, Worker, get, read_answer};

/// The longest that a worker may keep a client who says nothing, with slack for a busy machine.
const LET_GO: Duration = Duration::from_secs(15);

fn memory_kib(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reads to the end, which must come in time.
fn assert_let_go(stream: &mut UnixStream) {
    let began = Instant::now();
    stream.set_read_timeout(Some(LET_GO)).unwrap();
    let end = stream.read_to_end(&mut Vec::new());
    let timed_out = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out && began.elapsed() < LET_GO, "still connected after {:?}", began.elapsed());
}

#[test]
fn who_says_nothing_is_let_go() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let mut silent = UnixStream::connect(sandbox.socket()).unwrap();
    let mut used_once = UnixStream::connect(sandbox.socket()).unwrap();
    used_once.write_all(b"GET /api/health HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert_eq!(worker.get("/api/health").status, 200);
    assert_let_go(&mut silent);
    assert_let_go(&mut used_once);
}

#[test]
fn who_sends_a_byte_a_second_is_let_go() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let began = Instant::now();
    for byte in b"GET /api/health HTTP/1.1\r\nHost: a-host-with-a-very-long-name\r\n".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        assert!(began.elapsed() < LET_GO, "still listened to");
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(worker.get("/api/health").status, 200);
}

#[test]
fn a_body_that_does_not_come_is_answered_with_408() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let head = "POST /api/sessions/s/init HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (408, "timeout"));
}

#[test]
fn a_hundred_megabytes_are_refused_and_not_kept() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let before = memory_kib(&worker);
    let body = vec![b' '; 100 << 20];
    let told = worker.send("POST", "/api/sessions/s/observations", &body);
    assert_eq!((told.status, told.error_code().as_str()), (413, "too_large"));
    let grown = memory_kib(&worker) - before;
    assert!(grown < 4 << 10, "a size that is announced costs nothing, not {grown} KiB");
    // The same without saying how much it will be.
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let head =
        "POST /api/sessions/s/observations HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for chunk in body.chunks(1 << 20) {
        if write!(stream, "{:x}\r\n", chunk.len()).and_then(|()| stream.write_all(chunk)).is_err() {
            break;
        }
        if stream.write_all(b"\r\n").is_err() {
            break;
        }
    }
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (413, "too_large"));
    let grown = memory_kib(&worker) - before;
    assert!(grown < 40 << 10, "{grown} KiB");
    assert_eq!(worker.get("/api/health").json()["status"], "ok");
}

#[test]
fn five_hundred_at_once_are_all_answered() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let mut streams: Vec<_> =
        (0..500).map(|_| UnixStream::connect(sandbox.socket()).expect("a place in the backlog")).collect();
    for stream in &mut streams {
        let request = "GET /api/queue/stats HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
    }
    for stream in &mut streams {
        assert_eq!(read_answer(stream).unwrap().status, 200);
    }
    assert_eq!(worker.get("/api/health").json()["status"], "ok");
}

#[test]
fn five_hundred_who_say_nothing_hold_the_others_up_for_a_moment_only() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let _silent: Vec<_> = (0..500).map(|_| UnixStream::connect(sandbox.socket()).unwrap()).collect();
    let began = Instant::now();
    // Hooks do not notice at all.
    let ran = sandbox.hook("save", crate::service::edit_payload("s", "t", sandbox.path(), 0));
    assert!(ran.assert_unnoticed().took < Duration::from_secs(1), "{:?}", ran.took);
    assert_eq!(worker.get("/api/health").status, 200);
    assert!(began.elapsed() < LET_GO * 2, "{:?}", began.elapsed());
}

#[test]
fn what_is_not_http_is_survived() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let long_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let cases: [&[u8]; 5] =
        [b"\0\0\0\0\r\n\r\n", b"SSH-2.0-x\r\n", b"GET / HTTP/9.9\r\n\r\n", long_header.as_bytes(), b"\xff"];
    for bytes in cases {
        let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(worker.get("/api/health").status, 200);
    }
}

#[test]
fn another_user_is_refused_whatever_the_files_mode_says() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(std::fs::metadata(sandbox.socket()).unwrap().permissions().mode() & 0o777, 0o600);
    open(sandbox.path(), 0o755);
    open(sandbox.data(), 0o755);
    open(&sandbox.socket(), 0o666);
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  s.sendall(b'GET /api/health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n\
                  print(s.makefile().read())";
    let mut stranger = sandbox.command("setpriv");
    stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-c", script]);
    stranger.arg(sandbox.socket());
    let told = run(stranger, b"");
    if told.code != Some(0) {
        eprintln!("skipped: setpriv and python3 are needed: {}", told.stderr);
        return;
    }
    assert!(
        told.stdout.starts_with("HTTP/1.1 403") && told.stdout.contains(r#""code":"forbidden""#),
        "{told:?}"
    );
    assert!(!told.stdout.contains("queue_depth"), "{told:?}");
    assert_eq!(worker.get("/api/health").status, 200);
}

#[test]
fn nudges_without_end_disturb_nobody() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let nudge = std::os::unix::net::UnixDatagram::unbound().unwrap();
    nudge.set_nonblocking(true).unwrap();
    for _ in 0..20_000 {
        let _ = nudge.send_to(&[b'n'; 300], sandbox.data().join("nudge.sock"));
    }
    for _ in 0..50 {
        assert_eq!(worker.post("/api/nudge", &json!({})).status, 202);
    }
    assert_eq!(get(&sandbox.socket(), "/api/health").unwrap().json()["status"], "ok");
}
