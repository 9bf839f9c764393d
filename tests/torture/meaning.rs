//! Embeddings: in every fourth seed the worker has the model, if it was fetched before.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use claude_mem::search::embedding::{self, Pace, Role, text_of};
use claude_mem::store::index::search::{Kind, Place, Range, document};
use claude_mem::store::index::{progress, vectors};

use crate::scene::Scene;

/// Gives the worker the model, if it is this seed's turn.
pub fn provide(scene: &Scene) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-cache/models");
    if !scene.seed.is_multiple_of(4) {
        return;
    }
    if embedding::installed(&cache).is_some() {
        fs::create_dir_all(scene.sandbox.data()).unwrap();
        // A link, because the disk is small. Copies of crashes do without.
        std::os::unix::fs::symlink(cache, scene.sandbox.data().join("models")).unwrap();
    } else {
        eprintln!("skipped: no vectors, because the model was not fetched");
    }
}

/// Every memory has a vector or will get one, and those that are there are byte for byte what the model makes of the memory
/// now. How many were compared. Nothing waits for the rest: the worker reads in the background, and leaves the processors to others.
pub fn check(scene: &Scene) -> u64 {
    let Some(model) = embedding::load(&scene.sandbox.data().join("models")) else { return 0 };
    let (database, model) = (scene.sandbox.database(), model.unwrap());
    let Some(known) = vectors::model(&database, model.name()).unwrap() else { return 0 };
    let mut there = Vec::new();
    vectors::for_each(&database, known, Range::ALL, |place, vector| {
        there.push((place, vector.to_vec()));
    })
    .unwrap();
    let mut compared = 0;
    for (place, vector) in &there {
        let document = document(&database, place.kind(), place.id()).unwrap();
        let document = document.unwrap_or_else(|| panic!("the vector at {place:?} is of nothing"));
        if compared < COMPARED {
            let fresh = model.embed(&text_of(&document), Role::Memory, Pace::AtOnce).unwrap().to_blob();
            assert_eq!(*vector, fresh, "the vector at {place:?} is another from scratch");
            compared += 1;
        }
    }
    let mut expected: HashSet<(Kind, i64)> =
        there.iter().map(|(place, _)| (place.kind(), place.id())).collect();
    let mut stale = database.prepare("SELECT place FROM search_stale").unwrap();
    let stale = stale.query_map([], |row| row.get(0).map(Place)).unwrap().map(Result::unwrap);
    expected.extend(stale.map(|place| (place.kind(), place.id())));
    for (kind, table) in [(Kind::Observation, "observations"), (Kind::Summary, "session_summaries")] {
        let what = format!("vectors {} {}", model.name(), kind.as_str());
        let read = progress(&database, &what).unwrap().unwrap_or_default();
        let sql = format!("SELECT id FROM {table} WHERE id <= ?1");
        let mut statement = database.prepare(&sql).unwrap();
        for id in statement.query_map([read], |row| row.get(0)).unwrap().map(Result::unwrap) {
            assert!(expected.contains(&(kind, id)), "{table} {id} has no vector and will never get one");
        }
    }
    compared
}

/// Maximum number of vectors compared, because each takes a while.
const COMPARED: u64 = 100;
