//! `claude-mem start`, `stop` and `status`: the service without a service manager.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::client;
use crate::paths::Home;
use crate::worker::lock::Lock;

/// Start the service in the background, unless it runs already
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem start")]
pub struct StartArguments {}

/// Stop the service
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem stop")]
pub struct StopArguments {}

/// Show how the service is
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem status --json")]
pub struct StatusArguments {
    /// Print what the service says, as JSON
    #[arg(long)]
    json: bool,
}

const PATIENCE: Duration = Duration::from_secs(15);

pub fn start(home: &Home) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    if let Some(pid) = Lock::holder(home) {
        println!("The service runs already (pid {pid}).");
        return Ok(ExitCode::SUCCESS);
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut worker = Command::new(program);
    worker.args(["worker", "--detach"]).current_dir("/");
    worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut worker = worker.spawn().context("cannot start the service")?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(health) = client::get(&home.socket(), "/api/health") {
            println!("The service runs (pid {}).", health["pid"]);
            return Ok(ExitCode::SUCCESS);
        }
        // It may have ended because another one was faster.
        if worker.try_wait()?.is_some() && Lock::holder(home).is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("the service did not start; `claude-mem worker` in the foreground tells why");
}

pub fn stop(home: &Home) -> anyhow::Result<ExitCode> {
    let Some(pid) = Lock::holder(home) else {
        println!("The service does not run.");
        return Ok(ExitCode::SUCCESS);
    };
    let process =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a strange process id")?;
    rustix::process::kill_process(process, rustix::process::Signal::TERM)
        .context("cannot stop the service")?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if Lock::holder(home) != Some(pid) {
            println!("The service has stopped.");
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the service (pid {pid}) does not stop");
}

pub fn status(home: &Home, arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let health = match client::get(&home.socket(), "/api/health") {
        Ok(health) => health,
        Err(_) => bail!("the service does not run; `claude-mem start` starts it"),
    };
    if arguments.json {
        println!("{health:#}");
    } else {
        let text = |key: &str| match &health[key] {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => "–".to_owned(),
            other => other.to_string(),
        };
        println!("service       {} (pid {}, up {} s)", text("status"), text("pid"), text("uptime_s"));
        println!("reason        {}", text("reason"));
        println!("provider      {} (breaker {})", text("provider"), text("breaker"));
        println!("queue         {} waiting, oldest {} s", text("queue_depth"), text("oldest_raw_age_s"));
        println!("observations  {} today", text("observations_today"));
    }
    Ok(if health["status"] == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
