//! The guard: a process between the worker and a child process that makes sure that the child never
//! outlives the worker.
//!
//! A mode of our own program. The worker sends the job on standard input, and then keeps that pipe
//! open for as long as it needs the child: when the pipe closes, because the worker drops it or
//! dies, the guard ends the child. Kill -9 cannot be caught, but it always closes the pipes of the
//! process.
//!
//! On Linux the kernel also ends the child with the guard (PDEATHSIG). Without unsafe code only the
//! process itself can request that: so the child starts as our program, sets it, and then executes
//! the real program.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

/// The first argument that runs our program as a guard.
pub const GUARD: &str = "internal-guard";
/// The first argument that makes our program execute another.
const BECOME: &str = "internal-become";

/// Time for a child to end after SIGTERM, before SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Exit codes, as in shells.
const CANNOT_RUN: u8 = 126;
const BY_SIGNAL: i32 = 128;

/// A job for the guard: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables to set.
    pub set: Vec<(String, String)>,
    /// Variables to remove.
    pub unset: Vec<String>,
    /// Standard input of the program.
    pub input: String,
}

/// Runs as the guard or its child, if the arguments request that. Called first in `main`.
pub fn dispatch(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let first = arguments.nth(1)?;
    if first == GUARD {
        Some(guard().unwrap_or_else(complain))
    } else if first == BECOME {
        Some(complain(exec_program(arguments)))
    } else {
        None
    }
}

/// Returns the path of our own program, for [`choose`](fn@super::choose): also if another version
/// replaced it while we run.
pub fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe().map(without_mark)
}

/// Removes the mark that Linux appends to the path of a deleted program.
fn without_mark(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => text.into(),
        None => path,
    }
}

fn complain(error: io::Error) -> ExitCode {
    // stderr is the only channel left.
    let _ = writeln!(io::stderr(), "claude-mem: {error}");
    ExitCode::from(CANNOT_RUN)
}

/// Runs the job from standard input, and exits with its status.
fn guard() -> io::Result<ExitCode> {
    let mut lifeline = BufReader::new(io::stdin());
    let mut line = String::new();
    lifeline.read_line(&mut line)?;
    let job: GuardedCommand = serde_json::from_str(&line)?;
    drop(line);
    let mut child = start(&job)?;
    let pid = Pid::from_child(&child);
    let course = Arc::new(Mutex::new(Course::Running));
    let seen = Arc::clone(&course);
    thread::spawn(move || watch(lifeline, pid, &seen));
    if let Some(mut input) = child.stdin.take() {
        // A child that does not read all of its input reports the reason itself.
        let _ = input.write_all(job.input.as_bytes());
    }
    // The child stays a zombie until the watcher is informed, so that the watcher never signals
    // another process with the same pid.
    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let was_let_go = advance(&course, Course::Ended) == Course::LetGo;
    if was_let_go {
        end_everything(pid);
    }
    let status = child.wait()?;
    let code = status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Running,
    LetGo,
    Ended,
}

/// Moves to the next state and returns the previous one.
fn advance(course: &Mutex<Course>, next: Course) -> Course {
    std::mem::replace(&mut *course.lock().unwrap_or_else(PoisonError::into_inner), next)
}

/// Waits until the other end of the pipe is closed; then ends the child.
fn watch(mut lifeline: impl Read, child: Pid, course: &Mutex<Course>) {
    let _ = io::copy(&mut lifeline, &mut io::sink());
    {
        let mut course = course.lock().unwrap_or_else(PoisonError::into_inner);
        if *course == Course::Ended {
            return;
        }
        *course = Course::LetGo;
        let _ = rustix::process::kill_process(child, Signal::TERM);
    }
    thread::sleep(GRACE);
    end_everything(child);
}

/// Kills the child, its descendants and the guard: they are one process group.
fn end_everything(child: Pid) {
    let me = rustix::process::getpid();
    if rustix::process::getpgrp() == me {
        let _ = rustix::process::kill_process_group(me, Signal::KILL);
    }
    let _ = rustix::process::kill_process(child, Signal::KILL);
}

fn start(job: &GuardedCommand) -> io::Result<Child> {
    let mut command = command(job);
    for name in &job.unset {
        command.env_remove(name);
    }
    command.envs(job.set.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start {}: {error}", job.program.display()))
    })
}

#[cfg(target_os = "linux")]
fn command(job: &GuardedCommand) -> Command {
    // Not by its path: another version may be there by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg(BECOME).arg(std::process::id().to_string()).arg(&job.program).args(&job.arguments);
    command
}

#[cfg(not(target_os = "linux"))]
fn command(job: &GuardedCommand) -> Command {
    let mut command = Command::new(&job.program);
    command.args(&job.arguments);
    command
}

/// Executes the program in the arguments, which then dies with the process whose pid comes first.
/// Returns only on failure.
#[cfg(target_os = "linux")]
fn exec_program(mut arguments: impl Iterator<Item = OsString>) -> io::Error {
    use std::os::unix::process::CommandExt;

    let parent = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let Some(program) = arguments.next() else { return io::Error::other("no program to execute") };
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before the kernel was informed.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != parent {
        return io::Error::other("the parent process has ended");
    }
    let error = Command::new(&program).args(arguments).exec();
    io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display()))
}

#[cfg(not(target_os = "linux"))]
fn exec_program(_: impl Iterator<Item = OsString>) -> io::Error {
    io::Error::other("not needed on this system")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_found_under_its_name() {
        assert_eq!(without_mark("/opt/claude-mem (deleted)".into()), PathBuf::from("/opt/claude-mem"));
        assert_eq!(without_mark("/opt/claude-mem".into()), PathBuf::from("/opt/claude-mem"));
        assert!(own_program().unwrap().is_file());
    }

    #[test]
    fn other_arguments_are_ignored() {
        for arguments in [vec!["claude-mem"], vec!["claude-mem", "worker"], vec![]] {
            assert!(dispatch(arguments.into_iter().map(OsString::from)).is_none());
        }
    }
}
