//! The worker's sockets: serves them, and keeps their files in place.
//!
//! A socket file may be removed while the worker runs, which makes it unreachable. The worker
//! therefore checks regularly and restores missing files. If the whole data directory is gone, the
//! worker exits.

use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::activation::{ActivationError, SocketOwner, Sockets, bind_api, bind_nudge};
use super::lock::{Lock, LockError};
use crate::paths::{FileIdentity, Home};
use crate::worker::state::Shared;
use crate::worker::{RETRY_INTERVAL, http};

/// The two sockets, the lock, and the tasks that serve them.
pub struct Listeners {
    lock: Lock,
    api: Listener<UnixListener>,
    nudge: Listener<UnixDatagram>,
    serving: Option<Serving>,
    /// Identity of the data directory at the start.
    directory: Option<FileIdentity>,
}

struct Serving {
    server: JoinHandle<()>,
    nudges: JoinHandle<()>,
}

struct Listener<S> {
    path: PathBuf,
    /// Identity of the file that leads to this socket.
    file: Option<FileIdentity>,
    /// True if we remove the file at the end.
    is_own: bool,
    sockets: UnboundedSender<S>,
    /// Present until a task serves it.
    waiting: Option<UnboundedReceiver<S>>,
}

impl<S> Listener<S> {
    fn new(path: PathBuf, socket: S, is_own: bool) -> Self {
        let (sockets, waiting) = unbounded_channel();
        let _ = sockets.send(socket);
        Self { file: FileIdentity::of(&path), path, is_own, sockets, waiting: Some(waiting) }
    }

    /// Binds the socket again if its file is gone.
    fn rebind_if_missing(&mut self, bind: impl FnOnce() -> Result<S, ActivationError>) {
        if self.file.is_some() && FileIdentity::of(&self.path) == self.file {
            return;
        }
        match bind() {
            Ok(socket) => {
                if !self.is_own {
                    tracing::warn!(path = %self.path.display(),
                        "the service manager's socket file was removed: restart its socket unit to restore it");
                }
                tracing::warn!(path = %self.path.display(), "the socket file was missing and has been restored");
                self.file = FileIdentity::of(&self.path);
                self.is_own = true;
                let _ = self.sockets.send(socket);
            }
            Err(error) => tracing::error!(%error, "cannot restore the socket file: {error}"),
        }
    }

    fn remove(&self) {
        if self.is_own && self.file.is_some() && FileIdentity::of(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listeners {
    /// Nothing is served yet: connections wait in the backlog.
    pub fn new(home: &Home, lock: Lock, sockets: Sockets) -> Self {
        Self {
            lock,
            api: Listener::new(home.socket(), sockets.api, sockets.api_origin == SocketOwner::Own),
            nudge: Listener::new(
                home.nudge_socket(),
                sockets.nudge,
                sockets.nudge_origin == SocketOwner::Own,
            ),
            serving: None,
            directory: FileIdentity::of(home.dir()),
        }
    }

    /// Starts serving. True if it was not serving before.
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

    /// Checks that the data directory is still the one from the start.
    pub fn check_directory(&self, home: &Home) -> Result<(), LockError> {
        if self.directory.is_some() && FileIdentity::of(home.dir()) == self.directory {
            return Ok(());
        }
        Err(LockError::Homeless(home.dir().display().to_string()))
    }

    /// Restores missing files. Returns an error if another worker has replaced us, or the data
    /// directory is gone.
    pub fn restore_files(&mut self, home: &Home) -> Result<(), LockError> {
        self.check_directory(home)?;
        match self.lock.renew(home) {
            Err(LockError::Io(error)) => tracing::error!(%error, "cannot restore the lock file: {error}"),
            other => other?,
        }
        self.api.rebind_if_missing(|| bind_api(home));
        self.nudge.rebind_if_missing(|| bind_nudge(home));
        Ok(())
    }

    /// Waits for running requests, then removes our own files. The caller keeps the lock.
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

/// Any datagram means "check the queue".
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
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

fn asynchronous(socket: UnixDatagram) -> io::Result<tokio::net::UnixDatagram> {
    socket.set_nonblocking(true)?;
    tokio::net::UnixDatagram::from_std(socket)
}
