//! Asks for memories: the worker if it runs, else the database itself.

use anyhow::bail;
use rusqlite::Connection;
use serde_json::Value;

use super::{Usage, client};
pub use crate::client::encoded;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::search::answer;
use crate::store::search::Kind;
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
    match store::open_to_recall(home, config.hook.busy_ms.max(2_000)) {
        Ok(database) => directly(&database, &config),
        Err(StoreError::Missing) => bail!("nothing is remembered yet"),
        Err(error) => Err(error.into()),
    }
}

/// The memory that an id names, as search shows it.
pub fn referred(id: &str) -> Result<(Kind, i64), Usage> {
    answer::referred(id).ok_or_else(|| Usage(format!("{id}: ids look like 12, S12 or P12")))
}

/// Text of an answer.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
