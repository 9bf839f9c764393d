//! The search that the worker and the command line build a context with; the hook has none.
//!
//! By words and, where a model has read the memories, by meaning. The model itself is not asked: loading it takes longer
//! than a session may wait, so the vector of the last summary stands for the session's topic. It is in the database,
//! and the same database gives the same context.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;

use super::RelevanceQuery;
use crate::config::SearchSettings as Settings;
use crate::model::Millis;
use crate::search::embedding::Vector;
use crate::search::{self, Filter, SimilarityScores};
use crate::store::index::search as index;
use crate::store::index::search::{Kind, Range};
use crate::store::index::vectors::{self, Order};
use crate::store::{StoreError, context as table};

/// Most hits; search reads no more rows in full.
const HITS: usize = 24;
/// A word that this many observations have decides nothing here, and costs the most.
const COMMON: u32 = 600;
/// The words together lead to no more rows than this.
const MOST_ROWS: u32 = 1_500;
const MOST_WORDS: usize = 6;
/// Observations that are compared by meaning, the newest: more would take longer than all the rest.
const COMPARED: usize = 4_000;

/// A search for one context.
#[derive(Debug)]
pub struct SearchRelevance<'a> {
    database: &'a Connection,
    settings: &'a Settings,
    project: &'a str,
    now: Millis,
    known: RefCell<EarlyResults>,
}

/// Results that were ready before git answered.
#[derive(Debug, Default)]
struct EarlyResults {
    /// Number of observations that have a word.
    counts: HashMap<String, u32>,
    /// Likeness of observations to a session's topic.
    alike: HashMap<String, SimilarityScores>,
}

impl<'a> SearchRelevance<'a> {
    /// A search in a project.
    pub fn new(database: &'a Connection, settings: &'a Settings, project: &'a str, now: Millis) -> Self {
        Self { database, settings, project, now, known: RefCell::default() }
    }

    /// Does the part that needs no answer from git. A failure is retried when the result is needed.
    pub fn prepare(&self, question: &RelevanceQuery) {
        let _ = self.rarest(&question.words);
        let _ = self.alike(question);
    }

    /// The observations that answer a question, with a score for each.
    pub fn find(&self, question: &RelevanceQuery) -> Result<Vec<(i64, f64)>, StoreError> {
        let words = self.rarest(&question.words)?;
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let request = search::Request {
            query: words.join(" "),
            similarity: search::Similarity::Known(self.alike(question)?),
            // Not by kind: a filter makes search read everything.
            filter: Filter { project: Some(self.project.to_owned()), ..Filter::default() },
            near_files: question.files.clone(),
            limit: HITS,
            without_text: true,
            now: self.now,
            ..search::Request::default()
        };
        let found = search::search(self.database, &request, &shallow(self.settings, HITS))?;
        let hits = found.hits.into_iter().filter(|hit| hit.kind == Kind::Observation);
        Ok(hits.map(|hit| (hit.id, hit.score)).collect())
    }

    fn rarest<'w>(&self, words: &'w [String]) -> Result<Vec<&'w str>, StoreError> {
        rarest_by(words, |word| {
            let known = self.known.borrow().counts.get(word).copied();
            known.map_or_else(|| count(self.database, self.project, word), Ok).inspect(|rows| {
                self.known.borrow_mut().counts.insert(word.to_owned(), *rows);
            })
        })
    }

    /// Likeness of the newest observations to the topic of the continued session; nothing without a model.
    fn alike(&self, question: &RelevanceQuery) -> Result<SimilarityScores, StoreError> {
        let Some(session) = &question.continues else { return Ok(SimilarityScores::default()) };
        if let Some(alike) = self.known.borrow().alike.get(session) {
            return Ok(alike.clone());
        }
        let alike = compared(self.database, self.project, session)?;
        self.known.borrow_mut().alike.insert(session.clone(), alike.clone());
        Ok(alike)
    }
}

