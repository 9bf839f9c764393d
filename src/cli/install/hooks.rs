//! The part of an installation that concerns Claude Code's settings: what goes in, what is remembered to take it back.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::Installation;
use super::client::{self, Client};
use super::programs::Programs;
use super::record::WiredFile;
use super::settings::{self, Wanted};
use super::settings_file::{self, FileError};
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::wiring;

/// What is to be done, and for whom.
#[derive(Debug)]
pub struct Plan {
    /// The settings file.
    pub file: PathBuf,
    /// The installed client, if there is one.
    pub client: Option<Client>,
}

impl Plan {
    /// For the user, or for the project of this directory.
    pub fn make(environment: &Environment, for_project: bool) -> anyhow::Result<Self> {
        let project = for_project.then(std::env::current_dir).transpose()?;
        let file =
            settings_file::locate(environment, project.as_deref()).context("no home directory is known")?;
        let command = Config::default().claude_cli.command;
        Ok(Self { file, client: client::find(environment, &command) })
    }

    /// Fails as the real work would, without doing anything.
    pub fn check(&self, hook: &Path, data: Option<&Path>) -> anyhow::Result<()> {
        let wanted = self.wanted(hook, data);
        self.try_out(&wanted).map_err(|error| explained(error, &wanted))
    }

    fn try_out(&self, wanted: &[Wanted]) -> Result<(), FileError> {
        let text = settings_file::read(&self.file)?.unwrap_or_default();
        let edited = settings::with_hooks(&text, wanted);
        let edited = edited.map_err(|source| FileError::Settings { path: self.file.clone(), source })?;
        if edited == text { Ok(()) } else { settings_file::check_writable(&self.file) }
    }

    /// The hooks for this client.
    pub fn wanted(&self, hook: &Path, data: Option<&Path>) -> Vec<Wanted> {
        let version = self.client.as_ref().and_then(|client| client.version);
        let wanted = |wire: wiring::Wire| Wanted { wire, command: wiring::command(hook, wire.verb, data) };
        wiring::for_client(version).map(wanted).collect()
    }

    fn told_client(&self) -> String {
        match self.client.as_ref().map(|client| client.version) {
            Some(Some(version)) => format!("Claude Code {version}"),
            Some(None) => "a Claude Code that does not tell its version".into(),
            None => "Claude Code, which is not installed yet".into(),
        }
    }
}

/// The data directory, if the hook would not find it by itself.
pub fn unusual_data<'a>(home: &'a Home, environment: &Environment) -> Option<&'a Path> {
    let usual = environment.user_home.as_ref().map(|user| user.join(".claude-mem"));
    (usual.as_deref() != Some(home.dir())).then(|| home.dir())
}

/// A hash of a text, to know it again.
pub fn hash(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// Beside the file as the client names it: the place that a link leads to may be somebody's repository.
fn backup_of(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{name}.before-claude-mem"))
}

fn explained(error: FileError, wanted: &[Wanted]) -> anyhow::Error {
    match &error {
        FileError::Settings { .. } => anyhow!("{error}.\nRepair it and run this again; nothing was changed."),
        FileError::ReadOnly { .. } => anyhow!(
            "{error}.\nMake it writable, or use --no-hooks and add this where it is made:\n{}",
            settings::as_json(wanted)
        ),
        _ => error.into(),
    }
}

/// Whether settings have hooks of ours already.
fn is_wired(text: &str) -> anyhow::Result<bool> {
    Ok(settings::commands(text)?.iter().any(|found| wiring::is_ours(&found.command)))
}

impl Installation<'_> {
    pub(super) fn hooks(&mut self, plan: &Plan, programs: &Programs) -> anyhow::Result<()> {
        let wanted = plan.wanted(&programs.hook, unusual_data(self.home, self.environment));
        let before = settings_file::read(&plan.file)?.unwrap_or_default();
        let after = settings::with_hooks(&before, &wanted)?;
        self.record.hook = Some(programs.hook.clone());
        let (file, client) = (plan.file.display(), plan.told_client());
        if before == after {
            self.report
                .step("hooks", format!("keep the {} in {file}, which are right for {client}", wanted.len()));
        } else {
            self.report.step("hooks", format!("wire {} events in {file}, for {client}", wanted.len()));
            self.write_hooks(&plan.file, &wanted, !before.is_empty() && !is_wired(&before)?)?;
        }
        self.tell_neighbours(&after, wanted.len());
        Ok(())
    }

    fn write_hooks(&mut self, file: &Path, wanted: &[Wanted], is_kept: bool) -> anyhow::Result<()> {
        let backup = backup_of(file);
        if is_kept {
            self.report.step("", format!("keep what is there now in {}", backup.display()));
        }
        self.really(|record| {
            record.make_directory(file.parent().unwrap_or(Path::new("/")))?;
            let known = record.wired(file).cloned();
            // A file that has our hooks already is not what was there before us: that backup stays.
            let text = settings_file::read(file)?.unwrap_or_default();
            let is_wired = is_wired(&text)?;
            let new_backup = (!is_wired).then_some(backup.as_path());
            let replaced =
                settings_file::replace(file, new_backup, |text| settings::with_hooks(text, wanted))
                    .inspect_err(|_| {
                        // Nothing was changed, so nothing is to be brought back.
                        let _ = new_backup.map(std::fs::remove_file);
                    })
                    .map_err(|error| explained(error, wanted))?;
            let mut wired = known.filter(|_| is_wired).unwrap_or(WiredFile {
                path: file.to_owned(),
                existed: replaced.before.is_some(),
                backup: replaced.before.is_some().then(|| backup.clone()).filter(|_| !is_wired),
                written: None,
            });
            // Whoever changed it since we wrote it: then only our own hooks can be taken out again.
            let is_known = wired.written.is_none() || wired.written == replaced.before.as_deref().map(hash);
            wired.written =
                (is_known && (!is_wired || wired.written.is_some())).then(|| hash(&replaced.after));
            record.set_wired(wired);
            Ok(())
        })
    }

    fn tell_neighbours(&mut self, text: &str, wired: usize) {
        if wired < wiring::WIRING.len() {
            self.report.note(format!(
                "failed tools and failed turns are not recorded: that needs Claude Code {} or later; run this again when \
                 you have it",
                wiring::FORGIVING_SINCE
            ));
        }
        if settings::hooks_are_disabled(text) {
            self.report.note("these settings switch all hooks off (\"disableAllHooks\"), ours included");
        }
        let directory = settings_file::client_directory(self.environment);
        for neighbour in client::neighbours(text, directory.as_deref()) {
            self.report.note(neighbour.told());
        }
    }
}
