//! Vectors: in every fourth seed the worker has the model, where it was fetched before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use claude_mem::search::meaning::MiniLm;
use claude_mem::search::upkeep::embed_some;
use claude_mem::store::vectors::{coverage, forget_all};
use rusqlite::Connection;

use crate::scene::Scene;

const FILE: &str = "all-minilm-l6-v2-int8.onnx";

/// Gives the worker the model, if it is this seed's turn.
pub fn provide(scene: &Scene) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-cache/models");
    if scene.seed % 4 != 0 {
        return;
    }
    if cache.join(FILE).exists() {
        fs::create_dir_all(scene.sandbox.data()).unwrap();
        // A link: the disk is small. The copies of crashes do without.
        std::os::unix::fs::symlink(cache, scene.sandbox.data().join("models")).unwrap();
    } else {
        eprintln!("skipped: no vectors, because the model was not fetched");
    }
}

fn model(scene: &Scene) -> Option<PathBuf> {
    Some(scene.sandbox.data().join("models").join(FILE)).filter(|file| file.exists())
}

/// How many memories have no vector yet that will get one.
pub fn unread(scene: &Scene, database: &Connection) -> i64 {
    let Some(_) = model(scene) else { return 0 };
    let (have, need) = coverage(database).unwrap();
    need - have
}

/// The vectors as they came are those that are made from scratch, byte by byte. How many they are.
pub fn check(scene: &Scene) -> u64 {
    let Some(file) = model(scene) else { return 0 };
    let mut database = scene.sandbox.database();
    let grown = vectors(&database);
    forget_all(&mut database).unwrap();
    let model = MiniLm::load(&file).unwrap();
    while embed_some(&mut database, &model).unwrap() {}
    let fresh = vectors(&database);
    assert_eq!(grown.len(), fresh.len(), "vectors of other rows than from scratch");
    for (place, vector) in &fresh {
        assert_eq!(grown.get(place), Some(vector), "the vector at {place} is another from scratch");
    }
    fresh.len() as u64
}

fn vectors(database: &Connection) -> BTreeMap<i64, Vec<u8>> {
    let mut statement = database.prepare("SELECT place, vector FROM search_vectors").unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    statement.query_map([], read).unwrap().map(Result::unwrap).collect()
}