fn compared(database: &Connection, project: &str, session: &str) -> Result<SimilarityScores, StoreError> {
    let mut alike = Vec::new();
    if let Some(model) = vectors::newest_model(database)?
        && let Some(blob) = vectors::of_session(database, model, session)?
        && let Some(project) = index::projects(database)?.into_iter().find(|known| known.name == project)
    {
        let about = Vector::from_blob(&blob);
        let range = Range::kind(project.number, Kind::Observation);
        vectors::for_some(database, model, range, Order::NewestFirst, COMPARED, |place, blob| {
            alike.extend(about.likeness(blob).map(|likeness| (place, likeness)));
        })?;
    }
    Ok(alike.into_iter().collect())
}

/// The settings for a search that somebody waits for: it reads at most `rows` rows in full.
pub fn shallow(settings: &Settings, rows: usize) -> Settings {
    Settings { depth: settings.depth.min(rows as u64), ..settings.clone() }
}

/// Number of the project's observations that have each word, counted up to `COMMON`.
pub fn counted(
    database: &Connection,
    project: &str,
    words: &[String],
) -> Result<HashMap<String, u32>, StoreError> {
    words.iter().map(|word| Ok((word.clone(), count(database, project, word)?))).collect()
}

/// The rarest of the words, in the order asked. Words that are nowhere are left out, because search would look for misspelt
/// ones; common ones, because they lead everywhere.
pub fn rarest<'a>(words: &'a [String], counted: &HashMap<String, u32>) -> Vec<&'a str> {
    rarest_by(words, |word| Ok(counted.get(word).copied().unwrap_or_default())).unwrap_or_default()
}

fn count(database: &Connection, project: &str, word: &str) -> Result<u32, StoreError> {
    table::observations_having(database, project, word, COMMON)
}

fn rarest_by(
    words: &[String],
    count: impl Fn(&str) -> Result<u32, StoreError>,
) -> Result<Vec<&str>, StoreError> {
    let mut counted = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let rows = count(word)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::tests::{History, NOW, Seen};

    /// A vector for every row: those of these titles and all summaries point one way, the others another.
    fn give_meaning(history: &mut History, titles: &[&str]) {
        search::indexing::index_waiting(&history.database).unwrap();
        let missing = vectors::missing(&history.database, "by hand", 100).unwrap();
        let vector = |kind: &Kind, id: &i64| {
            let sql = "SELECT title FROM observations WHERE id = ?1";
            let is_alike = *kind == Kind::Summary || {
                let title: String = history.database.query_row(sql, [id], |row| row.get(0)).unwrap();
                titles.contains(&title.as_str())
            };
            Vector::new(if is_alike { &[1.0, 0.1] } else { &[0.1, 1.0] }).to_blob()
        };
        let made: Vec<_> = missing.rows.iter().map(|(kind, id)| (*kind, *id, vector(kind, id))).collect();
        vectors::store(&mut history.database, "by hand", 2, &missing, &made).unwrap();
    }

    #[test]
    fn what_means_the_same_is_found_without_a_word_in_common_and_without_a_model() {
        let mut history = History::new();
        history.session("old", "/w/harbor", "main", NOW - 90_000_000);
        let seen = |title| Seen { kind: "bugfix", title, summary: "", files: &[] };
        let other_words = history.observe("old", seen("Signing in fails after midnight"));
        history.observe("old", seen("The logo is blue"));
        let same_words = history.observe("old", seen("Login page: a typing mistake"));
        history.session("last", "/w/harbor", "main", NOW - 80_000_000);
        history.summary("last", "Repair the login", "Half of it works", "the rest of the login");
        let question = RelevanceQuery {
            words: vec!["login".into(), "rest".into()],
            continues: Some("last".into()),
            ..RelevanceQuery::default()
        };
        let settings = Config::default().search;
        let found = |history: &History, question: &RelevanceQuery| -> Vec<i64> {
            let hits =
                SearchRelevance::new(&history.database, &settings, "harbor", NOW).find(question).unwrap();
            hits.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(found(&history, &question), [same_words]);
        give_meaning(&mut history, &["Signing in fails after midnight"]);
        let by_both = found(&history, &question);
        assert!(by_both.contains(&other_words) && by_both.contains(&same_words), "{by_both:?}");
        let nothing_goes_on = RelevanceQuery { continues: None, ..question };
        assert_eq!(found(&history, &nothing_goes_on), [same_words]);
    }
}
