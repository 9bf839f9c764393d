//! The service under systemd's user manager: the unit files for this machine, and their directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::run_command;
use crate::config::Environment;
use crate::paths::Home;

const SERVICE: &str = include_str!("../../../../packaging/systemd/claude-mem.service");
const SOCKET: &str = include_str!("../../../../packaging/systemd/claude-mem.socket");
const SANDBOX: &str = include_str!("../../../../packaging/systemd/claude-mem.service.d/sandbox.conf");

/// The units, in start order.
pub const UNITS: [&str; 2] = ["claude-mem.socket", "claude-mem.service"];

/// Default paths in the packaged units.
const USUAL_PROGRAM: &str = "%h/.local/bin/claude-mem";
const USUAL_DATA: &str = "%h/.claude-mem";

/// A `systemctl --user` command that also works where the shell lacks `XDG_RUNTIME_DIR` (after
/// `su`, in a cron job).
pub fn systemctl(environment: &Environment, arguments: &[&str]) -> Command {
    user_command("systemctl", environment, arguments)
}

/// A command that talks to the user manager.
pub fn user_command(program: &str, environment: &Environment, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("--user").args(arguments);
    if environment.runtime_dir.is_none() {
        let usual = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
        if usual.is_dir() {
            command.env("XDG_RUNTIME_DIR", usual);
        }
    }
    command
}

/// True if a user manager responds.
pub fn is_there(environment: &Environment) -> bool {
    cfg!(target_os = "linux")
        && run_command::succeeds(systemctl(environment, &["show", "--property=Version"])).unwrap_or(false)
}

/// True if the units are enabled and use this data directory, regardless of who installed them.
pub fn serves(home: &Home, environment: &Environment) -> bool {
    let enabled = ["is-enabled", "--quiet", UNITS[0], UNITS[1]];
    let listen = ["show", "--property=Listen", UNITS[0]];
    cfg!(target_os = "linux")
        && run_command::succeeds(systemctl(environment, &enabled)).unwrap_or(false)
        && run_command::run(systemctl(environment, &listen))
            .is_ok_and(|ran| ran.stdout.contains(&format!("{} (Stream)", home.socket().display())))
}

/// Returns the directory of the user's units.
pub fn directory(environment: &Environment) -> Option<PathBuf> {
    let config =
        environment.config_dir.clone().or_else(|| Some(environment.user_home.as_ref()?.join(".config")));
    Some(config?.join("systemd/user"))
}

/// The paths that the units are generated for.
#[derive(Debug, Clone, Copy)]
pub struct UnitPaths<'a> {
    /// Our program.
    pub program: &'a Path,
    /// The data directory.
    pub home: &'a Home,
    /// The user's home.
    pub user_home: Option<&'a Path>,
    /// The client's directory, if it is not the default.
    pub client: Option<&'a Path>,
}

/// Returns the unit files, relative to the unit directory. Includes the sandbox only where it
/// works.
pub fn files(place: UnitPaths<'_>, with_sandbox: bool) -> Vec<(PathBuf, String)> {
    let mut files = vec![
        (PathBuf::from("claude-mem.socket"), place.fill(SOCKET)),
        (PathBuf::from("claude-mem.service"), place.service()),
    ];
    if with_sandbox {
        files.push((PathBuf::from("claude-mem.service.d/sandbox.conf"), place.fill(SANDBOX)));
    }
    files
}

