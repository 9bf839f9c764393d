//! Finding by meaning: a model in this process turns a text into a direction, and texts that mean the same point the same
//! way. Without a model search works by words alone.

mod bert;
pub mod package;
mod published;
mod quantize;
mod vector;
mod wordpiece;

use std::path::{Path, PathBuf};

pub use bert::{Bert, DIMENSION};
pub use published::{ALL, Published, installed};
pub use vector::Vector;

use super::{QueryEmbedding, words_cut};
use crate::store::index::search::Document;

/// The range of a model's cosines: each model has one of its own (docs/decisions/003-search.md).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The share of meaning in a score.
    pub weight: f64,
    /// If no row reaches this cosine, nothing is found by meaning alone. Words in common lower it.
    pub floor: f64,
    /// The cosine of texts that say the same.
    pub most: f64,
    /// The score of two statements, by words and cosine, from which on one restates the other (restatement.rs).
    pub same: f64,
}

impl Default for Scale {
    /// The scale of the default model.
    fn default() -> Self {
        ALL[0].scale
    }
}

/// The part of a text in a search. Some models read both parts differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It asks.
    Question,
    /// It is to be found.
    Memory,
}

/// The urgency of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Somebody waits for it.
    AtOnce,
    /// Whenever nobody else needs the processor.
    InTheBackground,
}

/// A reason for having no direction.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The model's file cannot be read.
    #[error("cannot read the model {path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not the model that it should be, or cannot be run.
    #[error("the model cannot be used: {0}")]
    Model(String),
}

/// Loads the model that is installed; nothing if there is none.
pub fn load(models: &Path) -> Option<Result<Bert, EmbeddingError>> {
    installed(models).map(|published| Bert::load(published, models))
}

/// The beginning of a question is enough, and takes a few milliseconds.
const MOST_OF_A_QUESTION: usize = 400;

/// The meaning of a query; nothing if the query is empty.
pub fn of_query(query: &str, model: &Bert) -> Result<Option<QueryEmbedding>, EmbeddingError> {
    let query = words_cut(query.trim(), MOST_OF_A_QUESTION);
    if query.is_empty() {
        return Ok(None);
    }
    let vector = model.embed(query, Role::Question, Pace::AtOnce)?;
    Ok(Some(QueryEmbedding { model: model.name(), scale: model.scale(), vector }))
}

/// The parts of a memory that have a meaning of their own. Its concepts stand at both ends, so that they weigh more.
pub fn text_of(document: &Document) -> String {
    let concepts: Vec<String> = serde_json::from_str(&document.concepts).unwrap_or_default();
    let concepts = concepts.join(", ");
    let parts = [concepts.as_str(), &document.title, &document.summary, &concepts];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(". ")
}
