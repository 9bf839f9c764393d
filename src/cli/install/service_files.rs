//! The part of an installation that concerns the service: who starts it, and the files that they need for that.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::programs::Programs;
use super::record::{Record, Way};
use super::systemd::{self, Place};
use super::{Installation, launchd, settings_file};
use crate::cli::{child, service};
use crate::config::Environment;

impl Installation<'_> {
    pub(super) fn service(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let way = way(self.environment);
        self.report.step("service", format!("run it {}", way.told()));
        match way {
            Way::Systemd => self.systemd(programs)?,
            Way::Launchd => self.launchd(programs)?,
            Way::Own => {}
        }
        let (home, environment) = (self.home, self.environment);
        self.really(|record| {
            record.service = Some(way);
            Ok(())
        })?;
        if self.is_dry {
            return Ok(());
        }
        // The one before may be of an older version, or have been started another way.
        service::stop_quietly(home, environment, way)?;
        // Not this program, which may lie in a directory that goes: the one that stays.
        match service::start_program(&programs.main, home, environment, way) {
            Ok(health) => self.report.step("", format!("started, pid {}", health["pid"])),
            Err(error) => self.report.problem(format!("{error:#}")),
        }
        Ok(())
    }

    fn systemd(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let environment = self.environment;
        let directory = systemd::directory(environment).context("no home directory is known")?;
        let with_sandbox = systemd::sandbox_works(environment);
        let place = Place {
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
                "without the sandbox: this system does not let users make namespaces; the service runs with the \
                 hardening that needs none",
            );
        }
        self.really(|record| {
            write_files(record, &files)?;
            // `enable` makes these.
            for name in ["default.target.wants", "sockets.target.wants"] {
                record.make_directory(&directory.join(name))?;
            }
            child::must(systemd::systemctl(environment, &["daemon-reload"]))?;
            child::must(systemd::systemctl(
                environment,
                &["enable", "--quiet", "claude-mem.service", "claude-mem.socket"],
            ))
        })
    }

    fn launchd(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let file = launchd::file(self.environment).context("no home directory is known")?;
        self.report.step("", format!("write {}", file.display()));
        let text = launchd::text(&programs.main, self.home);
        self.really(|record| write_files(record, &[(file, text)]))
    }
}

/// Who can start the service here.
fn way(environment: &Environment) -> Way {
    if launchd::is_there() {
        Way::Launchd
    } else if systemd::is_there(environment) {
        Way::Systemd
    } else {
        Way::Own
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
