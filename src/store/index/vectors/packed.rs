//! Storage of vectors and their outlines: those of neighbours share a row.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::StoreError;
use crate::store::index::search::{Kind, Place, Range};

/// A model as it is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    number: i64,
    dimension: usize,
}

impl KnownModel {
    fn new(number: i64, dimension: i64) -> Self {
        Self { number, dimension: usize::try_from(dimension).unwrap_or_default() }
    }

    /// The bytes of a vector.
    pub(super) fn width(self) -> usize {
        4 + self.dimension
    }
}

/// The model of that name, if any row has a vector of it.
pub fn model(database: &Connection, name: &str) -> Result<Option<KnownModel>, StoreError> {
    let sql = "SELECT no, dimension FROM search_models WHERE name = ?1";
    let read = |row: &Row<'_>| Ok(KnownModel::new(row.get(0)?, row.get(1)?));
    Ok(database.prepare_cached(sql)?.query_row([name], read).optional()?)
}

/// The model that read last.
pub fn newest_model(database: &Connection) -> Result<Option<KnownModel>, StoreError> {
    let sql = "SELECT no, dimension FROM search_models ORDER BY no DESC LIMIT 1";
    let read = |row: &Row<'_>| Ok(KnownModel::new(row.get(0)?, row.get(1)?));
    Ok(database.prepare_cached(sql)?.query_row([], read).optional()?)
}

/// A table whose rows are blocks of what neighbours have (migrations/0001_schema.sql).
#[derive(Clone, Copy)]
struct Shelf {
    table: &'static str,
    /// The bits by which the places of a block differ.
    bits: u32,
    /// The bytes of a place.
    width: fn(KnownModel) -> usize,
}

const VECTORS: Shelf = Shelf { table: "search_vectors", bits: 3, width: KnownModel::width };
const OUTLINES: Shelf =
    Shelf { table: "search_outlines", bits: 9, width: |model| model.dimension.div_ceil(4) };

/// The bytes before an entry, which name its place.
const KEY: usize = 2;

impl Shelf {
    fn block(self, place: Place) -> i64 {
        place.0 >> self.bits
    }

    fn key(self, place: Place) -> [u8; KEY] {
        ((place.0 & ((1 << self.bits) - 1)) as u16).to_le_bytes()
    }

    fn place(self, block: i64, entry: &[u8]) -> Place {
        let key = entry.first_chunk::<KEY>().copied().unwrap_or_default();
        Place(block << self.bits | i64::from(u16::from_le_bytes(key)))
    }

    /// The bytes of an entry, its key included.
    fn step(self, model: KnownModel) -> usize {
        KEY + (self.width)(model)
    }

