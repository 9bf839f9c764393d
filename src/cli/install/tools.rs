//! Connects Claude Code beyond the hooks: the MCP server, registered by the client's own command at user scope, and the
//! commands `/mem` and `/mem-status`. Our plugin brings both itself; where it is enabled, this part is left to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Installation;
use super::client::{self, Client, Neighbour};
use super::hooks::{HookPlan, unusual_data};
use super::programs::Programs;
use super::record::Record;
use super::report::InstallReport;
use super::settings_file;
use crate::cli::run_command;
use crate::config::{Config, Environment};
use crate::hook_events::quoted;

/// Name of the server in the client's settings.
const NAME: &str = "claude-mem";

/// Our commands: the folder of a skill, and its text.
const SKILLS: [(&str, &str); 2] = [
    ("mem", include_str!("../../../packaging/claude-code/skills/mem/SKILL.md")),
    ("mem-status", include_str!("../../../packaging/claude-code/skills/status/SKILL.md")),
];

/// The command with which the plugin runs our program.
const PLUGIN_PROGRAM: &str = "${CLAUDE_PLUGIN_ROOT}/scripts/run claude-mem";

impl Installation<'_> {
    pub(super) fn tools(
        &mut self,
        plan: &HookPlan,
        programs: &Programs,
        for_project: bool,
    ) -> anyhow::Result<()> {
        if for_project {
            self.report
                .note("tools and commands are per user; `claude-mem install` without --project adds them");
            return Ok(());
        }
        let directory =
            settings_file::client_directory(self.environment).context("the home directory is unknown")?;
        if let Some(plugin) = own_plugin(&directory) {
            remove(&mut self.record, &mut self.report, self.environment, self.is_dry);
            self.report.step("tools", format!("leave tools and commands to the plugin {plugin}"));
            return Ok(());
        }
        match &plan.client {
            Some(client) => self.server(client, programs)?,
            None => self.report.note("no tools yet: install Claude Code, then run this command again"),
        }
        self.skills(&directory, programs)
    }

    fn server(&mut self, client: &Client, programs: &Programs) -> anyhow::Result<()> {
        let mut wanted =
            json!({"type": "stdio", "command": programs.main, "args": ["mcp"], "alwaysLoad": true});
        if let Some(data) = unusual_data(self.home, self.environment) {
            wanted["env"] = json!({"CLAUDE_MEM_HOME": data});
        }
        let current = registered(self.environment);
        if current.as_ref() == Some(&wanted) {
            self.report.step("tools", "keep the MCP server claude-mem, which is registered in Claude Code");
            return Ok(());
        }
        if current.is_some() && self.record.mcp.is_none() {
            self.report.note("kept the MCP server claude-mem in Claude Code, which is not ours".to_owned());
            return Ok(());
        }
        self.report.step("tools", "register the MCP server claude-mem in Claude Code, for all your projects");
        let is_known = current.is_some();
        let mut failure = None;
        self.really(|record| {
            if is_known {
                let _ = run_command::run(mcp(client, &["remove", "--scope", "user", NAME]));
            }
            let entry = wanted.to_string();
            match run_command::must(mcp(client, &["add-json", "--scope", "user", NAME, &entry])) {
                Ok(()) => record.mcp = Some(client.program.clone()),
                Err(error) => failure = Some(error),
            }
            Ok(())
        })?;
        // The hooks work without it.
        if let Some(error) = failure {
            self.report.problem(format!("{error:#}"));
        }
        Ok(())
    }

    fn skills(&mut self, directory: &Path, programs: &Programs) -> anyhow::Result<()> {
        let files = SKILLS.map(|(name, text)| {
            let file = directory.join("skills").join(name).join("SKILL.md");
            (file, skill(name, text, &programs.main))
        });
        let mut written = Vec::new();
        for (file, text) in &files {
            let there = fs::read_to_string(file).ok();
            if there.as_ref().is_some_and(|there| there != text) && !self.record.extras.contains(file) {
                self.report.note(format!("kept {}, which is not ours", file.display()));
            } else if there.as_ref() != Some(text) {
                written.push((file.clone(), text.clone()));
            }
        }
        if written.is_empty() {
            return Ok(());
        }
        self.report
            .step("commands", format!("add /mem and /mem-status to {}", directory.join("skills").display()));
        self.really(|record| record.write_extras(&written))
    }
}

/// Removes the server and our commands from the client.
pub fn remove(record: &mut Record, report: &mut InstallReport, environment: &Environment, is_dry: bool) {
    if let Some(program) = record.mcp.clone().filter(|_| registered(environment).is_some()) {
        report.step("tools", "remove the MCP server claude-mem from Claude Code");
        let found = || client::find(environment, &Config::default().claude_cli.command);
        let client = if program.exists() { Some(Client { program, version: None }) } else { found() };
        let removed = match client {
            _ if is_dry => Ok(()),
            Some(client) => run_command::must(mcp(&client, &["remove", "--scope", "user", NAME])),
            None => Err(anyhow::anyhow!(
                "Claude Code was not found; run `claude mcp remove --scope user {NAME}` where it is"
            )),
        };
        match removed {
            Ok(()) if !is_dry => record.mcp = None,
            Ok(()) => {}
            Err(error) => report.problem(format!("{error:#}")),
        }
    }
    let is_skill = |file: &PathBuf| file.ends_with("SKILL.md");
    let ours: Vec<PathBuf> = record.extras.iter().filter(|file| is_skill(file)).cloned().collect();
    if ours.is_empty() {
        return;
    }
    report.step("commands", "remove /mem and /mem-status");
    if !is_dry {
        record.remove_extras(is_skill);
    }
}

/// The skill's text for a folder of the user: its own name, and the program at its path.
fn skill(name: &str, text: &str, program: &Path) -> String {
    let text = text.replace(PLUGIN_PROGRAM, &quoted(&program.to_string_lossy()));
    let names = text
        .lines()
        .map(|line| if line.starts_with("name: ") { format!("name: {name}") } else { line.into() });
    names.collect::<Vec<_>>().join("\n") + "\n"
}

/// The name of our plugin, if it is enabled.
fn own_plugin(directory: &Path) -> Option<String> {
    let text = fs::read_to_string(directory.join("settings.json")).unwrap_or_default();
    client::neighbours(&text, Some(directory)).into_iter().find_map(|neighbour| match neighbour {
        Neighbour::OwnPlugin(name) => Some(name),
        _ => None,
    })
}

fn mcp(client: &Client, arguments: &[&str]) -> Command {
    let mut command = Command::new(&client.program);
    command.arg("mcp").args(arguments).env("CLAUDE_MEM_INTERNAL", "1");
    command
}

/// Our entry in the client's settings at user scope.
fn registered(environment: &Environment) -> Option<Value> {
    let moved = environment.outgoing.claude_config_dir.as_ref().map(|moved| moved.join(".claude.json"));
    let file = moved.or_else(|| Some(environment.user_home.as_ref()?.join(".claude.json")))?;
    let mut settings: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    settings.pointer_mut(&format!("/mcpServers/{NAME}")).map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_user_run_the_installed_program() {
        for (name, text) in SKILLS {
            let text = skill(name, text, Path::new("/a b/claude-mem"));
            assert!(text.starts_with(&format!("---\nname: {name}\n")), "{text}");
            assert!(!text.contains("PLUGIN_ROOT"), "{text}");
        }
        let status = skill(SKILLS[1].0, SKILLS[1].1, Path::new("/a b/claude-mem"));
        assert!(status.contains("!`'/a b/claude-mem' status 2>&1 || true`"), "{status}");
    }
}
