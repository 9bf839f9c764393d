//! `claude-mem open`: shows the memory in a browser.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use maud::{DOCTYPE, html};

use super::doctor;
use super::output::stdout;
use super::service::logs;
use crate::clock;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::store;
use crate::store::files::backup::{self, Reason};
use crate::viewer::{self, Backup, Check, Machine};

/// Open the memory in a browser
///
/// Serves pages on a port of this machine while somebody looks, and ends by itself. The address works once; only
/// your user can use it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem open\n  claude-mem open --no-browser")]
pub struct Arguments {
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    home.prepare()?;
    let is_remote = Environment::is_over_ssh();
    let may_open = !arguments.no_browser && !is_remote;
    let announce = |address: &str, port: u16| {
        if may_open {
            show(home, address)?;
        }
        outln!("Open this address within a minute (it works once):\n  {address}");
        if is_remote {
            outln!(
                "Over SSH, run this on your own machine first:\n  ssh -N -L {port}:127.0.0.1:{port} THIS-HOST"
            );
        }
        stdout::finish().context("cannot write the output")
    };
    if let Some(address) = viewer::running(home) {
        let port = address
            .split('/')
            .nth(2)
            .and_then(|host| host.rsplit(':').next())
            .and_then(|port| port.parse().ok());
        announce(&address, port.unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::load(&home.config(), environment)?;
    let machine = Box::new(ThisMachine { home: home.clone(), environment: environment.clone() });
    viewer::run(home, &config, machine, announce)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a browser on a file that leads to the address: arguments of a process are visible to every user.
fn show(home: &Home, address: &str) -> anyhow::Result<()> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="referrer" content="no-referrer"; meta http-equiv="refresh" content=(format!("0; url={address}")); title { "claude-mem" } }
            body { p { a href=(address) { "Open the memory" } } }
        }
    };
    let path = home.viewer_entry();
    let _ = std::fs::remove_file(&path);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(page.into_string().as_bytes())?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It may stay until the browser ends. Without it, the printed address is still there.
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
    Ok(())
}

/// The installation that the viewer reports on.
struct ThisMachine {
    home: Home,
    environment: Environment,
}

impl Machine for ThisMachine {
    fn check(&self, may_fix: bool, is_full: bool) -> Vec<Check> {
        let check = |finding: doctor::Finding| Check {
            name: finding.name.to_owned(),
            state: match finding.state {
                doctor::Severity::Good => "ok",
                doctor::Severity::Note => "note",
                doctor::Severity::Fixed => "fixed",
                doctor::Severity::Bad => "failed",
            },
            found: finding.found,
            why: finding.why,
            fix: finding.repair,
        };
        doctor::findings(&self.home, &self.environment, may_fix, is_full).into_iter().map(check).collect()
    }

    fn backups(&self) -> Vec<Backup> {
        let name =
            |copy: &backup::Copy| copy.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let backup =
            |copy: backup::Copy| Backup { name: name(&copy), bytes: copy.bytes, created_at: copy.made_at };
        backup::list(&self.home.backups()).into_iter().map(backup).collect()
    }

    fn back_up(&self) -> anyhow::Result<String> {
        let database = store::open_to_read(&self.home, 10_000)?;
        let (copy, _) =
            backup::make(&database, &self.home.backups(), Reason::Asked, clock::now(), |_, _| {})?;
        Ok(copy.path.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    fn log(&self, lines: usize) -> anyhow::Result<Vec<String>> {
        logs::last_lines(&self.home, &self.environment, lines)
    }
}
