//! Semantic comparison of a query with all memories, parallel to the word search.

use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::paths::Home;
use crate::search::{self, QueryEmbedding, Similarity, SimilarityScores};
use crate::store::{self, StoreError};
use crate::worker::state::Shared;

/// Compares a query with all embeddings, on its own two threads and connections, while the caller
/// searches by words. The threads stay until the model is unloaded, because starting new ones for
/// each query is too slow.
#[derive(Debug, Default)]
pub struct SimilarityPool(Mutex<Option<Sender<Comparison>>>);

struct Comparison {
    shared: Arc<Shared>,
    query: String,
    project: Option<String>,
    reply: SyncSender<SimilarityScores>,
}

impl SimilarityPool {
    /// Starts to compute the similarity of memories to a query.
    pub fn begin(&self, shared: &Arc<Shared>, query: &str, project: Option<&str>) -> Similarity {
        let (reply, alike) = Similarity::soon();
        let (query, project) = (query.to_owned(), project.map(ToOwned::to_owned));
        let job = Comparison { shared: shared.clone(), query, project, reply };
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If no thread can be started, no result arrives, and words alone decide.
        let _ = thread.get_or_insert_with(start_threads).send(job);
        alike
    }

    /// Ends the threads and closes their connections until the next query.
    pub fn stop(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn start_threads() -> Sender<Comparison> {
    let newer = start_half((0.0, 0.5));
    let older = start_half((0.5, 1.0));
    let (sender, jobs) = channel::<Comparison>();
    let _ = std::thread::Builder::new().name("embed-query".into()).spawn(move || {
        for Comparison { shared, query, project, reply } in jobs {
            let Some(embedding) = shared.embedder.embed_query(&query) else { continue };
            let (reply_half, halves) = sync_channel(2);
            for thread in [&newer, &older] {
                let (embedding, project) = (embedding.clone(), project.clone());
                let half =
                    HalfJob { home: shared.home.clone(), embedding, project, reply: reply_half.clone() };
                let _ = thread.send(half);
            }
            drop(reply_half);
            let _ = reply.send(SimilarityScores::joined(halves.iter()));
        }
    });
    sender
}

struct HalfJob {
    home: Home,
    embedding: QueryEmbedding,
    project: Option<String>,
    reply: SyncSender<SimilarityScores>,
}

fn start_half(ages: (f64, f64)) -> Sender<HalfJob> {
    let (sender, jobs) = channel::<HalfJob>();
    let _ = std::thread::Builder::new().name("similarity".into()).spawn(move || {
        let mut connection = None;
        for job in jobs {
            let compared = compare(&mut connection, &job, ages).unwrap_or_else(|error| {
                tracing::warn!(%error, "a query was compared with only half of the embeddings: {error}");
                SimilarityScores::default()
            });
            let _ = job.reply.send(compared);
        }
    });
    sender
}

fn compare(
    connection: &mut Option<Connection>,
    job: &HalfJob,
    ages: (f64, f64),
) -> Result<SimilarityScores, StoreError> {
    let database = match connection.take() {
        Some(database) => database,
        None => store::open_reader(&job.home)?,
    };
    let compared = search::compare_part(&database, &job.embedding, job.project.as_deref(), ages)?;
    *connection = Some(database);
    Ok(compared)
}
