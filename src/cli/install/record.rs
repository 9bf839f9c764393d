//! The record of an installation: the changes that `uninstall` undoes, and who starts the service.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::agents::AgentPart;
use super::settings_file;
use crate::model::Agent;
use crate::paths::Home;

/// The manager that starts the service on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// systemd's user manager.
    Systemd,
    /// launchd.
    Launchd,
    /// None: `claude-mem start` or a hook starts it.
    Own,
}

impl Manager {
    /// Returns a description for the user.
    pub fn description(self) -> &'static str {
        match self {
            Self::Systemd => "under systemd, as a user service",
            Self::Launchd => "under launchd, as an agent",
            Self::Own => "without a service manager: hooks or `claude-mem start` start it",
        }
    }
}

/// A settings file that has our hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WiredFile {
    /// The file as the client names it; may be a symlink.
    pub path: PathBuf,
    /// True if the file existed before.
    pub existed: bool,
    /// A copy of the original file.
    pub backup: Option<PathBuf>,
    /// A hash of the text that we wrote. While the file still has this hash, the backup can be
    /// restored.
    pub written: Option<String>,
}

/// Another agent's settings that have our entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFile {
    /// The agent.
    pub agent: Agent,
    /// The part that is in the file.
    #[serde(default)]
    pub part: AgentPart,
    /// The file.
    pub path: PathBuf,
    /// True if the file existed before.
    pub existed: bool,
}

/// All recorded changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Our version at installation time.
    pub version: String,
    /// The manager of the service; none after `--no-service`.
    pub service: Option<Manager>,
    /// The hook program that was wired.
    pub hook: Option<PathBuf>,
    /// Settings with our hooks.
    pub settings: Vec<WiredFile>,
    /// Unit files and similar.
    pub files: Vec<PathBuf>,
    /// Programs we copied.
    pub programs: Vec<PathBuf>,
    /// Settings of other agents that have our entry.
    pub agents: Vec<AgentFile>,
    /// The checkout that the programs were built in.
    pub checkout: Option<PathBuf>,
    /// The client's program that registered our MCP server; none if nobody did.
    pub mcp: Option<PathBuf>,
    /// Commands in the client, completions and man pages.
    pub extras: Vec<PathBuf>,
    /// Directories we created, in order of creation.
    pub directories: Vec<PathBuf>,
}

impl Record {
    /// Loads the record; empty if it is missing or unreadable.
    pub fn load(home: &Home) -> Self {
        fs::read(home.install_record())
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Saves the record.
    pub fn save(&self, home: &Home) -> io::Result<()> {
        let path = home.install_record();
        let unfinished = path.with_extension("tmp");
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        writeln!(file, "{}", serde_json::to_string_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    }

    /// Creates a directory with its parents, and records which ones were missing.
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

    /// Writes files that `uninstall` removes.
    pub fn write_extras(&mut self, files: &[(PathBuf, String)]) -> anyhow::Result<()> {
        for (file, text) in files {
            self.make_directory(file.parent().unwrap_or(Path::new("/")))?;
            settings_file::write_whole(file, text, 0o644)
                .with_context(|| format!("cannot write {}", file.display()))?;
            self.add_extra(file.clone());
        }
        Ok(())
    }

    /// Records a file that `uninstall` removes.
    pub fn add_extra(&mut self, file: PathBuf) {
        if !self.extras.contains(&file) {
            self.extras.push(file);
        }
    }

    /// Removes the extras that `is_chosen` accepts, with the folders that they leave empty. Best effort.
    pub fn remove_extras(&mut self, is_chosen: impl Fn(&PathBuf) -> bool) {
        for file in std::mem::take(&mut self.extras) {
            if !is_chosen(&file) {
                self.extras.push(file);
                continue;
            }
            let _ = fs::remove_file(&file);
            for folder in file
                .ancestors()
                .skip(1)
                .take_while(|folder| self.directories.iter().any(|ours| ours == folder))
            {
                let _ = fs::remove_dir(folder);
            }
        }
    }

    /// Returns the settings file of that path, if we wired it.
    pub fn wired(&self, path: &Path) -> Option<&WiredFile> {
        self.settings.iter().find(|file| file.path == path)
    }

    /// Records a settings file, replacing its earlier entry.
    pub fn set_wired(&mut self, file: WiredFile) {
        self.settings.retain(|known| known.path != file.path);
        self.settings.push(file);
    }
}
