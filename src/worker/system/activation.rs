//! Socket activation: takes the sockets from systemd or launchd, or binds our own.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;

use crate::paths::Home;

/// The worker's listening sockets.
#[derive(Debug)]
pub struct Sockets {
    /// HTTP API.
    pub api: UnixListener,
    /// Owner of the API socket.
    pub api_origin: SocketOwner,
    /// Nudges from hooks.
    pub nudge: UnixDatagram,
    /// Owner of the nudge socket.
    pub nudge_origin: SocketOwner,
}

/// The owner of a socket, who also removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketOwner {
    /// systemd or launchd, which keep it after we exit.
    Manager,
    /// This process.
    Own,
}

/// An error while opening the sockets.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Unix socket paths have a small maximum length.
    #[error(
        "{path} is {length} bytes long, but a socket path may have at most {most}: set CLAUDE_MEM_HOME to a shorter directory"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The maximum on this system.
        most: usize,
    },
    /// Another process listens there already.
    #[error(
        "another process already listens on {0}, most likely a service manager: start the service with it, not by hand"
    )]
    Taken(PathBuf),
    /// An error of the operating system.
    #[error("cannot listen on {path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Sockets from a service manager. Take them before the first thread starts, because this changes
/// the environment so that no child inherits them as its own.
#[derive(Debug, Default)]
pub struct Given {
    api: Option<UnixListener>,
    nudge: Option<UnixDatagram>,
}

impl Given {
    /// True if a service manager passed any socket.
    pub fn is_some(&self) -> bool {
        self.api.is_some() || self.nudge.is_some()
    }

    /// Takes the sockets from systemd or launchd; none if neither started us.
    pub fn take() -> Self {
        let given = Self::from_systemd();
        if given.api.is_none() { Self::from_launchd().unwrap_or(given) } else { given }
    }

    fn from_systemd() -> Self {
        let mut listed = ListenFd::from_env();
        let mut given = Self::default();
        for index in 0..listed.len() {
            // Distinguished by type: a `.socket` unit gives all of its sockets the same name.
            match listed.take_unix_listener(index) {
                Ok(Some(listener)) => given.api = Some(listener),
                _ => given.nudge = listed.take_unix_datagram(index).ok().flatten().or(given.nudge),
            }
        }
        given
    }

    #[cfg(target_os = "macos")]
    fn from_launchd() -> Option<Self> {
        super::launchd::sockets().map(|(api, nudge)| Self { api: Some(api), nudge })
    }

    #[cfg(not(target_os = "macos"))]
    fn from_launchd() -> Option<Self> {
        None
    }
}

impl Sockets {
    /// Uses the sockets of the service manager, and binds missing ones. The caller holds the lock.
    pub fn open(home: &Home, given: Given) -> Result<Self, ActivationError> {
        // A manager that passes only one socket was set up by hand; we bind the other.
        let (api, api_origin) = match given.api {
            Some(api) => (api, SocketOwner::Manager),
            None => (bind_api(home)?, SocketOwner::Own),
        };
        let (nudge, nudge_origin) = match given.nudge {
            Some(nudge) => (nudge, SocketOwner::Manager),
            None => (bind_nudge(home)?, SocketOwner::Own),
        };
        Ok(Self { api, api_origin, nudge, nudge_origin })
    }
}

/// Binds the API socket. The caller holds the lock.
pub fn bind_api(home: &Home) -> Result<UnixListener, ActivationError> {
    let path = home.socket();
    // We hold the lock, so no worker is running; a listener here is a manager that holds the socket
    // for one.
    if UnixStream::connect(&path).is_ok() {
        return Err(ActivationError::Taken(path));
    }
    bind(&path, |path| UnixListener::bind(path))
}

/// Binds the nudge socket. The caller holds the lock.
pub fn bind_nudge(home: &Home) -> Result<UnixDatagram, ActivationError> {
    bind(&home.nudge_socket(), |path| UnixDatagram::bind(path))
}

/// Returns an error if the path is too long for a socket.
pub fn check_length(path: &Path) -> Result<(), ActivationError> {
    let most = if cfg!(target_os = "macos") { 103 } else { 107 };
    let length = path.as_os_str().len();
    if length > most {
        return Err(ActivationError::TooLong { path: path.to_owned(), length, most });
    }
    Ok(())
}

/// Binds after removing the file that a killed worker left behind.
fn bind<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, ActivationError> {
    check_length(path)?;
    let failed = |source| ActivationError::Io { path: path.to_owned(), source };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let socket = make(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        drop(bind_api(&home).unwrap());
        assert!(home.socket().exists(), "left behind, as by kill -9");
        let live = bind_api(&home).unwrap();
        assert!(matches!(bind_api(&home), Err(ActivationError::Taken(_))));
        assert_eq!(fs::metadata(home.socket()).unwrap().permissions().mode() & 0o777, 0o600);
        drop(live);
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_an_error() {
        let home = Home::at(format!("/tmp/{}", "deep/".repeat(30)));
        let error = bind_api(&home).unwrap_err().to_string();
        assert!(error.contains("CLAUDE_MEM_HOME") && error.contains("107"), "{error}");
    }
}
