//! `claude-mem start`, `stop` and `restart`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::service;
use crate::config::Environment;
use crate::paths::Home;
use crate::worker::lock::Lock;

/// Start the service in the background, unless it runs already
///
/// By systemd or launchd, if `claude-mem install` found them; else on its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem start")]
pub struct StartArguments {}

/// Stop the service, until it is started again
///
/// Hooks go on recording; what they record waits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem stop")]
pub struct StopArguments {}

/// Stop the service and start it again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem restart")]
pub struct RestartArguments {}

pub fn start(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    if let Some(pid) = Lock::holder(home) {
        say!("The service runs already (pid {pid}).");
        return Ok(ExitCode::SUCCESS);
    }
    tell_started(&service::start_quietly(home, environment, service::way(home))?)
}

pub fn stop(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    if home.dir().is_dir() {
        // No hook shall start it again.
        std::fs::write(home.stopped(), "")
            .with_context(|| format!("cannot write {}", home.stopped().display()))?;
    }
    let was_running = service::stop_quietly(home, environment, service::way(home))?;
    say!("{}", if was_running { "The service has stopped." } else { "The service does not run." });
    Ok(ExitCode::SUCCESS)
}

pub fn restart(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    let way = service::way(home);
    service::stop_quietly(home, environment, way)?;
    tell_started(&service::start_quietly(home, environment, way)?)
}

/// It runs; whether it can work is another question.
fn tell_started(health: &Value) -> anyhow::Result<ExitCode> {
    say!("The service runs (pid {}).", health["pid"]);
    if health["status"] != "ok" {
        bail!("it cannot work yet: {}", health["reason"].as_str().unwrap_or("`claude-mem logs` tells why"));
    }
    Ok(ExitCode::SUCCESS)
}
