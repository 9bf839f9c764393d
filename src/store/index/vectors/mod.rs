//! Vectors: which rows lack one, and putting them in. What they mean is none of its business.

mod packed;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::search::{Kind, Place};
use crate::store::StoreError;
use crate::store::index;

pub use packed::{
    KnownModel, Order, at, for_each, for_each_outline, for_some, for_those, model, newest_model, of_session,
    outline,
};
pub(in crate::store) use packed::{is_at, remove};

/// The kinds that have vectors. Prompts are echoed by the summaries of their turns.
const KINDS: [Kind; 2] = [Kind::Observation, Kind::Summary];

/// Rows that need a vector, and how far the list reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Which rows.
    pub rows: Vec<(Kind, i64)>,
    /// Places that were stale.
    stale: Vec<i64>,
    /// The last id of each kind, where there is one.
    marks: Vec<(Kind, i64)>,
}

impl Missing {
    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The next rows without a vector of that model: changed ones first, then new ones.
pub fn missing(database: &Connection, name: &str, limit: u32) -> Result<Missing, StoreError> {
    let mut statement = database.prepare_cached("SELECT place FROM search_stale LIMIT ?1")?;
    let stale: Vec<i64> = statement.query_map([limit], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut missing = Missing {
        rows: stale.iter().map(|place| (Place(*place).kind(), Place(*place).id())).collect(),
        stale,
        marks: Vec::new(),
    };
    for kind in KINDS {
        let room = limit.saturating_sub(u32::try_from(missing.rows.len()).unwrap_or(limit));
        let from = index::progress(database, &mark(name, kind))?.unwrap_or_default();
        let ids = index::ids_after(database, kind, from, room)?;
        missing.marks.extend(ids.last().map(|last| (kind, *last)));
        missing.rows.extend(ids.into_iter().map(|id| (kind, id)));
    }
    Ok(missing)
}

fn mark(name: &str, kind: Kind) -> String {
    format!("vectors {name} {}", kind.as_str())
}

/// Stores vectors for some of the missing rows, and notes that all of them were looked at.
pub fn store(
    database: &mut Connection,
    name: &str,
    dimension: usize,
    missing: &Missing,
    vectors: &[(Kind, i64, Vec<u8>)],
) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let sql = "INSERT INTO search_models (name, dimension) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    transaction.execute(sql, params![name, i64::try_from(dimension).unwrap_or_default()])?;
    if let Some(model) = model(&transaction, name)? {
        let mut placed = Vec::new();
        for (kind, id, vector) in vectors.iter().filter(|(.., vector)| vector.len() == model.width()) {
            // A row that went away meanwhile gets none.
            placed.extend(place_of(&transaction, *kind, *id)?.map(|place| (place, &vector[..])));
        }
        packed::put(&transaction, model, placed)?;
    }
    for place in &missing.stale {
        transaction.prepare_cached("DELETE FROM search_stale WHERE place = ?1")?.execute([place])?;
    }
    for (kind, last) in &missing.marks {
        index::set_progress(&transaction, &mark(name, *kind), *last)?;
    }
    Ok(transaction.commit()?)
}

/// The place of a row, if it is there and its project was indexed.
fn place_of(database: &Connection, kind: Kind, id: i64) -> Result<Option<Place>, StoreError> {
    let is_there = if kind == Kind::Observation { "t.deleted_at IS NULL" } else { "true" };
    let sql = format!(
        "SELECT p.no FROM {} t JOIN search_projects p ON p.project = t.project WHERE t.id = ?1 AND {is_there}",
        kind.table()
    );
    let number = database.prepare_cached(&sql)?.query_row([id], |row| row.get(0)).optional()?;
    Ok(number.map(|number| Place::new(number, kind, id)))
}

/// Forgets all vectors.
pub fn forget_all(database: &mut Connection) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "DELETE FROM search_vectors; DELETE FROM search_outlines; DELETE FROM search_models; DELETE FROM search_stale;
         DELETE FROM search_progress WHERE what LIKE 'vectors %';",
    )?;
    Ok(transaction.commit()?)
}

/// Counts the rows that have a vector, and those that should.
pub fn coverage(database: &Connection) -> Result<(i64, i64), StoreError> {
    let sql = "SELECT (SELECT coalesce(sum(length(o.entries) / (2 + (m.dimension + 3) / 4)), 0)
                FROM search_outlines o JOIN search_models m ON m.no = o.model),
               (SELECT count(*) FROM observations WHERE deleted_at IS NULL) + (SELECT count(*) FROM session_summaries)";
    Ok(database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}
