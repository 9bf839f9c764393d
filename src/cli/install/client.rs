//! Detects the installed Claude Code: its version, and other memory tools that hook into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::settings::{self, FoundHook};
use crate::cli::run_command;
use crate::config::Environment;
use crate::hook_events::{self, ClientVersion};
use crate::llm::claude_cli::installed;

/// The detected client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Path of its executable.
    pub program: PathBuf,
    /// Its reported version; none if unknown.
    pub version: Option<ClientVersion>,
}

/// Finds the client and runs it to get its version.
pub fn find(environment: &Environment, command: &str) -> Option<Client> {
    let program = installed::find(command, environment)?;
    let mut ask = Command::new(&program);
    ask.arg("--version").env("CLAUDE_MEM_INTERNAL", "1");
    let version = run_command::run(ask)
        .ok()
        .filter(|ran| ran.success)
        .and_then(|ran| ClientVersion::parse(&ran.stdout));
    Some(Client { program, version })
}

/// Another memory tool, or our own hooks wired a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Neighbour {
    /// Our own plugin, enabled in addition to the hooks.
    OwnPlugin(String),
    /// A plugin of another memory tool.
    RivalPlugin(String),
    /// A hook of another memory tool.
    RivalHook(FoundHook),
}

impl Neighbour {
    /// Returns a description for the user.
    pub fn description(&self) -> String {
        match self {
            Self::OwnPlugin(name) => format!(
                "the plugin {name} also runs our hooks: events are stored only once, but one of the two is enough \
                 (`claude plugin uninstall {name}`, or `claude-mem uninstall`)"
            ),
            Self::RivalPlugin(name) => format!(
                "the plugin {name} also records sessions: both will add to the context (`claude plugin disable {name}`)"
            ),
            Self::RivalHook(found) => format!(
                "another memory tool hooks {}: `{}`; both will add to the context",
                found.event, found.command
            ),
        }
    }
}

/// Names of other memory tools in commands and plugins.
const RIVALS: [&str; 7] =
    ["claude-mem", "episodic-memory", "claude-memory", "mem0", "supermemory", "memsearch", "claude-recall"];

/// Finds other memory tools in the settings and among the client's plugins.
pub fn neighbours(settings_text: &str, client_directory: Option<&Path>) -> Vec<Neighbour> {
    let commands = settings::commands(settings_text).unwrap_or_default();
    let is_rival = |name: &str| RIVALS.iter().any(|rival| name.contains(rival));
    let hooks = commands
        .into_iter()
        .filter(|found| !hook_events::is_ours(&found.command) && is_rival(&found.command))
        .map(Neighbour::RivalHook);
    let plugins = settings::enabled_plugins(settings_text).into_iter().filter_map(|name| {
        if client_directory.is_some_and(|directory| is_our_plugin(directory, &name)) {
            return Some(Neighbour::OwnPlugin(name));
        }
        let short = name.split('@').next().unwrap_or_default();
        RIVALS.contains(&short).then_some(Neighbour::RivalPlugin(name))
    });
    hooks.chain(plugins).collect()
}

/// True if the plugin runs our hook.
fn is_our_plugin(client_directory: &Path, name: &str) -> bool {
    let list = fs::read(client_directory.join("plugins/installed_plugins.json")).unwrap_or_default();
    let list: Value = serde_json::from_slice(&list).unwrap_or_default();
    let mut places = Vec::new();
    install_paths(&list["plugins"][name], &mut places);
    places.iter().any(|place| {
        let hooks = fs::read_to_string(Path::new(place).join("hooks/hooks.json")).unwrap_or_default();
        hooks.contains(hook_events::HOOK_NAME)
    })
}

/// Collects install paths from one entry or a list of entries: the client's format has changed
/// before.
fn install_paths(entry: &Value, found: &mut Vec<String>) {
    match entry {
        Value::Array(entries) => entries.iter().for_each(|entry| install_paths(entry, found)),
        Value::Object(entry) => {
            found.extend(entry.get("installPath").and_then(Value::as_str).map(str::to_owned))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_and_our_own_plugin_are_distinguished() {
        let scratch = tempfile::tempdir().unwrap();
        let plugin = scratch.path().join("ours/hooks");
        fs::create_dir_all(&plugin).unwrap();
        fs::write(plugin.join("hooks.json"), r#"{"hooks": {"Stop": "claude-mem-hook summary"}}"#).unwrap();
        fs::create_dir_all(scratch.path().join("plugins")).unwrap();
        let list = serde_json::json!({"version": 2, "plugins": {
            "claude-mem@here": [{"scope": "user", "installPath": scratch.path().join("ours")}],
            "claude-mem@thedotmack": [{"installPath": scratch.path().join("theirs")}],
        }});
        fs::write(scratch.path().join("plugins/installed_plugins.json"), list.to_string()).unwrap();
        let text = r#"{
            "enabledPlugins": {"claude-mem@here": true, "claude-mem@thedotmack": true, "formatter@x": true},
            "hooks": {"Stop": [{"hooks": [
                {"type": "command", "command": "/x/claude-mem-hook summary"},
                {"type": "command", "command": "node ~/.claude-mem/hooks/stop.js"},
                {"type": "command", "command": "say done"}]}]}
        }"#;
        let found = neighbours(text, Some(scratch.path()));
        assert!(
            matches!(&found[..], [
            Neighbour::RivalHook(hook), Neighbour::OwnPlugin(own), Neighbour::RivalPlugin(rival),
        ] if hook.command.contains("stop.js") && own == "claude-mem@here" && rival == "claude-mem@thedotmack"),
            "{found:?}"
        );
    }
}
