//! From a question to the memories that answer it.
//!
//! The index gives, for every clue of the query, the list of rows that have it; the rarest clues decide which rows are read
//! in full; those are ranked by what they say (`score`), by their neighbours in the session, by the time that the query
//! names, and a little by age and kind. All SQL is in `store::search`; what a question looks like from outside is in
//! [`parameters`] and [`answer`].

mod alike;
pub mod answer;
mod best;
mod candidates;
mod dates;
mod filter;
pub mod meaning;
pub mod parameters;
mod query;
mod rank;
mod scope;
mod score;
mod similar;
mod snippet;
mod spelling;
mod stem;
mod stop_words;
pub mod upkeep;
mod words;

#[cfg(test)]
mod tests;

use rusqlite::Connection;
use serde::Serialize;

pub use alike::{Alike, Likenesses, compare_half};
pub use query::Query;
pub use scope::Half;
pub use snippet::Snippet;

use crate::config::Search as Settings;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::search::Kind;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// In any words.
    pub query: String,
    /// How alike rows are in meaning, where a model is at hand.
    pub alike: Alike,
    /// What a hit must be.
    pub filter: Filter,
    /// The project of the one who asks: its rows count a little more.
    pub near_project: Option<String>,
    /// Files that the one who asks has at hand: rows about them count a little more.
    pub near_files: Vec<String>,
    /// How many hits.
    pub limit: usize,
    /// After how many.
    pub offset: usize,
    /// The state of the first page, for the pages after it.
    pub as_of: Option<AsOf>,
    /// Whether to tell how each score came about.
    pub explain: bool,
    /// Whether only the rows and their scores matter: then nothing is cut out of them to be shown.
    pub without_text: bool,
    /// The present.
    pub now: Millis,
}

/// What a query means to a model.
#[derive(Debug, Clone)]
pub struct Meaning {
    /// The model.
    pub model: &'static str,
    /// The direction.
    pub vector: meaning::Vector,
}

/// What a hit must be. All filters are exact, and all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The project's name.
    pub project: Option<String>,
    /// Any of these kinds; any at all if empty.
    pub kinds: Vec<Kind>,
    /// Any of these types of observations; any at all if empty.
    pub types: Vec<String>,
    /// A concept that it has.
    pub concept: Option<String>,
    /// A file that it touched: the whole path, or its end from some `/` on.
    pub file: Option<String>,
    /// Made then or later.
    pub since: Option<Millis>,
    /// Made before then.
    pub until: Option<Millis>,
}

/// A moment of the database: later rows do not shift the pages of a search that began before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// The present of the first page.
    pub now: Millis,
    /// The largest ids of observations, summaries and prompts.
    pub ids: [i64; 3],
    /// How many rows there were.
    pub rows: i64,
}

impl Request {
    /// Whether it matters what the query means.
    pub fn has_meaning(&self) -> bool {
        alike::counts(&Query::parse(&self.query))
    }
}

impl AsOf {
    /// As one word for a URL.
    pub fn to_word(self) -> String {
        let [observations, summaries, prompts] = self.ids;
        format!("{}.{observations}.{summaries}.{prompts}.{}", self.now, self.rows)
    }

    /// From that word.
    pub fn from_word(word: &str) -> Option<Self> {
        let numbers: Vec<i64> = word.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [now, observations, summaries, prompts, rows] = numbers[..] else { return None };
        Some(Self { now, ids: [observations, summaries, prompts], rows })
    }
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The page that was asked for, best first.
    pub hits: Vec<Hit>,
    /// How many hits could be ranked; pages end there.
    pub total: usize,
    /// For the next page.
    pub as_of: AsOf,
    /// Words that were read as others: asked, and read as.
    pub corrections: Vec<(String, String)>,
}

/// One memory that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// What it is.
    pub kind: Kind,
    /// Its id in its kind.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The project's name.
    pub project: String,
    /// An observation's type.
    pub type_word: Option<String>,
    /// What it is called; for a prompt, its beginning.
    pub title: Snippet,
    /// The passage that matched.
    pub snippet: Snippet,
    /// When it was made.
    pub created_at: Millis,
    /// From the best down, the best of all being near 1.
    pub score: f64,
    /// How the score came about, if that was asked.
    pub parts: Option<Parts>,
    /// Nearly the same, made by others or again.
    pub similar: Vec<i64>,
}

/// The parts of a score.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Parts {
    /// What the text says, as BM25.
    pub words: f64,
    /// What the neighbours in the session say.
    pub neighbours: f64,
    /// Both, beside the best hit's.
    pub lexical: f64,
    /// How far words are trusted beside meaning: the share of what was asked that the best hit has.
    pub trust: f64,
    /// What it means, beside the most alike; 0 without a model.
    pub meaning: f64,
    /// Factor for the time that the query names.
    pub time: f64,
    /// Factor for its age.
    pub recency: f64,
    /// Factor for its kind and type.
    pub kind: f64,
    /// Factor for files in common.
    pub files: f64,
    /// Factor for the asker's project.
    pub project: f64,
    /// Each clue that was found: the clue, how rare it is, how often it is here.
    pub clues: Vec<(String, f64, f64)>,
}

/// Searches. Any text is a query, and none is an error. What waits for the index is brought into it first, if this
/// connection may write.
pub fn search(database: &Connection, request: &Request, settings: &Settings) -> Result<Found, StoreError> {
    upkeep::take_up_if_possible(database);
    rank::Search::new(database, request, settings)?.run()
}

/// The beginning of a text, at most so many bytes, ending at a character's edge.
fn words_cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
