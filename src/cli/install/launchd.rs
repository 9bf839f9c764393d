//! The service under launchd: the property list for this machine, and where it goes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::config::Environment;
use crate::paths::Home;

const PLIST: &str = include_str!("../../../packaging/launchd/claude-mem.plist");
/// The agent's name.
pub const LABEL: &str = "io.github.claude-mem.worker";

/// Whether this is a system with launchd.
pub fn is_there() -> bool {
    cfg!(target_os = "macos")
}

/// Where the agent's property list goes.
pub fn file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_home.as_ref()?.join(format!("Library/LaunchAgents/{LABEL}.plist")))
}

/// The property list. launchd knows no variables, so every path is filled in.
pub fn text(program: &Path, home: &Home) -> String {
    let data = escaped(&home.dir().to_string_lossy());
    let variable = format!(
        "\t<key>EnvironmentVariables</key>\n\t<dict>\n\t\t<key>CLAUDE_MEM_HOME</key>\n\t\t<string>{data}</string>\n\t</dict>\n\n"
    );
    let text = PLIST
        .replace(" __HOME__ stands for the user's home directory.", "")
        .replace("__HOME__/.local/bin/claude-mem", &escaped(&program.to_string_lossy()))
        .replace("__HOME__/.claude-mem", &data);
    text.replacen("\t<key>ProcessType</key>", &format!("{variable}\t<key>ProcessType</key>"), 1)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The user's session, where agents live.
pub fn domain() -> String {
    format!("gui/{}", rustix::process::geteuid().as_raw())
}

/// The agent in it.
pub fn target() -> String {
    format!("{}/{LABEL}", domain())
}

/// `launchctl`.
pub fn launchctl(arguments: &[&str]) -> Command {
    let mut command = Command::new("launchctl");
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_list_has_the_paths_of_this_machine_and_is_still_xml() {
        let text = text(Path::new("/Users/a&b/claude-mem"), &Home::at("/Users/a&b/.claude-mem"));
        assert!(
            !text.contains('@') && text.contains("<string>/Users/a&amp;b/.claude-mem/nudge.sock</string>")
        );
        assert_eq!(text.matches("<dict>").count(), text.matches("</dict>").count());
    }
}
