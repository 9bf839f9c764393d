//! LoCoMo (CC BY-NC, for evaluation only): long conversations, a question, and the turns that hold the evidence. A turn is an
//! observation, a conversation a project. R@10 is the share of a question's evidence among the first ten hits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use claude_mem::config::SearchSettings as Settings;
use claude_mem::paths::Home;
use claude_mem::search::embedding::Bert;
use claude_mem::search::{self, Filter, Request};
use claude_mem::store;
use jiff::civil::DateTime;
use rusqlite::{Connection, params};
use serde_json::Value;

/// Categories with evidence in the conversation; 5 has questions that cannot be answered.
const CATEGORIES: std::ops::RangeInclusive<i64> = 1..=4;

struct Question {
    project: String,
    q: String,
    evidence: HashSet<String>,
    category: i64,
}

pub fn run(model: Option<&Bert>, settings: &Settings) {
    let named = std::env::var_os("LOCOMO").filter(|file| !file.is_empty()).map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/locomo-open.json");
    let Ok(text) = std::fs::read_to_string(named.unwrap_or(usual)) else {
        println!("LoCoMo: skipped, the file is not there (LOCOMO=file)\n");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
    let mut database = store::open_for_worker(&home, 0).unwrap();
    let conversations: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut questions = Vec::new();
    database.execute_batch("BEGIN").unwrap();
    for (number, conversation) in conversations.iter().enumerate() {
        questions.extend(load(&database, &format!("conversation {number}"), conversation));
    }
    database.execute_batch("COMMIT").unwrap();
    while search::indexing::index_some(&mut database).unwrap() {}
    println!("## LoCoMo, {} questions\n", questions.len());
    println!("| | R@10 | any in 5 | by category 1 / 2 / 3 / 4 |\n| --- | --- | --- | --- |");
    measure("by words", &database, &questions, None, settings);
    if let Some(model) = model {
        crate::embed(&mut database, model);
        measure("with the model", &database, &questions, Some(model), settings);
    }
    println!();
}

/// Stores the turns of a conversation. Returns its questions.
fn load(database: &Connection, project: &str, conversation: &Value) -> Vec<Question> {
    let talk = &conversation["conversation"];
    let mut known = HashSet::new();
    for number in 1.. {
        let Some(turns) = talk[format!("session_{number}")].as_array() else { break };
        let date = talk[format!("session_{number}_date_time")].as_str().unwrap_or_default();
        let session = format!("{project} {number}");
        let start = moment(date);
        database
            .execute(
                "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES (?1, ?2, ?3, ?3)",
                params![session, project, start],
            )
            .unwrap();
        for (at, turn) in (0_i64..).zip(turns) {
            let word = |name: &str| turn[name].as_str().unwrap_or_default();
            let text = [word("text"), word("blip_caption")].join(" ");
            let title: String = format!("{}: {text}", word("speaker")).chars().take(80).collect();
            database
                .execute(
                    "INSERT INTO observations (uid, session_id, project, title, summary, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    params![format!("{project} {}", word("dia_id")), session, project, title, text.trim(), start + at * 60_000],
                )
                .unwrap();
            known.insert(word("dia_id").to_owned());
        }
    }
    let question = |qa: &Value| {
        let words = qa["evidence"].as_array()?.iter().filter_map(Value::as_str);
        let evidence: HashSet<String> = words
            .flat_map(|words| words.split([' ', ';', ',']))
            .filter(|word| known.contains(*word))
            .map(|word| format!("{project} {word}"))
            .collect();
        let category = qa["category"].as_i64().filter(|category| CATEGORIES.contains(category))?;
        let q = qa["question"].as_str()?.to_owned();
        (!evidence.is_empty()).then(|| Question { project: project.to_owned(), q, evidence, category })
    };
    conversation["qa"].as_array().unwrap().iter().filter_map(question).collect()
}

/// `1:56 pm on 8 May, 2023`.
fn moment(date: &str) -> i64 {
    let parsed = DateTime::strptime("%I:%M %p on %d %B, %Y", date);
    parsed.unwrap().to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp().as_millisecond()
}

fn measure(
    way: &str,
    database: &Connection,
    questions: &[Question],
    model: Option<&Bert>,
    settings: &Settings,
) {
    let uids: HashMap<i64, String> = {
        let mut statement = database.prepare("SELECT id, uid FROM observations").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let (mut found, mut any) = (0.0, 0);
    let mut categories: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for question in questions {
        let request = Request {
            similarity: crate::similarity(&question.q, model),
            query: question.q.clone(),
            filter: Filter { project: Some(question.project.clone()), ..Filter::default() },
            limit: 10,
            now: 1_800_000_000_000,
            ..Request::default()
        };
        let hits = search::search(database, &request, settings).unwrap().hits;
        let is_evidence: Vec<bool> =
            hits.iter().map(|hit| question.evidence.contains(&uids[&hit.id])).collect();
        let share = is_evidence.iter().filter(|is| **is).count() as f64 / question.evidence.len() as f64;
        found += share;
        any += usize::from(is_evidence.iter().take(5).any(|is| *is));
        let category = categories.entry(question.category).or_default();
        *category = (category.0 + share, category.1 + 1.0);
    }
    let count = questions.len() as f64;
    let each: Vec<String> =
        categories.values().map(|(found, count)| format!("{:.0}", 100.0 * found / count)).collect();
    println!(
        "| {way} | {:.1} | {:.1} | {} |",
        100.0 * found / count,
        100.0 * any as f64 / count,
        each.join(" / ")
    );
}
