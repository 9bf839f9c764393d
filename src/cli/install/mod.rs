//! `claude-mem install`: programs, settings, hooks, service, in this order, and a record of what was done.
//!
//! The record is written after each part, so that `uninstall` can also take back an installation that ended half-way.

pub mod agents;
pub mod client;
pub mod hooks;
pub mod launchd;
pub mod programs;
pub mod record;
mod report;
mod service_files;
pub mod settings;
pub mod settings_file;
pub mod systemd;
pub mod uninstall;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::config::{self, Environment};
use crate::paths::Home;
use crate::store::predecessor;
use programs::Programs;
use record::Record;
use report::Report;

/// Set claude-mem up: hooks in Claude Code's settings, and the service
///
/// Safe to repeat. What it did is recorded, and `claude-mem uninstall` takes back exactly that.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem install --dry-run\n  claude-mem install\n  claude-mem install --project --no-service\n  claude-mem install --agent codex"
)]
pub struct Arguments {
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wire the hooks in the project of this directory (.claude/settings.json) instead of for all projects
    #[arg(long)]
    project: bool,
    /// Leave Claude Code's settings alone
    #[arg(long)]
    no_hooks: bool,
    /// Leave the service alone
    #[arg(long)]
    no_service: bool,
    /// Copy both programs into this directory first, and use them there
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Only add the memory's tools to another agent's settings
    #[arg(long, value_name = "NAME", conflicts_with_all = ["project", "no_hooks", "no_service", "bin_dir"])]
    agent: Option<agents::Agent>,
}

/// Everything that the parts of an installation need.
struct Installation<'a> {
    home: &'a Home,
    environment: &'a Environment,
    is_dry: bool,
    record: Record,
    report: Report,
}

impl Installation<'_> {
    /// Does it, unless this is only a show.
    fn really(&mut self, work: impl FnOnce(&mut Record) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.is_dry {
            return Ok(());
        }
        let done = work(&mut self.record);
        let saved = self.record.save(self.home).context("cannot record what was done");
        done.and(saved)
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut record = Record::load(home);
    record.version = env!("CARGO_PKG_VERSION").to_owned();
    let report = Report::default();
    let mut installation = Installation { home, environment, is_dry: arguments.dry_run, record, report };
    if let Some(agent) = arguments.agent {
        return installation.only_agent(agent);
    }
    // First, because it is the one part that may be refused: then nothing at all was done.
    let hooks =
        (!arguments.no_hooks).then(|| hooks::Plan::make(environment, arguments.project)).transpose()?;
    let running = Programs::running()?;
    if let Some(hooks) = &hooks {
        hooks.check(&running.hook, hooks::unusual_data(home, environment))?;
    }
    if !arguments.dry_run {
        home.prepare()?;
    }
    let programs = installation.programs(running, arguments.bin_dir.clone())?;
    installation.settings()?;
    if let Some(hooks) = hooks {
        installation.hooks(&hooks, &programs)?;
    }
    if !arguments.no_service {
        installation.service(&programs)?;
    }
    let heading = if arguments.dry_run { "This would be done; nothing was changed:" } else { "Done:" };
    installation.report.print(heading);
    if !arguments.dry_run {
        if !arguments.no_hooks && installation.report.is_good() {
            let which = if arguments.project { " in this project" } else { "" };
            say!("\nNew sessions of Claude Code{which} are remembered; those that run already are not.");
        }
        say!("\n`claude-mem doctor` tells whether everything works.");
    }
    Ok(if installation.report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Installation<'_> {
    fn only_agent(&mut self, agent: agents::Agent) -> anyhow::Result<ExitCode> {
        if !self.is_dry {
            self.home.prepare()?;
        }
        self.agent(agent, &Programs::running()?)?;
        let heading = if self.is_dry { "This would be done; nothing was changed:" } else { "Done:" };
        self.report.print(heading);
        Ok(ExitCode::SUCCESS)
    }

    fn programs(&mut self, running: Programs, target: Option<PathBuf>) -> anyhow::Result<Programs> {
        let Some(directory) = target else {
            self.report
                .step("programs", format!("use {} and its hook where they are", running.main.display()));
            return Ok(running);
        };
        let directory = std::path::absolute(directory)?;
        let there = Programs::in_directory(&directory);
        self.report
            .step("programs", format!("copy claude-mem and claude-mem-hook to {}", directory.display()));
        self.really(|record| running.copy_to(&directory, record).map(drop))?;
        let path = self.environment.outgoing.path.as_deref().unwrap_or_default();
        if !std::env::split_paths(path).any(|place| place == directory) {
            let directory = directory.display();
            let advice = format!("add it in your shell's profile (export PATH=\"{directory}:$PATH\")");
            self.report.note(format!(
                "{directory} is not in your PATH: {advice}, or call claude-mem by its whole path"
            ));
        }
        Ok(there)
    }

    fn settings(&mut self) -> anyhow::Result<()> {
        let file = self.home.config();
        if file.exists() {
            self.report.step("settings", format!("keep {}", file.display()));
        } else {
            self.report
                .step("settings", format!("write {}, with every setting commented out", file.display()));
            self.really(|_| Ok(settings_file::write_whole(&file, &config::commented_defaults(), 0o600)?))?;
        }
        if predecessor::is_in_our_place(self.home) {
            let (theirs, ours) = (self.home.usual_database(), self.home.database_beside());
            self.report.step(
                "database",
                format!(
                    "leave {} alone, which another program made, and use {}",
                    theirs.display(),
                    ours.display()
                ),
            );
            self.report
                .note("`claude-mem import` takes in what that program remembered, and changes nothing of it");
            let home = self.home;
            self.really(|_| Ok(predecessor::settle_beside(home).map(drop)?))?;
        }
        Ok(())
    }
}
