//! `claude-mem mcp`: serves the memory as MCP tools on stdin and stdout.

use std::process::ExitCode;

use crate::cli::install::record::Record;
use crate::config::Environment;
use crate::mcp;
use crate::paths::Home;

/// Serve the memory to Claude Code and other agents (MCP on stdin and stdout)
///
/// Agents start this command themselves and end it by closing its input.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude mcp add --scope user claude-mem -- claude-mem mcp\n  \
    claude-mem mcp --tools search,timeline,get")]
pub struct Arguments {
    /// Serve only these tools (comma-separated)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = mcp::TOOLS)]
    tools: Vec<String>,
    /// Serve nothing where `claude-mem install` registered the server, so that tools do not appear twice; for the plugin
    #[arg(long, hide = true)]
    plugin: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let is_doubled = arguments.plugin && Record::load(home).mcp.is_some();
    let all = mcp::TOOLS.map(String::from);
    let wanted = match &arguments.tools[..] {
        _ if is_doubled => &[],
        [] => &all[..],
        named => named,
    };
    mcp::run(home, environment, wanted)?;
    Ok(ExitCode::SUCCESS)
}
