//! Real history: a database that `make eval-notes` made from transcripts (`HISTORY=file`, else target/eval-notes/notes.db).
//!
//! Questions (`QUESTIONS=file`, one JSON object on each line: `project`, `q`, `sessions` that have the answer, `answer`, a pattern
//! that the stored text of a hit must match). And the files that a session will edit: its first prompt is asked of all that was known
//! before it, the files of the notes are ranked, and those that were known and are edited are to be among ten.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use claude_mem::config::SearchSettings as Settings;
use claude_mem::paths::Home;
use claude_mem::search::embedding::Bert;
use claude_mem::search::{self, Filter, FoundMemory, Request};
use claude_mem::store;
use claude_mem::store::index::search::{Kind, document};
use regex::Regex;
use rusqlite::Connection;
use serde::Deserialize;

#[derive(Deserialize)]
struct Question {
    project: String,
    q: String,
    sessions: HashSet<String>,
    answer: String,
}

pub fn run(model: Option<&Bert>, settings: &Settings) {
    let named = |name: &str| std::env::var_os(name).filter(|file| !file.is_empty()).map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/eval-notes/notes.db");
    let history = named("HISTORY").unwrap_or(usual);
    if !history.exists() {
        println!(
            "History: skipped, there is no {} (make eval-notes DATA=dir, or HISTORY=file)\n",
            history.display()
        );
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::at(scratch.path().join("mem"));
    let mut database = copy(&history, &home);
    println!("## History\n");
    match named("QUESTIONS").map(|file| std::fs::read_to_string(file).unwrap()) {
        None => println!("Questions: skipped, QUESTIONS=file names none\n"),
        Some(text) => {
            let questions: Vec<Question> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            ask("by words", &database, &questions, None, settings);
            if let Some(model) = model {
                crate::embed(&mut database, model);
                ask("with the model", &database, &questions, Some(model), settings);
            }
        }
    }
    files_to_edit(&database, settings);
}

/// Copies the memories of a database into one of this version, with the times of their turns.
fn copy(from: &Path, home: &Home) -> Connection {
    let mut database = store::open_for_worker(home, 0).unwrap();
    database.execute("ATTACH ?1 AS old", [from.to_str().unwrap()]).unwrap();
    for table in ["sessions", "user_prompts", "observations", "session_summaries"] {
        let columns = |schema: &str| -> Vec<String> {
            let mut statement = database.prepare(&format!("PRAGMA {schema}.table_info({table})")).unwrap();
            statement.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect()
        };
        let old = columns("old");
        let shared: Vec<String> = columns("main").into_iter().filter(|column| old.contains(column)).collect();
        let list = shared.join(", ");
        database
            .execute_batch(&format!("INSERT INTO main.{table} ({list}) SELECT {list} FROM old.{table}"))
            .unwrap();
    }
    for table in ["observations", "session_summaries"] {
        database
            .execute_batch(&format!(
                "UPDATE {table} SET created_at = coalesce((SELECT p.created_at FROM user_prompts p
                   WHERE p.session_id = {table}.session_id AND p.prompt_number = {table}.prompt_number), created_at)"
            ))
            .unwrap();
    }
    while search::indexing::index_some(&mut database).unwrap() {}
    database
}

fn hits(database: &Connection, request: &Request, settings: &Settings) -> Vec<FoundMemory> {
    search::search(database, request, settings).unwrap().hits
}

fn ask(way: &str, database: &Connection, questions: &[Question], model: Option<&Bert>, settings: &Settings) {
    let (mut sessions, mut answers, mut first, mut stored) = (0, 0, 0, 0);
    for question in questions {
        let answer = Regex::new(&question.answer).unwrap();
        let request = Request {
            similarity: crate::similarity(&question.q, model),
            query: question.q.clone(),
            filter: Filter { project: Some(question.project.clone()), ..Filter::default() },
            limit: 5,
            now: 1_800_000_000_000,
            ..Request::default()
        };
        let hits = hits(database, &request, settings);
        let is_right: Vec<bool> =
            hits.iter().map(|hit| question.sessions.contains(&hit.session_id)).collect();
        let answers_it = |hit: &FoundMemory| {
            let text = document(database, hit.kind, hit.id).unwrap().unwrap();
            answer.is_match(&[text.title, text.summary, text.detail, text.facts].join(" "))
        };
        let is_answer: Vec<bool> =
            hits.iter().zip(&is_right).map(|(hit, right)| *right && answers_it(hit)).collect();
        sessions += usize::from(is_right.contains(&true));
        answers += usize::from(is_answer.contains(&true));
        first += usize::from(is_answer.first() == Some(&true));
        stored += usize::from(is_stored(database, question, &answer));
        if !is_answer.contains(&true) && std::env::var_os("CLAUDE_MEM_EVAL_MISSES").is_some() {
            println!("missed: {}", question.q);
        }
    }
    println!(
        "Questions {way}: {} asked, the right session in 5 hits {sessions}, the answer in 5 {answers}, in the first {first}; stored at all {stored}\n",
        questions.len()
    );
}

fn is_stored(database: &Connection, question: &Question, answer: &Regex) -> bool {
    let sql = "SELECT session_id, concat_ws(' ', title, summary, detail, facts) FROM observations UNION ALL
               SELECT session_id, concat_ws(' ', request, summary, learned, completed, next_steps, notes, key_decisions) FROM session_summaries";
    let mut statement = database.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (session, text): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        if question.sessions.contains(&session) && answer.is_match(&text) {
            return true;
        }
    }
    false
}

