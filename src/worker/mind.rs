//! The model in the worker: loaded when it is needed, gone when nobody asks, and never in the way of the queue.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::comparing::Comparing;
use super::memory;
use super::state::{Running, Shared};
use crate::search::Meaning;
use crate::search::meaning::{self, Embedder, MeaningError, MiniLm, NAME, Pace};
use crate::search::upkeep::{EMBEDDED_AT_ONCE, EmbedError, vectors_for};
use crate::store::{StoreError, vectors};

/// The model, if there is one.
#[derive(Debug)]
pub struct Mind {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    loaded: Option<Arc<MiniLm>>,
    used: Option<Instant>,
    /// The file of this size and time could not be used, and that was said.
    refused: Option<(u64, SystemTime)>,
    reading: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "State(loaded: {})", self.loaded.is_some())
    }
}

impl Mind {
    /// Of the model that may lie there.
    pub fn new(file: PathBuf) -> Self {
        Self { file, state: Mutex::default() }
    }

    /// Whether there is a model to ask.
    pub fn is_there(&self) -> bool {
        self.identity().is_some_and(|identity| self.state().refused != Some(identity))
    }

    /// What a query means; nothing without a model. Takes milliseconds, and loads the model if need be.
    pub fn understand(&self, query: &str) -> Option<Meaning> {
        if query.trim().is_empty() {
            return None;
        }
        let model = self.model()?;
        meaning::of_query(query, &*model).unwrap_or_else(|error| {
            self.refuse(&error);
            None
        })
    }

    fn model(&self) -> Option<Arc<MiniLm>> {
        let mut state = self.state();
        if state.loaded.is_none() {
            let identity = self.identity()?;
            if state.refused == Some(identity) {
                return None;
            }
            match MiniLm::load(&self.file) {
                Ok(model) => state.loaded = Some(Arc::new(model)),
                Err(error) => {
                    drop(state);
                    self.refuse(&error);
                    return None;
                }
            }
        }
        state.used = Some(Instant::now());
        state.loaded.clone()
    }

    /// The file as it is now will not be tried again.
    fn refuse(&self, error: &MeaningError) {
        tracing::warn!(%error, "search works by words alone");
        let identity = self.identity();
        let mut state = self.state();
        (state.loaded, state.refused) = (None, identity);
    }

    fn identity(&self) -> Option<(u64, SystemTime)> {
        let meta = std::fs::metadata(&self.file).ok()?;
        Some((meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Lets the model go if nobody asked for so long, or if its file is gone, and what compares for it.
    pub fn rest(&self, idle: Duration, comparing: &Comparing) {
        let mut state = self.state();
        let is_idle = state.used.is_some_and(|used| used.elapsed() >= idle);
        if state.loaded.is_some() && !state.reading && (is_idle || !self.file.exists()) {
            state.loaded = None;
            drop(state);
            comparing.rest();
            memory::give_back();
            tracing::debug!("the model is gone until somebody asks");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to read what the model has not read yet, unless that is under way or there is no model.
pub async fn read_on(shared: &Arc<Shared>, running: &Arc<Running>) -> Result<(), StoreError> {
    let mind = &shared.mind;
    let Some(identity) = mind.identity() else { return Ok(()) };
    if mind.state().reading || mind.state().refused == Some(identity) {
        return Ok(());
    }
    let missing = running.database.read(|database| vectors::missing(database, NAME, 1)).await?;
    if missing.is_empty() {
        return Ok(());
    }
    mind.state().reading = true;
    let reading = Reading(shared.clone());
    let running = running.clone();
    tokio::spawn(async move {
        if let Err(error) = read_all(&reading.0, &running).await {
            tracing::warn!(%error, "not all memories could be read for their meaning");
        }
    });
    Ok(())
}

/// Reading is under way until this is dropped.
struct Reading(Arc<Shared>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.mind.state().reading = false;
    }
}

/// Between two batches others get their turn.
const BREATH: Duration = Duration::from_millis(20);

async fn read_all(shared: &Arc<Shared>, running: &Running) -> Result<(), StoreError> {
    while !*shared.stopping.borrow() {
        let mind = shared.clone();
        let batch = running.database.read(move |database| {
            let Some(model) = mind.mind.model() else { return Ok(None) };
            let missing = vectors::missing(database, model.name(), EMBEDDED_AT_ONCE)?;
            match vectors_for(database, &missing, &*model, Pace::InTheBackground) {
                Ok(made) => Ok(Some((missing, made, model.dimension()))),
                Err(EmbedError::Store(error)) => Err(error),
                Err(EmbedError::Meaning(error)) => {
                    mind.mind.refuse(&error);
                    Ok(None)
                }
            }
        });
        let Some((missing, made, dimension)) = batch.await? else { break };
        if missing.is_empty() {
            break;
        }
        let storing = running
            .database
            .write(move |database| vectors::store(database, NAME, dimension, &missing, &made));
        storing.await?;
        tokio::time::sleep(BREATH).await;
    }
    Ok(())
}
