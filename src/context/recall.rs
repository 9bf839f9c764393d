//! The search that the worker and the command line build a context with; the hook has none.

use rusqlite::Connection;

use super::Question;
use crate::config::Search as Settings;
use crate::model::Millis;
use crate::search::{self, Filter};
use crate::store::StoreError;
use crate::store::context as table;
use crate::store::search::Kind;

/// How many hits are worth a look; search reads no more rows in full.
const HITS: usize = 60;
/// A word that so many observations have decides nothing here, and costs the most.
const COMMON: u32 = 600;
/// The words together lead to no more rows than this.
const MOST_ROWS: u32 = 1_500;
const MOST_WORDS: usize = 6;

/// The observations of a project that answer a question.
pub fn by_search(
    database: &Connection,
    settings: &Settings,
    project: &str,
    question: &Question,
    now: Millis,
) -> Result<Vec<(i64, f64)>, StoreError> {
    let words = rarest(database, project, &question.words)?;
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let request = search::Request {
        query: words.join(" "),
        // Not by kind: a filter makes search read everything.
        filter: Filter { project: Some(project.to_owned()), ..Filter::default() },
        near_files: question.files.clone(),
        limit: HITS,
        now,
        ..search::Request::default()
    };
    let found = search::search(database, &request, &shallow(settings))?;
    let hits = found.hits.into_iter().filter(|hit| hit.kind == Kind::Observation);
    Ok(hits.map(|hit| (hit.id, hit.score)).collect())
}

/// The settings for a search that somebody waits for.
pub fn shallow(settings: &Settings) -> Settings {
    Settings { depth: settings.depth.min(HITS as u64), ..settings.clone() }
}

/// The rarest words that the project's observations have, in the order asked. Words that are nowhere are left out, because
/// search would look for misspelt ones; common ones, because they lead everywhere.
pub fn rarest<'a>(
    database: &Connection,
    project: &str,
    words: &'a [String],
) -> Result<Vec<&'a str>, StoreError> {
    let mut counted = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let rows = table::observations_having(database, project, word, COMMON)?;
        if (1..COMMON).contains(&rows) {
            counted.push((rows, at));
        }
    }
    counted.sort_unstable();
    let mut all = 0;
    let mut kept: Vec<usize> = counted
        .into_iter()
        .take(MOST_WORDS)
        .take_while(|(rows, _)| {
            all += rows;
            all <= MOST_ROWS
        })
        .map(|(_, at)| at)
        .collect();
    kept.sort_unstable();
    Ok(kept.into_iter().map(|at| words[at].as_str()).collect())
}
