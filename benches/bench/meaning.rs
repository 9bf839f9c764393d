//! Search by words and embeddings: the time over the socket, the parts of it for the query's embedding and for comparing all
//! vectors, and the model's memory while loaded and after unloading.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use claude_mem::paths::Home;
use claude_mem::search::embedding::{self, Bert, Published, Vector};
use claude_mem::store;
use claude_mem::store::index::search::Range;
use claude_mem::store::index::vectors;

use crate::search::{ASKED, Worker};
use crate::table::{Table, median};

const QUESTION: &str = "parser deadlock index connection socket";

/// The model and its file, from the directory that `CLAUDE_MEM_EVAL_MODELS` names.
pub fn model() -> Option<(&'static Published, PathBuf)> {
    let models = PathBuf::from(std::env::var_os("CLAUDE_MEM_EVAL_MODELS")?);
    embedding::installed(&models).map(|published| (published, published.file(&models)))
}

/// Gives every row a vector and repeats the queries. Returns the time of one.
pub fn measure(
    binaries: &Path,
    home: &Home,
    scratch: &Path,
    rows: usize,
    before: Option<f64>,
    table: &mut Table,
) -> Option<f64> {
    let Some((published, file)) = model() else {
        table.figure(&format!("hybrid {rows}"), "skipped: CLAUDE_MEM_EVAL_MODELS holds no model".into(), "–");
        return None;
    };
    let model = Bert::load(published, file.parent().unwrap()).unwrap();
    give_vectors(home);
    let scanned = scan(home, &model);
    table.figure(&format!("comparing {rows} vectors"), format!("{scanned:.2} ms"), "–");
    if before.is_none() {
        let mut times: Vec<f64> =
            (0..ASKED).map(|_| timed(|| drop(embedding::of_query(QUESTION, &model).unwrap()))).collect();
        table.figure("the query's embedding", format!("{:.2} ms", median(&mut times)), "–");
    }
    drop(model);
    std::fs::create_dir_all(home.models()).unwrap();
    std::fs::copy(&file, published.file(&home.models())).unwrap();
    let worker = Worker::start(binaries, home, scratch);
    let route = format!("/api/search?q={}", QUESTION.replace(' ', "+"));
    let mut times: Vec<f64> = (0..ASKED).map(|_| worker.ask(&route)).collect();
    let ours = median(&mut times);
    match before {
        Some(before) => {
            table.time(&format!("hybrid {rows} (baseline: the first size)"), before, ours, "≤ 4×")
        }
        None => table.figure(&format!("hybrid {rows}"), format!("{ours:.2} ms"), "≤ 25 ms"),
    }
    memory(&worker, rows, table);
    Some(ours)
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1000.0
}

/// Random vectors: comparing them takes as long.
pub fn give_vectors(home: &Home) {
    let mut database = store::open_for_worker(home, 0).unwrap();
    let name = model().map_or(embedding::ALL[0].name, |(published, _)| published.name);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % 2001) as f32 / 1000.0 - 1.0
    };
    loop {
        let missing = vectors::missing(&database, name, 5_000).unwrap();
        if missing.is_empty() {
            break;
        }
        let made: Vec<_> = missing
            .rows
            .iter()
            .map(|(kind, id)| {
                (*kind, *id, Vector::new(&(0..384).map(|_| next()).collect::<Vec<_>>()).to_blob())
            })
            .collect();
        vectors::store(&mut database, name, 384, &missing, &made).unwrap();
    }
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

fn scan(home: &Home, model: &Bert) -> f64 {
    let readers = store::open_readers(home).unwrap();
    let database = readers.get().unwrap();
    let number = vectors::newest_model(&database).unwrap().unwrap();
    let asked = embedding::of_query(QUESTION, model).unwrap().unwrap();
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            timed(|| {
                let mut best = f32::MIN;
                vectors::for_each(&database, number, Range::ALL, |_, blob| {
                    best = best.max(asked.vector.likeness(blob).unwrap_or(f32::MIN));
                })
                .unwrap();
                assert!(best > f32::MIN);
            })
        })
        .collect();
    median(&mut times)
}

fn memory(worker: &Worker, rows: usize, table: &mut Table) {
    let loaded = worker.memory_mb();
    table.figure(&format!("PSS with the model loaded, {rows} rows"), format!("{loaded:.1} MB"), "≤ 90 MB");
    let deadline = Instant::now() + Duration::from_secs(30);
    while worker.memory_mb() > loaded / 2.0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(500));
        worker.nudge();
    }
    // Memory of the last queries is released after a few idle seconds.
    std::thread::sleep(Duration::from_secs(12));
    table.figure(
        &format!("PSS after it was unloaded, {rows} rows"),
        format!("{:.1} MB", worker.memory_mb()),
        "≤ 14 MB",
    );
}
