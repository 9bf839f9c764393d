//! Installs the service: chooses its manager and writes the files that the manager needs.

pub mod launchd;
pub mod systemd;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::programs::Programs;
use super::record::{Manager, Record};
use super::{Installation, settings_file};
use crate::cli::{run_command, service};
use crate::config::Environment;
use systemd::UnitPaths;

impl Installation<'_> {
    pub(super) fn service(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let manager = manager(self.environment);
        self.report.step("service", format!("run it {}", manager.description()));
        match manager {
            Manager::Systemd => self.systemd(programs)?,
            Manager::Launchd => self.launchd(programs)?,
            Manager::Own => {}
        }
        let (home, environment) = (self.home, self.environment);
        self.really(|record| {
            record.service = Some(manager);
            Ok(())
        })?;
        if self.is_dry {
            return Ok(());
        }
        // The running service may be of an older version, or started in another way.
        service::stop_quietly(home, environment, manager)?;
        // Start the installed program, not the running one, whose directory may be temporary.
        match service::start_program(&programs.main, home, environment, manager) {
            Ok(health) => self.report.step("", format!("started, {}", service::pid(&health))),
            Err(error) => self.report.problem(format!("{error:#}")),
        }
        Ok(())
    }

    fn systemd(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let environment = self.environment;
        let directory = systemd::directory(environment).context("the home directory is unknown")?;
        let with_sandbox = systemd::sandbox_works(environment);
        let place = UnitPaths {
            program: &programs.main,
            home: self.home,
            user_home: environment.user_home.as_deref(),
            client: environment.outgoing.claude_config_dir.as_deref(),
        };
        let mut files = systemd::files(place, with_sandbox);
        for (name, _) in &mut files {
            *name = directory.join(&*name);
        }
        for (file, _) in &files {
            self.report.step("", format!("write {}", file.display()));
        }
        if !with_sandbox {
            self.report.note(
                "sandbox disabled: this system does not allow unprivileged user namespaces; the service runs with the \
                 remaining hardening",
            );
        }
        self.really(|record| {
            write_files(record, &files)?;
            // `systemctl enable` creates these.
            for name in ["default.target.wants", "sockets.target.wants"] {
                record.make_directory(&directory.join(name))?;
            }
            run_command::must(systemd::systemctl(environment, &["daemon-reload"]))?;
            run_command::must(systemd::systemctl(
                environment,
                &["enable", "--quiet", "claude-mem.service", "claude-mem.socket"],
            ))
        })
    }

    fn launchd(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let file = launchd::file(self.environment).context("the home directory is unknown")?;
        self.report.step("", format!("write {}", file.display()));
        let environment = self.environment;
        let client = environment.outgoing.claude_config_dir.as_deref();
        let path = environment.outgoing.path.as_deref().and_then(|path| path.to_str());
        let text = launchd::text(&programs.main, self.home, client, path);
        self.really(|record| write_files(record, &[(file, text)]))
    }
}

/// Returns the manager that can start the service here.
fn manager(environment: &Environment) -> Manager {
    if launchd::is_there() {
        Manager::Launchd
    } else if systemd::is_there(environment) {
        Manager::Systemd
    } else {
        Manager::Own
    }
}

fn write_files(record: &mut Record, files: &[(PathBuf, String)]) -> anyhow::Result<()> {
    for (file, text) in files {
        record.make_directory(file.parent().unwrap_or(Path::new("/")))?;
        settings_file::write_whole(file, text, 0o644)
            .with_context(|| format!("cannot write {}", file.display()))?;
        if !record.files.contains(file) {
            record.files.push(file.clone());
        }
    }
    Ok(())
}
