//! `claude-mem uninstall`: undoes the changes that `install` recorded, and nothing else.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::client::{self, Neighbour};
use super::hooks::hash;
use super::record::{Manager, Record, WiredFile};
use super::report::InstallReport;
use super::service_files::systemd;
use super::{agents, settings, settings_file, tools};
use crate::cli::output::progress::is_agreed;
use crate::cli::{run_command, service};
use crate::config::{self, Environment};
use crate::paths::{Home, with_suffix};
use crate::store::{self, StoreError};
use crate::{hook_events, spool};

/// Undo `install`; memories are kept
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem uninstall\n  claude-mem uninstall --purge --yes")]
pub struct Arguments {
    /// Show what would be done without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Do not change Claude Code's settings
    #[arg(long)]
    no_hooks: bool,
    /// Do not stop or remove the service
    #[arg(long)]
    no_service: bool,
    /// Also delete all memories, settings and backups
    #[arg(long)]
    purge: bool,
    /// Do not ask for confirmation before deleting
    #[arg(long, short)]
    yes: bool,
}

struct Removal<'a> {
    home: &'a Home,
    environment: &'a Environment,
    is_dry: bool,
    record: Record,
    report: InstallReport,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.purge && !arguments.dry_run {
        let question = format!(
            "Delete all memories in {}, including backups{}?",
            home.dir().display(),
            if home.credentials().exists() { " and the API key" } else { "" }
        );
        if !is_agreed(&question, arguments.yes)? {
            outln!("Nothing was changed.");
            return Ok(ExitCode::FAILURE);
        }
    }
    let record = Record::load(home);
    let mut removal =
        Removal { home, environment, is_dry: arguments.dry_run, record, report: InstallReport::default() };
    if !arguments.no_hooks {
        removal.hooks();
        tools::remove(&mut removal.record, &mut removal.report, environment, arguments.dry_run);
        removal.plugin();
        agents::remove_all(&mut removal.record, &mut removal.report, arguments.dry_run);
    }
    if !arguments.no_service {
        removal.service();
    }
    let is_whole = !arguments.no_hooks && !arguments.no_service && removal.report.is_good();
    if is_whole {
        removal.programs();
        removal.leftovers();
        removal.data(arguments.purge);
    } else if !arguments.dry_run && home.dir().is_dir() {
        removal.record.save(home)?;
    }
    removal.report.print(arguments.dry_run);
    Ok(if removal.report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Removal<'_> {
    fn hooks(&mut self) {
        let mut files = std::mem::take(&mut self.record.settings);
        // The record may be lost, or the hooks may have been added by hand.
        if let Some(usual) = settings_file::locate(self.environment, None)
            && files.iter().all(|file| file.path != usual)
        {
            files.push(WiredFile { path: usual, existed: true, backup: None, written: None });
        }
        for file in files {
            match self.unwire(&file) {
                Ok(()) => {}
                Err(error) => {
                    self.report.problem(error.to_string());
                    self.record.settings.push(file);
                }
            }
        }
    }

    /// Notes a plugin of ours that is still enabled: only the client can remove it, and it keeps
    /// calling the hook until then.
    fn plugin(&mut self) {
        let Some(directory) = settings_file::client_directory(self.environment) else { return };
        let text = fs::read_to_string(directory.join("settings.json")).unwrap_or_default();
        for neighbour in client::neighbours(&text, Some(&directory)) {
            if let Neighbour::OwnPlugin(name) = neighbour {
                self.report.note(format!(
                    "the plugin {name} is still enabled and runs our hooks; remove it with `claude plugin uninstall {name}`"
                ));
            }
        }
    }

    fn unwire(&mut self, file: &WiredFile) -> Result<(), settings_file::FileError> {
        let shown = file.path.display();
        let Some(text) = settings_file::read(&file.path)? else { return Ok(()) };
        let is_as_written = file.written.as_deref() == Some(&hash(&text));
        let former = file.backup.as_deref().and_then(|backup| fs::read_to_string(backup).ok());
        if is_as_written && !file.existed {
            self.report.step("hooks", format!("remove {shown}, which did not exist before"));
            if !self.is_dry {
                remove(&file.path)
                    .map_err(|source| settings_file::FileError::Io { path: file.path.clone(), source })?;
            }
        } else if let Some(former) = former.filter(|_| is_as_written) {
            self.report.step("hooks", format!("restore {shown} from its backup"));
            if !self.is_dry {
                settings_file::replace(&file.path, None, |now| {
                    if now == text { Ok(former.clone()) } else { settings::without_hooks(now) }
                })?;
            }
        } else {
            let found = settings::commands(&text)
                .map_err(|source| settings_file::FileError::Settings { path: file.path.clone(), source })?;
            let ours = found.iter().filter(|found| hook_events::is_ours(&found.command)).count();
            if ours > 0 {
                self.report.step("hooks", format!("remove our {ours} hooks from {shown}"));
            }
            if ours > 0 && !self.is_dry {
                settings_file::replace(&file.path, None, settings::without_hooks)?;
            }
        }
        if let Some(backup) = file.backup.as_deref().filter(|_| !self.is_dry) {
            let _ = fs::remove_file(backup);
        }
        Ok(())
    }

    fn service(&mut self) {
        let manager = self.record.service.unwrap_or(Manager::Own);
        self.report.step("service", "stop it");
        for file in &self.record.files {
            self.report.step("", format!("remove {}", file.display()));
        }
        if self.is_dry {
            return;
        }
        if let Err(error) = self.stop(manager) {
            self.report.problem(format!("{error:#}"));
            return;
        }
        self.record.service = None;
    }

    fn stop(&mut self, manager: Manager) -> anyhow::Result<()> {
        if manager == Manager::Systemd {
            let disable = ["disable", "--quiet", "claude-mem.service", "claude-mem.socket"];
            run_command::must(systemd::systemctl(self.environment, &disable))?;
        }
        service::stop_quietly(self.home, self.environment, manager)?;
        for file in std::mem::take(&mut self.record.files) {
            remove(&file)?;
            // The drop-in directory is ours alone.
            if let Some(parent) = file.parent().filter(|parent| parent.ends_with("claude-mem.service.d")) {
                let _ = fs::remove_dir(parent);
            }
        }
        match manager {
            Manager::Systemd => run_command::must(systemd::systemctl(self.environment, &["daemon-reload"])),
            _ => Ok(()),
        }
    }

    fn programs(&mut self) {
        if !self.record.extras.is_empty() {
            self.report.step("shell", "remove completions and man pages");
        }
        if !self.is_dry {
            self.record.remove_extras(|_| true);
        }
        for program in std::mem::take(&mut self.record.programs) {
            self.report.step("programs", format!("remove {}", program.display()));
            if self.is_dry {
                continue;
            }
            if let Err(error) = remove(&program) {
                self.report.problem(format!("cannot remove {}: {error}", program.display()));
            }
        }
    }

    /// Deletes files that hold no data: sockets, locks, logs, and settings the user never changed.
    fn leftovers(&mut self) {
        if self.is_dry {
            return;
        }
        let home = self.home;
        let log = home.worker_log();
        let mut files = vec![
            home.install_record(),
            home.lock(),
            home.socket(),
            home.nudge_socket(),
            home.start_attempt(),
            home.stopped(),
            home.tools_asked(),
            home.client_path(),
            home.ballast(),
            home.memory_bytes(),
            home.install_record().with_extension("tmp"),
            service::log_file::previous(&log),
            log,
        ];
        let settings = fs::read_to_string(home.config()).unwrap_or_default();
        if settings == config::commented_defaults() {
            files.push(home.config());
        }
        for file in files {
            let _ = fs::remove_file(file);
        }
        for directory in self.record.directories.iter().rev() {
            // Fails unless the directory is empty.
            let _ = fs::remove_dir(directory);
        }
        let _ = fs::remove_dir(home.dir());
    }

    fn data(&mut self, is_purge: bool) {
        let directory = self.home.dir().display().to_string();
        if !is_purge {
            if self.home.database().exists() {
                self.report.step("data", format!("keep the memories in {directory}"));
            }
            let credentials = self.home.credentials();
            if credentials.exists() {
                self.report.note(format!("the API key stays in {}", credentials.display()));
            }
            if !self.is_dry {
                // Best effort: fold the WAL into the database, so that copying that one file copies
                // everything.
                let _ = store::checkpoint_into_one_file(self.home);
            }
            return;
        }
        self.report.step("data", format!("delete all memories in {directory}"));
        if self.home.credentials().exists() {
            self.report.step("", format!("and the API key in {}", self.home.credentials().display()));
        }
        if self.is_dry {
            return;
        }
        if let Err(error) = purge(self.home, self.environment) {
            self.report.problem(format!("cannot delete everything in {directory}: {error}"));
        }
    }
}

/// Deletes our files by name, and the directory only if it is then empty: the user may have chosen
/// any directory.
fn purge(home: &Home, environment: &Environment) -> io::Result<()> {
    for note in spool::dropped_notes(home, environment) {
        remove(&note)?;
    }
    let is_foreign = matches!(store::open_to_read(home, 1000), Err(StoreError::Foreign));
    if !is_foreign {
        for suffix in ["-wal", "-shm", ""] {
            remove(&with_suffix(&home.database(), suffix))?;
        }
    }
    for name in
        ["config.toml", "credentials", "environment", "dropped.log", "recovering", "memory.bytes", "reserve"]
    {
        remove(&home.dir().join(name))?;
    }
    for name in ["spool", "backups", "damaged", "models"] {
        match fs::remove_dir_all(home.dir().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let _ = fs::remove_dir(home.dir());
    Ok(())
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
