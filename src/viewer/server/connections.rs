//! The open connections. When there are too many, the oldest that has not been let in is closed, so that a flood of them
//! does not keep the user's own browser out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::task::AbortHandle;

use crate::viewer::access::peer;

/// Maximum concurrent connections.
const MAX_CONNECTIONS: usize = 256;

/// One client's connection.
#[derive(Debug)]
pub struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    is_ours: OnceLock<bool>,
    has_entered: AtomicBool,
}

impl Connection {
    /// A connection between these addresses.
    pub fn new(client: SocketAddr, server: SocketAddr) -> Self {
        Self { client, server, is_ours: OnceLock::new(), has_entered: AtomicBool::new(false) }
    }

    /// True if our own user made it. Looked up once, and only for requests that bring a valid secret.
    pub fn is_ours(&self) -> bool {
        *self.is_ours.get_or_init(|| peer::is_ours(self.client, self.server))
    }

    /// Records that it brought a valid secret.
    pub fn note_entered(&self) {
        self.has_entered.store(true, Ordering::Relaxed);
    }
}

/// All connections, oldest first.
#[derive(Debug, Default)]
pub struct Connections(VecDeque<(Arc<Connection>, AbortHandle)>);

impl Connections {
    /// Adds a connection, and closes another one if there are too many.
    pub fn add(&mut self, connection: Arc<Connection>, task: AbortHandle) {
        self.0.push_back((connection, task));
        if self.0.len() <= MAX_CONNECTIONS {
            return;
        }
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() > MAX_CONNECTIONS {
            let is_stranger = |(connection, _): &(Arc<Connection>, AbortHandle)| {
                !connection.has_entered.load(Ordering::Relaxed)
            };
            let at = self.0.iter().position(is_stranger).unwrap_or_default();
            if let Some((_, task)) = self.0.remove(at) {
                task.abort();
            }
        }
    }
}
