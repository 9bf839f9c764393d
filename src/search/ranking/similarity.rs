//! The likeness of rows to a question in embedding. Comparing all of them takes as long as the search by words, so another thread may
//! do it meanwhile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::search::QueryEmbedding;
use crate::search::candidates::scope::Scope;
use crate::search::embedding::Scale;
use crate::search::query::Query;
use crate::store::StoreError;
use crate::store::index::search::{Place, Range};
use crate::store::index::vectors::{self, KnownModel};

/// Of more rows than this, only those are compared whose outlines are near.
const EXACT: f64 = 50_000.0;
/// Rows of each half, ten times those that a search reads. Of 15,000 texts nearly all of the ten most alike are among the 0.4 % with
/// the nearest outlines (ARCHITECTURE.md).
const PROMISING: usize = 1_000;

/// Rows with their likeness to a question.
#[derive(Debug, Clone, Default)]
pub struct SimilarityScores {
    /// In the order of places.
    known: Vec<(Place, f32)>,
    /// The model and the meaning to compare other rows with, if they were not compared.
    others: Option<(KnownModel, QueryEmbedding)>,
    pub(in crate::search) scale: Scale,
}

impl FromIterator<(Place, f32)> for SimilarityScores {
    /// All that is to be known.
    fn from_iter<T: IntoIterator<Item = (Place, f32)>>(scores: T) -> Self {
        let mut known: Vec<(Place, f32)> = scores.into_iter().collect();
        known.sort_unstable_by_key(|(place, _)| *place);
        Self { known, others: None, scale: Scale::default() }
    }
}

impl SimilarityScores {
    /// Of several parts of all rows.
    pub fn joined(parts: impl Iterator<Item = Self>) -> Self {
        let (mut others, mut scale) = (None, Scale::default());
        let known = parts.flat_map(|part| {
            others = others.take().or(part.others);
            scale = part.scale;
            part.known
        });
        let known = Self::from_iter(known);
        Self { others, scale, ..known }
    }

    /// The cosine of one row, if it is known.
    pub(in crate::search) fn cosine(
        &self,
        database: &Connection,
        place: Place,
    ) -> Result<Option<f32>, StoreError> {
        if let Ok(at) = self.known.binary_search_by_key(&place, |(place, _)| *place) {
            return Ok(Some(self.known[at].1));
        }
        let Some((model, embedding)) = &self.others else { return Ok(None) };
        Ok(vectors::at(database, *model, place)?.and_then(|blob| embedding.vector.likeness(&blob)))
    }

