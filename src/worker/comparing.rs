//! Semantic comparison of a query with all memories, parallel to the word search.

use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::state::Shared;
use crate::paths::Home;
use crate::search::{self, Half, QueryEmbedding, Similarity, SimilarityScores};
use crate::store::{self, StoreError};

/// Compares a query with all embeddings, on its own two threads and connections, while the caller
/// searches by words. The threads stay until the model is unloaded, because starting new ones for
/// each query is too slow.
#[derive(Debug, Default)]
pub struct Comparing(Mutex<Option<Sender<Question>>>);

struct Question {
    shared: Arc<Shared>,
    query: String,
    project: Option<String>,
    reply: SyncSender<SimilarityScores>,
}

impl Comparing {
    /// Starts to compute the similarity of memories to a query.
    pub fn begin(&self, shared: &Arc<Shared>, query: &str, project: Option<&str>) -> Similarity {
        let (reply, alike) = Similarity::soon();
        let (query, project) = (query.to_owned(), project.map(ToOwned::to_owned));
        let question = Question { shared: shared.clone(), query, project, reply };
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If no thread can be started, no result arrives, and words alone decide.
        let _ = thread.get_or_insert_with(start_to_compare).send(question);
        alike
    }

    /// Ends the threads and closes their connections until the next query.
    pub fn rest(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn start_to_compare() -> Sender<Question> {
    let newer = start_half(Half::Newer);
    let older = start_half(Half::Older);
    let (sender, questions) = channel::<Question>();
    let _ = std::thread::Builder::new().name("meaning".into()).spawn(move || {
        for Question { shared, query, project, reply } in questions {
            let Some(meaning) = shared.mind.understand(&query) else { continue };
            let (reply_half, halves) = sync_channel(2);
            for thread in [&newer, &older] {
                let (meaning, project) = (meaning.clone(), project.clone());
                let half =
                    HalfQuestion { home: shared.home.clone(), meaning, project, reply: reply_half.clone() };
                let _ = thread.send(half);
            }
            drop(reply_half);
            let _ = reply.send(SimilarityScores::joined(halves.iter()));
        }
    });
    sender
}

struct HalfQuestion {
    home: Home,
    meaning: QueryEmbedding,
    project: Option<String>,
    reply: SyncSender<SimilarityScores>,
}

fn start_half(half: Half) -> Sender<HalfQuestion> {
    let (sender, questions) = channel::<HalfQuestion>();
    let _ = std::thread::Builder::new().name("comparing".into()).spawn(move || {
        let mut connection = None;
        for question in questions {
            let compared = compare(&mut connection, &question, half).unwrap_or_else(|error| {
                tracing::warn!(%error, "a query was compared with only half of the embeddings: {error}");
                SimilarityScores::default()
            });
            let _ = question.reply.send(compared);
        }
    });
    sender
}

fn compare(
    connection: &mut Option<Connection>,
    question: &HalfQuestion,
    half: Half,
) -> Result<SimilarityScores, StoreError> {
    let database = match connection.take() {
        Some(database) => database,
        None => store::open_reader(&question.home)?,
    };
    let compared = search::compare_half(&database, &question.meaning, question.project.as_deref(), half)?;
    *connection = Some(database);
    Ok(compared)
}
