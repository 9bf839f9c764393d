//! `make eval`: recall of search on the committed set or on a file of your own; on questions about this project's code; and, if available, on LoCoMo (`LOCOMO=file`,
//! else ../shared/data/locomo-open.json) and on real history (`HISTORY=notes.db`, as `make eval-notes` leaves it in
//! target/eval-notes, with questions in `QUESTIONS=file`).
//!
//! The committed set has two halves. The weights by words were chosen by the first (a) alone; those of meaning by both. Fails when recall at 5
//! falls more than two points below `eval/baseline.json`. `CLAUDE_MEM_EVAL_UPDATE=1` rewrites that file,
//! `CLAUDE_MEM_EVAL_MISSES=a` lists the queries of the first half without a relevant hit in the top five.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs
)]

mod code;
mod history;
mod locomo;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claude_mem::config::{Config, Environment, SearchSettings as Settings};
use claude_mem::paths::Home;
use claude_mem::search::embedding::{self, Bert, DIMENSION, Pace};
use claude_mem::search::indexing::{EMBEDDED_AT_ONCE, vectors_for};
use claude_mem::search::{self, Filter, Request, Similarity};
use claude_mem::store;
use claude_mem::store::index::search::Range;
use claude_mem::store::index::vectors;
use rusqlite::{Connection, params};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Doc {
    id: Value,
    #[serde(default)]
    project: String,
    #[serde(default)]
    session: Value,
    #[serde(default)]
    created_at: i64,
    #[serde(rename = "type")]
    kind: Option<String>,
    title: Option<String>,
    #[serde(alias = "text")]
    summary: Option<String>,
    detail: Option<String>,
    facts: Option<Value>,
    concepts: Option<Value>,
    files_read: Option<Value>,
    files_modified: Option<Value>,
}

#[derive(Deserialize)]
struct Question {
    q: String,
    project: Option<String>,
    relevant: Vec<Value>,
    #[serde(default = "any_kind")]
    kind: String,
}

fn any_kind() -> String {
    "any".into()
}

#[derive(Default)]
struct Set {
    docs: Vec<Doc>,
    /// The queries, each with its part.
    questions: Vec<(String, Question)>,
}

#[derive(Default, Clone, Copy)]
struct Tally {
    count: f64,
    at_1: f64,
    at_5: f64,
    at_10: f64,
    reciprocal: f64,
}

impl Tally {
    fn add(&mut self, rank: Option<usize>) {
        let within = |most: usize| f64::from(u8::from(rank.is_some_and(|rank| rank < most)));
        self.count += 1.0;
        self.at_1 += within(1);
        self.at_5 += within(5);
        self.at_10 += within(10);
        self.reciprocal += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
    }

    fn row(&self, name: &str) {
        let share = |sum: f64| sum / self.count.max(1.0);
        println!(
            "| {name} | {} | {:.3} | {:.3} | {:.3} | {:.3} |",
            self.count,
            share(self.at_1),
            share(self.at_5),
            share(self.at_10),
            share(self.reciprocal)
        );
    }
}

fn main() -> ExitCode {
    let own = std::env::var_os("DATA").filter(|file| !file.is_empty()).map(PathBuf::from);
    let set = own.as_deref().map_or_else(committed, of_user);
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    let config = Config::load(Path::new("/nonexistent"), &Environment::capture()).unwrap();
    let database = load(&home, &set);
    println!("{} documents, {} queries\n", set.docs.len(), set.questions.len());
    let mut measured = BTreeMap::new();
    measure("lexical", &database, &set, None, &config.search, &mut measured);
    match model() {
        Ok(model) => {
            let mut database = database;
            embed(&mut database, &model);
            measure("fused", &database, &set, Some(&model), &config.search, &mut measured);
            compare_outlines(&database, &set, &model);
        }
        Err(reason) => println!("without a model, by words alone: {reason}\n"),
    }
    if own.is_none() {
        let model = model().ok();
        code::run(model.as_ref(), &config.search);
        locomo::run(model.as_ref(), &config.search);
        history::run(model.as_ref(), &config.search);
    }
    if own.is_some() { ExitCode::SUCCESS } else { compare(&measured) }
}

