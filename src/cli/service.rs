//! Starts and stops the service by whoever runs it on this machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::install::record::{Record, Way};
use super::install::{launchd, systemd};
use super::{child, client, launch};
use crate::config::Environment;
use crate::llm::guard;
use crate::paths::Home;
use crate::worker::activation;
use crate::worker::lock::Lock;

const PATIENCE: Duration = Duration::from_secs(20);

/// Who runs the service: what `install` chose, else we ourselves.
pub fn way(home: &Home) -> Way {
    Record::load(home).service.unwrap_or(Way::Own)
}

/// Starts it and waits until it answers. Returns how it is.
pub fn start_quietly(home: &Home, environment: &Environment, way: Way) -> anyhow::Result<Value> {
    start_program(&guard::own_program()?, home, environment, way)
}

/// The same; where we ourselves start it, it is that program.
pub fn start_program(
    program: &Path,
    home: &Home,
    environment: &Environment,
    way: Way,
) -> anyhow::Result<Value> {
    activation::check_length(&home.socket())?;
    let _ = fs::remove_file(home.stopped());
    match way {
        Way::Systemd => {
            let [socket, service] = systemd::UNITS;
            child::must(systemd::systemctl(environment, &["start", socket, service]))?;
        }
        Way::Launchd => {
            let file = launchd::file(environment).context("no home directory is known")?;
            // Fails if it is loaded already.
            let _ =
                child::run(launchd::launchctl(&["bootstrap", &launchd::domain(), &file.to_string_lossy()]));
            child::must(launchd::launchctl(&["kickstart", &launchd::target()]))?;
        }
        Way::Own if Lock::holder(home).is_some() => {}
        Way::Own => child::must(launch::command(program, home))?,
    }
    wait_until_it_answers(home).with_context(|| match way {
        Way::Systemd => "the service does not answer; `claude-mem logs` tells why",
        _ => "the service does not answer; `claude-mem logs`, or `claude-mem worker` in the foreground, tells why",
    })
}

/// Stops it, and whatever worker runs otherwise, and waits until it is gone. False if there was none.
pub fn stop_quietly(home: &Home, environment: &Environment, way: Way) -> anyhow::Result<bool> {
    let was_running = Lock::holder(home).is_some();
    match way {
        Way::Systemd => {
            let [socket, service] = systemd::UNITS;
            // The socket as well: the next hook would start the service by it.
            child::must(systemd::systemctl(environment, &["stop", service, socket]))?;
        }
        Way::Launchd => {
            // Fails if it is not loaded.
            let _ = child::run(launchd::launchctl(&["bootout", &launchd::target()]));
        }
        Way::Own => {}
    }
    end_worker(home)?;
    Ok(was_running)
}

/// Ends the worker that holds the lock, if one does.
fn end_worker(home: &Home) -> anyhow::Result<()> {
    let Some(pid) = Lock::holder(home) else { return Ok(()) };
    let process =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a strange process id")?;
    match rustix::process::kill_process(process, rustix::process::Signal::TERM) {
        Err(error) if error != rustix::io::Errno::SRCH => {
            return Err(error).context("cannot stop the service");
        }
        _ => {}
    }
    let deadline = Instant::now() + PATIENCE;
    while Lock::holder(home) == Some(pid) {
        if Instant::now() >= deadline {
            bail!("the service (pid {pid}) does not stop");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// How it is, once it has started.
pub fn wait_until_it_answers(home: &Home) -> anyhow::Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client::get(&home.socket(), "/api/health");
        match answer {
            // It answers before it has opened its database.
            Ok(health) if health["reason"] == "starting" && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(health) => return Ok(health),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
