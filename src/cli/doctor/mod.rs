//! `claude-mem doctor`: checks every part of the installation and sends a test event through all of
//! it.

mod finding;
mod histories;
mod hooks;
mod provider;
mod round_trip;
mod search;
mod service;
mod stale;
mod storage;

use std::process::ExitCode;

use crate::config::{Config, Environment};
use crate::paths::Home;
pub use finding::{Finding, Severity};

/// Check that everything works, and print how to fix what does not
///
/// The last check sends a marked test event through the installed hook and the service, and then
/// deletes it. Exits with 1 if a check fails.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem doctor\n  claude-mem doctor --fix\n  claude-mem doctor --online --json"
)]
pub struct Arguments {
    /// Fix what is safe to fix: permissions, hooks, the search index, a stopped service
    #[arg(long)]
    fix: bool,
    /// Also send a request of a few tokens to the model
    #[arg(long)]
    online: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// State shared by all checks.
struct Doctor<'a> {
    home: &'a Home,
    environment: &'a Environment,
    config: Config,
    may_fix: bool,
    is_online: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (config, _) = Config::load_forgiving(&home.config(), environment);
    let doctor = Doctor { home, environment, config, may_fix: arguments.fix, is_online: arguments.online };
    let mut findings = doctor.run_checks(|finding| {
        if !arguments.json {
            finding.print();
        }
    });
    let is_healthy = findings.iter().all(|finding| finding.state != Severity::Bad);
    if arguments.json {
        outln!("{:#}", serde_json::json!({"ok": is_healthy, "checks": findings}));
    } else {
        findings.retain(|finding| finding.state == Severity::Bad);
        match findings.len() {
            0 => outln!("\nAll checks passed."),
            1 => outln!("\nOne check failed."),
            count => outln!("\n{count} checks failed."),
        }
    }
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the checks for the viewer; without `is_full`, those that send nothing.
pub fn findings(home: &Home, environment: &Environment, may_fix: bool, is_full: bool) -> Vec<Finding> {
    let (config, _) = Config::load_forgiving(&home.config(), environment);
    let doctor = Doctor { home, environment, config, may_fix, is_online: false };
    if is_full { doctor.run_checks(|_| {}) } else { doctor.run_local_checks(|_| {}) }
}

impl Doctor<'_> {
    /// Runs all checks in order and reports each as soon as it is done, because the last ones are
    /// slow.
    fn run_checks(&self, mut report: impl FnMut(&Finding)) -> Vec<Finding> {
        let mut findings = self.run_local_checks(&mut report);
        findings.push(round_trip::check(self));
        findings.last().into_iter().for_each(&mut report);
        findings
    }

    /// Runs the checks that only look.
    fn run_local_checks(&self, mut report: impl FnMut(&Finding)) -> Vec<Finding> {
        let checks: [fn(&Doctor<'_>) -> Finding; 17] = [
            storage::data_directory,
            storage::settings,
            storage::database,
            storage::backups,
            search::search_index,
            search::model,
            storage::disk,
            hooks::programs,
            hooks::hooks,
            service::service,
            service::linger,
            hooks::fired_lately,
            service::queue,
            service::spool,
            histories::unread,
            stale::stale_notes,
            provider::provider,
        ];
        let mut findings = Vec::new();
        for check in checks {
            findings.push(check(self));
            findings.last().into_iter().for_each(&mut report);
        }
        findings
    }
}