    fn read(self, database: &Connection, number: i64) -> Result<Option<VectorBlock>, StoreError> {
        let sql = format!(
            "SELECT b.model, m.dimension, b.entries FROM {} b JOIN search_models m ON m.no = b.model WHERE b.block = ?1",
            self.table
        );
        let read = |row: &Row<'_>| {
            let model = KnownModel::new(row.get(0)?, row.get(1)?);
            Ok(VectorBlock { shelf: self, number, model, entries: row.get(2)? })
        };
        Ok(database.prepare_cached(&sql)?.query_row([number], read).optional()?)
    }

    fn remove(self, transaction: &Connection, place: Place) -> Result<(), StoreError> {
        let Some(mut block) = self.read(transaction, self.block(place))? else { return Ok(()) };
        let Ok(at) = block.find(place) else { return Ok(()) };
        block.entries.drain(at);
        block.write(transaction)
    }

    /// Puts in what belongs to places, which come in their order.
    fn put(
        self,
        transaction: &Connection,
        model: KnownModel,
        items: &[(Place, impl AsRef<[u8]>)],
    ) -> Result<(), StoreError> {
        for neighbours in items.chunk_by(|(a, _), (b, _)| self.block(*a) == self.block(*b)) {
            let number = self.block(neighbours[0].0);
            let known = self.read(transaction, number)?.filter(|block| block.model == model);
            let mut block = known.unwrap_or(VectorBlock { shelf: self, number, model, entries: Vec::new() });
            for (place, item) in neighbours {
                let at = block.find(*place).unwrap_or_else(|at| at..at);
                block.entries.splice(at, self.key(*place).into_iter().chain(item.as_ref().iter().copied()));
            }
            block.write(transaction)?;
        }
        Ok(())
    }

    /// Shows every entry of a model in a range to `look`, in some order, and no more than `most`.
    fn each(
        self,
        database: &Connection,
        model: KnownModel,
        range: Range,
        order: Order,
        most: usize,
        mut look: impl FnMut(Place, &[u8]),
    ) -> Result<(), StoreError> {
        // Not mapped into memory: that was slower, because every page of it has to be found and let go again for each question.
        let sql = format!(
            "SELECT block, entries FROM {} WHERE block BETWEEN ?1 AND ?2 AND model = ?3 ORDER BY block {}",
            self.table,
            if order == Order::NewestFirst { "DESC" } else { "" }
        );
        let mut statement = database.prepare_cached(&sql)?;
        let mut rows = statement.query([self.block(range.from), self.block(range.to), model.number])?;
        let mut left = most;
        while left > 0
            && let Some(row) = rows.next()?
        {
            let block = row.get(0)?;
            let entries = row.get_ref(1)?.as_blob().unwrap_or_default().chunks_exact(self.step(model));
            let mut show = |entry: &[u8]| {
                let place = self.place(block, entry);
                if left > 0 && (range.from..=range.to).contains(&place) {
                    look(place, &entry[KEY..]);
                    left -= 1;
                }
            };
            match order {
                Order::OldestFirst => entries.for_each(&mut show),
                Order::NewestFirst => entries.rev().for_each(&mut show),
            }
        }
        Ok(())
    }
}

/// The entries of neighbours, in the order of their places.
struct VectorBlock {
    shelf: Shelf,
    number: i64,
    model: KnownModel,
    entries: Vec<u8>,
}

impl VectorBlock {
    /// The bytes of the entry of a place, or else the place to put it.
    fn find(&self, place: Place) -> Result<std::ops::Range<usize>, usize> {
        let step = self.shelf.step(self.model);
        let places = self.entries.chunks_exact(step).map(|entry| self.shelf.place(self.number, entry));
        let before = places.take_while(|other| *other < place).count() * step;
        match self.entries.get(before..before + step) {
            Some(entry) if self.shelf.place(self.number, entry) == place => Ok(before..before + step),
            _ => Err(before),
        }
    }

    fn write(&self, transaction: &Connection) -> Result<(), StoreError> {
        let table = self.shelf.table;
        if self.entries.is_empty() {
            let sql = format!("DELETE FROM {table} WHERE block = ?1");
            transaction.prepare_cached(&sql)?.execute([self.number])?;
            return Ok(());
        }
        let sql = format!(
            "INSERT INTO {table} (block, model, entries) VALUES (?1, ?2, ?3)
             ON CONFLICT (block) DO UPDATE SET model = excluded.model, entries = excluded.entries"
        );
        transaction.prepare_cached(&sql)?.execute(params![self.number, self.model.number, self.entries])?;
        Ok(())
    }
}

/// The vector at a place.
pub fn at(database: &Connection, model: KnownModel, place: Place) -> Result<Option<Vec<u8>>, StoreError> {
    let mut vector = None;
    for_those(database, model, &[place], |_, found| vector = Some(found.to_vec()))?;
    Ok(vector)
}

/// Shows the vectors at some places to `look`, those that are there.
pub fn for_those(
    database: &Connection,
    model: KnownModel,
    places: &[Place],
    mut look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    let sql = "SELECT entries FROM search_vectors WHERE block = ?1 AND model = ?2";
    let mut statement = database.prepare_cached(sql)?;
    for place in places {
        let mut rows = statement.query([VECTORS.block(*place), model.number])?;
        let Some(row) = rows.next()? else { continue };
        let entries = row.get_ref(0)?.as_blob().unwrap_or_default();
        let key = VECTORS.key(*place);
        if let Some(entry) = entries.chunks_exact(VECTORS.step(model)).find(|entry| entry.starts_with(&key)) {
            look(*place, &entry[KEY..]);
        }
    }
    Ok(())
}