/// The two halves in `eval/`.
fn committed() -> Set {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("eval");
    let mut set = Set::default();
    for part in ["a", "b"] {
        let lines =
            |name: &str| std::fs::read_to_string(folder.join(format!("{part}.{name}.jsonl"))).unwrap();
        set.docs.extend(lines("docs").lines().map(|line| serde_json::from_str::<Doc>(line).unwrap()));
        let questions = lines("queries");
        let parsed = questions.lines().map(|line| serde_json::from_str::<Question>(line).unwrap());
        set.questions.extend(parsed.map(|question| (part.to_owned(), question)));
    }
    set
}

/// `{docs, queries}`, as one value or one on each line.
fn of_user(file: &Path) -> Set {
    #[derive(Deserialize)]
    struct Data {
        #[serde(default)]
        docs: Vec<Doc>,
        #[serde(default)]
        queries: Vec<Question>,
    }
    let text = std::fs::read_to_string(file).expect("the data can be read");
    let mut set = Set::default();
    for data in serde_json::Deserializer::from_str(&text).into_iter::<Data>() {
        let data = data.expect("the data is {docs: […], queries: […]}");
        set.docs.extend(data.docs);
        set.questions.extend(data.queries.into_iter().map(|question| ("all".to_owned(), question)));
    }
    set
}

/// A name for a value that may be text or a number.
fn name(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Stores the documents in a fresh database, in order of time, like the service.
fn load(home: &Home, set: &Set) -> Connection {
    let mut database = store::open_for_worker(home, 0).unwrap();
    let mut docs: Vec<&Doc> = set.docs.iter().collect();
    docs.sort_by_key(|doc| doc.created_at);
    let transaction = database.transaction().unwrap();
    for doc in docs {
        let session = format!("{} {}", doc.project, name(&doc.session));
        transaction
            .execute(
                "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES (?1, ?2, ?3, ?3)
                 ON CONFLICT DO NOTHING",
                params![session, doc.project, doc.created_at],
            )
            .unwrap();
        let json =
            |value: &Option<Value>| value.as_ref().filter(|value| value.is_array()).map(Value::to_string);
        transaction
            .execute(
                "INSERT INTO observations (uid, session_id, project, type, title, summary, detail, facts, concepts, files_read,
                   files_modified, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    name(&doc.id),
                    session,
                    doc.project,
                    doc.kind.as_deref().unwrap_or("change"),
                    doc.title,
                    doc.summary,
                    doc.detail,
                    json(&doc.facts),
                    json(&doc.concepts),
                    json(&doc.files_read),
                    json(&doc.files_modified),
                    doc.created_at
                ],
            )
            .unwrap();
    }
    transaction.commit().unwrap();
    while search::indexing::index_some(&mut database).unwrap() {}
    database
}

/// The model that `CLAUDE_MEM_EVAL_MODELS` (a directory of models, filled by `make eval`) holds.
pub fn model() -> Result<Bert, String> {
    let models = std::env::var_os("CLAUDE_MEM_EVAL_MODELS")
        .ok_or("CLAUDE_MEM_EVAL_MODELS names no directory of models")?;
    let loaded = embedding::load(Path::new(&models)).ok_or("no model is installed there")?;
    loaded.map_err(|error| error.to_string())
}

/// The meaning of a question, where there is a model.
pub fn similarity(question: &str, model: Option<&Bert>) -> Similarity {
    let meaning = model.and_then(|model| embedding::of_query(question, model).unwrap());
    meaning.map_or(Similarity::Unknown, Similarity::To)
}

/// Gives every row a vector.
pub fn embed(database: &mut Connection, model: &Bert) {
    let began = std::time::Instant::now();
    loop {
        let missing = vectors::missing(database, model.name(), EMBEDDED_AT_ONCE).unwrap();
        if missing.is_empty() {
            break;
        }
        let made = vectors_for(database, &missing, model, Pace::AtOnce).unwrap();
        vectors::store(database, model.name(), DIMENSION, &missing, &made).unwrap();
    }
    println!("embedded in {:.1} s\n", began.elapsed().as_secs_f64());
}

/// The rank of the first relevant document, if among the first ten.
fn rank_of(
    database: &Connection,
    question: &Question,
    model: Option<&Bert>,
    settings: &Settings,
    now: i64,
) -> Option<usize> {
    let request = Request {
        similarity: similarity(&question.q, model),
        query: question.q.clone(),
        filter: Filter { project: question.project.clone(), ..Filter::default() },
        limit: 10,
        now,
        ..Request::default()
    };
    let found = search::search(database, &request, settings).unwrap();
    let uid = |id: i64| -> String {
        database.query_row("SELECT uid FROM observations WHERE id = ?1", [id], |row| row.get(0)).unwrap()
    };
    let is_relevant = |uid: String| question.relevant.iter().any(|relevant| name(relevant) == uid);
    found
        .hits
        .iter()
        .position(|hit| is_relevant(uid(hit.id)) || hit.similar.iter().any(|id| is_relevant(uid(*id))))
}

