//! Installs our hooks in Claude Code's settings and records enough to undo it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::Installation;
use super::client::{self, Client};
use super::programs::Programs;
use super::record::WiredFile;
use super::settings::{self, WantedHook};
use super::settings_file::{self, FileError};
use crate::config::{Config, Environment};
use crate::hook_events;
use crate::paths::Home;

/// The settings file to edit and the client to edit it for.
#[derive(Debug)]
pub struct HookPlan {
    /// The settings file.
    pub file: PathBuf,
    /// The installed client, if there is one.
    pub client: Option<Client>,
}

impl HookPlan {
    /// Plans for the user's settings, or for those of the project in the current directory.
    pub fn make(environment: &Environment, for_project: bool) -> anyhow::Result<Self> {
        let project = for_project.then(std::env::current_dir).transpose()?;
        let file = settings_file::locate(environment, project.as_deref())
            .context("the home directory is unknown")?;
        let command = Config::default().claude_cli.command;
        Ok(Self { file, client: client::find(environment, &command) })
    }

    /// Fails as the real edit would, without changing anything.
    pub fn check(&self, hook: &Path, data: Option<&Path>) -> anyhow::Result<()> {
        let wanted = self.wanted(hook, data);
        self.try_out(&wanted).map_err(|error| explained(error, &wanted))
    }

    fn try_out(&self, wanted: &[WantedHook]) -> Result<(), FileError> {
        let text = settings_file::read(&self.file)?.unwrap_or_default();
        let edited = settings::with_hooks(&text, wanted);
        let edited = edited.map_err(|source| FileError::Settings { path: self.file.clone(), source })?;
        if edited == text { Ok(()) } else { settings_file::check_writable(&self.file) }
    }

    /// Returns the hooks for this client.
    pub fn wanted(&self, hook: &Path, data: Option<&Path>) -> Vec<WantedHook> {
        let version = self.client.as_ref().and_then(|client| client.version);
        let wanted = |wire: hook_events::Wire| WantedHook {
            wire,
            command: hook_events::command(hook, wire.verb, data),
        };
        hook_events::for_client(version).map(wanted).collect()
    }

    fn client_name(&self) -> String {
        match self.client.as_ref().map(|client| client.version) {
            Some(Some(version)) => format!("Claude Code {version}"),
            Some(None) => "a Claude Code of unknown version".into(),
            None => "Claude Code, which is not installed yet".into(),
        }
    }
}

/// The data directory, if the hook would not find it by default.
pub fn unusual_data<'a>(home: &'a Home, environment: &Environment) -> Option<&'a Path> {
    let usual = environment.user_home.as_ref().map(|user| user.join(".claude-mem"));
    (usual.as_deref() != Some(home.dir())).then(|| home.dir())
}

/// A hash that identifies a text.
pub fn hash(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// Path of the backup, next to the path that the client uses: the target of a symlink may be in a
/// repository.
fn backup_of(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{name}.before-claude-mem"))
}

fn explained(error: FileError, wanted: &[WantedHook]) -> anyhow::Error {
    match &error {
        FileError::Settings { .. } => {
            anyhow!("{error}.\nFix it and run this command again; nothing was changed.")
        }
        FileError::ReadOnly { .. } => anyhow!(
            "{error}.\nMake it writable, or use --no-hooks and add this where the file is generated:\n{}",
            settings::as_json(wanted)
        ),
        _ => error.into(),
    }
}

/// True if the settings already contain hooks of ours.
fn is_wired(text: &str) -> anyhow::Result<bool> {
    Ok(settings::commands(text)?.iter().any(|found| hook_events::is_ours(&found.command)))
}

impl Installation<'_> {
    pub(super) fn hooks(&mut self, plan: &HookPlan, programs: &Programs) -> anyhow::Result<()> {
        let wanted = plan.wanted(&programs.hook, unusual_data(self.home, self.environment));
        let before = settings_file::read(&plan.file)?.unwrap_or_default();
        let after = settings::with_hooks(&before, &wanted)?;
        self.record.hook = Some(programs.hook.clone());
        let (file, client) = (plan.file.display(), plan.client_name());
        if before == after {
            self.report.step(
                "hooks",
                format!("keep the {} hooks in {file}, which are current for {client}", wanted.len()),
            );
        } else {
            self.report
                .step("hooks", format!("add hooks for {} events to {file}, for {client}", wanted.len()));
            self.write_hooks(&plan.file, &wanted, !before.is_empty() && !is_wired(&before)?)?;
        }
        self.note_neighbours(&after, wanted.len());
        Ok(())
    }

    fn write_hooks(&mut self, file: &Path, wanted: &[WantedHook], is_kept: bool) -> anyhow::Result<()> {
        let backup = backup_of(file);
        if is_kept {
            self.report.step("", format!("back up the current file to {}", backup.display()));
        }
        self.really(|record| {
            record.make_directory(file.parent().unwrap_or(Path::new("/")))?;
            let known = record.wired(file).cloned();
            // A file that already has our hooks is not the original: keep the earlier backup.
            let text = settings_file::read(file)?.unwrap_or_default();
            let is_wired = is_wired(&text)?;
            let new_backup = (!is_wired).then_some(backup.as_path());
            let replaced =
                settings_file::replace(file, new_backup, |text| settings::with_hooks(text, wanted))
                    .inspect_err(|_| {
                        // Nothing was changed, so there is nothing to restore.
                        let _ = new_backup.map(std::fs::remove_file);
                    })
                    .map_err(|error| explained(error, wanted))?;
            let mut wired = known.filter(|_| is_wired).unwrap_or(WiredFile {
                path: file.to_owned(),
                existed: replaced.before.is_some(),
                backup: replaced.before.is_some().then(|| backup.clone()).filter(|_| !is_wired),
                written: None,
            });
            // The file may have changed since we wrote it: then `uninstall` can only remove our own
            // hooks.
            let is_known = wired.written.is_none() || wired.written == replaced.before.as_deref().map(hash);
            wired.written =
                (is_known && (!is_wired || wired.written.is_some())).then(|| hash(&replaced.after));
            record.set_wired(wired);
            Ok(())
        })
    }

    fn note_neighbours(&mut self, text: &str, wired: usize) {
        if wired < hook_events::WIRING.len() {
            self.report.note(format!(
                "failed tools and failed turns are not recorded: that needs Claude Code {} or later; upgrade and run this \
                 command again",
                hook_events::FORGIVING_SINCE
            ));
        }
        if settings::hooks_are_disabled(text) {
            self.report.note("these settings disable all hooks, including ours (\"disableAllHooks\")");
        }
        let directory = settings_file::client_directory(self.environment);
        for neighbour in client::neighbours(text, directory.as_deref()) {
            self.report.note(neighbour.description());
        }
    }
}
