//! Connects other agents: the MCP server, and hooks or a plugin where the agent has them. Adds or removes our entries in its
//! settings and preserves everything else.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Installation;
use super::hooks::unusual_data;
use super::programs::Programs;
use super::record::{AgentFile, Record};
use super::report::InstallReport;
use super::settings::{self, SettingsError, WantedHook};
use super::settings_file;
use crate::config::Environment;
use crate::hook_events;
use crate::model::Agent;

/// A part of the connection to an agent, each in a file of the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentPart {
    /// The MCP server.
    #[default]
    Tools,
    /// Hooks in the agent's settings.
    Hooks,
    /// A plugin, which is a file of our own.
    Plugin,
}

/// Name of our entry.
const NAME: &str = "claude-mem";

/// Content of the entry.
#[derive(Debug, Clone, Copy)]
pub struct AgentEntry<'a> {
    /// `claude-mem`.
    pub program: &'a Path,
    /// The data directory, if it is not the default.
    pub data: Option<&'a Path>,
}

/// The plugin for OpenCode, which has no hooks in its settings.
const OPENCODE_PLUGIN: &str = include_str!("../../../packaging/agents/opencode.js");

/// A connection: an agent and a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub Agent, pub AgentPart);

impl Link {
    /// Returns the parts that an agent has.
    fn all(agent: Agent) -> Vec<Self> {
        let further = match agent {
            Agent::Opencode => Some(AgentPart::Plugin),
            _ if hook_events::for_agent(agent).is_empty() => None,
            _ => Some(AgentPart::Hooks),
        };
        [Some(AgentPart::Tools), further].into_iter().flatten().map(|part| Self(agent, part)).collect()
    }

    /// Returns the per-user file of the part.
    pub fn file(self, environment: &Environment) -> Option<PathBuf> {
        let home = environment.user_home.as_ref()?;
        let codex = || environment.codex_home.clone().unwrap_or_else(|| home.join(".codex"));
        let copilot = || environment.copilot_home.clone().unwrap_or_else(|| home.join(".copilot"));
        let config = || environment.config_dir.clone().unwrap_or_else(|| home.join(".config"));
        match self {
            Self(Agent::Codex, AgentPart::Tools) => Some(codex().join("config.toml")),
            Self(Agent::Codex, AgentPart::Hooks) => Some(codex().join("hooks.json")),
            Self(Agent::Gemini, AgentPart::Tools | AgentPart::Hooks) => {
                Some(home.join(".gemini/settings.json"))
            }
            Self(Agent::Copilot, AgentPart::Tools) => Some(copilot().join("mcp-config.json")),
            Self(Agent::Copilot, AgentPart::Hooks) => Some(copilot().join("hooks/claude-mem.json")),
            Self(Agent::Cursor, AgentPart::Tools) => Some(home.join(".cursor/mcp.json")),
            Self(Agent::Opencode, AgentPart::Tools) => Some(config().join("opencode/opencode.json")),
            Self(Agent::Opencode, AgentPart::Plugin) => Some(config().join("opencode/plugin/claude-mem.js")),
            _ => None,
        }
    }

    /// Returns the text with our current part, replacing any older one.
    pub fn with_entry(self, text: &str, entry: AgentEntry<'_>) -> Result<String, SettingsError> {
        match self {
            Self(Agent::Copilot, AgentPart::Hooks) => Ok(copilot_hooks(entry)),
            Self(agent, AgentPart::Hooks) => settings::with_hooks(text, &wanted(agent, entry)),
            Self(_, AgentPart::Plugin) => Ok(plugin(entry)),
            Self(Agent::Codex, AgentPart::Tools) => toml_with(text, Some(entry)),
            Self(Agent::Opencode, AgentPart::Tools) => json_with(text, "mcp", Some(opencode_entry(entry))),
            Self(Agent::Copilot, AgentPart::Tools) => {
                json_with(text, "mcpServers", Some(copilot_entry(entry)))
            }
            Self(_, AgentPart::Tools) => json_with(text, "mcpServers", Some(json_entry(entry))),
        }
    }

    /// Returns the text without our part.
    pub fn without_entry(self, text: &str) -> Result<String, SettingsError> {
        match self {
            Self(Agent::Copilot, AgentPart::Hooks) => Ok(String::new()),
            Self(_, AgentPart::Hooks) => settings::without_hooks(text),
            Self(_, AgentPart::Plugin) => Ok(String::new()),
            Self(Agent::Codex, AgentPart::Tools) => toml_with(text, None),
            Self(Agent::Opencode, AgentPart::Tools) => json_with(text, "mcp", None),
            Self(_, AgentPart::Tools) => json_with(text, "mcpServers", None),
        }
    }