fn measure(
    way: &str,
    database: &Connection,
    set: &Set,
    model: Option<&Bert>,
    settings: &Settings,
    measured: &mut BTreeMap<String, f64>,
) {
    let now = set.docs.iter().map(|doc| doc.created_at).max().unwrap_or_default() + 24 * 60 * 60_000;
    let misses = std::env::var("CLAUDE_MEM_EVAL_MISSES").unwrap_or_default();
    let mut parts: BTreeMap<String, (Tally, BTreeMap<String, Tally>)> = BTreeMap::new();
    for (part, question) in &set.questions {
        let rank = rank_of(database, question, model, settings, now);
        if *part == misses && rank.is_none_or(|rank| rank >= 5) {
            println!("missed ({}): {} → {rank:?}", question.kind, question.q);
        }
        for name in [part.as_str(), "all"].iter().take(if part == "all" { 1 } else { 2 }) {
            let (total, kinds) = parts.entry((*name).to_owned()).or_default();
            total.add(rank);
            kinds.entry(question.kind.clone()).or_default().add(rank);
        }
    }
    for (part, (total, kinds)) in parts {
        println!(
            "## {way}, part {part}\n\n| kind | queries | R@1 | R@5 | R@10 | MRR |\n| --- | --- | --- | --- | --- | --- |"
        );
        kinds.iter().for_each(|(kind, tally)| tally.row(kind));
        total.row("**all**");
        println!();
        measured.insert(format!("{way} {part}"), (total.at_5 / total.count * 1000.0).round() / 1000.0);
    }
}

/// Of very many rows only those are compared whose outlines are near. How many of the most alike are among them?
fn compare_outlines(database: &Connection, set: &Set, model: &Bert) {
    const BEST: usize = 10;
    let known = vectors::newest_model(database).unwrap().unwrap();
    let mut all = Vec::new();
    vectors::for_each(database, known, Range::ALL, |_, blob| {
        all.push((blob.to_vec(), vectors::outline(blob)))
    })
    .unwrap();
    let mut nearer: Vec<usize> = Vec::new();
    for (_, question) in &set.questions {
        let Some(asked) = embedding::of_query(&question.q, model).unwrap() else { continue };
        let beside = asked.vector.beside_outlines();
        let mut rows: Vec<(f32, i32)> = all
            .iter()
            .map(|(blob, stored)| (asked.vector.likeness(blob).unwrap_or_default(), beside.nearness(stored)))
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, nearness) in &rows[..BEST.min(rows.len())] {
            nearer.push(rows.iter().filter(|(_, other)| other > nearness).count());
        }
    }
    println!("Where the {BEST} most alike documents stand by their outlines alone:\n");
    println!("| among the nearest | of {} | share |\n| --- | --- | --- |", all.len());
    for percent in [0.2, 0.4, 1.0, 4.0] {
        let nearest = (all.len() as f64 * percent / 100.0).ceil() as usize;
        let among = nearer.iter().filter(|before| **before < nearest).count();
        println!("| {percent} % | {nearest} | {:.2} % |", 100.0 * among as f64 / nearer.len().max(1) as f64);
    }
    println!();
}

/// Compares with the committed baseline: more than two points less is a failure.
fn compare(measured: &BTreeMap<String, f64>) -> ExitCode {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("eval/baseline.json");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| "{}".to_owned());
    let mut baseline: BTreeMap<String, f64> = serde_json::from_str(&text).unwrap();
    if std::env::var_os("CLAUDE_MEM_EVAL_UPDATE").is_some() {
        baseline.extend(measured.clone());
        std::fs::write(&file, format!("{:#}\n", json!(baseline))).unwrap();
    }
    let fallen: Vec<String> = measured
        .iter()
        .filter(|(way, _)| way.ends_with("all"))
        .filter_map(|(way, now)| Some((way, now, baseline.get(way)?)))
        .filter(|(_, now, before)| **now < **before - 0.02)
        .map(|(way, now, before)| format!("{way}: R@5 fell from {before} to {now}"))
        .collect();
    fallen.iter().for_each(|line| println!("{line}"));
    if fallen.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
