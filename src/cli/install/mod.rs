//! `claude-mem install`: sets up programs, settings, hooks, tools, completions and the service, in this order, and
//! records each change.
//!
//! The record is saved after each part, so that `uninstall` can also undo an interrupted
//! installation.

pub mod agents;
pub mod client;
pub mod hooks;
pub mod programs;
pub mod record;
mod report;
pub mod service_files;
pub mod settings;
pub mod settings_file;
mod shell;
mod tools;
pub mod uninstall;
pub mod update;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::backfill::find;
use crate::cli::data::backfill;
use crate::cli::output::progress;
use crate::config::{self, Environment};
use crate::llm::claude_cli::installed;
use crate::model::Agent;
use crate::paths::Home;
use crate::store::files::legacy_import;
use programs::Programs;
use record::Record;
use report::InstallReport;

/// Install the hooks in Claude Code's settings, and the service
///
/// Safe to repeat. Every change is recorded, and `claude-mem uninstall` undoes exactly those.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem install --dry-run\n  claude-mem install\n  claude-mem install --project --no-service\n  claude-mem install --agent codex"
)]
pub struct Arguments {
    /// Show what would be done without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Add the hooks to the current project (.claude/settings.json) instead of your user settings
    #[arg(long)]
    project: bool,
    /// Do not change Claude Code's settings
    #[arg(long)]
    no_hooks: bool,
    /// Do not install or start the service
    #[arg(long)]
    no_service: bool,
    /// First copy both programs into this directory, and use those copies
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Read the histories that agents keep on this machine once everything is set up
    #[arg(long)]
    backfill: bool,
    /// Only connect another agent: its tools, and hooks or a plugin where it has them
    #[arg(long, value_name = "NAME", value_parser = ["codex", "gemini", "cursor", "opencode", "copilot"], conflicts_with_all = ["project", "no_hooks", "no_service", "bin_dir"])]
    agent: Option<String>,
}

/// State shared by the parts of an installation.
struct Installation<'a> {
    home: &'a Home,
    environment: &'a Environment,
    is_dry: bool,
    record: Record,
    report: InstallReport,
}

impl Installation<'_> {
    /// Does the work, unless this is a dry run.
    fn really(&mut self, work: impl FnOnce(&mut Record) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.is_dry {
            return Ok(());
        }
        let done = work(&mut self.record);
        let saved = self.record.save(self.home).context("cannot save the installation record");
        done.and(saved)
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut record = Record::load(home);
    record.version = env!("CARGO_PKG_VERSION").to_owned();
    let report = InstallReport::default();
    let mut installation = Installation { home, environment, is_dry: arguments.dry_run, record, report };
    if let Some(agent) = arguments.agent.as_deref().and_then(Agent::from_word) {
        return installation.only_agent(agent);
    }
    // Checked first, because this part may be refused: then nothing has been changed.
    let hooks =
        (!arguments.no_hooks).then(|| hooks::HookPlan::make(environment, arguments.project)).transpose()?;
    let running = Programs::running()?;
    if let Some(hooks) = &hooks {
        hooks.check(&running.hook, hooks::unusual_data(home, environment))?;
    }
    if !arguments.dry_run {
        home.prepare()?;
    }
    if !installation.record.programs.contains(&running.main) {
        installation.record.checkout = update::checkout_of(&running.main);
    }
    let programs = installation.programs(running, arguments.bin_dir.clone())?;
    installation.settings()?;
    installation.client()?;
    if let Some(hooks) = &hooks {
        installation.hooks(hooks, &programs)?;
        installation.tools(hooks, &programs, arguments.project)?;
    }
    installation.shell(&programs)?;
    if !arguments.no_service {
        installation.service(&programs)?;
    }
    installation.report.print(arguments.dry_run);
    if !arguments.dry_run {
        let is_ready = hooks.is_some() && installation.report.is_good();
        let next = if is_ready { "start a new Claude Code session" } else { "run `claude-mem doctor`" };
        outln!("\nNext: {next}.");
        offer_histories(home, environment, arguments.backfill)?;
    }
    Ok(if installation.report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the histories that are there if the user wants it; asks where somebody can answer.
fn offer_histories(home: &Home, environment: &Environment, is_wanted: bool) -> anyhow::Result<()> {
    let files = find::files(environment);
    if files.is_empty() {
        return Ok(());
    }
    outln!("\nSessions from before were found: {}.", find::in_words(&files));
    let is_agreed = is_wanted
        || (io::stdin().is_terminal() && progress::is_agreed("Read and remember them now?", false)?);
    if is_agreed {
        return backfill::read_all(home, environment);
    }
    outln!("`claude-mem backfill` reads and remembers them.");
    Ok(())
}

impl Installation<'_> {
    fn only_agent(&mut self, agent: Agent) -> anyhow::Result<ExitCode> {
        if !self.is_dry {
            self.home.prepare()?;
        }
        self.agent(agent, &Programs::running()?)?;
        self.report.print(self.is_dry);
        Ok(ExitCode::SUCCESS)
    }

    fn programs(&mut self, running: Programs, target: Option<PathBuf>) -> anyhow::Result<Programs> {
        let linkage = programs::linkage(&running.hook).map_or_else(String::new, |how| format!(" ({how})"));
        let Some(directory) = target else {
            let main = running.main.display();
            self.report.step("programs", format!("use {main} and its hook{linkage} in place"));
            return Ok(running);
        };
        let directory = std::path::absolute(directory)?;
        let there = Programs::in_directory(&directory);
        let copied = format!("copy claude-mem and claude-mem-hook{linkage} to {}", directory.display());
        self.report.step("programs", copied);
        self.really(|record| running.copy_to(&directory, record).map(drop))?;
        let path = self.environment.outgoing.path.as_deref().unwrap_or_default();
        if !std::env::split_paths(path).any(|place| place == directory) {
            let directory = directory.display();
            let advice = format!("add it to your shell profile (export PATH=\"{directory}:$PATH\")");
            self.report.note(format!(
                "{directory} is not in your PATH: {advice}, or run claude-mem by its full path"
            ));
        }
        Ok(there)
    }

    /// Records the client's path: it may be in this shell's `PATH` and not in the service's.
    fn client(&mut self) -> anyhow::Result<()> {
        let Ok(config) = config::Config::load(&self.home.config(), self.environment) else { return Ok(()) };
        let Some(path) = installed::find(&config.claude_cli.command, self.environment) else { return Ok(()) };
        let file = self.home.client_path();
        let text = format!("{}\n", path.display());
        self.really(|_| Ok(settings_file::write_whole(&file, &text, 0o600)?))
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
        if legacy_import::occupies_our_path(self.home) {
            let (theirs, ours) = (self.home.usual_database(), self.home.database_beside());
            self.report.step(
                "database",
                format!(
                    "leave {} unchanged, which another program created, and use {}",
                    theirs.display(),
                    ours.display()
                ),
            );
            self.report.note(
                "run `claude-mem import` to import that program's memories; its database is not changed",
            );
            let home = self.home;
            self.really(|_| Ok(legacy_import::use_alternate_path(home).map(drop)?))?;
        }
        Ok(())
    }
}
