//! Which project the client is in: what it says in the environment, else its roots, else where it started us.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::Peer;

use crate::config::{Config, Environment};
use crate::project::Project;

/// A client that says it has roots tells them at once.
const ROOTS_PATIENCE: Duration = Duration::from_secs(2);

/// Knows the project once it was asked for.
#[derive(Debug)]
pub struct Here {
    project_dir: Option<PathBuf>,
    known: Mutex<Option<Project>>,
}

impl Here {
    /// For a client with that environment.
    pub fn new(environment: &Environment) -> Self {
        Self { project_dir: environment.project_dir.clone(), known: Mutex::new(None) }
    }

    /// The client went somewhere else.
    pub fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The project.
    pub async fn project(&self, peer: &Peer<RoleServer>, config: &Config) -> Project {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return known;
        }
        let directory = match &self.project_dir {
            Some(directory) => Some(directory.clone()),
            None => root(peer).await,
        };
        let directory = directory.or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| "/".into());
        let project = Project::of(&directory, &config.capture);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(project.clone());
        project
    }
}

/// The first root of the client that is a directory of this machine.
#[allow(deprecated, reason = "the protocol's newest version drops roots; those that clients speak have them")]
async fn root(peer: &Peer<RoleServer>) -> Option<PathBuf> {
    peer.peer_info()?.capabilities.roots.as_ref()?;
    let listed = tokio::time::timeout(ROOTS_PATIENCE, peer.list_roots()).await.ok()?.ok()?;
    listed.roots.iter().find_map(|root| path_of(&root.uri)).filter(|path| path.is_dir())
}

/// The path of a file URI.
fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    Some(path).filter(|path: &PathBuf| Path::is_absolute(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_path_of_this_machine() {
        assert_eq!(path_of("file:///home/me/my%20app"), Some("/home/me/my app".into()));
        assert_eq!(path_of("file://localhost/srv/%C3%BC"), Some("/srv/ü".into()));
        for other in ["https://example.com/x", "file://", "/plain", "file:///a%2", "file:///a%zz"] {
            assert_eq!(path_of(other), None, "{other}");
        }
    }
}
