//! Finding by meaning: a model in this process turns a text into a direction, and texts that mean the same point the same
//! way. Without a model search works by words alone.

mod glossary;
mod integers;
mod minilm;
pub mod package;
mod vector;
mod wordpiece;

use std::path::{Path, PathBuf};

pub use minilm::{MiniLm, NAME};
pub use vector::Vector;

use super::{Meaning, words_cut};
use crate::store::search::Document;

/// Turns texts into directions.
pub trait Embedder: Send + Sync {
    /// What the model is called; vectors of other models are not compared with its own.
    fn name(&self) -> &'static str;
    /// How many dimensions a direction has.
    fn dimension(&self) -> usize;
    /// The direction of a text.
    fn embed(&self, text: &str, pace: Pace) -> Result<Vector, MeaningError>;
}

/// How soon a direction is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Somebody waits for it.
    AtOnce,
    /// Whenever nobody else needs the processor.
    InTheBackground,
}

/// Why there is no direction.
#[derive(Debug, thiserror::Error)]
pub enum MeaningError {
    /// The model's file cannot be read.
    #[error("cannot read the model {path}: {source}")]
    File {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not the model that it should be, or cannot be run.
    #[error("the model cannot be used: {0}")]
    Model(String),
}

/// Where the model lies in the directory of models.
pub fn file(models: &Path) -> PathBuf {
    models.join(format!("{NAME}.onnx"))
}

/// So much of a question tells what it is about, and takes a few milliseconds.
const MOST_OF_A_QUESTION: usize = 400;

/// What a query means; nothing if it says nothing.
pub fn of_query(query: &str, model: &dyn Embedder) -> Result<Option<Meaning>, MeaningError> {
    let query = words_cut(query.trim(), MOST_OF_A_QUESTION);
    if query.is_empty() {
        return Ok(None);
    }
    let vector = model.embed(query, Pace::AtOnce)?;
    Ok(Some(Meaning { model: model.name(), vector }))
}

/// What of a memory has a meaning of its own.
pub fn text_of(document: &Document) -> String {
    let concepts: Vec<String> = serde_json::from_str(&document.concepts).unwrap_or_default();
    [document.title.as_str(), &document.summary, &concepts.join(", ")].join(". ")
}
