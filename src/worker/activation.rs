//! Where the sockets come from: systemd, launchd, or our own hands.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;

use crate::paths::Home;

/// What the worker listens on.
#[derive(Debug)]
pub struct Sockets {
    /// HTTP.
    pub api: UnixListener,
    /// Who made it.
    pub api_origin: Origin,
    /// Nudges.
    pub nudge: UnixDatagram,
    /// Who made it.
    pub nudge_origin: Origin,
}

/// Who made a socket, and so who removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// systemd or launchd, which keep it beyond our end.
    Manager,
    /// We did.
    Own,
}

/// Why there is nothing to listen on.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Unix socket paths are short.
    #[error(
        "{path} is {length} bytes long, and a socket's path may have {most}: set CLAUDE_MEM_HOME to a shorter one"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
        /// The limit here.
        most: usize,
    },
    /// Somebody answers there already.
    #[error(
        "somebody listens on {0} already, most likely a service manager: start the service with it, not by hand"
    )]
    Taken(PathBuf),
    /// The operating system said no.
    #[error("cannot listen on {path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What a service manager handed over. To be taken before the first thread starts, because it changes the environment, so
/// that no child takes our sockets for its own.
#[derive(Debug, Default)]
pub struct Given {
    api: Option<UnixListener>,
    nudge: Option<UnixDatagram>,
}

impl Given {
    /// Takes what systemd or launchd hold for us; nothing if we were started otherwise.
    pub fn take() -> Self {
        let given = Self::from_systemd();
        if given.api.is_none() { Self::from_launchd().unwrap_or(given) } else { given }
    }

    fn from_systemd() -> Self {
        let mut listed = ListenFd::from_env();
        let mut given = Self::default();
        for index in 0..listed.len() {
            // Told apart by their kind: a `.socket` unit gives all of its sockets one name.
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
    /// What the service manager handed over, else sockets of our own. The caller holds the lock.
    pub fn open(home: &Home, given: Given) -> Result<Self, ActivationError> {
        // A manager that gives only one of them was set up by hand; the other can be our own.
        let (api, api_origin) = match given.api {
            Some(api) => (api, Origin::Manager),
            None => (bind_api(home)?, Origin::Own),
        };
        let (nudge, nudge_origin) = match given.nudge {
            Some(nudge) => (nudge, Origin::Manager),
            None => (bind_nudge(home)?, Origin::Own),
        };
        Ok(Self { api, api_origin, nudge, nudge_origin })
    }
}

/// Makes the socket for HTTP. The caller holds the lock.
pub fn bind_api(home: &Home) -> Result<UnixListener, ActivationError> {
    let path = home.socket();
    // The lock says that no worker lives; whoever answers is a manager that holds the socket for one.
    if UnixStream::connect(&path).is_ok() {
        return Err(ActivationError::Taken(path));
    }
    bind(&path, |path| UnixListener::bind(path))
}

/// Makes the socket for nudges. The caller holds the lock.
pub fn bind_nudge(home: &Home) -> Result<UnixDatagram, ActivationError> {
    bind(&home.nudge_socket(), |path| UnixDatagram::bind(path))
}

/// Fails for a path that no socket can have.
pub fn check_length(path: &Path) -> Result<(), ActivationError> {
    let most = if cfg!(target_os = "macos") { 103 } else { 107 };
    let length = path.as_os_str().len();
    if length > most {
        return Err(ActivationError::TooLong { path: path.to_owned(), length, most });
    }
    Ok(())
}

/// Binds after removing what a worker that was killed left behind.
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
    fn a_home_that_is_too_deep_is_told_so() {
        let home = Home::at(format!("/tmp/{}", "deep/".repeat(30)));
        let error = bind_api(&home).unwrap_err().to_string();
        assert!(error.contains("CLAUDE_MEM_HOME") && error.contains("107"), "{error}");
    }
}
