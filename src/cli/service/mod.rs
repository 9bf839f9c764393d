//! Starts and stops the service through its manager on this machine.

pub mod call;
pub mod detached_worker;
pub mod log_file;
pub mod logs;
pub mod mcp;
pub mod queue;
pub mod start;
pub mod status;
pub mod statusline;
pub mod worker;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::install::record::{Manager, Record};
use super::install::service_files::{launchd, systemd};
use super::{client, run_command};
use crate::api::Health;
use crate::config::Environment;
use crate::llm::guard;
use crate::paths::Home;
use crate::worker::system::activation;
use crate::worker::system::lock::Lock;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the manager of the service: the one that `install` chose, else systemd if the packaged
/// units were enabled by hand, else none.
pub fn manager(home: &Home, environment: &Environment) -> Manager {
    let by_hand = || if systemd::serves(home, environment) { Manager::Systemd } else { Manager::Own };
    Record::load(home).service.unwrap_or_else(by_hand)
}

/// Starts the service and waits until it responds. Returns its health.
pub fn start_quietly(home: &Home, environment: &Environment, manager: Manager) -> anyhow::Result<Health> {
    start_program(&guard::own_program()?, home, environment, manager)
}

/// The same; without a service manager it runs `program`.
pub fn start_program(
    program: &Path,
    home: &Home,
    environment: &Environment,
    manager: Manager,
) -> anyhow::Result<Health> {
    activation::check_length(&home.socket())?;
    let _ = fs::remove_file(home.stopped());
    match manager {
        Manager::Systemd => {
            let [socket, service] = systemd::UNITS;
            run_command::must(systemd::systemctl(environment, &["start", socket, service]))?;
        }
        Manager::Launchd => {
            let file = launchd::file(environment).context("the home directory is unknown")?;
            // launchd creates the sockets, but not their directory.
            home.prepare()?;
            launchd::start(&file)?;
        }
        Manager::Own if Lock::holder(home).is_some() => {}
        Manager::Own => run_command::must(detached_worker::command(program, home))?,
    }
    wait_until_responsive(home).with_context(|| match manager {
        Manager::Systemd => "the service does not respond; see `claude-mem logs`",
        _ => "the service does not respond; see `claude-mem logs`, or run `claude-mem worker` in the foreground",
    })
}

/// Stops the service, and any worker started in another way, and waits for its end. Returns false
/// if none was running.
pub fn stop_quietly(home: &Home, environment: &Environment, manager: Manager) -> anyhow::Result<bool> {
    let was_running = Lock::holder(home).is_some();
    match manager {
        Manager::Systemd => {
            let [socket, service] = systemd::UNITS;
            // Stop the socket too, or the next hook would start the service again.
            run_command::must(systemd::systemctl(environment, &["stop", service, socket]))?;
        }
        Manager::Launchd => launchd::stop(),
        Manager::Own => {}
    }
    end_worker(home)?;
    Ok(was_running)
}

/// Terminates the worker that holds the lock, if there is one.
fn end_worker(home: &Home) -> anyhow::Result<()> {
    let Some(pid) = Lock::holder(home) else { return Ok(()) };
    let process = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .context("invalid process id in the lock file")?;
    match rustix::process::kill_process(process, rustix::process::Signal::TERM) {
        Err(error) if error != rustix::io::Errno::SRCH => {
            return Err(error).context("cannot stop the service");
        }
        _ => {}
    }
    let deadline = Instant::now() + TIMEOUT;
    while Lock::holder(home) == Some(pid) {
        if Instant::now() >= deadline {
            bail!("the service (pid {pid}) did not stop within {} s", TIMEOUT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// "pid 12".
pub fn pid(health: &Health) -> String {
    health.pid.map_or_else(|| "pid unknown".into(), |pid| format!("pid {pid}"))
}

/// Returns the health of the service once it has started.
pub fn wait_until_responsive(home: &Home) -> anyhow::Result<Health> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match client::health(home) {
            // It responds before it has opened its database.
            Ok(health) if health.is_starting() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(health) => return Ok(health),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
