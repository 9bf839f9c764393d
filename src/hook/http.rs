//! Asks the worker for the context: one small HTTP request on its socket, and a deadline for all of it.
//!
//! Whatever goes wrong here is no answer, and the hook helps itself.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::api::PrintedContext;

/// A larger answer is not one.
const MOST_BYTES: usize = 1 << 20;

/// The worker's answer at a route for these parameters, if it comes in time.
pub fn context(
    socket: &Path,
    route: &str,
    parameters: &[(&str, &str)],
    patience: Duration,
) -> Option<PrintedContext> {
    let deadline = Instant::now().checked_add(patience)?;
    let mut stream = connect(socket, deadline).ok()?;
    let body = get(&mut stream, &target(route, parameters), deadline).ok()?;
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

fn get(stream: &mut UnixStream, target: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(left(deadline)?))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: claude-mem\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(body) = body_of(&answer)? {
            return Ok(body.to_vec());
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        let read = stream.read(&mut buffer)?;
        if read == 0 || answer.len() + read > MOST_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
}

/// The body of a successful answer once it is complete. The worker always says how long it is.
fn body_of(answer: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some(end) = memchr::memmem::find(answer, b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
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
