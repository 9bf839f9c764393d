//! How alike rows are to a question in meaning. Comparing all of them takes as long as the search by words, so somebody else may
//! do it meanwhile.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::Meaning;
use super::query::Query;
use super::scope::{Half, Scope};
use crate::store::search::{Place, Range};
use crate::store::{StoreError, vectors};

/// How alike rows are, in the order of places.
pub type Likenesses = Vec<(Place, f32)>;

/// What is known of the meaning of a question.
#[derive(Debug, Clone, Default)]
pub enum Alike {
    /// Nothing: words alone count.
    #[default]
    Unknown,
    /// What it means; how alike rows are is to be found out.
    To(Meaning),
    /// How alike they are.
    Known(Likenesses),
    /// The same, as soon as somebody tells. Nothing if nobody does.
    Soon(Arc<Mutex<Receiver<Likenesses>>>),
}

impl Alike {
    /// Somebody compares, and tells once.
    pub fn soon() -> (SyncSender<Likenesses>, Self) {
        let (tell, told) = sync_channel(1);
        (tell, Self::Soon(Arc::new(Mutex::new(told))))
    }

    pub(super) fn likenesses(
        &self,
        database: &Connection,
        scope: Option<&Scope>,
    ) -> Result<Likenesses, StoreError> {
        match self {
            Self::Unknown => Ok(Vec::new()),
            Self::To(meaning) => {
                scope.map_or_else(|| Ok(Vec::new()), |scope| compare_in(database, meaning, &[scope.range]))
            }
            Self::Known(likenesses) => Ok(likenesses.clone()),
            Self::Soon(told) => {
                let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(told.recv().unwrap_or_default())
            }
        }
    }
}

/// Whether the meaning of a question counts: quoted phrases are required, and no meaning makes up for one.
pub fn counts(query: &Query) -> bool {
    query.required.is_empty() && !query.clues.is_empty()
}

/// How alike one half of the rows of a project, or of all, is to what a question means. In no order.
pub fn compare_half(
    database: &Connection,
    meaning: &Meaning,
    project: Option<&str>,
    half: Half,
) -> Result<Likenesses, StoreError> {
    let scope = Scope::new(database, project, None)?;
    compare_in(database, meaning, &scope.map(|scope| scope.half(half)).unwrap_or_default())
}

fn compare_in(database: &Connection, meaning: &Meaning, ranges: &[Range]) -> Result<Likenesses, StoreError> {
    let mut likenesses = Vec::new();
    if let Some(model) = vectors::model(database, meaning.model)? {
        for range in ranges {
            vectors::for_each(database, model, *range, |place, blob| {
                likenesses.extend(meaning.vector.likeness(blob).map(|likeness| (place, likeness)));
            })?;
        }
    }
    Ok(likenesses)
}
