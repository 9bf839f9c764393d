//! The search that the worker and the command line build a context with; the hook has none.
//!
//! By words and, where a model has read the memories, by meaning. The model itself is not asked: loading it takes longer
//! than a session may wait, so what the last summary means stands for what the session is about. That is in the database,
//! and the same database gives the same context.

use rusqlite::Connection;

use super::Question;
use crate::config::Search as Settings;
use crate::model::Millis;
use crate::search::meaning::{NAME, Vector};
use crate::search::{self, Filter, Meaning};
use crate::store::StoreError;
use crate::store::context as table;
use crate::store::search::Kind;
use crate::store::vectors;

/// How many hits are worth a look; search reads no more rows in full.
const HITS: usize = 40;
/// A word that so many observations have decides nothing here, and costs the most.
const COMMON: u32 = 600;
/// The words together lead to no more rows than this.
const MOST_ROWS: u32 = 1_500;
const MOST_WORDS: usize = 6;
/// So many observations are compared by meaning, the newest: more would take longer than all the rest.
const COMPARED: usize = 20_000;

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
        meaning: meaning(database, question)?,
        meaning_reach: Some(COMPARED),
        // Not by kind: a filter makes search read everything.
        filter: Filter { project: Some(project.to_owned()), ..Filter::default() },
        near_files: question.files.clone(),
        limit: HITS,
        without_text: true,
        now,
        ..search::Request::default()
    };
    let found = search::search(database, &request, &shallow(settings))?;
    let hits = found.hits.into_iter().filter(|hit| hit.kind == Kind::Observation);
    Ok(hits.map(|hit| (hit.id, hit.score)).collect())
}

/// What the session whose work goes on was about.
fn meaning(database: &Connection, question: &Question) -> Result<Option<Meaning>, StoreError> {
    let (Some(session), Some(model)) = (&question.continues, vectors::model(database, NAME)?) else {
        return Ok(None);
    };
    let blob = vectors::of_session(database, model, session)?;
    Ok(blob.map(|blob| Meaning { model: NAME, vector: Vector::from_blob(&blob) }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::context::tests::{History, NOW, Seen};

    /// A vector for every row: those of these titles and all summaries point one way, the others another.
    fn give_meaning(history: &mut History, titles: &[&str]) {
        search::upkeep::take_up(&history.database).unwrap();
        let missing = vectors::missing(&history.database, NAME, 100).unwrap();
        let vector = |kind: &Kind, id: &i64| {
            let sql = "SELECT title FROM observations WHERE id = ?1";
            let is_alike = *kind == Kind::Summary || {
                let title: String = history.database.query_row(sql, [id], |row| row.get(0)).unwrap();
                titles.contains(&title.as_str())
            };
            Vector::new(if is_alike { &[1.0, 0.1] } else { &[0.1, 1.0] }).to_blob()
        };
        let made: Vec<_> = missing.rows.iter().map(|(kind, id)| (*kind, *id, vector(kind, id))).collect();
        vectors::store(&mut history.database, NAME, 2, &missing, &made).unwrap();
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
        let question = Question {
            words: vec!["login".into(), "rest".into()],
            continues: Some("last".into()),
            ..Question::default()
        };
        let settings = Config::default().search;
        let found = |history: &History, question: &Question| -> Vec<i64> {
            let hits = by_search(&history.database, &settings, "harbor", question, NOW).unwrap();
            hits.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(found(&history, &question), [same_words]);
        give_meaning(&mut history, &["Signing in fails after midnight"]);
        let by_both = found(&history, &question);
        assert!(by_both.contains(&other_words) && by_both.contains(&same_words), "{by_both:?}");
        let nothing_goes_on = Question { continues: None, ..question };
        assert_eq!(found(&history, &nothing_goes_on), [same_words]);
    }
}