impl UnitPaths<'_> {
    fn service(self) -> String {
        let mut text = self.fill(SERVICE);
        let usual = self.user_home.map(|home| home.join(".local/bin/claude-mem"));
        if usual.as_deref() != Some(self.program) {
            text = text.replace(USUAL_PROGRAM, &quoted(&self.program.to_string_lossy()));
        }
        let mut variables = String::new();
        if !self.is_at_home() {
            variables += &variable("CLAUDE_MEM_HOME", self.home.dir());
        }
        if let Some(client) = self.client {
            variables += &variable("CLAUDE_CONFIG_DIR", client);
        }
        text.replacen("[Service]\n", &format!("[Service]\n{variables}"), 1)
    }

    fn fill(self, text: &str) -> String {
        if self.is_at_home() {
            return text.to_owned();
        }
        let data = self.home.dir().to_string_lossy();
        // These values are lists of words and need quotes; everywhere else the path is the whole
        // value.
        let mut text = text.replace(
            &format!("Environment=SQLITE_TMPDIR={USUAL_DATA}"),
            &format!("Environment={}", quoted(&format!("SQLITE_TMPDIR={data}"))),
        );
        for before in ["ReadWritePaths=", "mkdir -p -m 0700 "] {
            text = text.replace(&format!("{before}{USUAL_DATA}"), &format!("{before}{}", quoted(&data)));
        }
        text.replace(USUAL_DATA, &escaped(&data))
    }

    fn is_at_home(self) -> bool {
        self.user_home.is_some_and(|home| home.join(".claude-mem") == self.home.dir())
    }
}

fn variable(name: &str, value: &Path) -> String {
    format!("Environment={}\n", quoted(&format!("{name}={}", value.display())))
}

/// Escapes percent signs, which start systemd's specifiers.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// Quotes the text as one word of a list.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@=%".contains(c);
    let escaped = escaped(text);
    if escaped.chars().all(is_plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', r"\\").replace('"', "\\\""))
}

/// True if the sandbox takes effect here: the probe exits with 0 only if a write is really blocked.
pub fn sandbox_works(environment: &Environment) -> bool {
    let probe = [
        "--wait",
        "--quiet",
        "--collect",
        "-p",
        "PrivateUsers=yes",
        "-p",
        "ProtectSystem=strict",
        "-p",
        "ProtectHome=read-only",
        "/bin/sh",
        "-c",
        "! touch \"$HOME/.claude-mem-probe\"",
    ];
    run_command::succeeds(user_command("systemd-run", environment, &probe)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(program: &'a str, home: &'a Home) -> UnitPaths<'a> {
        UnitPaths { program: Path::new(program), home, user_home: Some(Path::new("/home/dev")), client: None }
    }

    #[test]
    fn default_paths_give_the_packaged_units() {
        let home = Home::at("/home/dev/.claude-mem");
        let files = files(place("/home/dev/.local/bin/claude-mem", &home), true);
        let texts: Vec<_> = files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, [SOCKET, SERVICE, SANDBOX]);
    }

    #[test]
    fn failed_starts_back_off_and_the_sandbox_hides_no_repository() {
        for setting in ["RestartSteps=6", "RestartMaxDelaySec=1min", "SystemCallFilter=setpriority"] {
            assert!(SERVICE.lines().any(|line| line == setting), "{setting}");
        }
        assert!(!SANDBOX.lines().any(|line| line.starts_with("PrivateTmp=")));
        assert!(SANDBOX.lines().any(|line| line.starts_with("ExecStartPre=+/bin/mkdir -p ")));
    }

    #[test]
    fn custom_paths_replace_every_default_path() {
        let home = Home::at("/srv/my data/100%");
        let mut place = place("/opt/it's here/claude-mem", &home);
        place.client = Some(Path::new("/srv/client"));
        let files = files(place, true);
        let lines = |text: &str| -> String {
            let has_path =
                |line: &&str| !line.starts_with('#') && (line.contains("/srv") || line.contains("/opt"));
            text.lines().filter(has_path).collect::<Vec<_>>().join("\n")
        };
        let all = files.iter().map(|(_, text)| lines(text)).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!("units_elsewhere", all);
        for (name, text) in &files {
            let settings = text.lines().filter(|line| !line.starts_with('#'));
            assert!(settings.clone().all(|line| !line.contains("%h")), "{name:?}");
        }
    }
}
