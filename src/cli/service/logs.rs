//! `claude-mem logs`: prints the service's log, from the journal or a file.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::log_file;
use crate::cli::install::record::Manager;
use crate::cli::output::stdout;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::{run_command, service};
use crate::config::Environment;
use crate::paths::Home;

/// Show the service's log
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem logs --follow\n  claude-mem logs --session 5f0c… --lines 500"
)]
pub struct Arguments {
    /// Keep printing new lines
    #[arg(long, short)]
    follow: bool,
    /// Only lines about this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Maximum number of past lines
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if service::manager(home, environment) == Manager::Systemd {
        return journal(environment, arguments);
    }
    let log = home.worker_log();
    let mut lines = tail(&[log_file::previous(&log), log.clone()], arguments)?;
    if lines.is_empty() && !log.exists() {
        bail!("no log yet: the service creates {} when it starts", log.display());
    }
    lines.drain(..lines.len().saturating_sub(arguments.lines));
    if !arguments.follow {
        stdout::page();
    }
    for line in lines {
        if !print(&line) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if arguments.follow {
        follow(&log, arguments)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the last lines of the log, for the viewer.
pub fn last_lines(home: &Home, environment: &Environment, count: usize) -> anyhow::Result<Vec<String>> {
    let arguments = Arguments { follow: false, session: None, lines: count };
    let mut lines = if service::manager(home, environment) == Manager::Systemd {
        let ran =
            run_command::run(journal_command(environment, &arguments)).context("cannot run journalctl")?;
        ran.stdout.lines().map(str::to_owned).collect()
    } else {
        let log = home.worker_log();
        tail(&[log_file::previous(&log), log], &arguments)?
    };
    lines.drain(..lines.len().saturating_sub(count));
    Ok(lines)
}

fn journal(environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let status = journal_command(environment, arguments).status().context("cannot run journalctl")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn journal_command(environment: &Environment, arguments: &Arguments) -> Command {
    let mut command = Command::new("journalctl");
    // On a terminal it uses a pager of its own.
    command.args(["--user", "--unit", "claude-mem.service", "--output", "short-iso"]);
    command.arg(format!("--lines={}", arguments.lines));
    if arguments.follow {
        command.arg("--follow");
    }
    if let Some(session) = &arguments.session {
        command.arg(format!("F_SESSION={session}"));
    }
    if let Some(runtime) = &environment.runtime_dir {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    command
}

fn is_selected(line: &str, arguments: &Arguments) -> bool {
    arguments.session.as_deref().is_none_or(|session| line.contains(session))
}

fn tail(files: &[impl AsRef<Path>], arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for file in files {
        let text = match std::fs::read(file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.as_ref().display()));
            }
        };
        lines.extend(text.lines().filter(|line| is_selected(line, arguments)).map(str::to_owned));
    }
    Ok(lines)
}

/// Prints a line. Returns false if the reader is gone, as with `head`.
fn print(line: &str) -> bool {
    outln!("{}", readable(&harmless(line), Style::of_stdout()));
    stdout::is_open()
}

/// A line of the log with its time in the local zone, to the second, and its level in its tone.
fn readable(line: &str, style: Style) -> String {
    let parts = line.split_once(' ').and_then(|(time, rest)| {
        let (level, message) = rest.trim_start().split_once(' ')?;
        Some((time.parse::<jiff::Timestamp>().ok()?, level, message))
    });
    let Some((time, level, message)) = parts else { return line.to_owned() };
    let time = time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let tone = match level {
        "ERROR" => Tone::Bad,
        "WARN" => Tone::Warn,
        _ => Tone::Plain,
    };
    let level = format!("{:<5}", level.to_lowercase());
    format!("{}  {}  {}", style.faint(&time), style.tone(tone, &level), style.tone(tone, message))
}

/// Prints appended lines, also across rotations of the file.
fn follow(log: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    const POLL_INTERVAL: Duration = Duration::from_millis(200);
    let mut reader = BufReader::new(File::open(log)?);
    reader.seek(SeekFrom::End(0))?;
    let mut line = String::new();
    loop {
        if reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            if is_selected(&line, arguments) && !print(line.trim_end()) {
                return Ok(());
            }
            line.clear();
            continue;
        }
        std::thread::sleep(POLL_INTERVAL);
        let position = reader.stream_position()?;
        if std::fs::metadata(log).is_ok_and(|meta| meta.len() < position) {
            reader = BufReader::new(File::open(log)?);
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_local_time_and_its_level() {
        let line = readable("2026-02-12T06:48:04.825907Z  WARN the disk is full", Style::of_stdout());
        let (time, rest) = line.split_at(19);
        assert!(time.starts_with("2026-02-1") && time.ends_with(":48:04"), "{line}");
        assert_eq!(rest, "  warn   the disk is full");
        assert_eq!(readable("something else", Style::of_stdout()), "something else");
    }
}
