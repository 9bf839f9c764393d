//! How vectors are stored and read: those of neighbours share a row, and their signs stand before them.

use rusqlite::blob::Blob;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::StoreError;
use crate::store::search::{Kind, Place, Range};

/// A model as it is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    number: i64,
    /// How many bytes a vector of it has.
    pub(super) width: usize,
}

/// The model of that name, if any row has a vector of it.
pub fn model(database: &Connection, name: &str) -> Result<Option<KnownModel>, StoreError> {
    let sql = "SELECT no, dimension FROM search_models WHERE name = ?1";
    let read = |row: &Row<'_>| Ok(KnownModel { number: row.get(0)?, width: width(row.get(1)?) });
    Ok(database.prepare_cached(sql)?.query_row([name], read).optional()?)
}

fn width(dimension: i64) -> usize {
    4 + usize::try_from(dimension).unwrap_or_default()
}

/// The row that a place's vector shares with those of its neighbours, and which of them it is (migrations/0006_signs.sql).
fn seat(place: Place) -> (i64, u8) {
    (place.0 >> BLOCK_SHIFT, (place.0 & ((1 << BLOCK_SHIFT) - 1)) as u8)
}

const BLOCK_SHIFT: u32 = 7;

/// The vectors that share a row.
struct Block {
    number: i64,
    model: KnownModel,
    bytes: Vec<u8>,
}

impl Block {
    fn read(database: &Connection, number: i64) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT v.model, m.dimension, v.vectors FROM search_vectors v JOIN search_models m ON m.no = v.model
                   WHERE v.block = ?1";
        let read = |row: &Row<'_>| {
            let model = KnownModel { number: row.get(0)?, width: width(row.get(1)?) };
            Ok(Self { number, model, bytes: row.get(2)? })
        };
        Ok(database.prepare_cached(sql)?.query_row([number], read).optional()?)
    }

    /// Where in it a vector is, or else where it belongs.
    fn find(&self, which: u8) -> Result<std::ops::Range<usize>, usize> {
        let step = self.model.width + 1;
        let before = self.bytes.chunks_exact(step).take_while(|entry| entry[0] < which).count() * step;
        if self.bytes.len() >= before + step && self.bytes[before] == which {
            Ok(before..before + step)
        } else {
            Err(before)
        }
    }

    fn write(&self, transaction: &Connection) -> Result<(), StoreError> {
        if self.bytes.is_empty() {
            transaction
                .prepare_cached("DELETE FROM search_vectors WHERE block = ?1")?
                .execute([self.number])?;
            return Ok(());
        }
        let signs: Vec<u8> =
            self.bytes.chunks_exact(self.model.width + 1).flat_map(|entry| signs(&entry[1..])).collect();
        let sql = "INSERT INTO search_vectors (block, model, signs, vectors) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (block)
                   DO UPDATE SET model = excluded.model, signs = excluded.signs, vectors = excluded.vectors";
        transaction.prepare_cached(sql)?.execute(params![
            self.number,
            self.model.number,
            signs,
            self.bytes
        ])?;
        Ok(())
    }
}

/// The vector at a place.
pub fn at(database: &Connection, model: KnownModel, place: Place) -> Result<Option<Vec<u8>>, StoreError> {
    let (number, which) = seat(place);
    let block = Block::read(database, number)?.filter(|block| block.model == model);
    Ok(block.and_then(|block| block.find(which).ok().map(|at| block.bytes[at.start + 1..at.end].to_vec())))
}

/// Whether a place has a vector, of whatever model.
pub fn is_at(database: &Connection, place: Place) -> Result<bool, StoreError> {
    let (number, which) = seat(place);
    Ok(Block::read(database, number)?.is_some_and(|block| block.find(which).is_ok()))
}

/// Removes the vector at a place, if there is one.
pub fn remove(transaction: &Connection, place: Place) -> Result<(), StoreError> {
    let (number, which) = seat(place);
    let Some(mut block) = Block::read(transaction, number)? else { return Ok(()) };
    let Ok(at) = block.find(which) else { return Ok(()) };
    block.bytes.drain(at);
    block.write(transaction)
}

