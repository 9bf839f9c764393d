//! Starts a detached worker. A mode of our own program leaves the caller's session, closes
//! inherited descriptors, spawns the worker and exits, so that the worker is reparented to init.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::cli::install::record::Manager;
use crate::cli::install::service_files::systemd;
use crate::cli::run_command;
use crate::cli::service;
use crate::config::Environment;
use crate::hook::LAUNCH;
use crate::llm::guard;
use crate::paths::Home;

/// Variables that Claude Code or a service manager sets for its own children, and that a worker
/// must not inherit.
const NOT_INHERITED: [&str; 13] = [
    "CLAUDECODE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_ENV_FILE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Launches a worker if the process arguments ask for it. Must run first in `main`, while there is
/// only one thread and nothing is open.
pub fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    (arguments.nth(1)? == LAUNCH).then(|| match launch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A hook has closed stderr; a terminal has not.
            let _ = writeln!(io::stderr(), "claude-mem: cannot start the worker: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The command that launches a worker of that program; it exits quickly, and the caller waits for
/// it.
pub fn command(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.arg(LAUNCH).env("CLAUDE_MEM_HOME", home.dir()).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn launch() -> io::Result<()> {
    let environment = Environment::capture();
    let home = Home::locate(environment.mem_home.clone(), environment.user_home.clone())
        .map_err(io::Error::other)?;
    let home = home.on(environment.file_system);
    home.prepare().map_err(io::Error::other)?;
    close_inherited_descriptors();
    if service::manager(&home, &environment) == Manager::Systemd {
        // The sockets may be gone with a deleted data directory: a restart of the socket unit
        // recreates them.
        let [socket, service] = systemd::UNITS;
        return run_command::must(systemd::systemctl(&environment, &["restart", socket]))
            .and_then(|()| run_command::must(systemd::systemctl(&environment, &["start", service])))
            .map_err(io::Error::other);
    }
    // Fails only for a process group leader, such as a shell's job; then the worker gets its own
    // group below.
    let has_session = rustix::process::setsid().is_ok();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(home.worker_log())?;
    let mut worker = Command::new(guard::own_program()?);
    worker
        .args(["worker", "--log-file"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/");
    for name in NOT_INHERITED {
        worker.env_remove(name);
    }
    if !has_session {
        std::os::unix::process::CommandExt::process_group(&mut worker, 0);
    }
    worker.spawn().map(drop)
}

/// Closes files and pipes that the caller left open.
fn close_inherited_descriptors() {
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for descriptor in open {
        // The descriptor of the listing itself is already closed.
        let _ = nix::unistd::close(descriptor);
    }
}
