//! By meaning, with vectors made by hand.

use super::*;
use crate::search::embedding::Vector;
use crate::store::index::vectors;

/// Gives every row that lacks one a vector, made by hand.
fn read_with(memory: &mut Memory, direction: impl Fn(i64) -> [f32; 3]) -> usize {
    memory.index_some();
    let missing = vectors::missing(&memory.database, "by hand", 100).unwrap();
    let made: Vec<_> =
        missing.rows.iter().map(|(kind, id)| (*kind, *id, Vector::new(&direction(*id)).to_blob())).collect();
    vectors::store(&mut memory.database, "by hand", 3, &missing, &made).unwrap();
    made.len()
}

fn pointing(direction: [f32; 3]) -> Similarity {
    Similarity::To(QueryEmbedding {
        model: "by hand",
        scale: crate::search::embedding::Scale::default(),
        vector: Vector::new(&direction),
    })
}

#[test]
fn what_means_the_same_is_found_without_a_shared_word() {
    let mut memory = Memory::new();
    let walrus = memory.observe("Feed the walrus", "It eats fish");
    let ledger = memory.observe("Close the ledger", "Books are balanced");
    memory.observe("Paint the fence", "It is green now");
    let directions = [[1.0, 0.1, 0.0], [0.0, 0.2, 1.0], [-1.0, 0.0, 0.0]];
    assert_eq!(read_with(&mut memory, |id| directions[id as usize - 1]), 3);
    let mut asked = request(&[("q", "dinner for seals"), ("explain", "1")]);
    assert!(memory.ask(&asked).hits.is_empty(), "not by words");
    asked.similarity = pointing([0.9, 0.2, 0.1]);
    let found = memory.ask(&asked);
    assert_eq!(found.hits[0].id, walrus);
    let parts = found.hits[0].parts.clone().unwrap();
    assert!(parts.meaning > 0.99 && parts.words == 0.0, "{parts:?}");
    // A word that was asked and is there beats a meaning that is only near.
    asked = request(&[("q", "ledger")]);
    asked.similarity = pointing([0.5, 0.2, 0.45]);
    assert_eq!(memory.ask(&asked).hits[0].id, ledger);
    // A quoted phrase is required, and filters hold.
    asked = request(&[("q", "\"no such phrase\"")]);
    asked.similarity = pointing([1.0, 0.0, 0.0]);
    assert!(memory.ask(&asked).hits.is_empty());
    asked = request(&[("q", "dinner"), ("type", "decision")]);
    asked.similarity = pointing([1.0, 0.0, 0.0]);
    assert!(memory.ask(&asked).hits.is_empty());
    // Vectors of another model are not compared.
    asked = request(&[("q", "dinner for seals")]);
    asked.similarity = Similarity::To(QueryEmbedding {
        model: "another",
        scale: crate::search::embedding::Scale::default(),
        vector: Vector::new(&[1.0, 0.1, 0.0]),
    });
    assert!(memory.ask(&asked).hits.is_empty());
}

#[test]
fn a_changed_row_is_read_again_and_a_deleted_one_is_not_found_by_meaning() {
    let mut memory = Memory::new();
    let id = memory.observe("Feed the walrus", "It eats fish");
    memory.prompt(1, "feed it");
    memory.index_some();
    let near = |memory: &Memory| {
        let mut asked = request(&[("q", "dinner")]);
        asked.similarity = pointing([1.0, 0.0, 0.0]);
        memory.observe("Something else", "so that not all are alike");
        memory.ask(&asked).hits.iter().any(|hit| hit.id == id && hit.kind == Kind::Observation)
    };
    let direction = |row: i64| if row == id { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] };
    memory.observe("Another", "");
    read_with(&mut memory, direction);
    assert!(near(&memory));
    read_with(&mut memory, direction);
    memory.database.execute("UPDATE observations SET project = 'q' WHERE id = ?1", [id]).unwrap();
    assert!(!near(&memory), "the old direction is gone");
    assert!(read_with(&mut memory, direction) > 0);
    assert!(near(&memory), "and it has one at its new place");
    memory.database.execute("UPDATE observations SET deleted_at = 5 WHERE id = ?1", [id]).unwrap();
    read_with(&mut memory, direction);
    assert!(!near(&memory));
    memory.database.execute("UPDATE observations SET deleted_at = NULL WHERE id = ?1", [id]).unwrap();
    read_with(&mut memory, direction);
    assert!(near(&memory), "what comes back is read again");
    memory.database.execute("DELETE FROM user_prompts", []).unwrap();
    read_with(&mut memory, direction);
    assert_eq!(read_with(&mut memory, direction), 0, "nothing is left to read");
    begin_rebuild(&mut memory.database).unwrap();
    memory.index_some();
    assert_eq!(read_with(&mut memory, direction), 0, "a rebuilt index needs no new directions");
}

#[test]
fn what_is_not_there_is_not_found_by_a_model_either() {
    let mut memory = Memory::new();
    memory.observe("Feed the walrus", "It eats fish");
    memory.observe("Close the ledger", "Books are balanced");
    read_with(&mut memory, |id| if id == 1 { [1.0, 0.0, 0.0] } else { [0.0, 0.0, 1.0] });
    let mut asked = request(&[("q", "teapot")]);
    asked.similarity = pointing([0.2, 1.0, 0.15]);
    assert!(memory.ask(&asked).hits.is_empty(), "a little alike is not a hit");
    asked.similarity = pointing([1.0, 0.2, 0.0]);
    assert_eq!(memory.ask(&asked).hits.len(), 1);
}
