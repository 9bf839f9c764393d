//! Misbehaving and unauthorised clients: the worker keeps answering all others.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::sandbox::{Sandbox, run};
use crate::harness::wait::{PATIENCE, skip_even_in_ci};
use crate::harness::worker::{Worker, get, read_answer};

#[cfg(target_os = "linux")]
fn memory_kib(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(not(target_os = "linux"))]
fn memory_kib(worker: &Worker) -> u64 {
    crate::harness::worker::resident_kib(worker.pid())
}

/// Reads to the end of the connection, which must come.
fn assert_disconnected(stream: &mut UnixStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = stream.read_to_end(&mut Vec::new());
    assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "still connected");
}

#[test]
fn silent_clients_are_disconnected() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let mut silent = UnixStream::connect(sandbox.socket()).unwrap();
    let mut used_once = UnixStream::connect(sandbox.socket()).unwrap();
    used_once.write_all(b"GET /api/health HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    assert_eq!(worker.get("/api/health").status, 200);
    assert_disconnected(&mut silent);
    assert_disconnected(&mut used_once);
}

#[test]
fn slow_senders_are_disconnected() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let began = Instant::now();
    for byte in b"GET /api/health HTTP/1.1\r\nHost: a-host-with-a-very-long-name\r\n".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "still listened to");
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(worker.get("/api/health").status, 200);
}

#[test]
fn a_late_body_breaks_no_pipe_on_any_route() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let routes = [
        ("POST", "/api/nudge", 20, 202),
        ("GET", "/api/health", 20, 200),
        ("GET", "/metrics", 20, 200),
        ("GET", "/api/queue/stats", 20, 200),
        ("GET", "/api/nothing", 20, 404),
        ("PUT", "/api/nudge", 20, 405),
        ("DELETE", "/api/sessions/nobody", 20, 404),
        ("POST", "/api/summarize", 20, 400),
        ("POST", "/api/summarize", 9 << 20, 413),
    ];
    for (method, route, bytes, status) in routes.into_iter().cycle().take(4 * routes.len()) {
        let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
        let head = format!(
            "{method} {route} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let sent = stream.write_all(&vec![b'x'; bytes]);
        assert!(sent.is_ok(), "{method} {route}: {sent:?}");
        assert_eq!(read_answer(&mut stream).unwrap().status, status, "{method} {route}");
    }
}

#[test]
fn a_missing_body_is_answered_with_408() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let head = "POST /api/sessions/s/init HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!((answer.status, answer.error_code().as_str()), (408, "timeout"));
}

#[test]
fn a_body_of_100_mb_is_refused_and_not_buffered() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let before = memory_kib(&worker);
    let body = vec![b' '; 100 << 20];
    let output = worker.send("POST", "/api/sessions/s/observations", &body);
    assert_eq!((output.status, output.error_code().as_str()), (413, "too_large"));
    let grown = memory_kib(&worker) - before;
    assert!(grown < 4 << 10, "a size that is announced costs nothing, not {grown} KiB");
    // The same without a Content-Length.
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
fn silent_connections_delay_others_only_briefly() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let _silent: Vec<_> = (0..500).map(|_| UnixStream::connect(sandbox.socket()).unwrap()).collect();
    // Hooks do not notice at all.
    let ran = sandbox.hook("save", crate::harness::worker::edit_payload("s", "t", sandbox.path(), 0));
    ran.assert_unnoticed();
    assert_eq!(worker.get("/api/health").status, 200);
}

#[test]
fn input_that_is_not_http_is_survived() {
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
fn another_user_is_refused_despite_open_file_modes() {
    if !rustix::process::geteuid().is_root() {
        skip_even_in_ci("only root can switch users");
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
    let mut other_user = sandbox.command("setpriv");
    other_user.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script]);
    other_user.arg(sandbox.socket());
    let output = run(other_user, b"");
    if output.code != Some(0) {
        skip_even_in_ci(&format!("setpriv and python3 are needed: {}", output.stderr));
        return;
    }
    assert!(
        output.stdout.starts_with("HTTP/1.1 403") && output.stdout.contains(r#""code":"forbidden""#),
        "{output:?}"
    );
    assert!(!output.stdout.contains("queue_depth"), "{output:?}");
    assert_eq!(worker.get("/api/health").status, 200);
}

#[test]
fn a_flood_of_nudges_is_harmless() {
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
