//! From a question to the memories that answer it.
//!
//! The index lists, for every clue of the query, the rows that have it in their text or in their context (`candidates`). The best
//! of them are read in full and scored by the share of the question that they answer (`score`), by the hits of their session, by
//! meaning (`embedding`, `similarity`), and by kind and files (`ranking`). All SQL is in `store::index`; the question as seen from
//! outside is in [`parameters`], the answer in `responses`, the figures behind each ingredient in docs/decisions/003-search.md.

mod candidates;
pub mod embedding;
pub mod indexing;
mod language;
mod query;
mod ranking;
pub mod restatement;

#[cfg(test)]
mod tests;

use rusqlite::Connection;
use serde_json::Value;

pub use query::spelling::closest;
pub use query::{Query, parameters};
pub use ranking::{Similarity, SimilarityScores, Snippet, compare_part};

use crate::api::ScoreParts;
use crate::config::SearchSettings as Settings;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::index::search::Kind;

/// A search.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// In any words.
    pub query: String,
    /// The likeness of rows in meaning, with a model.
    pub similarity: Similarity,
    /// Conditions for a hit.
    pub filter: Filter,
    /// Files that the asker works on: rows about them count a little more.
    pub near_files: Vec<String>,
    /// The turn that is being answered: its prompt is not returned.
    pub exclude: Option<TurnId>,
    /// The size of the page.
    pub limit: usize,
    /// After how many.
    pub offset: usize,
    /// The state of the first page, for the pages after it.
    pub as_of: Option<AsOf>,
    /// Adds the parts of each score to the answer.
    pub explain: bool,
    /// Leaves out titles and passages: only the rows and their scores matter.
    pub without_text: bool,
    /// The present.
    pub now: Millis,
}

/// A turn of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnId {
    /// The session.
    pub session_id: String,
    /// The number of its prompt; every prompt of the session if missing.
    pub prompt_number: Option<i64>,
}

/// The meaning of a query to a model.
#[derive(Debug, Clone)]
pub struct QueryEmbedding {
    /// The model.
    pub model: &'static str,
    /// The range of its likenesses.
    pub scale: embedding::Scale,
    /// The direction.
    pub vector: embedding::Vector,
}

/// Conditions for a hit. All are exact, and all must hold.
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
    /// The number of rows.
    pub rows: i64,
}

impl Request {
    /// True if the meaning of the query matters.
    pub fn has_meaning(&self) -> bool {
        ranking::counts_meaning(&Query::parse(&self.query))
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

/// The answer to a search.
#[derive(Debug, Clone)]
pub struct SearchResults {
    /// The page that was asked for, best first.
    pub hits: Vec<FoundMemory>,
    /// The number of hits that could be ranked; pages end there.
    pub total: usize,
    /// For the next page.
    pub as_of: AsOf,
    /// Words that were read as others: asked, and read as.
    pub corrections: Vec<(String, String)>,
}

/// One memory that was found.
#[derive(Debug, Clone)]
pub struct FoundMemory {
    /// Its kind.
    pub kind: Kind,
    /// Its id in its kind.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The project's name.
    pub project: String,
    /// An observation's type.
    pub type_word: Option<String>,
    /// Its title; for a prompt, its beginning.
    pub title: Snippet,
    /// The passage that matched.
    pub snippet: Snippet,
    /// When it was made.
    pub created_at: Millis,
    /// From 0 to 1: the share of the question that it has, by words and by meaning. Comparable between queries.
    pub score: f64,
    /// The parts of the score, if asked for.
    pub parts: Option<ScoreParts>,
    /// Nearly the same, made by others or again.
    pub similar: Vec<i64>,
}

/// Searches. Any text is a query, and none is an error. Waiting rows are brought into the index first, if this
/// connection may write.
pub fn search(
    database: &Connection,
    request: &Request,
    settings: &Settings,
) -> Result<SearchResults, StoreError> {
    indexing::index_if_writable(database);
    ranking::Search::new(database, request, settings)?.run()
}

/// The beginning of a text, at most `most` bytes, ending at a character's edge.
fn words_cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The entries of a list as the tables have it.
fn list(json: &str) -> Vec<String> {
    let text = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    serde_json::from_str::<Vec<Value>>(json).unwrap_or_default().into_iter().map(text).collect()
}