    fn description(self) -> &'static str {
        match self.1 {
            AgentPart::Tools => "the claude-mem MCP server",
            AgentPart::Hooks => "our hooks",
            AgentPart::Plugin => "our plugin",
        }
    }
}

/// The hooks for an agent.
fn wanted(agent: Agent, entry: AgentEntry<'_>) -> Vec<WantedHook> {
    let hook = entry.program.with_file_name(hook_events::HOOK_NAME);
    let command =
        |verb: &str| format!("{} --agent {}", hook_events::command(&hook, verb, entry.data), agent.as_str());
    let wires = hook_events::for_agent(agent).iter();
    wires.map(|wire| WantedHook { wire: *wire, command: command(wire.verb) }).collect()
}

/// The hooks of Copilot CLI, in a file of our own.
fn copilot_hooks(entry: AgentEntry<'_>) -> String {
    let hooks = wanted(Agent::Copilot, entry).into_iter().map(|hook| {
        let command = json!({"type": "command", "bash": hook.command, "timeoutSec": hook.wire.timeout});
        (hook.wire.event.to_owned(), json!([command]))
    });
    format!("{:#}\n", json!({"version": 1, "hooks": serde_json::Map::from_iter(hooks)}))
}

/// The plugin with the paths of this installation.
fn plugin(entry: AgentEntry<'_>) -> String {
    // The inside of a JSON string is the inside of a JavaScript string.
    let quoted = |path: &Path| {
        let text = serde_json::Value::from(path.to_string_lossy()).to_string();
        text[1..text.len() - 1].replace('\'', "\\'")
    };
    let hook = quoted(&entry.program.with_file_name(hook_events::HOOK_NAME));
    let data = entry.data.map(quoted).unwrap_or_default();
    OPENCODE_PLUGIN.replace("@HOOK@", &hook).replace("@DATA@", &data)
}

fn text(text: impl Into<String>) -> CstInputValue {
    CstInputValue::String(text.into())
}

fn variables(name: &str, data: Option<&Path>) -> Option<(String, CstInputValue)> {
    let data = data?.to_string_lossy().into_owned();
    Some((name.to_owned(), CstInputValue::Object(vec![("CLAUDE_MEM_HOME".into(), text(data))])))
}

fn json_entry(entry: AgentEntry<'_>) -> CstInputValue {
    let mut fields = vec![
        ("command".to_owned(), text(entry.program.to_string_lossy())),
        ("args".to_owned(), CstInputValue::Array(vec![text("mcp")])),
    ];
    fields.extend(variables("env", entry.data));
    CstInputValue::Object(fields)
}

fn copilot_entry(entry: AgentEntry<'_>) -> CstInputValue {
    let CstInputValue::Object(mut fields) = json_entry(entry) else { return json_entry(entry) };
    fields.insert(0, ("type".to_owned(), text("local")));
    fields.push(("tools".to_owned(), CstInputValue::Array(vec![text("*")])));
    CstInputValue::Object(fields)
}

fn opencode_entry(entry: AgentEntry<'_>) -> CstInputValue {
    let command = vec![text(entry.program.to_string_lossy()), text("mcp")];
    let mut fields = vec![
        ("type".to_owned(), text("local")),
        ("command".to_owned(), CstInputValue::Array(command)),
        ("enabled".to_owned(), CstInputValue::Bool(true)),
    ];
    fields.extend(variables("environment", entry.data));
    CstInputValue::Object(fields)
}

fn json_with(before: &str, section: &str, entry: Option<CstInputValue>) -> Result<String, SettingsError> {
    let source = if before.trim().is_empty() { "{}\n" } else { before };
    let root = CstRootNode::parse(source, &ParseOptions::default())
        .map_err(|error| SettingsError::Shape(format!("invalid JSON: {error}")))?;
    let shape = |what: &str| SettingsError::Shape(format!("{what} is not an object"));
    let settings = root.object_value_or_create().ok_or_else(|| shape("the file"))?;
    let Some(entry) = entry else {
        let Some(servers) = settings.object_value(section) else { return Ok(before.to_owned()) };
        let Some(ours) = servers.get(NAME) else { return Ok(before.to_owned()) };
        ours.remove();
        if servers.properties().is_empty()
            && let Some(empty) = settings.get(section)
        {
            empty.remove();
        }
        return Ok(root.to_string());
    };
    let servers = settings.object_value_or_create(section).ok_or_else(|| shape(&format!("\"{section}\"")))?;
    match servers.get(NAME) {
        Some(known) => known.set_value(entry),
        None => drop(servers.append(NAME, entry)),
    }
    Ok(root.to_string())
}

