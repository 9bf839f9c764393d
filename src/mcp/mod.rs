//! The memory as tools for Claude Code and other agents: an MCP server on stdin and stdout.
//!
//! The only module that depends on MCP and its library. It queries the worker, or the database
//! directly if there is none, and defines the tools' names, arguments and output. Any failure in a
//! call becomes that call's result; the server ends when its client closes the input.

mod arguments;
mod client_project;
mod memory_release;
mod render;
mod server;
mod tools;
mod transport;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;

use crate::config::Environment;
use crate::paths::Home;
use crate::worker::system::ram;

/// The names of all tools.
pub const TOOLS: [&str; 7] = ["search", "timeline", "get", "recent", "save", "correct", "forget"];

/// Serves the tools of these names until the input ends.
pub fn run(home: &Home, environment: &Environment, wanted: &[String]) -> anyhow::Result<()> {
    // Input, output, searches and memory release run on different threads, and each would keep an
    // arena of its own.
    ram::share_arenas();
    // Files created from here on, including SQLite's, are private to their owner.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut tools = tools::all();
    tools.retain(|tool| wanted.iter().any(|name| *name == tool.name));
    let server = server::Server::new(home.clone(), environment.clone(), tools);
    let served = runtime.block_on(serve(server));
    // A thread that waits for input must not delay the exit.
    runtime.shutdown_background();
    served
}

async fn serve(server: server::Server) -> anyhow::Result<()> {
    server.release_memory_later();
    let transport = transport::LenientTransport::open(tokio::io::stdin(), tokio::io::stdout());
    match server.serve(transport).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The client disconnected without initializing, to check that the server starts.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
