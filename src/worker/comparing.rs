//! Which memories mean what a question means, found out while somebody else looks for its words.

use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::state::Shared;
use crate::paths::Home;
use crate::search::{self, Alike, Half, Likenesses, Meaning};
use crate::store::{self, StoreError};

/// Compares what was asked with all that is known, on two threads and connections of its own: whoever asks searches by words
/// meanwhile. The threads stay until the model goes, because new ones for every question began too late.
#[derive(Debug, Default)]
pub struct Comparing(Mutex<Option<Sender<Question>>>);

struct Question {
    shared: Arc<Shared>,
    query: String,
    project: Option<String>,
    tell: SyncSender<Likenesses>,
}

impl Comparing {
    /// Begins to find out how alike memories are to a question.
    pub fn begin(&self, shared: &Arc<Shared>, query: &str, project: Option<&str>) -> Alike {
        let (tell, alike) = Alike::soon();
        let (query, project) = (query.to_owned(), project.map(ToOwned::to_owned));
        let question = Question { shared: shared.clone(), query, project, tell };
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Where there is no thread to be had, nobody tells, and words alone decide.
        let _ = thread.get_or_insert_with(start_to_compare).send(question);
        alike
    }

    /// Lets threads and connections go until somebody asks.
    pub fn rest(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn start_to_compare() -> Sender<Question> {
    let newer = start_half(Half::Newer);
    let older = start_half(Half::Older);
    let (sender, questions) = channel::<Question>();
    let _ = std::thread::Builder::new().name("meaning".into()).spawn(move || {
        for Question { shared, query, project, tell } in questions {
            let Some(meaning) = shared.mind.understand(&query) else { continue };
            let (tell_half, told) = sync_channel(2);
            for thread in [&newer, &older] {
                let (meaning, project) = (meaning.clone(), project.clone());
                let half =
                    HalfQuestion { home: shared.home.clone(), meaning, project, tell: tell_half.clone() };
                let _ = thread.send(half);
            }
            drop(tell_half);
            let _ = tell.send(Likenesses::joined(told.iter()));
        }
    });
    sender
}

struct HalfQuestion {
    home: Home,
    meaning: Meaning,
    project: Option<String>,
    tell: SyncSender<Likenesses>,
}

fn start_half(half: Half) -> Sender<HalfQuestion> {
    let (sender, questions) = channel::<HalfQuestion>();
    let _ = std::thread::Builder::new().name("comparing".into()).spawn(move || {
        let mut connection = None;
        for question in questions {
            let compared = compare(&mut connection, &question, half).unwrap_or_else(|error| {
                tracing::warn!(%error, "a question was answered by half of all meanings: {error}");
                Likenesses::default()
            });
            let _ = question.tell.send(compared);
        }
    });
    sender
}

fn compare(
    connection: &mut Option<Connection>,
    question: &HalfQuestion,
    half: Half,
) -> Result<Likenesses, StoreError> {
    let database = match connection.take() {
        Some(database) => database,
        None => store::open_reader(&question.home)?,
    };
    let compared = search::compare_half(&database, &question.meaning, question.project.as_deref(), half)?;
    *connection = Some(database);
    Ok(compared)
}