/// Puts vectors at their places, instead of those that may be there. Those of other models beside them go: they are of no use any
/// more.
pub(super) fn put(
    transaction: &Connection,
    model: KnownModel,
    mut vectors: Vec<(Place, &[u8])>,
) -> Result<(), StoreError> {
    vectors.sort_by_key(|(place, _)| *place);
    for neighbours in vectors.chunk_by(|(a, _), (b, _)| seat(*a).0 == seat(*b).0) {
        let number = seat(neighbours[0].0).0;
        let known = Block::read(transaction, number)?.filter(|block| block.model == model);
        let mut block = known.unwrap_or(Block { number, model, bytes: Vec::new() });
        for (place, vector) in neighbours {
            let (_, which) = seat(*place);
            let at = block.find(which).unwrap_or_else(|at| at..at);
            block.bytes.splice(at, std::iter::once(which).chain(vector.iter().copied()));
        }
        block.write(transaction)?;
    }
    Ok(())
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
    mut look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    // Not mapped into memory: that was slower, because every page of it has to be found and let go again for each question.
    let sql = match order {
        Order::OldestFirst => {
            "SELECT block, vectors FROM search_vectors WHERE block BETWEEN ?1 AND ?2 AND model = ?3 ORDER BY block"
        }
        Order::NewestFirst => {
            "SELECT block, vectors FROM search_vectors WHERE block BETWEEN ?1 AND ?2 AND model = ?3 ORDER BY block DESC"
        }
    };
    let mut statement = database.prepare_cached(sql)?;
    let (first, last) = (seat(range.from).0, seat(range.to).0);
    let mut rows = statement.query([first, last, model.number])?;
    let mut left = most;
    while left > 0
        && let Some(row) = rows.next()?
    {
        let first = row.get::<_, i64>(0)? << BLOCK_SHIFT;
        let entries = row.get_ref(1)?.as_blob().unwrap_or_default().chunks_exact(model.width + 1);
        let mut show = |entry: &[u8]| {
            let place = Place(first | i64::from(entry[0]));
            if left > 0 && (range.from..=range.to).contains(&place) {
                look(place, &entry[1..]);
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

/// The signs of a vector's numbers: a bit for each, set where it is negative.
pub fn signs(vector: &[u8]) -> Vec<u8> {
    let numbers = vector.get(4..).unwrap_or_default();
    let byte = |eight: &[u8]| {
        eight.iter().rev().fold(0, |byte, number| byte << 1 | u8::from(*number > i8::MAX as u8))
    };
    numbers.chunks(8).map(byte).collect()
}

/// Shows the signs of every block of vectors that a range touches to `look`: one vector's after the other's.
pub fn for_each_signs(
    database: &Connection,
    model: KnownModel,
    range: Range,
    mut look: impl FnMut(i64, &[u8]),
) -> Result<(), StoreError> {
    let sql =
        "SELECT block, signs FROM search_vectors WHERE block BETWEEN ?1 AND ?2 AND model = ?3 ORDER BY block";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([seat(range.from).0, seat(range.to).0, model.number])?;
    while let Some(row) = rows.next()? {
        look(row.get(0)?, row.get_ref(1)?.as_blob().unwrap_or_default());
    }
    Ok(())
}

/// Shows single vectors to `look`: each by its block and how many are before it there. Where somebody wrote meanwhile, it may be
/// the one beside it, or none; each comes with its own place.
pub fn for_those(
    database: &Connection,
    model: KnownModel,
    those: &[(i64, usize)],
    mut look: impl FnMut(Place, &[u8]),
) -> Result<(), StoreError> {
    let mut entry = vec![0; model.width + 1];
    let mut open: Option<Blob<'_>> = None;
    for block in those.chunk_by(|a, b| a.0 == b.0) {
        let number = block[0].0;
        let opened = match open.take() {
            Some(mut blob) => blob.reopen(number).map(|()| blob),
            None => database.blob_open("main", "search_vectors", "vectors", number, true),
        };
        let Ok(blob) = opened else { continue };
        for (_, before) in block {
            if blob.read_at_exact(&mut entry, before * (model.width + 1)).is_ok() {
                look(Place(number << BLOCK_SHIFT | i64::from(entry[0])), &entry[1..]);
            }
        }
        open = Some(blob);
    }
    Ok(())
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
    fn signs_are_a_bit_for_each_number() {
        let vector = |numbers: &[i8]| {
            [0xFF; 4]
                .into_iter()
                .chain(numbers.iter().map(|number| number.cast_unsigned()))
                .collect::<Vec<u8>>()
        };
        assert_eq!(signs(&vector(&[0, -1, 127, -128, 0, 0, 0, 0, -5])), [0b1010, 1]);
        assert_eq!(signs(&[]), Vec::<u8>::new());
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
        let rows = |database: &Connection| -> i64 {
            database.query_row("SELECT count(*) FROM search_vectors", [], |row| row.get(0)).unwrap()
        };
        assert_eq!((rows(&database), crate::store::vectors::coverage(&database).unwrap().0), (3, 6));
        let mut blocks = Vec::new();
        for_each_signs(&database, one, observations, |block, signs| blocks.push((block, signs.to_vec())))
            .unwrap();
        assert_eq!(blocks.len(), 2);
        // 127 is positive, 128 and 130 are not.
        assert_eq!((&blocks[0].1[..], &blocks[1].1[..]), (&[0, 0, 0][..], &[1, 1][..]));
        let (first, second) = (blocks[0].0, blocks[1].0);
        let mut seen = Vec::new();
        let those = [(first, 0), (first, 2), (first, 3), (first - 1, 0), (second, 1), (second, 9)];
        for_those(&database, one, &those, |place, vector| seen.push((place.id(), vector[4]))).unwrap();
        assert_eq!(seen, [(1, 1), (127, 127), (130, 130)]);
        remove(&database, place(5)).unwrap();
        remove(&database, place(6)).unwrap();
        assert!(!is_at(&database, place(5)).unwrap() && is_at(&database, place(1)).unwrap());
        assert_eq!(at(&database, one, place(127)).unwrap().unwrap()[4], 127);
        for id in [128, 130] {
            remove(&database, place(id)).unwrap();
        }
        assert_eq!(rows(&database), 2, "no empty row is left");
        let two = model(&database, "two").unwrap().unwrap();
        put(&database, two, vec![(place(2), &[0, 0, 0, 0, 2, 7, 7])]).unwrap();
        assert_eq!(
            ids(observations, Order::OldestFirst, 10),
            Vec::<i64>::new(),
            "of no use beside another model"
        );
        assert_eq!(all(&database, two, observations, Order::OldestFirst, 10).len(), 1);
    }
}
