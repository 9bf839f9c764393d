//! `claude-mem start`, `stop` and `restart`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::api::Health;
use crate::cli::service;
use crate::config::Environment;
use crate::paths::Home;
use crate::worker::system::lock::Lock;

/// Start the service in the background, unless it is running
///
/// Uses systemd or launchd if `claude-mem install` found one, else runs it without a service
/// manager.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem start")]
pub struct StartArguments {}

/// Stop the service until it is started again
///
/// Hooks keep recording; their events wait in the queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem stop")]
pub struct StopArguments {}

/// Restart the service
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem restart")]
pub struct RestartArguments {}

pub fn start(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    if let Some(pid) = Lock::holder(home) {
        outln!("The service is already running (pid {pid}).");
        return Ok(ExitCode::SUCCESS);
    }
    report_started(&service::start_quietly(home, environment, service::manager(home, environment))?)
}

pub fn stop(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    if home.dir().is_dir() {
        // Keeps hooks from starting it again.
        std::fs::write(home.stopped(), "")
            .with_context(|| format!("cannot write {}", home.stopped().display()))?;
    }
    let was_running = service::stop_quietly(home, environment, service::manager(home, environment))?;
    outln!("{}", if was_running { "The service is stopped." } else { "The service was not running." });
    Ok(ExitCode::SUCCESS)
}

pub fn restart(home: &Home, environment: &Environment) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    let manager = service::manager(home, environment);
    service::stop_quietly(home, environment, manager)?;
    report_started(&service::start_quietly(home, environment, manager)?)
}

/// Reports that the service runs; fails if it is degraded.
fn report_started(health: &Health) -> anyhow::Result<ExitCode> {
    outln!("The service is running ({}).", service::pid(health));
    if !health.is_ok() {
        bail!("it is degraded: {}", health.reason.as_deref().unwrap_or("see `claude-mem logs`"));
    }
    Ok(ExitCode::SUCCESS)
}