/// True if a place has a vector, of any model.
pub fn is_at(database: &Connection, place: Place) -> Result<bool, StoreError> {
    Ok(VECTORS.read(database, VECTORS.block(place))?.is_some_and(|block| block.find(place).is_ok()))
}

/// Removes the vector at a place, if there is one.
pub fn remove(transaction: &Connection, place: Place) -> Result<(), StoreError> {
    VECTORS.remove(transaction, place)?;
    OUTLINES.remove(transaction, place)
}

/// Puts vectors at their places, instead of those that may be there. Those of other models in the same blocks go: nobody needs them.
pub(super) fn put(
    transaction: &Connection,
    model: KnownModel,
    mut vectors: Vec<(Place, &[u8])>,
) -> Result<(), StoreError> {
    vectors.sort_by_key(|(place, _)| *place);
    let outlines: Vec<_> = vectors.iter().map(|(place, vector)| (*place, outline(vector))).collect();
    VECTORS.put(transaction, model, &vectors)?;
    OUTLINES.put(transaction, model, &outlines)
}

/// The vector of a session's last summary that has one.
pub fn of_session(
    database: &Connection,
    model: KnownModel,
    session: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT p.no, s.id FROM session_summaries s JOIN search_projects p ON p.project = s.project
               WHERE s.session_id = ?1 ORDER BY s.id DESC";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        if let Some(vector) = at(database, model, Place::new(row.get(0)?, Kind::Summary, row.get(1)?))? {
            return Ok(Some(vector));
        }
    }
    Ok(None)
}

/// The order in which places are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Order {
    OldestFirst,
    NewestFirst,
}

/// Shows every vector of a model in a range to `look`, in the order of places.
pub fn for_each(
    database: &Connection,
    model: KnownModel,
    range: Range,
    look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    for_some(database, model, range, Order::OldestFirst, usize::MAX, look)
}

/// The same in some order, and no more than `most`.
pub fn for_some(
    database: &Connection,
    model: KnownModel,
    range: Range,
    order: Order,
    most: usize,
    look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    VECTORS.each(database, model, range, order, most, look)
}

/// Shows the outline of every vector of a model in a range to `look`, in the order of places.
pub fn for_each_outline(
    database: &Connection,
    model: KnownModel,
    range: Range,
    look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    OUTLINES.each(database, model, range, Order::OldestFirst, usize::MAX, look)
}

