//! What `install` did, so that `uninstall` can take back exactly that, and everybody knows who starts the service.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agents::Agent;
use crate::paths::Home;

/// Who starts the service on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// systemd's user manager.
    Systemd,
    /// launchd.
    Launchd,
    /// We do: `claude-mem start`, and the hooks.
    Own,
}

impl Way {
    /// As people are told.
    pub fn told(self) -> &'static str {
        match self {
            Self::Systemd => "under systemd, as a user service",
            Self::Launchd => "under launchd, as an agent",
            Self::Own => "on its own: hooks start it, or `claude-mem start`",
        }
    }
}

/// A settings file that has our hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiredFile {
    /// The file, as the client names it: maybe a link.
    pub path: PathBuf,
    /// Whether there was one before.
    pub existed: bool,
    /// A copy of what was there before.
    pub backup: Option<PathBuf>,
    /// A hash of what we wrote. While the file still has it, the backup is what it was before.
    pub written: Option<String>,
}

/// Another agent's settings that have our entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFile {
    /// Whose they are.
    pub agent: Agent,
    /// The file.
    pub path: PathBuf,
    /// Whether there was one before.
    pub existed: bool,
}

/// Everything that was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Our version when it was done.
    pub version: String,
    /// Who starts the service; none if `--no-service` left that open.
    pub service: Option<Way>,
    /// The hook that was wired.
    pub hook: Option<PathBuf>,
    /// Settings with our hooks.
    pub settings: Vec<WiredFile>,
    /// Units and the like.
    pub files: Vec<PathBuf>,
    /// Programs that we copied.
    pub programs: Vec<PathBuf>,
    /// Settings of other agents that have our entry.
    pub agents: Vec<AgentFile>,
    /// Directories that were not there before, in the order of making.
    pub directories: Vec<PathBuf>,
}

impl Record {
    /// What was recorded; nothing if there is no record, or none that can be read.
    pub fn load(home: &Home) -> Self {
        fs::read(home.install_record())
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Records.
    pub fn save(&self, home: &Home) -> io::Result<()> {
        let path = home.install_record();
        let unfinished = path.with_extension("tmp");
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        writeln!(file, "{}", serde_json::to_string_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    }

    /// Makes a directory with its parents, and remembers what was missing.
    pub fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<_> =
            path.ancestors().take_while(|place| !place.exists()).map(Path::to_owned).collect();
        fs::create_dir_all(path)?;
        for place in missing.into_iter().rev() {
            if !self.directories.contains(&place) {
                self.directories.push(place);
            }
        }
        Ok(())
    }

    /// The settings file of that path, if we wired it.
    pub fn wired(&self, path: &Path) -> Option<&WiredFile> {
        self.settings.iter().find(|file| file.path == path)
    }

    /// Remembers a settings file, in place of what was known of it.
    pub fn set_wired(&mut self, file: WiredFile) {
        self.settings.retain(|known| known.path != file.path);
        self.settings.push(file);
    }
}
