//! The client's project: from the environment, else its roots, else the directory it started us in.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::Peer;

use crate::config::{Config, Environment};
use crate::project::Project;

/// Maximum wait for a client that declares roots to list them.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves the client's project and caches it.
#[derive(Debug)]
pub struct ClientProject {
    project_dir: Option<PathBuf>,
    cached: Mutex<Option<Project>>,
}

impl ClientProject {
    /// For a client with that environment.
    pub fn new(environment: &Environment) -> Self {
        Self { project_dir: environment.project_dir.clone(), cached: Mutex::new(None) }
    }

    /// Drops the cached project after the client's roots have changed.
    pub fn forget(&self) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the project.
    pub async fn project(&self, peer: &Peer<RoleServer>, config: &Config) -> Project {
        if let Some(project) = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return project;
        }
        let directory = match &self.project_dir {
            Some(directory) => Some(directory.clone()),
            None => root(peer).await,
        };
        let directory = directory.or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| "/".into());
        let project = Project::of(&directory, &config.capture);
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(project.clone());
        project
    }
}

/// Returns the client's first root that is a directory on this machine.
#[allow(
    deprecated,
    reason = "the newest protocol version drops roots, but the versions that clients use have them"
)]
async fn root(peer: &Peer<RoleServer>) -> Option<PathBuf> {
    peer.peer_info()?.capabilities.roots.as_ref()?;
    let listed = tokio::time::timeout(ROOTS_TIMEOUT, peer.list_roots()).await.ok()?.ok()?;
    listed.roots.iter().find_map(|root| path_of(&root.uri)).filter(|path| path.is_dir())
}

/// Returns the path of a file URI.
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
    fn only_local_file_uris_are_roots() {
        assert_eq!(path_of("file:///home/me/my%20app"), Some("/home/me/my app".into()));
        assert_eq!(path_of("file://localhost/srv/%C3%BC"), Some("/srv/ü".into()));
        for other in ["https://example.com/x", "file://", "/plain", "file:///a%2", "file:///a%zz"] {
            assert_eq!(path_of(other), None, "{other}");
        }
    }
}
