//! Runs other programs for the commands: briefly, with a deadline, and with what they say kept for the user.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Starting and stopping a unit may take its time; nothing else does.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct Ran {
    /// Whether it succeeded.
    pub success: bool,
    /// What it printed.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

/// Runs it to its end.
pub fn run(mut command: Command) -> io::Result<Ran> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child)?;
    let joined = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Ran { success: status.success(), stdout: joined(stdout), stderr: joined(stderr) })
}

/// Whether it succeeds.
pub fn succeeds(command: Command) -> io::Result<bool> {
    Ok(run(command)?.success)
}

/// Runs it; anything but success is an error that says what it said.
pub fn must(command: Command) -> anyhow::Result<()> {
    let shown = shown(&command);
    let ran = run(command).with_context(|| format!("cannot run `{shown}`"))?;
    if !ran.success {
        bail!("`{shown}` failed: {}", ran.stderr.trim());
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child) -> io::Result<std::process::ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
