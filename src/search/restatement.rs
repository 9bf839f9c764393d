//! Statements that say in other words what the user has vetoed, by their embeddings.

use super::embedding::{Embedder, EmbeddingError, Pace, Role, Vector};
use crate::learn;

/// Share of [`Scale::most`](super::embedding::Scale) from which on two statements say the same (docs/decisions/018-truth.md).
const SAME: f64 = 1.0;
/// Longest part of a statement that is compared, in bytes.
const MOST_BYTES: usize = 400;

/// A vetoed statement with its meaning.
#[derive(Debug, Clone)]
pub struct Vetoed {
    /// The project; empty for every project.
    pub project: String,
    text: String,
    vector: Vector,
}

impl Vetoed {
    /// Reads a statement.
    pub fn new(project: &str, text: &str, model: &dyn Embedder) -> Result<Self, EmbeddingError> {
        Ok(Self { project: project.to_owned(), text: text.to_owned(), vector: embed(text, model)? })
    }

    /// The likeness of a statement, from 0 to 1; 0 for one that says the opposite.
    fn likeness(&self, text: &str, vector: &[u8]) -> f64 {
        if learn::contradicts(text, &self.text) || learn::is_negated(text) != learn::is_negated(&self.text) {
            return 0.0;
        }
        f64::from(self.vector.likeness(vector).unwrap_or_default())
    }
}

/// The likeness of a statement to the nearest veto that holds in its project.
pub fn nearest(
    project: &str,
    text: &str,
    vetoes: &[Vetoed],
    model: &dyn Embedder,
) -> Result<f64, EmbeddingError> {
    let vector = embed(text, model)?.to_blob();
    let holds = |veto: &&Vetoed| veto.project.is_empty() || veto.project == project;
    Ok(vetoes.iter().filter(holds).map(|veto| veto.likeness(text, &vector)).fold(0.0, f64::max))
}

/// True if a statement says what a veto blocks.
pub fn is_vetoed(
    project: &str,
    text: &str,
    vetoes: &[Vetoed],
    model: &dyn Embedder,
) -> Result<bool, EmbeddingError> {
    Ok(!text.trim().is_empty() && nearest(project, text, vetoes, model)? >= SAME * model.scale().most)
}

fn embed(text: &str, model: &dyn Embedder) -> Result<Vector, EmbeddingError> {
    let text = &text[..text.floor_char_boundary(MOST_BYTES)];
    model.embed(text, Role::Memory, Pace::InTheBackground)
}
