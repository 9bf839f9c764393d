//! `claude-mem`: the service, the command line, the MCP server.

use std::process::ExitCode;

use clap::Parser;
use claude_mem::{cli, config::Environment, llm::guard};

fn main() -> ExitCode {
    if let Some(code) =
        guard::dispatch(std::env::args_os()).or_else(|| cli::dispatch_detached_worker(std::env::args_os()))
    {
        return code;
    }
    cli::run(&cli::Arguments::parse(), Environment::capture())
}
