//! `claude-mem open`: who may use the port, and how it ends.

mod bridge;
mod browser;

use bridge::{Bridge, Reply};

use crate::harness::sandbox::Sandbox;
use crate::harness::wait::skip_even_in_ci;
use crate::harness::worker::Worker;

/// A bridge and a worker with one note.
fn with_note() -> (Sandbox, Worker, Bridge) {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    sandbox.prompt("one", "Correct the greeting");
    sandbox.edit("one", "edit");
    sandbox.end_turn("one");
    sandbox.wait_until_settled();
    let bridge = Bridge::start(&sandbox);
    (sandbox, worker, bridge)
}

/// Stores events as hooks do, as fast as possible; the last one is of a tool with that name.
fn flood(sandbox: &Sandbox, count: usize, last: &str) {
    let database = sandbox.database();
    let sql =
        "INSERT INTO pending_queue (event_key, session_id, kind, tool_name, status, created_at, finished_at)
               VALUES (?1, 'one', 'observation', ?2, 'skipped', unixepoch() * 1000, unixepoch() * 1000)";
    for number in 1..=count {
        let tool = if number == count { last } else { "Flood" };
        database.prepare_cached(sql).unwrap().execute((format!("flood-{number}"), tool)).unwrap();
    }
}

#[test]
fn a_flood_of_events_makes_few_and_small_messages() {
    const EVENTS: usize = 3_000;
    let (sandbox, _worker, bridge) = with_note();
    let cookie = bridge.enter();
    let mut feed = bridge.feed("/live", &cookie);
    let first = feed.next().unwrap();
    assert!(first["queue"].is_object(), "{first}");
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&sandbox, EVENTS, "FloodLast"));
        let (mut arrived, mut messages) = (0, 0);
        while arrived < EVENTS as u64 {
            let message = feed.next().expect("a message");
            let rows = message["events"].as_array().unwrap().len();
            assert!(rows <= 25 && message.to_string().len() < 40_000, "{rows} rows");
            arrived += message["arrived"].as_u64().unwrap();
            messages += 1;
        }
        assert_eq!(arrived, EVENTS as u64, "every event is counted once");
        assert!(messages < EVENTS / 10, "{messages} messages");
    });
}

#[test]
fn an_address_lets_one_browser_in_once() {
    let (_sandbox, _worker, bridge) = with_note();
    assert_eq!(bridge.get("/", &[]).status, 403, "no cookie");
    let entry = bridge.entry_path();
    let entered = bridge.get(&entry, &[]);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/"),
        "{cookie}"
    );
    assert_eq!(
        entered.header("referrer-policy"),
        Some("no-referrer"),
        "the token must not leak in a Referer"
    );
    assert_eq!(bridge.get(&entry, &[]).status, 403, "replayed");
    let referer = format!("http://{}{entry}", bridge.host());
    assert_eq!(bridge.get("/", &[("referer", &referer)]).status, 403, "a token in a Referer lets nobody in");
    let page = bridge.get("/", &[("cookie", cookie.split(';').next().unwrap())]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Notes today"), "{}", page.body);
}

#[test]
fn a_browser_that_comes_from_the_entry_file_gets_a_page_that_leads_on() {
    let (_sandbox, _worker, bridge) = with_note();
    let from_file = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let entered = bridge.get(&bridge.entry_path(), &from_file);
    assert_eq!(entered.status, 200);
    assert!(entered.header("set-cookie").is_some() && entered.body.contains("url=/"), "{entered:?}");
}

#[test]
fn other_hosts_sites_and_origins_are_refused_and_nothing_is_permitted_to_them() {
    let (_sandbox, _worker, bridge) = with_note();
    let cookie = bridge.enter();
    let cookie = ("cookie", cookie.as_str());
    let rebound = bridge.send("GET", "/", &[("host", "evil.example"), cookie], "");
    assert_eq!(rebound.status, 403, "DNS rebinding");
    let by_address = format!("127.0.0.1:{}", bridge.port());
    assert_eq!(
        bridge.send("GET", "/", &[("host", &by_address), cookie], "").status,
        403,
        "another name of ours"
    );
    for site in ["cross-site", "same-site"] {
        assert_eq!(bridge.get("/", &[cookie, ("sec-fetch-site", site)]).status, 403, "{site}");
    }
    let origin = format!("http://{}", bridge.host());
    let forget = |headers: &[(&str, &str)], body: &str| {
        bridge.send_to_host("POST", "/memory/1/forget", headers, body).status
    };
    let (ours, by_script) = (("origin", origin.as_str()), ("x-mem", "1"));
    assert_eq!(forget(&[cookie, by_script], ""), 403, "no origin");
    assert_eq!(forget(&[cookie, ("origin", "http://evil.example"), by_script], ""), 403, "another origin");
    assert_eq!(forget(&[cookie, ("origin", "null"), by_script], ""), 403, "a sandboxed frame");
    assert_eq!(forget(&[cookie, ours], ""), 403, "neither header nor form token");
    assert_eq!(
        forget(&[cookie, ours], "token=0123456789abcdef0123456789abcdef"),
        403,
        "a guessed form token"
    );
    assert_eq!(forget(&[ours, by_script], ""), 403, "no cookie");
    assert_eq!(forget(&[cookie, ours, by_script], ""), 303);
    for (method, status) in [("OPTIONS", 405), ("PUT", 405), ("DELETE", 405)] {
        let reply = bridge.send_to_host(method, "/memory/1", &[cookie, ours], "");
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (status, None), "{method}");
    }
}

