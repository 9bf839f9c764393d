//! Asks the worker for the context: a small HTTP request on its socket, and a deadline for all of it. A nudge goes ahead of it, which
//! a worker answers at once: one that does not hangs, and is not waited for.
//!
//! Whatever goes wrong here is no answer, and the hook helps itself.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::api::{PrintedContext, route};

/// A larger answer is not one.
const MOST_BYTES: usize = 1 << 20;

/// The part of the patience after which a silent worker hangs, and its least value. A busy machine needs some of it.
const SILENT_PART: u32 = 5;
const LEAST_SILENCE: Duration = Duration::from_millis(100);

/// The worker's answer at a route for these parameters, if it comes in time.
pub fn context(
    socket: &Path,
    route: &str,
    parameters: &[(&str, &str)],
    patience: Duration,
) -> Option<PrintedContext> {
    let now = Instant::now();
    let deadline = now.checked_add(patience)?;
    let sign_of_life = deadline.min(now + (patience / SILENT_PART).max(LEAST_SILENCE));
    let mut stream = connect(socket, sign_of_life).ok()?;
    let body = get(&mut stream, &target(route, parameters), sign_of_life, deadline).ok()?;
    serde_json::from_slice(&body).ok()
}

/// A connection; the standard library's own would wait without end for a place in a full backlog.
fn connect(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(left(deadline)?))?;
    rustix::net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// The rest of the time; an error if nothing is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn get(
    stream: &mut UnixStream,
    target: &str,
    sign_of_life: Instant,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(left(sign_of_life)?))?;
    let nudge = format!("POST {} HTTP/1.1\r\nHost: claude-mem\r\nContent-Length: 0\r\n\r\n", route::NUDGE);
    let get = format!("GET {target} HTTP/1.1\r\nHost: claude-mem\r\nConnection: close\r\n\r\n");
    stream.write_all((nudge + &get).as_bytes())?;
    let mut answer = Vec::new();
    while head_end(&answer).is_none() {
        read_more(stream, &mut answer, sign_of_life)?;
    }
    // The answer to the nudge has no body.
    answer.drain(..head_end(&answer).unwrap_or_default());
    loop {
        if let Some(body) = body_of(&answer)? {
            return Ok(body.to_vec());
        }
        read_more(stream, &mut answer, deadline)?;
    }
}

fn read_more(stream: &mut UnixStream, answer: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    stream.set_read_timeout(Some(left(deadline)?))?;
    let read = stream.read(&mut buffer)?;
    if read == 0 || answer.len() + read > MOST_BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    answer.extend_from_slice(&buffer[..read]);
    Ok(())
}

/// The end of the headers of an answer.
fn head_end(answer: &[u8]) -> Option<usize> {
    memchr::memmem::find(answer, b"\r\n\r\n").map(|end| end + 4)
}

/// The body of a successful answer once it is complete. The worker always says how long it is.
fn body_of(answer: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some(end) = head_end(answer) else { return Ok(None) };
    let (head, body) = answer.split_at(end);
    let head = std::str::from_utf8(head).map_err(io::Error::other)?;
    let mut lines = head.split("\r\n");
    let is_success = lines.next().is_some_and(|status| status.split(' ').nth(1) == Some("200"));
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) if is_success => Ok(body.get(..length)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A path with a query string.
fn target(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut target = path.to_owned();
    for (index, (name, value)) in parameters.iter().enumerate() {
        let _ = write!(target, "{}{name}=", if index == 0 { '?' } else { '&' });
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    target.push(char::from(byte));
                }
                _ => drop(write!(target, "%{byte:02X}")),
            }
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_directory_can_be_asked_for() {
        let parameters = [("project_path", "/a b/ü&c=d?#%"), ("source", "startup")];
        assert_eq!(
            target("/api/context", &parameters),
            "/api/context?project_path=/a%20b/%C3%BC%26c%3Dd%3F%23%25&source=startup"
        );
    }

    #[test]
    fn a_worker_that_gives_no_sign_of_life_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let patience = Duration::from_secs(5);
        // It always answers the question, late; the nudge only if it is alive.
        let asked = |is_alive: bool| {
            std::thread::scope(|scope| {
                let server = scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    if is_alive {
                        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").unwrap();
                    }
                    std::thread::sleep(patience / 4);
                    let body = r#"{"context": "memory", "tokens": 1}"#;
                    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                });
                let answer = context(&socket, "/api/context", &[], patience);
                server.join().unwrap();
                answer.map(|answer| answer.context)
            })
        };
        assert_eq!(asked(true).as_deref(), Some("memory"));
        assert_eq!(asked(false), None);
    }

    #[test]
    fn an_answer_counts_when_it_is_whole_and_a_success() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(body_of(whole).unwrap(), Some(&b"{}"[..]));
        for cut in [0, 10, whole.len() - 1] {
            assert_eq!(body_of(&whole[..cut]).unwrap(), None);
        }
        assert!(body_of(b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}").is_err());
        assert!(body_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
