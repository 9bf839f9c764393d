//! The memory as tools for Claude Code and other agents: an MCP server on stdin and stdout.
//!
//! The only place that knows MCP and its library. It asks the worker, or the database itself when there is none, and owns
//! what the tools are called, what they take and how their answers read. Whatever happens in a call is that call's answer;
//! the server ends when its client closes the input.

mod arguments;
mod gate;
mod here;
mod recall;
mod render;
mod server;
mod tools;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

use crate::config::Environment;
use crate::paths::Home;
use crate::worker::memory;

/// The names of all tools.
pub const TOOLS: [&str; 6] = ["search", "timeline", "get", "recent", "save", "forget"];

/// Serves these tools, or all if none is named, until the input ends.
pub fn run(home: &Home, environment: &Environment, wanted: &[String]) -> anyhow::Result<()> {
    // Input, output, searches and what gives their memory back are on different threads: each would keep its own.
    memory::share_arenas();
    // Whatever is created from here on, by SQLite too, is for its owner only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut tools = tools::all();
    tools.retain(|tool| wanted.is_empty() || wanted.iter().any(|name| *name == tool.name));
    let server = server::Server::new(home.clone(), environment.clone(), tools);
    let served = runtime.block_on(serve(server));
    // A thread that waits for input must not hold up the end.
    runtime.shutdown_background();
    served
}

async fn serve(server: server::Server) -> anyhow::Result<()> {
    server.rest();
    let gate = gate::Gate::open(tokio::io::stdin(), tokio::io::stdout());
    match server.serve(gate).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // A client that only looked whether there is somebody.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