/// Half-life of a file's weight, in days.
const HALF_LIFE_DAYS: f64 = 7.0;
const DAY: f64 = 86_400_000.0;

fn files_to_edit(database: &Connection, settings: &Settings) {
    let sql = "SELECT s.id, s.project, p.prompt, p.created_at FROM sessions s JOIN user_prompts p ON p.session_id = s.id AND p.prompt_number = 1
               ORDER BY p.created_at";
    let mut statement = database.prepare(sql).unwrap();
    let starts: Vec<(String, String, String, i64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut known: HashMap<String, HashSet<String>> = HashMap::new();
    let mut tallies: BTreeMap<String, [f64; 5]> = BTreeMap::new();
    for (session, project, prompt, at) in &starts {
        let edited = edited(database, session);
        let known = known.entry(project.clone()).or_default();
        let wanted: Vec<&String> = edited.iter().filter(|file| known.contains(*file)).collect();
        if !wanted.is_empty() {
            let asked: String = prompt.chars().take(300).collect();
            let ours = by_search(database, project, &asked, *at, settings);
            let plain = by_bm25(database, project, &asked, *at);
            let found = |notes: &[RankedNote], named: &str| {
                let list = ranked(notes, named);
                wanted.iter().filter(|file| list.contains(file)).count() as f64
            };
            let tally = tallies.entry(project.clone()).or_default();
            tally[0] += wanted.len() as f64;
            let ways = [found(&ours, ""), found(&ours, prompt), found(&plain, ""), found(&plain, prompt)];
            tally[1..].iter_mut().zip(ways).for_each(|(sum, found)| *sum += found);
        }
        known.extend(edited);
    }
    println!(
        "| files to edit, recall@10 | search × recency | named in the prompt first | BM25 × recency | named first |\n| --- | --- | --- | --- | --- |"
    );
    for (project, [wanted, ways @ ..]) in tallies {
        let shares: Vec<String> =
            ways.iter().map(|found| format!("{:.1} %", 100.0 * found / wanted)).collect();
        println!("| {project} ({wanted} files) | {} |", shares.join(" | "));
    }
    println!();
}

fn edited(database: &Connection, session: &str) -> HashSet<String> {
    let sql = "SELECT DISTINCT value FROM observations, json_each(files_modified) WHERE session_id = ?1";
    let mut statement = database.prepare_cached(sql).unwrap();
    statement.query_map([session], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A note's relevance, its age in days, and the files it changed, as JSON.
type RankedNote = (f64, f64, String);

/// The notes that search finds.
fn by_search(
    database: &Connection,
    project: &str,
    prompt: &str,
    at: i64,
    settings: &Settings,
) -> Vec<RankedNote> {
    let filter = Filter {
        project: Some(project.to_owned()),
        kinds: vec![Kind::Observation],
        until: Some(at),
        ..Filter::default()
    };
    // Quotation marks in a prompt require nothing.
    let query = prompt.replace('"', " ");
    let request = Request { query, filter, limit: 100, now: at, without_text: true, ..Request::default() };
    let note = |hit: FoundMemory| {
        let files = document(database, hit.kind, hit.id).unwrap().unwrap().files_modified;
        (hit.score, (at - hit.created_at) as f64 / DAY, files)
    };
    hits(database, &request, settings).into_iter().map(note).collect()
}

/// The plain method: FTS5's own ranking of the notes.
fn by_bm25(database: &Connection, project: &str, prompt: &str, at: i64) -> Vec<RankedNote> {
    let words: HashSet<String> = prompt
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2)
        .map(|word| format!("\"{word}\""))
        .collect();
    let expression = format!("{{head body}} : ({})", words.into_iter().collect::<Vec<_>>().join(" OR "));
    let sql = "SELECT -bm25(search_index), o.created_at, coalesce(o.files_modified, '[]') FROM search_index i JOIN observations o ON o.id = i.rowid & ((1 << 42) - 1)
               WHERE search_index MATCH ?1 AND o.project = ?2 AND o.created_at < ?3 AND i.rowid >> 42 & 3 = 0
               AND i.rowid >> 44 = (SELECT no FROM search_projects WHERE project = ?2) ORDER BY 1 DESC LIMIT 100";
    let mut statement = database.prepare_cached(sql).unwrap();
    let rows = statement
        .query_map((expression, project, at), |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?)))
        .unwrap();
    rows.map(Result::unwrap)
        .map(|(score, created, files)| (score, (at - created) as f64 / DAY, files))
        .collect()
}

/// The ten files with the highest score by relevance and recency, those that `prompt` names first.
fn ranked(notes: &[RankedNote], prompt: &str) -> Vec<String> {
    let mut sums: HashMap<String, f64> = HashMap::new();
    for (score, age, files) in notes {
        let value = score * score * 0.5_f64.powf(age / HALF_LIFE_DAYS);
        for file in serde_json::from_str::<HashSet<String>>(files).unwrap_or_default() {
            *sums.entry(file).or_default() += value;
        }
    }
    let largest = sums.values().copied().fold(0.0, f64::max);
    let prompt = prompt.to_lowercase();
    for (file, sum) in &mut sums {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        *sum += if prompt.contains(&name) { largest } else { 0.0 };
    }
    let mut files: Vec<(String, f64)> = sums.into_iter().collect();
    files.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    files.into_iter().take(10).map(|(file, _)| file).collect()
}
