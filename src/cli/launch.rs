//! Starts a worker that belongs to nobody: a mode of our own program, which leaves the caller's session, lets go of
//! everything that was left open, starts the worker and ends. The worker's parent is then the system's first process.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::config::Environment;
use crate::hook::LAUNCH;
use crate::llm::guard;
use crate::paths::Home;

/// What a session of Claude Code, or the service manager of a terminal, says to its own children and not to a worker.
const NOT_FOR_A_WORKER: [&str; 13] = [
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

/// Launches a worker if the arguments of the process ask for it. Before anything else in `main`: it must be the only
/// thread, and have nothing open.
pub fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    (arguments.nth(1)? == LAUNCH).then(|| match launch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A hook has closed this; a person who tries it by hand has not.
            let _ = writeln!(io::stderr(), "claude-mem: cannot start the worker: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The command that launches a worker of that program; the caller waits for it, and it is short.
pub fn command(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.arg(LAUNCH).env("CLAUDE_MEM_HOME", home.dir()).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn launch() -> io::Result<()> {
    let environment = Environment::capture();
    let home = Home::locate(environment.mem_home, environment.user_home).map_err(io::Error::other)?;
    home.prepare().map_err(io::Error::other)?;
    close_what_was_left_open();
    // Fails only for a leader of a process group, which a shell's job is; then the worker gets one of its own below.
    let has_session = rustix::process::setsid().is_ok();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(home.worker_log())?;
    let mut worker = Command::new(guard::own_program()?);
    worker
        .args(["worker", "--log-file"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/");
    for name in NOT_FOR_A_WORKER {
        worker.env_remove(name);
    }
    if !has_session {
        std::os::unix::process::CommandExt::process_group(&mut worker, 0);
    }
    worker.spawn().map(drop)
}

/// Whoever started us may have left files and pipes open that are not ours to hold.
fn close_what_was_left_open() {
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for descriptor in open {
        // The one of the listing is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
