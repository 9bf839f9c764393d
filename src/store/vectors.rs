//! Vectors: which rows lack one, putting them in, and reading them all. What they mean is none of its business.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::StoreError;
use super::index;
use super::search::{Kind, Order, Place, Range};

/// A model by its number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelNumber(i64);

/// The number of a model, if any row has a vector of it.
pub fn model(database: &Connection, name: &str) -> Result<Option<ModelNumber>, StoreError> {
    let sql = "SELECT no FROM search_models WHERE name = ?1";
    Ok(database.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?.map(ModelNumber))
}

/// The vector of a session's last summary that has one.
pub fn of_session(
    database: &Connection,
    model: ModelNumber,
    session: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT v.vector FROM session_summaries s JOIN search_projects p ON p.project = s.project
                 JOIN search_vectors v ON v.place = (p.no << 44 | (1 << 42) | s.id)
               WHERE s.session_id = ?1 AND v.model = ?2 ORDER BY s.id DESC LIMIT 1";
    Ok(database.prepare_cached(sql)?.query_row(params![session, model.0], |row| row.get(0)).optional()?)
}

/// Shows every vector of a model in a range to `look`, in the order of places.
pub fn for_each(
    database: &Connection,
    model: ModelNumber,
    range: Range,
    look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    for_some(database, model, range, Order::OldestFirst, usize::MAX, look)
}

/// The same in some order, and no more than `most`.
pub fn for_some(
    database: &Connection,
    model: ModelNumber,
    range: Range,
    order: Order,
    most: usize,
    mut look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    // Mapped, a page of vectors need not be copied; only while it is read, because mapped pages count as the process's memory.
    let map = |bytes: i64| database.pragma_update(None, "mmap_size", bytes);
    map(MOST_MAPPED)?;
    let seen = see(database, model, range, order, most, &mut look);
    map(0)?;
    seen
}

/// What SQLite can map at most.
const MOST_MAPPED: i64 = 0x7fff_0000;

fn see(
    database: &Connection,
    model: ModelNumber,
    range: Range,
    order: Order,
    most: usize,
    look: &mut impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    let sql = match order {
        Order::OldestFirst => {
            "SELECT place, model, vector FROM search_vectors WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT ?3"
        }
        Order::NewestFirst => {
            "SELECT place, model, vector FROM search_vectors WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC LIMIT ?3"
        }
    };
    let mut statement = database.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut rows = statement.query([range.from.0, range.to.0, most])?;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? == model.0 {
            look(Place(row.get(0)?), row.get_ref(2)?.as_blob().unwrap_or_default());
        }
    }
    Ok(())
}

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
    /// Whether nothing is to be done.
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
    for (kind, id, vector) in vectors {
        let (table, is_there) = match kind {
            Kind::Observation => ("observations", "t.deleted_at IS NULL"),
            _ => ("session_summaries", "true"),
        };
        // A row that went away meanwhile gets none.
        let sql = format!(
            "INSERT INTO search_vectors (place, model, vector)
             SELECT p.no << 44 | (?2 << 42) | t.id, (SELECT no FROM search_models WHERE name = ?3), ?4
             FROM {table} t JOIN search_projects p ON p.project = t.project
             WHERE t.id = ?1 AND {is_there}
             ON CONFLICT (place) DO UPDATE SET model = excluded.model, vector = excluded.vector"
        );
        transaction.prepare_cached(&sql)?.execute(params![
            id,
            i64::from(*kind == Kind::Summary),
            name,
            vector
        ])?;
    }
    for place in &missing.stale {
        transaction.prepare_cached("DELETE FROM search_stale WHERE place = ?1")?.execute([place])?;
    }
    for (kind, last) in &missing.marks {
        index::set_progress(&transaction, &mark(name, *kind), *last)?;
    }
    Ok(transaction.commit()?)
}

/// Forgets all vectors.
pub fn forget_all(database: &mut Connection) -> Result<(), StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "DELETE FROM search_vectors; DELETE FROM search_models; DELETE FROM search_stale;
         DELETE FROM search_progress WHERE what LIKE 'vectors %';",
    )?;
    Ok(transaction.commit()?)
}

/// How many rows have a vector, and how many should.
pub fn coverage(database: &Connection) -> Result<(i64, i64), StoreError> {
    let sql = "SELECT (SELECT count(*) FROM search_vectors),
               (SELECT count(*) FROM observations WHERE deleted_at IS NULL) + (SELECT count(*) FROM session_summaries)";
    Ok(database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}
