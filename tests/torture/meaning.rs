//! Vectors: in every fourth seed the worker has the model, where it was fetched before.

use std::fs;
use std::path::{Path, PathBuf};

use claude_mem::search::meaning::{Embedder, MiniLm, Pace, text_of};
use claude_mem::store::index::progress;
use claude_mem::store::search::{Kind, document};

use crate::invariants::one;
use crate::scene::Scene;

const FILE: &str = "all-minilm-l6-v2-int8.onnx";

/// Gives the worker the model, if it is this seed's turn.
pub fn provide(scene: &Scene) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-cache/models");
    if !scene.seed.is_multiple_of(4) {
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

/// Every memory has a vector or will get one, and those that are there are byte for byte what the model makes of the memory
/// now. How many were compared. Nothing waits for the rest: the worker reads in the background, and leaves the processors to others.
pub fn check(scene: &Scene) -> u64 {
    let Some(file) = model(scene) else { return 0 };
    let database = scene.sandbox.database();
    let surplus =
        "SELECT count(*) FROM search_vectors WHERE place NOT IN (SELECT id FROM search_index_docsize)";
    assert_eq!(one::<i64>(&database, surplus), 0, "vectors of nothing");
    let model = MiniLm::load(&file).unwrap();
    let mut compared = 0;
    for (number, kind, table) in
        [(0, Kind::Observation, "observations"), (1, Kind::Summary, "session_summaries")]
    {
        let what = format!("vectors {} {}", model.name(), kind.as_str());
        let read = progress(&database, &what).unwrap().unwrap_or_default();
        let unread = format!(
            "SELECT count(*) FROM {table} t WHERE id <= {read} AND NOT EXISTS (
               SELECT 1 FROM search_projects p WHERE (p.no << 44 | ({number} << 42) | t.id) IN (
                 SELECT place FROM search_vectors UNION SELECT place FROM search_stale))"
        );
        assert_eq!(one::<i64>(&database, &unread), 0, "{table} without a vector that will never get one");
        let mut statement = database
            .prepare("SELECT place, vector FROM search_vectors WHERE (place >> 42) & 3 = ?1")
            .unwrap();
        let rows =
            statement.query_map([number], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
        for (place, vector) in rows.unwrap().map(Result::unwrap).take(COMPARED) {
            let document = document(&database, kind, place & ((1 << 42) - 1)).unwrap().unwrap();
            let fresh = model.embed(&text_of(&document), Pace::AtOnce).unwrap().to_blob();
            assert_eq!(vector, fresh, "{table}: the vector at {place} is another from scratch");
            compared += 1;
        }
    }
    compared
}

/// Each takes a while.
const COMPARED: usize = 100;
