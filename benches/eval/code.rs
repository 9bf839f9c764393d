//! Questions about code: the first sentence of a public function's documentation asks for the function, whose comments are
//! removed. Made of this project's own source; a function is an observation, a file a session.

use std::path::{Path, PathBuf};

use claude_mem::config::SearchSettings as Settings;
use claude_mem::paths::Home;
use claude_mem::search::embedding::Bert;
use claude_mem::search::{self, Request};
use claude_mem::store;
use rusqlite::{Connection, params};

use crate::Tally;

/// A documented function.
struct Function {
    file: String,
    name: String,
    question: String,
    code: String,
}

/// Questions that are asked; evenly drawn from all functions.
const QUESTIONS: usize = 300;
/// Of a longer function the beginning is stored.
const MOST_LINES: usize = 40;
/// Shorter sentences ask nothing.
const LEAST_WORDS: usize = 5;

pub fn run(model: Option<&Bert>, settings: &Settings) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let functions: Vec<Function> = files(&source)
        .iter()
        .flat_map(|file| {
            let name = file.strip_prefix(&source).unwrap().display().to_string();
            functions(&name, &std::fs::read_to_string(file).unwrap())
        })
        .collect();
    let scratch = tempfile::tempdir().unwrap();
    let mut database = store::open_for_worker(&Home::at(scratch.path().join("mem")), 0).unwrap();
    fill(&database, &functions);
    while search::indexing::index_some(&mut database).unwrap() {}
    println!("## Code, {} functions of this project\n", functions.len());
    println!("| | questions | R@1 | R@5 | R@10 | MRR |\n| --- | --- | --- | --- | --- | --- |");
    measure("by words", &database, &functions, None, settings);
    if let Some(model) = model {
        crate::embed(&mut database, model);
        measure("with the model", &database, &functions, Some(model), settings);
    }
    println!();
}

/// The source files below a folder, in order, without those of tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.retain(|path| path.file_stem().is_none_or(|name| name != "tests"));
    let is_source = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs");
    entries
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(is_source)
        .collect()
}

/// The public functions of a file that have a documentation to ask with.
fn functions(file: &str, text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let declared =
            ["pub fn ", "pub async fn "].iter().find_map(|start| line.trim_start().strip_prefix(start));
        let Some(declared) = declared else { continue };
        let is_doc = |line: &&&str| line.trim_start().starts_with("///");
        let mut doc: Vec<&str> = lines[..at].iter().rev().take_while(is_doc).copied().collect();
        doc.reverse();
        let doc: Vec<&str> =
            doc.iter().map(|line| line.trim_start().trim_start_matches('/').trim()).collect();
        let question = doc.join(" ").split(". ").next().unwrap_or_default().replace('`', "");
        if question.split_whitespace().count() < LEAST_WORDS {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &&str| {
            line.starts_with('}') || line.get(..indent + 1).is_some_and(|start| start.trim() == "}")
        };
        let length = lines[at..].iter().position(is_end).map_or(1, |last| last + 1).min(MOST_LINES);
        let code: Vec<&str> = lines[at..at + length]
            .iter()
            .copied()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let name = declared.split(['(', '<']).next().unwrap_or_default().to_owned();
        found.push(Function { file: file.to_owned(), name, question, code: code.join("\n") });
    }
    found
}

/// Stores the functions; ids are their numbers, from 1.
fn fill(database: &Connection, functions: &[Function]) {
    database.execute_batch("BEGIN").unwrap();
    for (number, function) in (1..).zip(functions) {
        let Function { file, name, code, .. } = function;
        let session = "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES (?1, 'code', 1, 1) ON CONFLICT DO NOTHING";
        database.execute(session, [file]).unwrap();
        database
            .execute(
                "INSERT INTO observations (id, uid, session_id, project, title, summary, files_modified, created_at)
                 VALUES (?1, ?1, ?2, 'code', ?3, ?4, json_array(?2), ?1)",
                params![number, file, name, code],
            )
            .unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

fn measure(
    way: &str,
    database: &Connection,
    functions: &[Function],
    model: Option<&Bert>,
    settings: &Settings,
) {
    let mut tally = Tally::default();
    let step = functions.len().div_ceil(QUESTIONS).max(1);
    for (number, function) in (1..).zip(functions).step_by(step) {
        let request = Request {
            similarity: crate::similarity(&function.question, model),
            query: function.question.clone(),
            limit: 10,
            now: 1_800_000_000_000,
            ..Request::default()
        };
        let hits = search::search(database, &request, settings).unwrap().hits;
        tally.add(hits.iter().position(|hit| hit.id == number));
    }
    tally.row(way);
}
