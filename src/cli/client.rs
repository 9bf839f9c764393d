//! The client of the memory, for commands.

use crate::api::Health;
use crate::client::{self, MemoryClient, block_on};
use crate::config::Environment;
use crate::paths::Home;

/// Returns the worker's health. Connecting makes a service manager start a stopped worker.
pub fn health(home: &Home) -> anyhow::Result<Health> {
    block_on(client::health(home))?
}

/// Sends a request with a client of this memory, and waits for the answer.
pub fn ask<R, E: Into<anyhow::Error>>(
    home: &Home,
    environment: &Environment,
    request: impl AsyncFnOnce(MemoryClient) -> Result<R, E>,
) -> anyhow::Result<R> {
    let client = MemoryClient::new(home.clone(), environment.clone()).embedding_queries();
    block_on(request(client))?.map_err(Into::into)
}