/// The outline of a vector (migrations/0001_schema.sql).
pub fn outline(vector: &[u8]) -> Vec<u8> {
    let numbers = vector.get(4..).unwrap_or_default();
    let total: u64 = numbers.iter().map(|number| u64::from(number.cast_signed().unsigned_abs())).sum();
    let mut outline = vec![0; numbers.len().div_ceil(4)];
    for (at, number) in numbers.iter().enumerate() {
        let number = number.cast_signed();
        let is_far = u64::from(number.unsigned_abs()) * numbers.len() as u64 > total;
        let step = match (number < 0, is_far) {
            (true, true) => 0,
            (true, false) => 1,
            (false, false) => 2,
            (false, true) => 3,
        };
        let quarter = at / outline.len();
        let byte = at % outline.len();
        outline[byte] |= step << (2 * quarter);
    }
    outline
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;

    fn all(
        database: &Connection,
        model: KnownModel,
        range: Range,
        order: Order,
        most: usize,
    ) -> Vec<(i64, u8)> {
        let mut seen = Vec::new();
        for_some(database, model, range, order, most, |place, vector| seen.push((place.0, vector[4])))
            .unwrap();
        seen
    }

    #[test]
    fn an_outline_tells_on_which_side_of_zero_a_number_is_and_whether_far() {
        let vector = |numbers: &[i8]| {
            [0xFF; 4]
                .into_iter()
                .chain(numbers.iter().map(|number| number.cast_unsigned()))
                .collect::<Vec<u8>>()
        };
        // Four numbers to a byte: those at 0, 2, 4 and 6 to the first of two. On average they are 4 far.
        assert_eq!(outline(&vector(&[-9, -1, -2, 3, 9, 5, 0])), [0b10_11_01_00, 0b11_10_01]);
        assert_eq!(outline(&vector(&[-128, 127])), [0b10_00]);
        assert_eq!(outline(&[]), Vec::<u8>::new());
    }

    #[test]
    fn neighbours_share_a_row_and_stay_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap();
        database
            .execute_batch(
                "INSERT INTO search_models (no, name, dimension) VALUES (1, 'one', 2), (2, 'two', 3)",
            )
            .unwrap();
        let one = model(&database, "one").unwrap().unwrap();
        let place = |id| Place::new(3, Kind::Observation, id);
        // Out of order, at the ends of rows, and one twice.
        for id in [130, 5, 127] {
            put(&database, one, vec![(place(id), &[0, 0, 0, 0, id as u8, 7])]).unwrap();
        }
        let many = [128, 1, 5].map(|id| (place(id), [0, 0, 0, 0, id as u8, 7]));
        let summary = (Place::new(3, Kind::Summary, 5), [0, 0, 0, 0, 99, 7]);
        let many = many.iter().chain([&summary]).map(|(place, vector)| (*place, &vector[..]));
        put(&database, one, many.collect()).unwrap();
        let ids = |range, order, most| -> Vec<i64> {
            let seen = all(&database, one, range, order, most);
            assert!(seen.iter().all(|(place, byte)| *byte == Place(*place).id() as u8 || *byte == 99));
            seen.into_iter().map(|(place, _)| Place(place).id()).collect()
        };
        let observations = Range::kind(3, Kind::Observation);
        assert_eq!(ids(observations, Order::OldestFirst, 10), [1, 5, 127, 128, 130]);
        assert_eq!(ids(observations, Order::NewestFirst, 3), [130, 128, 127]);
        assert_eq!(ids(Range::ids(3, Kind::Observation, 2, 128), Order::OldestFirst, 10), [5, 127, 128]);
        assert_eq!(ids(Range::ALL, Order::OldestFirst, 10), [1, 5, 127, 128, 130, 5]);
        let rows = |table: &str| -> i64 {
            let sql = format!("SELECT count(*) FROM {table}");
            database.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((rows("search_vectors"), rows("search_outlines")), (4, 2));
        assert_eq!(crate::store::index::vectors::coverage(&database).unwrap().0, 6);
        let mut negative = Vec::new();
        // The first of two numbers is in the lowest bits, and 128 and 130 are below zero.
        let mut look = |place: Place, outline: &[u8]| negative.push((place.id(), outline[0] & 2 == 0));
        for_each_outline(&database, one, Range::ids(3, Kind::Observation, 2, 200), &mut look).unwrap();
        assert_eq!(negative, [(5, false), (127, false), (128, true), (130, true)]);
        remove(&database, place(5)).unwrap();
        remove(&database, place(6)).unwrap();
        assert!(!is_at(&database, place(5)).unwrap() && is_at(&database, place(1)).unwrap());
        assert_eq!(at(&database, one, place(127)).unwrap().unwrap()[4], 127);
        for id in [128, 130] {
            remove(&database, place(id)).unwrap();
        }
        assert_eq!(rows("search_vectors"), 3, "no empty row is left");
        let two = model(&database, "two").unwrap().unwrap();
        put(&database, two, vec![(place(2), &[0, 0, 0, 0, 2, 7, 7])]).unwrap();
        assert_eq!(
            ids(observations, Order::OldestFirst, 10),
            [127],
            "in a block of another model one is of no use"
        );
        assert_eq!(all(&database, two, observations, Order::OldestFirst, 10).len(), 1);
    }
}
