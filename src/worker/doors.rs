//! The sockets while the worker lives: who serves them, and that they can be found.
//!
//! Somebody may remove a socket file, or the whole data directory, under a living worker. Then nobody can reach it any
//! more, so it looks from time to time, and puts back what is missing.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::activation::{ActivationError, Origin, Sockets, bind_api, bind_nudge};
use super::lock::{Lock, LockError};
use super::state::Shared;
use super::{LOOK_AGAIN, http};
use crate::paths::{FileIdentity, Home};

/// The two sockets, the lock, and those who serve them.
pub struct Doors {
    lock: Lock,
    api: Door<UnixListener>,
    nudge: Door<UnixDatagram>,
    serving: Option<Serving>,
}

struct Serving {
    server: JoinHandle<()>,
    nudges: JoinHandle<()>,
}

struct Door<S> {
    path: PathBuf,
    /// Which file leads to us.
    file: Option<FileIdentity>,
    /// Ours to remove at the end.
    is_own: bool,
    sockets: UnboundedSender<S>,
    /// Until somebody serves it.
    waiting: Option<UnboundedReceiver<S>>,
}

impl<S> Door<S> {
    fn new(path: PathBuf, socket: S, is_own: bool) -> Self {
        let (sockets, waiting) = unbounded_channel();
        let _ = sockets.send(socket);
        Self { file: FileIdentity::of(&path), path, is_own, sockets, waiting: Some(waiting) }
    }

    /// Binds it again if it cannot be found any more.
    fn look_after(&mut self, bind: impl FnOnce() -> Result<S, ActivationError>) {
        if self.file.is_some() && FileIdentity::of(&self.path) == self.file {
            return;
        }
        match bind() {
            Ok(socket) => {
                if !self.is_own {
                    tracing::warn!(path = %self.path.display(),
                        "the service manager's socket file was removed: restart its socket unit to have it back");
                }
                tracing::warn!(path = %self.path.display(), "the socket file was gone, and is there again");
                self.file = FileIdentity::of(&self.path);
                self.is_own = true;
                let _ = self.sockets.send(socket);
            }
            Err(error) => tracing::error!(%error, "the socket file is gone: {error}"),
        }
    }

    fn remove(&self) {
        if self.is_own && self.file.is_some() && FileIdentity::of(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Doors {
    /// With nobody serving yet: who connects now waits in the backlog.
    pub fn new(home: &Home, lock: Lock, sockets: Sockets) -> Self {
        Self {
            lock,
            api: Door::new(home.socket(), sockets.api, sockets.api_origin == Origin::Own),
            nudge: Door::new(home.nudge_socket(), sockets.nudge, sockets.nudge_origin == Origin::Own),
            serving: None,
        }
    }

    /// Serves from now on. True if that is news.
    pub fn open(&mut self, shared: &Arc<Shared>) -> bool {
        let (Some(api), Some(nudge)) = (self.api.waiting.take(), self.nudge.waiting.take()) else {
            return false;
        };
        self.serving = Some(Serving {
            server: tokio::spawn(http::serve(api, shared.clone())),
            nudges: tokio::spawn(listen_for_nudges(nudge, shared.clone())),
        });
        true
    }

    /// Puts back what is missing. An error if another worker has taken our place.
    pub fn look_after(&mut self, home: &Home) -> Result<(), LockError> {
        match self.lock.renew(home) {
            Err(LockError::Io(error)) => tracing::error!(%error, "the lock's file is gone: {error}"),
            other => other?,
        }
        self.api.look_after(|| bind_api(home));
        self.nudge.look_after(|| bind_nudge(home));
        Ok(())
    }

    /// Waits for the requests under way, then takes our own files away. The lock is held until the caller lets go.
    pub async fn close(self, patience: Duration) -> Lock {
        if let Some(serving) = self.serving {
            serving.nudges.abort();
            let _ = tokio::time::timeout(patience, serving.server).await;
        }
        self.api.remove();
        self.nudge.remove();
        self.lock
    }
}

/// Any datagram means "look at the queue".
async fn listen_for_nudges(mut sockets: UnboundedReceiver<UnixDatagram>, shared: Arc<Shared>) {
    let mut buffer = [0; 16];
    let mut socket = None;
    loop {
        let received = async {
            match &socket {
                Some(socket) => tokio::net::UnixDatagram::recv(socket, &mut buffer).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            replacement = sockets.recv() => match replacement {
                Some(replacement) => asynchronous(replacement).map(|ready| socket = Some(ready)),
                None => return,
            },
            received = received => received.map(|_| shared.nudge.notify_one()),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot receive nudges: {error}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn asynchronous(socket: UnixDatagram) -> io::Result<tokio::net::UnixDatagram> {
    socket.set_nonblocking(true)?;
    tokio::net::UnixDatagram::from_std(socket)
}
