//! Queries memories: from the worker if it runs, else directly from the database.

use anyhow::{Context as _, bail};
use rusqlite::Connection;
use serde_json::Value;

use super::{Usage, client};
pub use crate::client::encoded;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::project::Project;
use crate::search::answer;
use crate::store::search::Kind;
use crate::store::{self, StoreError, projects};

/// Returns the response to a route, or the result of `directly` if no worker serves it. Fails if
/// there is no database.
pub fn ask(
    home: &Home,
    environment: &Environment,
    route: &str,
    directly: impl FnOnce(&Connection, &Config) -> anyhow::Result<Value>,
) -> anyhow::Result<Value> {
    if let Ok(answer) = client::get(&home.socket(), route) {
        match answer["error"]["code"].as_str() {
            None => return Ok(answer),
            // A degraded worker may still have a readable database.
            Some("degraded") => {}
            Some(_) => {
                bail!("{}", answer["error"]["message"].as_str().unwrap_or("the service refused the request"))
            }
        }
    }
    let config = Config::load(&home.config(), environment)?;
    match store::open_to_recall(home, config.hook.busy_ms.max(2_000)) {
        Ok(database) => directly(&database, &config),
        Err(StoreError::Missing) => bail!("no memories yet"),
        Err(error) => Err(error.into()),
    }
}

/// Returns the project name for a word: the directory's project if the word looks like a path, else
/// the word itself.
pub fn project_named(database: &Connection, config: &Config, word: &str) -> anyhow::Result<String> {
    if !is_path(word) {
        return Ok(word.to_owned());
    }
    Ok(projects::name_of(database, &project_of(word, config)?)?)
}

fn is_path(word: &str) -> bool {
    word == "." || word == ".." || ["/", "./", "../"].iter().any(|start| word.starts_with(start))
}

/// Returns the project of a directory.
pub fn project_of(directory: &str, config: &Config) -> anyhow::Result<Project> {
    let place = std::path::absolute(directory).context("the current directory no longer exists")?;
    Ok(Project::of(&place, &config.capture))
}

/// [`project_named`] for an optional filter.
pub fn project_filter(
    home: &Home,
    environment: &Environment,
    word: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let Some(path) = word.filter(|word| is_path(word)) else {
        return Ok(word.map(str::to_owned));
    };
    let config = Config::load(&home.config(), environment)?;
    match store::open_to_read(home, config.hook.busy_ms.max(2_000)) {
        Ok(database) => project_named(&database, &config, path).map(Some),
        Err(StoreError::Missing) => Ok(Some(path.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// Parses an id as printed by search.
pub fn referred(id: &str) -> Result<(Kind, i64), Usage> {
    answer::referred(id).ok_or_else(|| Usage(format!("invalid id {id}: expected a form like 12, S12 or P12")))
}

/// Returns a text field of a response.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
