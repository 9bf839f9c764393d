//! Arguments that several commands have: projects and ids.

use anyhow::Context as _;
use rusqlite::Connection;

use super::UsageError;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::project::Project;
use crate::responses;
use crate::store::index::search::Kind;
use crate::store::{self, StoreError, projects};

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
pub fn referred(id: &str) -> Result<(Kind, i64), UsageError> {
    responses::referred(id)
        .ok_or_else(|| UsageError(format!("invalid id {id}: expected a form like 12, S12 or P12")))
}