    /// The largest cosine; below every other if nothing was compared.
    pub(in crate::search) fn best(&self) -> f64 {
        self.known.iter().map(|(_, cosine)| f64::from(*cosine)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The places with the largest cosines, the largest first.
    pub(in crate::search) fn most_similar(&self, most: usize) -> Vec<(Place, f32)> {
        let better = |a: &(Place, f32), b: &(Place, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let mut best = self.known.clone();
        if best.len() > most {
            best.select_nth_unstable_by(most, better);
            best.truncate(most);
        }
        best.sort_unstable_by(better);
        best
    }
}

/// The state of knowledge about the meaning of a question.
#[derive(Debug, Clone, Default)]
pub enum Similarity {
    /// Nothing: words alone count.
    #[default]
    Unknown,
    /// Its meaning is known, and rows are to be compared with it.
    To(QueryEmbedding),
    /// Rows were compared with it.
    Known(SimilarityScores),
    /// Another thread compares, and sends the result; nothing if it fails.
    Soon(Arc<Mutex<Receiver<SimilarityScores>>>),
}

impl Similarity {
    /// A sender for the one result, and the receiving side.
    pub fn soon() -> (SyncSender<SimilarityScores>, Self) {
        let (tell, told) = sync_channel(1);
        (tell, Self::Soon(Arc::new(Mutex::new(told))))
    }

    pub(in crate::search) fn scores(
        &self,
        database: &Connection,
        scope: Option<&Scope>,
    ) -> Result<SimilarityScores, StoreError> {
        match self {
            Self::Unknown => Ok(SimilarityScores::default()),
            Self::To(embedding) => match scope {
                Some(scope) => compare_in(database, embedding, scope, &[scope.range]),
                None => Ok(SimilarityScores::default()),
            },
            Self::Known(scores) => Ok(scores.clone()),
            Self::Soon(told) => {
                let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(told.recv().unwrap_or_default())
            }
        }
    }
}

/// True if the meaning of a question counts: quoted phrases are required, and no meaning makes up for one.
pub fn counts_meaning(query: &Query) -> bool {
    query.required.is_empty() && !query.clues.is_empty()
}

/// Compares a part of the rows of a project, or of all, with the meaning of a question: those of an age, from 0 for the newest to 1.
pub fn compare_part(
    database: &Connection,
    embedding: &QueryEmbedding,
    project: Option<&str>,
    (younger, older): (f64, f64),
) -> Result<SimilarityScores, StoreError> {
    match Scope::new(database, project, None)? {
        Some(scope) => compare_in(database, embedding, &scope, &scope.ranges(database, younger, older)?),
        None => Ok(SimilarityScores::default()),
    }
}

fn compare_in(
    database: &Connection,
    embedding: &QueryEmbedding,
    scope: &Scope,
    ranges: &[Range],
) -> Result<SimilarityScores, StoreError> {
    let compared = match vectors::model(database, embedding.model)? {
        None => SimilarityScores::default(),
        Some(model) if scope.rows > EXACT => {
            compare_promising(database, model, embedding, ranges, PROMISING)?
        }
        Some(model) => compare_all(database, model, embedding, ranges)?,
    };
    Ok(SimilarityScores { scale: embedding.scale, ..compared })
}

fn compare_all(
    database: &Connection,
    model: KnownModel,
    embedding: &QueryEmbedding,
    ranges: &[Range],
) -> Result<SimilarityScores, StoreError> {
    let mut known = Vec::new();
    for range in ranges {
        vectors::for_each(database, model, *range, |place, blob| {
            known.extend(embedding.vector.likeness(blob).map(|likeness| (place, likeness)));
        })?;
    }
    Ok(known.into_iter().collect())
}

/// The same of those rows alone whose outlines are nearest.
fn compare_promising(
    database: &Connection,
    model: KnownModel,
    embedding: &QueryEmbedding,
    ranges: &[Range],
    most: usize,
) -> Result<SimilarityScores, StoreError> {
    let beside = embedding.vector.beside_outlines();
    // The worst of the nearest is on top.
    let mut nearest = BinaryHeap::with_capacity(most);
    for range in ranges {
        vectors::for_each_outline(database, model, *range, |place, outline| {
            let item = (Reverse(beside.nearness(outline)), place);
            if nearest.len() < most {
                nearest.push(item);
            } else if let Some(mut worst) = nearest.peek_mut()
                && item < *worst
            {
                *worst = item;
            }
        })?;
    }
    let mut known = Vec::new();
    let mut places: Vec<Place> = nearest.into_iter().map(|(_, place)| place).collect();
    // In the order in which they lie in the file.
    places.sort_unstable();
    vectors::for_those(database, model, &places, |place, blob| {
        known.extend(embedding.vector.likeness(blob).map(|likeness| (place, likeness)));
    })?;
    Ok(SimilarityScores { others: Some((model, embedding.clone())), ..known.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;
    use crate::search::embedding::Vector;
    use crate::search::indexing::index_some;
    use crate::store::index::search::Kind;

    /// Numbers that look like chance and are the same every time.
    fn direction(seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..64).map(|_| next()).collect()
    }

    #[test]
    fn the_most_similar_of_the_promising_are_the_most_similar_of_all() {
        const ROWS: i64 = 600;
        let scratch = tempfile::tempdir().unwrap();
        let mut database = crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap();
        let asked = direction(0);
        database
            .execute_batch(&format!(
                "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES ('s', 'p', 1, 1);
                 WITH RECURSIVE rows (id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM rows WHERE id < {ROWS})
                 INSERT INTO observations (id, uid, session_id, project, type, title, summary, created_at)
                 SELECT id, hex(randomblob(16)), 's', 'p', 'change', 'row ' || id, '', id FROM rows;"
            ))
            .unwrap();
        while index_some(&mut database).unwrap() {}
        let missing = vectors::missing(&database, "by hand", ROWS as u32).unwrap();
        // Every fortieth is near, each less than the one before.
        let vector = |id: i64| {
            let near = if id % 40 == 0 { 2.0 - id as f32 / 400.0 } else { 0.0 };
            let mixed: Vec<f32> =
                direction(id as u64).iter().zip(&asked).map(|(own, asked)| own + near * asked).collect();
            (Kind::Observation, id, Vector::new(&mixed).to_blob())
        };
        let made: Vec<_> = missing.rows.iter().map(|(_, id)| vector(*id)).collect();
        vectors::store(&mut database, "by hand", 64, &missing, &made).unwrap();

        let embedding =
            QueryEmbedding { model: "by hand", scale: Scale::default(), vector: Vector::new(&asked) };
        let model = vectors::model(&database, "by hand").unwrap().unwrap();
        let scope = Scope::new(&database, None, None).unwrap().unwrap();
        let all = compare_all(&database, model, &embedding, &[scope.range]).unwrap();
        let halves = [(0.5, 1.0), (0.0, 0.5)].map(|(younger, older)| {
            let ranges = scope.ranges(&database, younger, older).unwrap();
            compare_promising(&database, model, &embedding, &ranges, 30).unwrap()
        });
        let promising = SimilarityScores::joined(halves.into_iter());
        assert_eq!(all.known.len(), ROWS as usize);
        assert_eq!(promising.known.len(), 60);
        assert_eq!(promising.most_similar(10), all.most_similar(10));
        for (place, likeness) in &all.known {
            assert_eq!(
                promising.cosine(&database, *place).unwrap(),
                Some(*likeness),
                "whether promising or not"
            );
        }
    }
}
