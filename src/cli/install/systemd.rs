//! The service under systemd's user manager: the text of the units for this machine, and where they go.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::child;
use crate::config::Environment;
use crate::paths::Home;

const SERVICE: &str = include_str!("../../../packaging/systemd/claude-mem.service");
const SOCKET: &str = include_str!("../../../packaging/systemd/claude-mem.socket");
const SANDBOX: &str = include_str!("../../../packaging/systemd/claude-mem.service.d/sandbox.conf");

/// The units, in the order of starting.
pub const UNITS: [&str; 2] = ["claude-mem.socket", "claude-mem.service"];

/// What the packaged units say for the usual places.
const USUAL_PROGRAM: &str = "%h/.local/bin/claude-mem";
const USUAL_DATA: &str = "%h/.claude-mem";

/// `systemctl --user`, also where the shell does not know the manager's place (after `su`, in a cron job).
pub fn systemctl(environment: &Environment, arguments: &[&str]) -> Command {
    user_command("systemctl", environment, arguments)
}

/// A program that talks to the user manager.
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

/// Whether there is a user manager that answers.
pub fn is_there(environment: &Environment) -> bool {
    cfg!(target_os = "linux")
        && child::succeeds(systemctl(environment, &["show", "--property=Version"])).unwrap_or(false)
}

/// Where the user's units are.
pub fn directory(environment: &Environment) -> Option<PathBuf> {
    let config =
        environment.config_dir.clone().or_else(|| Some(environment.user_home.as_ref()?.join(".config")));
    Some(config?.join("systemd/user"))
}

/// What the units are made for.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Our program.
    pub program: &'a Path,
    /// The data directory.
    pub home: &'a Home,
    /// The user's home.
    pub user_home: Option<&'a Path>,
    /// Where the client keeps its files, if not at the usual place.
    pub client: Option<&'a Path>,
}

/// The units as files, below the directory of units. The sandbox only where it works.
pub fn files(place: Place<'_>, with_sandbox: bool) -> Vec<(PathBuf, String)> {
    let mut files = vec![
        (PathBuf::from("claude-mem.socket"), place.fill(SOCKET)),
        (PathBuf::from("claude-mem.service"), place.service()),
    ];
    if with_sandbox {
        files.push((PathBuf::from("claude-mem.service.d/sandbox.conf"), place.fill(SANDBOX)));
    }
    files
}

impl Place<'_> {
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
        // Only this one is a list.
        let list = format!("ReadWritePaths={}", quoted(&data));
        text.replace(&format!("ReadWritePaths={USUAL_DATA}"), &list).replace(USUAL_DATA, &escaped(&data))
    }

    fn is_at_home(self) -> bool {
        self.user_home.is_some_and(|home| home.join(".claude-mem") == self.home.dir())
    }
}

fn variable(name: &str, value: &Path) -> String {
    format!("Environment={}\n", quoted(&format!("{name}={}", value.display())))
}

/// Percent signs begin what systemd fills in.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// As one word of a list.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@=%".contains(c);
    let escaped = escaped(text);
    if escaped.chars().all(is_plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', r"\\").replace('"', "\\\""))
}

/// Whether the second half of the hardening has its effect here: 0 only where it really does.
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
    child::succeeds(user_command("systemd-run", environment, &probe)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(program: &'a str, home: &'a Home) -> Place<'a> {
        Place { program: Path::new(program), home, user_home: Some(Path::new("/home/dev")), client: None }
    }

    #[test]
    fn at_the_usual_places_the_units_are_those_of_the_package() {
        let home = Home::at("/home/dev/.claude-mem");
        let files = files(place("/home/dev/.local/bin/claude-mem", &home), true);
        let texts: Vec<_> = files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, [SOCKET, SERVICE, SANDBOX]);
    }

    #[test]
    fn elsewhere_every_path_is_that_place() {
        let home = Home::at("/srv/my data/100%");
        let mut place = place("/opt/it's here/claude-mem", &home);
        place.client = Some(Path::new("/srv/client"));
        let files = files(place, true);
        let lines = |text: &str| -> String {
            let says =
                |line: &&str| !line.starts_with('#') && (line.contains("/srv") || line.contains("/opt"));
            text.lines().filter(says).collect::<Vec<_>>().join("\n")
        };
        let all = files.iter().map(|(_, text)| lines(text)).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!("units_elsewhere", all);
        for (name, text) in &files {
            let settings = text.lines().filter(|line| !line.starts_with('#'));
            assert!(settings.clone().all(|line| !line.contains("%h")), "{name:?}");
        }
    }
}