/// Edits TOML. Our table can go at the end of the file, regardless of the tables before it.
fn toml_with(before: &str, entry: Option<AgentEntry<'_>>) -> Result<String, SettingsError> {
    let invalid = |error: toml::de::Error| SettingsError::Shape(format!("invalid TOML: {}", error.message()));
    toml::from_str::<toml::Table>(before).map_err(invalid)?;
    let header = format!("[mcp_servers.{NAME}");
    let mut is_ours = false;
    let mut kept = String::new();
    for line in before.split_inclusive('\n') {
        let start = line.trim_start();
        if start.starts_with('[') {
            is_ours = start.strip_prefix(&header).is_some_and(|rest| rest.starts_with([']', '.']));
        }
        if !is_ours {
            kept.push_str(line);
        }
    }
    if let Some(AgentEntry { program, data }) = entry {
        // A JSON string is a TOML string.
        let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
        let blank = if kept.is_empty() || kept.ends_with("\n\n") { "" } else { "\n" };
        let end = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
        kept.push_str(&format!("{end}{blank}{header}]\ncommand = {}\nargs = [\"mcp\"]\n", quoted(program)));
        if let Some(data) = data {
            kept.push_str(&format!("env = {{ CLAUDE_MEM_HOME = {} }}\n", quoted(data)));
        }
    } else if kept != before {
        kept.truncate(kept.trim_end().len());
        kept.push('\n');
    }
    let after = toml::from_str::<toml::Table>(&kept).map_err(invalid)?;
    let has_entry = after.get("mcp_servers").is_some_and(|servers| servers.get(NAME).is_some());
    if has_entry != entry.is_some() {
        return Err(SettingsError::Shape(format!(
            "its {NAME} entry has a form that cannot be edited automatically; edit it by hand"
        )));
    }
    Ok(kept)
}

impl Installation<'_> {
    /// Connects an agent.
    pub(super) fn agent(&mut self, agent: Agent, programs: &Programs) -> anyhow::Result<()> {
        for link in Link::all(agent) {
            self.link(link, programs)?;
        }
        match agent {
            Agent::Codex => {
                self.report.note("Codex runs new hooks only after you trust them: run /hooks in it once")
            }
            Agent::Cursor => {
                self.report.note("Cursor gets the tools only; its sessions are not recorded");
            }
            _ => {}
        }
        Ok(())
    }

    fn link(&mut self, link: Link, programs: &Programs) -> anyhow::Result<()> {
        let file = link.file(self.environment).context("the home directory is unknown")?;
        let entry = AgentEntry { program: &programs.main, data: unusual_data(self.home, self.environment) };
        let before = settings_file::read(&file)?;
        let after = link.with_entry(before.as_deref().unwrap_or_default(), entry);
        let after = after.with_context(|| format!("left {} unchanged", file.display()))?;
        let (what, shown) = (link.description(), file.display());
        if before.as_deref() == Some(after.as_str()) {
            self.report.step("agent", format!("keep {what} in {shown}, which is current"));
            return Ok(());
        }
        self.report.step("agent", format!("add {what} to {shown}"));
        self.really(|record| {
            record.make_directory(file.parent().unwrap_or(Path::new("/")))?;
            let known = record.agents.iter().find(|known| known.path == file);
            let existed = known.map_or(before.is_some(), |known| known.existed);
            settings_file::replace(&file, None, |text| link.with_entry(text, entry))?;
            record.agents.retain(|known| known.path != file || known.part != link.1);
            record.agents.push(AgentFile { agent: link.0, part: link.1, path: file.clone(), existed });
            Ok(())
        })
    }
}

/// Removes our entries from the settings of agents.
pub fn remove_all(record: &mut Record, report: &mut InstallReport, is_dry: bool) {
    for file in std::mem::take(&mut record.agents) {
        match remove(&file, report, is_dry) {
            Ok(()) => {}
            Err(error) => {
                report.problem(format!("{error:#}"));
                record.agents.push(file);
            }
        }
    }
}

