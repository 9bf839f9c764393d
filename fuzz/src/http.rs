//! No bytes on the socket crash the worker or cause an internal error; every answer is HTTP, and every error has the common
//! shape.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use claude_mem::config::Environment;
use claude_mem::paths::Home;
use claude_mem::worker::system::activation::{Given, Sockets};
use claude_mem::worker::system::lock::Lock;

/// A worker that serves while the fuzzer runs; its directory and its socket.
static WORKER: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let scratch = tempfile::tempdir().unwrap().keep();
    let home = Home::at(scratch.join("mem"));
    home.prepare().unwrap();
    let environment = Environment::with_overrides(&[
        ("CLAUDE_MEM_COMPRESS_PROVIDER", "local"),
        ("CLAUDE_MEM_BACKUP_KEEP", "0"),
        ("CLAUDE_MEM_RETENTION_RAW_DAYS", "0"),
        ("CLAUDE_MEM_RETENTION_QUEUE_DAYS", "0"),
    ]);
    let lock = Lock::take(&home).unwrap();
    let sockets = Sockets::open(&home, Given::default()).unwrap();
    let socket = home.socket();
    let (stop, signals) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let _stop = stop;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(claude_mem::worker::run(home, environment, lock, sockets, signals));
        std::process::abort();
    });
    (scratch, socket)
});

/// Removes the worker's files, after the last request.
pub fn clean_up() {
    let _ = std::fs::remove_dir_all(&WORKER.0);
}

/// Sends bytes and reads the answer. A server may drop a client that closes its side, so a caller that needs an answer must
/// keep it open.
fn ask(bytes: &[u8], says_no_more: bool) -> Vec<u8> {
    let mut stream = UnixStream::connect(&WORKER.1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may close while we still write: that is a valid answer.
    let _ = stream.write_all(bytes);
    if says_no_more {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert!(error.kind() != std::io::ErrorKind::WouldBlock, "no answer");
    }
    answer
}

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let answer = ask(bytes, true);
    if answer.is_empty() {
        return;
    }
    assert!(answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.starts_with("HTTP/1.1 500"), "{text}");
    let health = ask(b"GET /api/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", false);
    let health = String::from_utf8_lossy(&health);
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
}
