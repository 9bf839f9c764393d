//! Vetoes by meaning: hides new notes and learnings that say in other words what the user has vetoed.
//!
//! Needs the embedding model; the same words are blocked without it, before they are stored (store/corrections/vetoes.rs).

use std::sync::{Arc, Mutex, PoisonError};

use crate::api::Veto;
use crate::clock;
use crate::search::embedding::{Embedder, EmbeddingError};
use crate::search::restatement::{Vetoed, is_vetoed};
use crate::store::StoreError;
use crate::store::corrections::vetoes::{self, Compared, ComparedStatement};
use crate::worker::state::{Running, Shared};

/// Maximum statements that are compared at once; the rest follows.
const AT_ONCE: u32 = 64;

/// The statements that were compared so far.
#[derive(Debug, Default)]
pub struct VetoProgress(Mutex<Compared>);

impl VetoProgress {
    fn get(&self) -> Compared {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, compared: Compared) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = compared;
    }
}

/// Compares what was stored since the last time with the vetoes, and hides what one of them blocks.
pub async fn enforce(shared: &Arc<Shared>, running: &Arc<Running>) -> Result<(), StoreError> {
    if !shared.embedder.is_there() {
        return Ok(());
    }
    let since = running.compared_with_vetoes.get();
    let waiting =
        running.database.read(move |database| vetoes::not_compared(database, since, AT_ONCE)).await?;
    let (next, statements, known) = waiting;
    if statements.is_empty() {
        running.compared_with_vetoes.set(next);
        return Ok(());
    }
    let here = shared.clone();
    let compare = move || {
        let model = here.embedder.model()?;
        match restated(&statements, &known, &*model) {
            Ok(found) => Some(found),
            Err(error) => {
                here.embedder.refuse(&error);
                None
            }
        }
    };
    let Ok(Some(found)) = tokio::task::spawn_blocking(compare).await else { return Ok(()) };
    if !found.is_empty() {
        running.database.write(move |database| vetoes::hide(database, &found, clock::now())).await?;
    }
    running.compared_with_vetoes.set(next);
    shared.nudge.notify_one();
    Ok(())
}

fn restated(
    statements: &[ComparedStatement],
    known: &[Veto],
    model: &dyn Embedder,
) -> Result<Vec<ComparedStatement>, EmbeddingError> {
    let vetoed: Vec<Vetoed> = known
        .iter()
        .map(|veto| Vetoed::new(&veto.project, &veto.statement, model))
        .collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for statement in statements {
        if is_vetoed(&statement.project, &statement.text, &vetoed, model)? {
            found.push(statement.clone());
        }
    }
    Ok(found)
}
