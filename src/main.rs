//! `claude-mem`: the service, the command line, the MCP server.

use std::process::ExitCode;

fn main() -> ExitCode {
    match claude_mem::llm::guard::dispatch(std::env::args_os()) {
        Some(code) => code,
        None => ExitCode::SUCCESS,
    }
}
