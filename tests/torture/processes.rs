//! The short-lived programs of a run: hooks and commands, from many threads, all of which can be stopped at one instant.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// The end of a program.
pub struct Ended {
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The running programs.
#[derive(Default)]
pub struct Processes(Mutex<HashSet<i32>>);

/// No program starts or ends while this is held.
pub type Standstill<'a> = MutexGuard<'a, HashSet<i32>>;

impl Processes {
    /// Runs a program to its end, or kills it after `killed_after`. `then` runs atomically with its end: no other thread sees
    /// one without the other.
    pub fn run<T>(
        &self,
        mut command: Command,
        stdin: &[u8],
        killed_after: Option<Duration>,
        then: impl FnOnce(&Ended) -> T,
    ) -> T {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = {
            let mut running = self.0.lock().unwrap();
            let child = command.spawn().unwrap();
            running.insert(id(&child));
            child
        };
        let mut pipe = child.stdin.take().unwrap();
        let killer = killed_after.map(|after| {
            let pid = Pid::from_raw(id(&child)).unwrap();
            move || {
                std::thread::sleep(after);
                // It is not reaped yet, so the id is still its own.
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        // A program need not read its whole input.
        let _ = pipe.write_all(stdin);
        drop(pipe);
        if let Some(kill) = killer {
            kill();
        }
        // Its output fits into a pipe.
        let pid = WaitId::Pid(Pid::from_raw(id(&child)).unwrap());
        let _ = waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let mut running = self.0.lock().unwrap();
        running.remove(&id(&child));
        let code = child.wait().unwrap().code();
        let mut ended = Ended { code, stdout: String::new(), stderr: String::new() };
        let _ = child.stdout.take().unwrap().read_to_string(&mut ended.stdout);
        let _ = child.stderr.take().unwrap().read_to_string(&mut ended.stderr);
        then(&ended)
    }

    /// Freezes all of them and one more (SIGSTOP).
    pub fn stand_still(&self, also: Option<u32>) -> Standstill<'_> {
        let running = self.0.lock().unwrap();
        let also = also.map(|pid| pid as i32);
        for pid in running.iter().copied().chain(also) {
            signal(pid, Signal::STOP);
        }
        for pid in running.iter().copied().chain(also) {
            while !is_still(pid) {
                std::thread::yield_now();
            }
        }
        running
    }
}

/// Resumes them (SIGCONT).
pub fn go_on(standing: Standstill<'_>, also: Option<u32>) {
    for pid in standing.iter().copied().chain(also.map(|pid| pid as i32)) {
        signal(pid, Signal::CONT);
    }
}

fn id(child: &Child) -> i32 {
    child.id() as i32
}

fn signal(pid: i32, signal: Signal) {
    // None of them is reaped while the lock is held, so the id is still valid.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Stopped or dead.
fn is_still(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X') | None)
}
