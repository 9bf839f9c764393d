//! `claude-mem doctor`: looks at everything that must hold, and tries the whole way of an event.

mod finding;
mod index;
mod online;
mod places;
mod round_trip;
mod running;
mod wired;

use std::process::ExitCode;

use crate::config::{Config, Environment};
use crate::paths::Home;
use finding::{Finding, State};

/// Check that everything works, and tell how to repair what does not
///
/// The last check sends a marked event through the installed hook and the service, and removes it again. Exits with 1 if
/// something is wrong.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem doctor\n  claude-mem doctor --fix\n  claude-mem doctor --online --json"
)]
pub struct Arguments {
    /// Repair what can be repaired safely: permissions, hooks, the search index, a service that does not run
    #[arg(long)]
    fix: bool,
    /// Ask the model, too, with a request of a few tokens
    #[arg(long)]
    online: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What every check can look at.
struct Patient<'a> {
    home: &'a Home,
    environment: &'a Environment,
    config: Config,
    may_fix: bool,
    is_online: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (config, _) = Config::load_forgiving(&home.config(), environment);
    let patient = Patient { home, environment, config, may_fix: arguments.fix, is_online: arguments.online };
    let mut findings = patient.examine(|finding| {
        if !arguments.json {
            finding.print();
        }
    });
    let is_well = findings.iter().all(|finding| finding.state != State::Bad);
    if arguments.json {
        say!("{:#}", serde_json::json!({"ok": is_well, "checks": findings}));
    } else {
        findings.retain(|finding| finding.state == State::Bad);
        match findings.len() {
            0 => say!("\nEverything works."),
            1 => say!("\nOne thing is wrong."),
            count => say!("\n{count} things are wrong."),
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Patient<'_> {
    /// All checks in turn, each told when it is done: the last ones take a moment.
    fn examine(&self, mut tell: impl FnMut(&Finding)) -> Vec<Finding> {
        let checks: [fn(&Patient<'_>) -> Finding; 15] = [
            places::data_directory,
            places::settings,
            places::database,
            places::backups,
            index::search_index,
            index::model,
            places::disk,
            wired::programs,
            wired::hooks,
            running::service,
            running::linger,
            wired::fired_lately,
            running::queue,
            running::spool,
            online::provider,
        ];
        let mut findings = Vec::new();
        for check in checks {
            findings.push(check(self));
            findings.last().into_iter().for_each(&mut tell);
        }
        findings.push(round_trip::check(self));
        findings.last().into_iter().for_each(&mut tell);
        findings
    }
}
