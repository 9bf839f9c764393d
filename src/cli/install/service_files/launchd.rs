//! The service under launchd: the property list for this machine, and its path.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::run_command;
use crate::config::Environment;
use crate::paths::Home;

const PLIST: &str = include_str!("../../../../packaging/launchd/claude-mem.plist");
/// Label of the launch agent.
pub const LABEL: &str = "io.github.claude-mem.worker";

/// True on systems with launchd.
pub fn is_there() -> bool {
    cfg!(target_os = "macos")
}

/// Returns the path of the agent's property list.
pub fn file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_home.as_ref()?.join(format!("Library/LaunchAgents/{LABEL}.plist")))
}

/// Returns the property list. launchd expands no variables, so every path is filled in. It also has
/// no shell environment, so the variables that the worker needs are included: the client's
/// directory, and the `PATH` to programs such as the `node` that `claude` needs.
pub fn text(program: &Path, home: &Home, client: Option<&Path>, path: Option<&str>) -> String {
    let data = escaped(&home.dir().to_string_lossy());
    let client = client.map(|client| escaped(&client.to_string_lossy()));
    let variables =
        [("CLAUDE_MEM_HOME", Some(data.clone())), ("CLAUDE_CONFIG_DIR", client), ("PATH", path.map(escaped))];
    let entry = |(name, value): (&str, Option<String>)| {
        Some(format!("\t\t<key>{name}</key>\n\t\t<string>{}</string>\n", value?))
    };
    let entries: String = variables.into_iter().filter_map(entry).collect();
    let variable = format!("\t<key>EnvironmentVariables</key>\n\t<dict>\n{entries}\t</dict>\n\n");
    let text = PLIST
        .replace(" __HOME__ stands for the user's home directory.", "")
        .replace("__HOME__/.local/bin/claude-mem", &escaped(&program.to_string_lossy()))
        .replace("__HOME__/.claude-mem", &data);
    const BEFORE: &str = "\t<!-- Adaptive";
    text.replacen(BEFORE, &format!("{variable}{BEFORE}"), 1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Domains an agent can run in: the user's desktop session and, without one (over ssh), the user's
/// background domain.
pub fn domains() -> [String; 2] {
    ["gui", "user"].map(|kind| format!("{kind}/{}", rustix::process::geteuid().as_raw()))
}

/// Loads the agent if necessary and starts it in the first domain that accepts it.
pub fn start(file: &Path) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for domain in domains() {
        // Fails if it is already loaded.
        let _ = run_command::run(launchctl(&["bootstrap", &domain, &file.to_string_lossy()]));
        outcome = run_command::must(launchctl(&["kickstart", &format!("{domain}/{LABEL}")]));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Stops the agent in every domain.
pub fn stop() {
    for domain in domains() {
        // Fails if it is not loaded there.
        let _ = run_command::run(launchctl(&["bootout", &format!("{domain}/{LABEL}")]));
    }
}

/// A `launchctl` command.
fn launchctl(arguments: &[&str]) -> Command {
    let mut command = Command::new("launchctl");
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_list_has_local_paths_and_is_valid_xml() {
        let client = Some(Path::new("/Users/a&b/client"));
        let path = Some("/opt/homebrew/bin:/usr/bin");
        let text =
            text(Path::new("/Users/a&b/claude-mem"), &Home::at("/Users/a&b/.claude-mem"), client, path);
        for value in ["/Users/a&amp;b/client", "/opt/homebrew/bin:/usr/bin", "Adaptive"] {
            assert!(text.contains(&format!("<string>{value}</string>")), "{text}");
        }
        assert!(
            !text.contains('@') && text.contains("<string>/Users/a&amp;b/.claude-mem/nudge.sock</string>")
        );
        assert_eq!(text.matches("<dict>").count(), text.matches("</dict>").count());
    }
}
