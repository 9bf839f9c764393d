//! The membership of this machine: address, team, keys and shares, in a file that only its owner
//! can read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SyncError;
use super::keys::{Circle, Epochs, sha256};
use crate::config::{Environment, Secret, Share};
use crate::paths::Home;
use crate::store::sync::Shares;

/// Name of the systemd credential that may take the place of the file.
const CREDENTIAL: &str = "claude_mem_sync";

/// Everything that this machine needs to synchronise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Membership {
    /// The server's address, with user and password.
    #[serde(with = "secret_text")]
    pub url: Secret,
    /// The team.
    pub team: Uuid,
    /// Its name.
    pub name: String,
    /// False: bodies are readable on the server.
    pub is_sealed: bool,
    /// The login on the server.
    pub login: String,
    /// The name of this device.
    pub label: String,
    /// The team's keys.
    pub team_keys: Epochs,
    /// The keys of this login's devices.
    pub my_keys: Epochs,
    /// Projects with another share than the default, by key.
    #[serde(default)]
    pub shares: BTreeMap<String, Share>,
}

impl Membership {
    /// Reads the membership: the file in the data directory, else the systemd credential. `None` if
    /// there is neither.
    pub fn load(home: &Home, environment: &Environment) -> Result<Option<Self>, SyncError> {
        let path = home.sync();
        let text = match read_private(&path)? {
            Some(text) => text,
            None => match &environment.outgoing.credentials_directory {
                Some(folder) => match fs::read_to_string(folder.join(CREDENTIAL)) {
                    Ok(text) => text,
                    Err(_) => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        parse(&text, &path).map(Some)
    }

    /// Writes the file, complete or not at all.
    pub fn save(&self, home: &Home) -> Result<(), SyncError> {
        let path = home.sync();
        let unfinished = path.with_extension("json.tmp");
        let write = || -> std::io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(home.dir())?.sync_all()
        };
        write().map_err(|error| SyncError::Membership(format!("cannot write {}: {error}", path.display())))
    }

    /// Adds the team's keys to the file. A systemd credential stays as it is: its keys are fetched
    /// again with each connection.
    pub fn save_team_keys(&self, home: &Home) -> Result<(), SyncError> {
        let Some(text) = read_private(&home.sync())? else { return Ok(()) };
        // As it is now: `sync share` may have changed it meanwhile.
        let mut saved = parse(&text, &home.sync())?;
        saved.team_keys = self.team_keys.clone();
        saved.save(home)
    }

    /// Deletes the file.
    pub fn remove(home: &Home) -> Result<(), SyncError> {
        match fs::remove_file(home.sync()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(SyncError::Membership(format!("cannot remove {}: {error}", home.sync().display())))
            }
            _ => Ok(()),
        }
    }

    /// Returns the keys of the whole team, or of this login's devices.
    pub fn circle(&self, is_shared: bool) -> Circle {
        let (login, epochs) = match is_shared {
            true => (String::new(), &self.team_keys),
            false => (self.login.clone(), &self.my_keys),
        };
        Circle { team: self.team, login, epochs: epochs.clone() }
    }

    /// Returns the user's choice for each project.
    pub fn shares(&self, default: Share) -> Shares {
        Shares { default, projects: self.shares.clone() }
    }
}

fn parse(text: &str, path: &Path) -> Result<Membership, SyncError> {
    serde_json::from_str(text).map_err(|error| {
        // The error itself could quote a key.
        let (path, line) = (path.display(), error.line());
        SyncError::Membership(format!(
            "{path}:{line}: cannot be read; join again with a new invitation after `claude-mem sync leave`"
        ))
    })
}

/// Returns a fingerprint of this machine and data directory.
pub fn place(home: &Home) -> String {
    let machine = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let machine = machine.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_else(host_name);
    let directory = fs::canonicalize(home.dir()).unwrap_or_else(|_| home.dir().to_owned());
    let both = format!("{}\n{}", machine.trim(), directory.display());
    sha256(both.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reads a file that only we can read; `None` if there is none.
fn read_private(path: &Path) -> Result<Option<String>, SyncError> {
    let unusable = |reason: &str| SyncError::Membership(format!("{}: {reason}", path.display()));
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| unusable(&error.to_string()))?,
    };
    let meta = file.metadata().map_err(|error| unusable(&error.to_string()))?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(unusable("it belongs to another user"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(unusable("other users can read it, and it holds keys: run `chmod 600` on it"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| unusable(&error.to_string()))?;
    Ok(Some(text))
}

mod secret_text {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::config::Secret;

    pub fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(from)?;
        Secret::new(&text).ok_or_else(|| serde::de::Error::custom("empty"))
    }
}
