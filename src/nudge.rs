//! Wakes the worker. The row is the truth: a nudge that is lost costs a little time.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;

use crate::paths::Home;

/// Sends one datagram, or does not: a worker that hangs, is dead or was never there must not hold a hook up. False if
/// nobody listens.
pub fn send(home: &Home) -> bool {
    let Ok(socket) = UnixDatagram::unbound() else { return true };
    if socket.set_nonblocking(true).is_err() {
        return true;
    }
    match socket.send_to(b"n", home.nudge_socket()) {
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
        Ok(_) => true,
    }
}
