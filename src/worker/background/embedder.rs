//! The embedding model in the worker: loaded on demand, unloaded when idle, and never in the way of
//! the queue.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::similarity_threads::SimilarityPool;
use crate::search::QueryEmbedding;
use crate::search::embedding::{self, Bert, EmbeddingError, Pace};
use crate::search::indexing::{EMBEDDED_AT_ONCE, EmbedError, vectors_for};
use crate::store::StoreError;
use crate::store::index::vectors;
use crate::worker::state::{Running, Shared};
use crate::worker::system::ram;

/// The embedding model, if there is one.
#[derive(Debug)]
pub struct EmbedderHandle {
    models: PathBuf,
    state: Mutex<EmbedderState>,
}

#[derive(Default)]
struct EmbedderState {
    loaded: Option<Arc<Bert>>,
    used: Option<Instant>,
    /// Size and time of a model file that could not be used; already logged.
    refused: Option<(u64, SystemTime)>,
    reading: bool,
}

impl std::fmt::Debug for EmbedderState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "State(loaded: {})", self.loaded.is_some())
    }
}

impl EmbedderHandle {
    /// Of the model that may lie in this directory.
    pub fn new(models: PathBuf) -> Self {
        Self { models, state: Mutex::default() }
    }

    /// True if a model is available.
    pub fn is_there(&self) -> bool {
        self.identity().is_some_and(|identity| self.state().refused != Some(identity))
    }

    /// Embeds a query; `None` without a model. Takes milliseconds, plus loading the model if
    /// necessary.
    pub fn embed_query(&self, query: &str) -> Option<QueryEmbedding> {
        if query.trim().is_empty() {
            return None;
        }
        let model = self.model()?;
        embedding::of_query(query, &model).unwrap_or_else(|error| {
            self.refuse(&error);
            None
        })
    }

    /// Returns the model, and loads it if necessary; none without one.
    pub fn model(&self) -> Option<Arc<Bert>> {
        let mut state = self.state();
        if !self.is_current(&state) {
            state.loaded = None;
        }
        if state.loaded.is_none() {
            let identity = self.identity()?;
            if state.refused == Some(identity) {
                return None;
            }
            match embedding::load(&self.models)? {
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

    /// Marks the current file as unusable, so that it is not tried again.
    pub fn refuse(&self, error: &EmbeddingError) {
        tracing::warn!(%error, "cannot use the embedding model: searching by words alone");
        let identity = self.identity();
        let mut state = self.state();
        (state.loaded, state.refused) = (None, identity);
    }

    fn identity(&self) -> Option<(u64, SystemTime)> {
        let file = embedding::installed(&self.models)?.file(&self.models);
        let meta = std::fs::metadata(file).ok()?;
        Some((meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Compares the loaded model with the installed one, which somebody may have exchanged.
    fn is_current(&self, state: &EmbedderState) -> bool {
        let installed = embedding::installed(&self.models).map(|model| model.name);
        state.loaded.as_ref().map(|model| model.name()) == installed
    }

    /// Lets the model go if nobody asked for so long, or if its file is gone, and what compares for it.
    pub fn unload_if_idle(&self, idle: Duration, similarity: &SimilarityPool) {
        let mut state = self.state();
        let is_idle = state.used.is_some_and(|used| used.elapsed() >= idle);
        if state.loaded.is_some() && !state.reading && (is_idle || !self.is_current(&state)) {
            state.loaded = None;
            drop(state);
            similarity.stop();
            ram::release_memory();
            tracing::debug!("unloaded the embedding model");
        }
    }

    fn state(&self) -> MutexGuard<'_, EmbedderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts to embed missing rows, unless that is already running or there is no model.
pub async fn embed_missing(shared: &Arc<Shared>, running: &Arc<Running>) -> Result<(), StoreError> {
    let embedder = &shared.embedder;
    let Some((identity, model)) = embedder.identity().zip(embedding::installed(&embedder.models)) else {
        return Ok(());
    };
    if embedder.state().reading || embedder.state().refused == Some(identity) {
        return Ok(());
    }
    let missing = running.database.read(|database| vectors::missing(database, model.name, 1)).await?;
    if missing.is_empty() {
        return Ok(());
    }
    embedder.state().reading = true;
    let reading = EmbeddingGuard(shared.clone());
    let running = running.clone();
    tokio::spawn(async move {
        if let Err(error) = embed_all(&reading.0, &running).await {
            tracing::warn!(%error, "cannot embed all memories");
        }
    });
    Ok(())
}

/// Marks embedding as running until it is dropped.
struct EmbeddingGuard(Arc<Shared>);

impl Drop for EmbeddingGuard {
    fn drop(&mut self) {
        self.0.embedder.state().reading = false;
    }
}

/// Pause between two batches, which lets other work run.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

async fn embed_all(shared: &Arc<Shared>, running: &Running) -> Result<(), StoreError> {
    while !*shared.stopping.borrow() {
        let shared = shared.clone();
        let batch = running.database.read(move |database| {
            let Some(model) = shared.embedder.model() else { return Ok(None) };
            let missing = vectors::missing(database, model.name(), EMBEDDED_AT_ONCE)?;
            match vectors_for(database, &missing, &model, Pace::InTheBackground) {
                Ok(made) => Ok(Some((missing, made, model))),
                Err(EmbedError::Store(error)) => Err(error),
                Err(EmbedError::QueryEmbedding(error)) => {
                    shared.embedder.refuse(&error);
                    Ok(None)
                }
            }
        });
        let Some((missing, made, model)) = batch.await? else { break };
        if missing.is_empty() {
            break;
        }
        let storing = running.database.write(move |database| {
            vectors::store(database, model.name(), embedding::DIMENSION, &missing, &made)
        });
        storing.await?;
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    Ok(())
}
