//! Projects: maps the project key of a repository to its display name.
//!
//! A name is assigned once and stays. The `project` column of every other table holds it, so two
//! projects never share a name unless the user joined them (`capture.project_aliases`) or a
//! repository without a remote got one.

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::SessionStamp;
use crate::project::Project;
use crate::store::StoreError;

/// A project's request for a name.
#[derive(Debug, Clone, Copy)]
pub struct NameClaim<'a> {
    /// The project key.
    pub key: &'a str,
    /// The preferred name.
    pub name: &'a str,
    /// True if the user chose the name: it is used as it is, even if another project has it.
    pub is_alias: bool,
    /// The main worktree, or the directory outside git.
    pub path: &'a str,
}

impl<'a> NameClaim<'a> {
    /// Builds the claim of a session's project.
    pub fn of_session(session: &'a SessionStamp) -> Self {
        let SessionStamp { project_key, project, is_alias, project_path, .. } = session;
        Self { key: project_key, name: project, is_alias: *is_alias, path: project_path }
    }
}

/// Returns the name of the project; if it has none, the unique name that it would get.
pub fn name_of(database: &Connection, project: &Project) -> Result<String, StoreError> {
    let path = project.path.to_string_lossy();
    let claim = NameClaim { key: &project.key, name: &project.name, is_alias: project.is_alias, path: &path };
    Ok(match known(database, claim.key)? {
        Some(name) => name,
        None => new_name(database, &claim)?,
    })
}

/// Returns the name of the project, and assigns one if it has none. Runs in the caller's
/// transaction.
pub fn assign(transaction: &Connection, claim: &NameClaim<'_>) -> Result<String, StoreError> {
    if let Some(name) = known(transaction, claim.key)? {
        return Ok(name);
    }
    let name = new_name(transaction, claim)?;
    let sql = "INSERT INTO projects (key, name, path) VALUES (?1, ?2, ?3)";
    transaction.prepare(sql)?.execute(params![claim.key, name, claim.path])?;
    Ok(name)
}

/// Returns the name of a known key.
pub fn known(database: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT name FROM projects WHERE key = ?1";
    Ok(database.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
}

/// Chooses a name for a key that has none.
fn new_name(database: &Connection, claim: &NameClaim<'_>) -> Result<String, StoreError> {
    if claim.is_alias {
        return Ok(claim.name.to_owned());
    }
    // A repository that was used before it had a remote keeps its memories.
    if claim.key.starts_with("git:")
        && let Some(name) = known(database, &format!("path:{}", claim.path))?
    {
        return Ok(name);
    }
    for name in candidates(claim) {
        if !is_taken(database, &name)? {
            return Ok(name);
        }
    }
    Ok(format!("{}-{:08x}", claim.name, xxh3_64(claim.key.as_bytes()) as u32))
}

/// Candidate names, in order of preference: the folder, then with the owner, then with the parent
/// directory.
fn candidates(claim: &NameClaim<'_>) -> impl Iterator<Item = String> {
    let above = |path: &str| path.rsplit('/').nth(1).filter(|above| !above.is_empty()).map(str::to_owned);
    let owner = claim.key.strip_prefix("git:").and_then(above);
    let name = claim.name.to_owned();
    let qualified = [owner, above(claim.path)].into_iter().flatten().map({
        let name = name.clone();
        move |above| format!("{above}/{name}")
    });
    std::iter::once(name).chain(qualified)
}

fn is_taken(database: &Connection, name: &str) -> Result<bool, StoreError> {
    Ok(database.prepare_cached("SELECT 1 FROM projects WHERE name = ?1")?.exists([name])?)
}

/// Assigns a name to the project, in its own transaction.
#[cfg(feature = "service")]
pub fn settle(database: &mut Connection, project: &Project) -> Result<String, StoreError> {
    let path = project.path.to_string_lossy();
    let claim = NameClaim { key: &project.key, name: &project.name, is_alias: project.is_alias, path: &path };
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let name = assign(&transaction, &claim)?;
    transaction.commit()?;
    Ok(name)
}

/// Deletes projects that have no memories left.
#[cfg(feature = "service")]
pub fn drop_unused(transaction: &Connection) -> Result<(), StoreError> {
    let used =
        TABLES_WITH_PROJECT.map(|table| format!("SELECT project FROM {table} WHERE project IS NOT NULL"));
    let sql = format!("DELETE FROM projects WHERE name NOT IN ({})", used.join(" UNION "));
    transaction.execute(&sql, [])?;
    Ok(())
}

/// Tables whose `project` column holds a name.
#[cfg(feature = "service")]
const TABLES_WITH_PROJECT: [&str; 7] =
    ["sessions", "observations", "session_summaries", "learnings", "function_map", "sightings", "vetoes"];

/// Renames projects to the user's aliases, and joins projects that share one.
#[cfg(feature = "service")]
pub fn apply_aliases(
    database: &mut Connection,
    capture: &crate::config::CaptureSettings,
) -> Result<(), StoreError> {
    if capture.project_aliases.is_empty() {
        return Ok(());
    }
    let transaction = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let all: Vec<(String, String, String)> = {
        let mut statement = transaction.prepare("SELECT key, name, path FROM projects")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    for (key, name, path) in all {
        let alias = crate::project::alias(&key, path.as_ref(), capture);
        if let Some(alias) = alias.filter(|alias| *alias != name) {
            rename(&transaction, &key, &name, alias)?;
        }
    }
    Ok(transaction.commit()?)
}

/// Renames a project. If another key shares the old name, only rows that belong to sessions of this
/// key are renamed.
#[cfg(feature = "service")]
fn rename(transaction: &Connection, key: &str, old: &str, new: &str) -> Result<(), StoreError> {
    transaction.execute("UPDATE projects SET name = ?2 WHERE key = ?1", [key, new])?;
    // The index encodes the project in its row numbers: triggers queue all rows except prompts.
    let sql = "INSERT OR IGNORE INTO search_pending
               SELECT 2 << 42 | p.id FROM user_prompts p JOIN sessions s ON s.id = p.session_id WHERE s.project_key = ?1";
    transaction.execute(sql, [key])?;
    let is_shared = is_taken(transaction, old)?;
    for table in TABLES_WITH_PROJECT {
        let condition = match table {
            _ if !is_shared => "project = ?2",
            "sessions" => "project = ?2 AND project_key = ?3",
            "learnings" => {
                "project = ?2 AND source_observation_id IN
                   (SELECT o.id FROM observations o JOIN sessions s ON s.id = o.session_id WHERE s.project_key = ?3)"
            }
            // Nobody knows for which of the two: it holds in both.
            "vetoes" => {
                let sql = "INSERT OR IGNORE INTO vetoes (project, key, statement, created_at)
                           SELECT ?1, key, statement, created_at FROM vetoes WHERE project = ?2";
                transaction.execute(sql, [new, old])?;
                continue;
            }
            _ => "project = ?2 AND session_id IN (SELECT id FROM sessions WHERE project_key = ?3)",
        };
        let sql = format!("UPDATE OR REPLACE {table} SET project = ?1 WHERE ?3 = ?3 AND {condition}");
        transaction.execute(&sql, params![new, old, key])?;
    }
    Ok(())
}
