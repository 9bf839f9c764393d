//! Vetoes in other words: hides new notes and learnings that restate what the user has vetoed.
//!
//! By words, and by meaning if there is an embedding model. The same words are blocked before they are stored
//! (store/corrections/vetoes.rs).

use std::sync::{Arc, Mutex, PoisonError};

use crate::api::Veto;
use crate::clock;
use crate::search::embedding::{Bert, EmbeddingError};
use crate::search::restatement::{Candidate, Vetoed, is_vetoed};
use crate::store::StoreError;
use crate::store::corrections::vetoes::{self, Compared, ComparedStatement};
use crate::worker::state::{Running, Shared};

/// Maximum statements that are compared at once; the rest follows.
const AT_ONCE: u32 = 64;

/// The statements that were compared so far, and whether a model was there.
#[derive(Debug, Default)]
pub struct VetoProgress(Mutex<(bool, Compared)>);

impl VetoProgress {
    /// The last comparison; none if a model came or went since.
    fn get(&self, has_model: bool) -> Compared {
        let (had_model, compared) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if had_model == has_model { compared } else { Compared::default() }
    }

    fn set(&self, has_model: bool, compared: Compared) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (has_model, compared);
    }
}

/// Compares what was stored since the last time with the vetoes, and hides what one of them blocks.
pub async fn enforce(shared: &Arc<Shared>, running: &Arc<Running>) -> Result<(), StoreError> {
    let has_model = shared.embedder.is_there();
    let since = running.compared_with_vetoes.get(has_model);
    let waiting =
        running.database.read(move |database| vetoes::not_compared(database, since, AT_ONCE)).await?;
    let (next, statements, known) = waiting;
    if statements.is_empty() {
        running.compared_with_vetoes.set(has_model, next);
        return Ok(());
    }
    let here = shared.clone();
    let compare = move || {
        let model = here.embedder.model().filter(|_| has_model);
        let found = restated(&statements, &known, model.as_deref());
        found.inspect_err(|error| here.embedder.refuse(error)).ok()
    };
    let Ok(Some(found)) = tokio::task::spawn_blocking(compare).await else { return Ok(()) };
    if !found.is_empty() {
        running.database.write(move |database| vetoes::hide(database, &found, clock::now())).await?;
    }
    running.compared_with_vetoes.set(has_model, next);
    shared.nudge.notify_one();
    Ok(())
}

fn restated(
    statements: &[ComparedStatement],
    known: &[Veto],
    model: Option<&Bert>,
) -> Result<Vec<ComparedStatement>, EmbeddingError> {
    // A line of a context is no statement: it is blocked by its own key.
    let vetoed: Vec<Vetoed> = known
        .iter()
        .filter(|veto| veto.key == vetoes::key(&veto.statement))
        .map(|veto| Vetoed::new(&veto.project, veto.created_at, &veto.statement, model))
        .collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for statement in statements {
        let ComparedStatement { project, text, restored_at, .. } = statement;
        if is_vetoed(Candidate { project, text, restored_at: *restored_at }, &vetoed, model)? {
            found.push(statement.clone());
        }
    }
    Ok(found)
}
