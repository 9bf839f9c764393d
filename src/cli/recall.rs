//! Asks for memories: the worker if it runs, else the database itself, read-only.

use anyhow::bail;
use rusqlite::Connection;
use serde_json::Value;

use super::client;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::store::{self, StoreError};

/// The answer to a route, or what `directly` reads. Without a database there is nothing to find, and that is said.
pub fn ask(
    home: &Home,
    environment: &Environment,
    route: &str,
    directly: impl FnOnce(&Connection, &Config) -> anyhow::Result<Value>,
) -> anyhow::Result<Value> {
    if let Ok(answer) = client::get(&home.socket(), route) {
        match answer["error"]["code"].as_str() {
            None => return Ok(answer),
            // A worker that is not well may still have a database that is.
            Some("degraded") => {}
            Some(_) => bail!("{}", answer["error"]["message"].as_str().unwrap_or("the service refuses")),
        }
    }
    let config = Config::load(&home.config(), environment)?;
    match store::open_to_read(home, config.hook.busy_ms.max(2_000)) {
        Ok(database) => directly(&database, &config),
        Err(StoreError::Missing) => bail!("nothing is remembered yet"),
        Err(error) => Err(error.into()),
    }
}

/// Text as part of a URL.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Text of an answer.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
