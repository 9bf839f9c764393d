//! Sends a request to the worker and waits for the response.

use std::path::Path;

use hyper::Method;
use serde_json::Value;

use crate::client;

/// GETs a route and returns its JSON, regardless of the HTTP status.
pub fn get(socket: &Path, route: &str) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(client::ask(socket, Method::GET, route, None))
}
