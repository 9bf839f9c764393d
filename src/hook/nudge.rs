//! Tells the worker that there is something to do. The row is the truth: a nudge that is lost costs a little time.

use std::os::unix::net::UnixDatagram;

use crate::paths::Home;

/// Sends one datagram, or does not: a worker that hangs, is dead or was never there must not hold a hook up.
pub fn send(home: &Home) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_nonblocking(true).is_ok() {
        let _ = socket.send_to(b"n", home.nudge_socket());
    }
}