#[test]
fn every_response_has_the_policies() {
    let (_sandbox, _worker, bridge) = with_note();
    let cookie = bridge.enter();
    let cookie = ("cookie", cookie.as_str());
    let check = |reply: &Reply| {
        let policy = reply.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value));
        }
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control-")));
    };
    let pages = [
        "/",
        "/search?q=greeting",
        "/timeline",
        "/session/one",
        "/session/one/turn/1",
        "/memory",
        "/memory/1",
        "/context",
        "/value",
        "/health",
    ];
    for path in pages {
        let reply = bridge.get(path, &[cookie]);
        assert_eq!(
            (reply.status, reply.header("cache-control")),
            (200, Some("no-store")),
            "{path}: {}",
            reply.body
        );
        check(&reply);
    }
    for path in [
        "/none",
        "/memory/99",
        "/assets/../../etc/passwd",
        "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
    ] {
        let reply = bridge.get(path, &[cookie]);
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.body.contains("root:"));
        check(&reply);
    }
    check(&bridge.get("/", &[]));
}

#[test]
fn ambiguous_requests_are_refused() {
    let (_sandbox, _worker, bridge) = with_note();
    let cookie = bridge.enter();
    let host = bridge.host();
    let smuggled = format!(
        "POST /memory/1/forget HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\norigin: http://{host}\r\nx-mem: 1\r\n\
         content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: {host}\r\n\r\n"
    );
    let replies = bridge.raw(smuggled.as_bytes());
    assert!(replies.starts_with("HTTP/1.1 400"), "{replies}");
    let twice = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nhost: evil.example\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
    );
    assert!(bridge.raw(twice.as_bytes()).starts_with("HTTP/1.1 403"));
    let absolute = format!(
        "GET http://evil.example/ HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
    );
    assert!(bridge.raw(absolute.as_bytes()).starts_with("HTTP/1.1 403"));
    assert_eq!(bridge.get("/memory/1", &[("cookie", &cookie)]).status, 200, "the note is still there");
}

#[test]
fn another_user_is_refused_even_with_the_secrets() {
    let (sandbox, _worker, bridge) = with_note();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root
        || !std::path::Path::new("/usr/bin/setpriv").exists()
        || !std::path::Path::new("/usr/bin/curl").exists()
    {
        skip_even_in_ci("needs root, setpriv and curl");
        return;
    }
    let as_nobody = |path: &str, cookie: &str| {
        let mut command = std::process::Command::new("setpriv");
        let address = format!("http://127.0.0.1:{}{path}", bridge.port());
        command.args([
            "--reuid=65534",
            "--clear-groups",
            "curl",
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
        ]);
        command.arg(format!("host: {}", bridge.host())).args(["-H", &format!("cookie: {cookie}"), &address]);
        String::from_utf8(command.current_dir("/").output().unwrap().stdout).unwrap()
    };
    assert_eq!(as_nobody(&bridge.entry_path(), ""), "403");
    let cookie = bridge.enter();
    assert_eq!(as_nobody("/", &cookie), "403", "a stolen cookie");
    assert_eq!(bridge.get("/", &[("cookie", &cookie)]).status, 200, "and ours still works");
    drop(sandbox);
}

#[test]
fn a_flood_of_connections_keeps_nobody_out() {
    let (_sandbox, _worker, bridge) = with_note();
    let cookie = bridge.enter();
    let mut idle = Vec::new();
    for _ in 0..10_000 {
        // The oldest ones are closed from the other end, and our own descriptors are limited.
        if idle.len() >= 400 {
            idle.drain(..200);
        }
        idle.extend(std::net::TcpStream::connect(("127.0.0.1", bridge.port())).ok());
    }
    assert_eq!(bridge.get("/", &[("cookie", &cookie)]).status, 200);
}

#[test]
fn it_ends_when_nobody_looks_and_a_second_one_uses_the_first() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let mut bridge = Bridge::start_with(&sandbox, &[("CLAUDE_MEM_VIEWER_IDLE_S", "1")]);
    let second = bridge::open(&sandbox, &[]).output().unwrap();
    assert!(second.status.success(), "it hands over and ends");
    let address = bridge::address(&String::from_utf8(second.stdout).unwrap()).unwrap();
    assert!(address.contains(bridge.host()), "the same viewer");
    let cookie = bridge.enter();
    // An open page; when it is closed the viewer ends.
    let stream = bridge.hold("/alive", &cookie);
    assert!(bridge.is_running());
    drop(stream);
    assert!(bridge.wait().success());
    assert!(!sandbox.data().join("viewer.sock").exists() && !sandbox.data().join("viewer.html").exists());
}

#[test]
fn over_ssh_a_tunnel_is_suggested_and_no_browser_opened() {
    let sandbox = Sandbox::new();
    let bridge = Bridge::start_with(&sandbox, &[("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")]);
    let port = bridge.port();
    assert!(bridge.printed().contains(&format!("ssh -N -L {port}:127.0.0.1:{port}")), "{}", bridge.printed());
    let cookie = bridge.enter();
    let page = bridge.get("/", &[("cookie", &cookie)]);
    assert!(page.status == 200 && page.body.contains("claude-mem start"), "without a service it says so");
}

#[test]
fn the_entry_file_is_private_and_removed_when_used() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let bridge = Bridge::start_with_browser(&sandbox);
    let file = sandbox.data().join("viewer.html");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains(&bridge.entry_path()));
    bridge.enter();
    assert!(!file.exists());
}