fn remove(file: &AgentFile, report: &mut InstallReport, is_dry: bool) -> anyhow::Result<()> {
    let Some(text) = settings_file::read(&file.path)? else { return Ok(()) };
    let link = Link(file.agent, file.part);
    let without = link.without_entry(&text)?;
    if without == text {
        return Ok(());
    }
    report.step("agent", format!("remove {} from {}", link.description(), file.path.display()));
    if is_dry {
        return Ok(());
    }
    let is_empty = without.chars().all(|c| c.is_whitespace() || c == '{' || c == '}');
    if is_empty && !file.existed {
        std::fs::remove_file(&file.path)?;
    } else {
        settings_file::replace(&file.path, None, |text| link.without_entry(text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENTS: [(Agent, &str); 5] = [
        (Agent::Codex, include_str!("../../../packaging/agents/codex.toml")),
        (Agent::Gemini, include_str!("../../../packaging/agents/gemini.json")),
        (Agent::Cursor, include_str!("../../../packaging/agents/cursor.json")),
        (Agent::Opencode, include_str!("../../../packaging/agents/opencode.json")),
        (Agent::Copilot, include_str!("../../../packaging/agents/copilot.json")),
    ];

    fn entry(data: Option<&Path>) -> AgentEntry<'_> {
        AgentEntry { program: Path::new("/path/of/claude-mem"), data }
    }

    fn tools(agent: Agent) -> Link {
        Link(agent, AgentPart::Tools)
    }

    #[test]
    fn hooks_round_trip_in_the_settings_of_agents() {
        let mine = "{\n  \"hooks\": {\n    \"AfterTool\": [\n      {\n        \"hooks\": []\n      }\n    ]\n  }\n}\n";
        for (agent, event) in [(Agent::Codex, "Stop"), (Agent::Gemini, "AfterAgent")] {
            let link = Link(agent, AgentPart::Hooks);
            for before in ["{}\n", mine] {
                let with = link.with_entry(before, entry(Some(Path::new("/my data")))).unwrap();
                let parsed: serde_json::Value = serde_json::from_str(&with).unwrap();
                let command = &parsed["hooks"][event][0]["hooks"][0]["command"];
                let expected = format!(
                    "CLAUDE_MEM_HOME='/my data' /path/of/claude-mem-hook summary --agent {}",
                    agent.as_str()
                );
                assert_eq!(command, &expected, "{with}");
                assert_eq!(link.without_entry(&with).unwrap(), before, "{agent:?}");
            }
        }
        let plugin = Link(Agent::Opencode, AgentPart::Plugin).with_entry("", entry(None)).unwrap();
        assert!(plugin.contains("const HOOK = '/path/of/claude-mem-hook'\nconst DATA = ''\n"), "{plugin}");
    }

    fn meaning(agent: Agent, text: &str) -> serde_json::Value {
        if agent == Agent::Codex {
            return serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
        }
        let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
        value.as_object_mut().unwrap().remove("$schema");
        value
    }

    #[test]
    fn entries_match_the_documented_files() {
        for (agent, documented) in AGENTS {
            let written = tools(agent).with_entry("", entry(None)).unwrap();
            assert_eq!(meaning(agent, &written), meaning(agent, documented), "{agent:?}");
        }
    }

    #[test]
    fn entry_round_trips_and_other_settings_stay() {
        let codex = "model = \"o\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[tui]\ntheme = 1\n";
        let json = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}\n";
        let opencode = "{\n  \"mcp\": {\n    \"other\": {\"type\": \"local\"}\n  }\n}\n";
        for (agent, before) in [
            (Agent::Codex, codex),
            (Agent::Gemini, json),
            (Agent::Cursor, json),
            (Agent::Copilot, json),
            (Agent::Opencode, opencode),
        ] {
            let with = tools(agent).with_entry(before, entry(Some(Path::new("/my data")))).unwrap();
            assert!(with.contains("/path/of/claude-mem") && with.contains("/my data"), "{with}");
            let again = tools(agent).with_entry(&with, entry(None)).unwrap();
            assert!(!again.contains("/my data"), "{again}");
            assert_eq!(
                tools(agent).with_entry(&again, entry(None)).unwrap(),
                again,
                "adding twice changes nothing"
            );
            assert_eq!(tools(agent).without_entry(&with).unwrap(), before, "{agent:?}");
            assert_eq!(tools(agent).without_entry(before).unwrap(), before);
        }
    }

    #[test]
    fn unreadable_settings_are_refused() {
        for (agent, text) in [
            (Agent::Codex, "model = "),
            (Agent::Codex, "mcp_servers = { claude-mem = { command = \"x\" } }\n"),
            (Agent::Gemini, "{\"mcpServers\": "),
            (Agent::Cursor, "[]"),
            (Agent::Opencode, "{\"mcp\": 7}"),
        ] {
            assert!(tools(agent).with_entry(text, entry(None)).is_err(), "{agent:?} {text}");
        }
    }
}
