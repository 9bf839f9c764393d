//! Runs external programs with a deadline and captures their output.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Maximum run time of a program. Generous, because starting or stopping a unit can be slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a finished program.
#[derive(Debug)]
pub struct Ran {
    /// True if it exited with code 0.
    pub success: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs the program and waits for it to exit.
pub fn run(mut command: Command) -> io::Result<Ran> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child)?;
    let joined = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Ran { success: status.success(), stdout: joined(stdout), stderr: joined(stderr) })
}

/// True if the program exits with code 0.
pub fn succeeds(command: Command) -> io::Result<bool> {
    Ok(run(command)?.success)
}

/// Runs the program; any other exit is an error that includes its standard error.
pub fn must(command: Command) -> anyhow::Result<()> {
    let shown = shown(&command);
    let ran = run(command).with_context(|| format!("cannot run `{shown}`"))?;
    if !ran.success {
        bail!("`{shown}` failed: {}", ran.stderr.trim());
    }
    Ok(())
}

/// The command as a line.
pub fn shown(command: &Command) -> String {
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
    let deadline = Instant::now() + TIMEOUT;
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
