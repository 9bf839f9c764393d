//! The whole of search on a real database.

use std::time::Instant;

use rusqlite::{Connection, params};

use super::*;
use crate::config::Config;
use crate::paths::Home;
use crate::store::index::search::Place;
use crate::store::index::{Differences, begin_rebuild, differences, search as index};

mod embedding;
mod many;
mod turns;

/// A database with one session, and what is put into it.
struct Memory {
    database: Connection,
    _scratch: tempfile::TempDir,
}

const NOW: Millis = 1_780_000_000_000;

impl Memory {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(scratch.path().join("mem")), None).unwrap();
        let database = crate::store::open_for_worker(&home, NOW).unwrap();
        let sql = "INSERT INTO sessions (id, project, started_at, last_activity_at) VALUES ('s', 'p', 1, 1)";
        database.execute(sql, []).unwrap();
        Self { database, _scratch: scratch }
    }

    fn observe(&self, title: &str, summary: &str) -> i64 {
        self.observe_in("p", title, summary, NOW)
    }

    fn observe_in(&self, project: &str, title: &str, summary: &str, at: Millis) -> i64 {
        let sql = "INSERT INTO observations (uid, session_id, project, type, title, summary, created_at)
                   VALUES (hex(randomblob(16)), 's', ?1, 'change', ?2, ?3, ?4)";
        self.database.execute(sql, params![project, title, summary, at]).unwrap();
        self.database.last_insert_rowid()
    }

    fn prompt(&self, number: i64, prompt: &str) -> i64 {
        let sql = "INSERT INTO user_prompts (session_id, prompt_number, prompt, created_at) VALUES ('s', ?1, ?2, ?3)";
        self.database.execute(sql, params![number, prompt, NOW]).unwrap();
        self.database.last_insert_rowid()
    }

    fn index_some(&mut self) {
        while indexing::index_some(&mut self.database).unwrap() {}
    }

    fn ask(&self, request: &Request) -> SearchResults {
        search(&self.database, request, &Config::default().search).unwrap()
    }

    /// References of what is found, best first.
    fn find(&self, query: &str) -> Vec<String> {
        self.find_with(&[("q", query)])
    }

    fn find_with(&self, parameters: &[(&str, &str)]) -> Vec<String> {
        let found = self.ask(&request(parameters));
        found.hits.iter().map(|hit| crate::responses::reference(hit.kind, hit.id)).collect()
    }

    fn assert_consistent(&self) {
        let sql = "INSERT INTO search_index (search_index) VALUES ('integrity-check')";
        self.database.execute(sql, []).unwrap();
        assert_eq!(differences(&self.database).unwrap(), Differences::default());
    }
}

fn request(parameters: &[(&str, &str)]) -> Request {
    let fields: serde_json::Map<_, _> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    Request::from_query(&serde_json::from_value(fields.into()).unwrap(), NOW + 1).unwrap()
}

#[test]
fn whatever_is_in_the_tables_is_found_through_inserts_updates_and_deletes() {
    let mut memory = Memory::new();
    let id = memory.observe("Replace the walrus", "It barked");
    assert_eq!(memory.find("walrus"), [id.to_string()]);
    memory.database.execute("UPDATE observations SET title = 'Replace the seal'", []).unwrap();
    assert!(memory.find("walrus").is_empty());
    assert_eq!(memory.find("seal"), [id.to_string()]);
    memory.database.execute("UPDATE observations SET deleted_at = 5", []).unwrap();
    assert!(memory.find("seal").is_empty());
    memory.database.execute("UPDATE observations SET deleted_at = NULL, project = 'q'", []).unwrap();
    assert_eq!(memory.find_with(&[("q", "seal"), ("project", "q")]), [id.to_string()]);
    assert!(memory.find_with(&[("q", "seal"), ("project", "p")]).is_empty());
    memory.assert_consistent();
    memory.database.execute_batch(
        "INSERT INTO session_summaries (uid, session_id, project, request, learned, key_decisions, created_at)
         VALUES ('u', 's', 'p', 'Tame the otter', 'Otters swim', '[\"keep \\u0062eavers\"]', 1);
         UPDATE session_summaries SET learned = 'Otters dive';",
    ).unwrap();
    assert_eq!(memory.find("dive"), ["S1"]);
    assert_eq!(memory.find("beavers"), ["S1"], "lists are read as JSON");
    assert!(memory.find("swim").is_empty());
    memory.prompt(1, "please feed the penguin");
    memory.index_some();
    memory.assert_consistent();
    memory.database.execute("DELETE FROM sessions", []).unwrap();
    for word in ["seal", "dive", "penguin"] {
        assert!(memory.find(word).is_empty(), "{word}");
    }
    memory.assert_consistent();
}

#[test]
fn a_prompt_is_found_before_and_after_the_worker_has_indexed_it() {
    let mut memory = Memory::new();
    memory.prompt(1, "why does the penguin cache misses");
    assert_eq!(memory.find("penguins"), ["P1"]);
    assert_eq!(memory.find("\"penguin cache\""), ["P1"]);
    assert!(memory.find("\"cache penguin\"").is_empty());
    memory.index_some();
    assert_eq!(memory.find("penguins"), ["P1"]);
    memory.database.execute("UPDATE user_prompts SET prompt = 'the toucan'", []).unwrap();
    assert!(memory.find("penguins").is_empty());
    assert_eq!(memory.find("toucan"), ["P1"]);
    memory.index_some();
    memory.assert_consistent();
}

#[test]
fn identifiers_and_paths_are_found_by_their_parts() {
    let memory = Memory::new();
    let camel = memory.observe("Rename it", "Now called refreshToken in HTTPClient").to_string();
    let snake = memory.observe("Move it", "see src/auth/refresh_token.rs").to_string();
    for query in ["refreshToken", "refresh_token", "refresh token", "token"] {
        let found = memory.find(query);
        assert!(found.contains(&camel) && found.contains(&snake), "{query}: {found:?}");
    }
    assert_eq!(memory.find("auth/refresh_token.rs")[0], snake);
    assert_eq!(memory.find("httpclient"), std::slice::from_ref(&camel));
    assert_eq!(memory.find("client"), [camel]);
}

#[test]
fn every_script_is_found_by_words_of_any_length() {
    let memory = Memory::new();
    let chinese = memory.observe("修复连接池超时", "用Redis缓存令牌，等待时间太长").to_string();
    let japanese = memory.observe("検索の高速化", "インデックスを作り直した").to_string();
    let korean = memory.observe("연결 풀을 고쳤다", "시간 초과").to_string();
    let thai = memory.observe("แก้ไขการเชื่อมต่อ", "หมดเวลา").to_string();
    let arabic = memory.observe("إصلاح الاتصال", "مهلة").to_string();
    let russian = memory.observe("Исправить пул соединений", "таймаут").to_string();
    for (query, wanted) in [
        ("连接池", &chinese),
        ("超时", &chinese),
        ("池", &chinese),
        ("令牌", &chinese),
        ("redis", &chinese),
        ("高速", &japanese),
        ("索", &japanese),
        ("インデックス", &japanese),
        ("연결", &korean),
        ("เชื่อม", &thai),
        ("الاتصال", &arabic),
        ("СОЕДИНЕНИЙ", &russian),
    ] {
        assert_eq!(memory.find(query).first(), Some(wanted), "{query}");
    }
}

#[test]
fn slips_and_parts_of_words_are_found_and_told() {
    let mut memory = Memory::new();
    let id = memory.observe("Fix the deadlock", "The scheduler waits for pglistener").to_string();
    memory.observe("Other things", "about lunch");
    memory.index_some();
    for query in ["deadlok", "dealdock", "schedulr", "listener"] {
        assert_eq!(memory.find(query), std::slice::from_ref(&id), "{query}");
    }
    let found = memory.ask(&request(&[("q", "deadlok")]));
    assert_eq!(found.corrections, [("deadlok".to_owned(), "deadlock".to_owned())]);
    assert!(memory.find("zzzzzz").is_empty());
}

#[test]
fn slips_are_corrected_only_if_the_query_can_be_about_something_that_is_there() {
    let mut memory = Memory::new();
    let id = memory.observe("Read the manifest", "It lists refreshToken").to_string();
    memory.index_some();
    assert_eq!(memory.find("bread"), std::slice::from_ref(&id), "a slip alone");
    assert!(memory.find("sourdough bread").is_empty(), "nothing is like sourdough");
    for query in ["manifesto bread", "sourdough bread manifest", "refreshTokn", "refresTokn"] {
        assert_eq!(memory.find(query), std::slice::from_ref(&id), "{query}");
    }
}

#[test]
fn filters_are_exact() {
    let memory = Memory::new();
    let sql = "INSERT INTO observations (uid, session_id, project, type, title, concepts, files_modified, created_at)
               VALUES (?1, 's', ?2, ?3, 'Tune the cache ' || ?1, ?4, ?5, ?6)";
    let rows = [
        ("a", "p", "decision", "[\"Caching\"]", "[\"src/cache.rs\"]", 1000),
        ("b", "p", "bugfix", "[\"cache\"]", "[\"lib/src/cache.rs\"]", 2000),
        ("c", "q", "bugfix", "[]", "[\"src/xcache.rs\"]", 3000),
    ];
    for row in rows {
        memory.database.execute(sql, row).unwrap();
    }
    let sorted = |parameters: &[(&str, &str)]| {
        let mut found = memory.find_with(&[&[("q", "cache")], parameters].concat());
        found.sort();
        found
    };
    assert_eq!(sorted(&[]), ["1", "2", "3"]);
    assert_eq!(sorted(&[("project", "p")]), ["1", "2"]);
    assert_eq!(sorted(&[("project", "nowhere")]), Vec::<String>::new());
    assert_eq!(sorted(&[("type", "bugfix")]), ["2", "3"]);
    assert_eq!(sorted(&[("type", "bugfix,decision"), ("project", "p")]), ["1", "2"]);
    assert_eq!(sorted(&[("concept", "caching")]), ["1"]);
    assert_eq!(sorted(&[("file", "src/cache.rs")]), ["1", "2"]);
    assert_eq!(sorted(&[("since", "2000")]), ["2", "3"]);
    assert_eq!(sorted(&[("until", "2000")]), ["1"]);
    assert_eq!(sorted(&[("kind", "prompt")]), Vec::<String>::new());
    // Without a question the filters alone decide, the newest first.
    assert_eq!(memory.find_with(&[("type", "bugfix")]), ["3", "2"]);
}

#[test]
fn pages_fit_together_whatever_is_inserted_between_them() {
    let memory = Memory::new();
    for number in 0..50 {
        memory.observe(&format!("Cache number {number}"), &format!("entry {number}"));
    }
    let first = memory.ask(&request(&[("q", "cache entry"), ("limit", "10")]));
    let as_of = first.as_of.to_word();
    let before: Vec<i64> = memory
        .ask(&request(&[("q", "cache entry"), ("limit", "50"), ("as_of", &as_of)]))
        .hits
        .iter()
        .map(|hit| hit.id)
        .collect();
    let mut pages: Vec<i64> = first.hits.iter().map(|hit| hit.id).collect();
    for page in 1..5 {
        memory.observe(&format!("Cache entry cache entry {page}"), "cache entry");
        let offset = (page * 10).to_string();
        let next = memory.ask(&request(&[
            ("q", "cache entry"),
            ("limit", "10"),
            ("offset", &offset),
            ("as_of", &as_of),
        ]));
        pages.extend(next.hits.iter().map(|hit| hit.id));
    }
    assert_eq!(pages, before);
    assert_eq!(pages.len(), 50);
}

#[test]
fn near_duplicates_are_one_hit() {
    let memory = Memory::new();
    memory.observe("Run the tests", "All 12 tests of the parser passed");
    memory.observe("Run the tests", "All 12 tests of the parser passed");
    memory.observe("Run the tests", "Three tests of the printer failed badly");
    let found = memory.ask(&request(&[("q", "tests")]));
    assert_eq!(found.hits.len(), 2);
    assert_eq!(found.hits.iter().map(|hit| hit.similar.len()).sum::<usize>(), 1);
}

#[test]
fn the_named_time_and_the_hits_of_the_session_lift_a_hit() {
    let memory = Memory::new();
    let march = 1_772_500_000_000;
    let may = 1_777_800_000_000;
    let in_march = memory.observe_in("p", "Repair the importer", "It crashed", march).to_string();
    let in_may = memory.observe_in("p", "Repair the importer again", "It crashed", may).to_string();
    assert_eq!(memory.find("importer crash in March")[0], in_march);
    assert_eq!(memory.find("importer crash in May")[0], in_may);
    let found = memory.ask(&request(&[("q", "importer"), ("explain", "1")]));
    let parts = found.hits[0].parts.as_ref().unwrap();
    assert!(parts.session > 0.0 && parts.words > 0.0, "{parts:?}");
    assert_eq!(parts.clues[0].0, "\"importer\"");
}

/// The text with every match in brackets.
fn marked(snippet: &Snippet) -> String {
    let mut text = snippet.text.clone();
    for (start, end) in snippet.marks.iter().rev() {
        text.insert(*end, ']');
        text.insert(*start, '[');
    }
    text
}

#[test]
fn matches_are_marked_in_title_and_snippet() {
    let memory = Memory::new();
    let long =
        "word ".repeat(100) + "then the connectionPool timed out\nwhile waiting " + &"word ".repeat(100);
    memory.observe("Connections time out", &long);
    let found = memory.ask(&request(&[("q", "pool connection 池")]));
    let hit = &found.hits[0];
    assert_eq!(marked(&hit.title), "[Connections] time out");
    let snippet = marked(&hit.snippet);
    assert!(snippet.contains("the [connectionPool] timed out while"), "{snippet}");
    assert!(snippet.starts_with('…') && snippet.ends_with('…') && snippet.len() < 260, "{snippet}");
}

#[test]
fn summaries_and_prompts_are_found_within_their_project_and_not_in_others() {
    let mut memory = Memory::new();
    let observation = memory.observe("Count the otters", "There are three");
    memory
        .database
        .execute(
            "INSERT INTO session_summaries (uid, session_id, project, request, created_at)
             VALUES ('u', 's', 'p', 'Otters again', 1)",
            [],
        )
        .unwrap();
    memory.prompt(1, "where do otters sleep?");
    memory.index_some();
    let mut found = memory.find_with(&[("q", "otters"), ("project", "p")]);
    found.sort();
    assert_eq!(found, [observation.to_string(), "P1".to_owned(), "S1".to_owned()]);
    memory.observe_in("q", "Something else", "", NOW);
    assert!(memory.find_with(&[("q", "otters"), ("project", "q")]).is_empty());
    // What is looked for is where it was put.
    let expected = Kind::ALL.map(|kind| Place::new(1, kind, 1).0);
    let sql = "SELECT count(*) FROM search_index_docsize WHERE id IN (?1, ?2, ?3)";
    let there: i64 = memory.database.query_row(sql, expected, |row| row.get(0)).unwrap();
    assert_eq!(there, 3);
}

#[test]
fn a_rebuild_finds_everything_again_also_when_it_is_interrupted() {
    let mut memory = Memory::new();
    for number in 0..250 {
        memory.observe(&format!("Walrus {number}"), "barks");
    }
    memory.prompt(1, "feed the walrus");
    memory.index_some();
    begin_rebuild(&mut memory.database).unwrap();
    indexing::index_some(&mut memory.database).unwrap();
    // Changes of rows that are not back yet must not confuse it.
    memory.database.execute("UPDATE observations SET summary = 'sings' WHERE id IN (1, 240)", []).unwrap();
    memory.database.execute("DELETE FROM observations WHERE id = 250", []).unwrap();
    memory.index_some();
    memory.assert_consistent();
    assert_eq!(memory.find("sings").len(), 2);
    assert_eq!(memory.find("feed"), ["P1"], "prompts, too");
    assert_eq!(
        memory.ask(&request(&[("q", "walrus"), ("limit", "100")])).total,
        200,
        "as many as are read in full"
    );
    let rows: i64 =
        memory.database.query_row("SELECT sum(rows) FROM search_projects", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 250);
}

#[test]
fn hostile_queries_are_answered_quickly() {
    let mut memory = Memory::new();
    for number in 0..300 {
        memory.observe(
            &format!("Number {number} of the cache"),
            "Some words about connections, tokens and tests",
        );
    }
    memory.index_some();
    let long = "lorem ipsum connection dolor ".repeat(100_000 / 29);
    let unbroken = "x".repeat(100_000);
    let chinese = "连接池超时".repeat(7_000);
    let distinct: String = (0..20_000).map(|number| format!("w{number} ")).collect();
    let hostile = [
        long.as_str(),
        &unbroken,
        &chinese,
        &distinct,
        "the of and",
        "!!! ??? ---",
        "",
        "   ",
        "AND OR NOT NEAR",
        "NEAR(a b, 3)",
        "\"",
        "\"\"\"",
        "a\" OR \"b",
        "head:cache",
        "cache*",
        "^cache",
        "-cache",
        "{head body}: x",
        "(((((",
        "a\0b\0",
        "\u{0}",
        "🦀🔥 👩‍👩‍👧",
        "שלום \u{202e}עולם",
        "مرحبا",
        "'; DROP TABLE observations; --",
        "%00%FF",
        "\\",
        "\u{feff}",
        "ﬁ ǅ ß İ",
    ];
    for query in hostile {
        let began = Instant::now();
        memory.find(query);
        // Unoptimised code on a busy machine: the bound itself is measured by the bench.
        assert!(
            began.elapsed().as_millis() < 2_000,
            "{:?} took {:?}",
            &query[..query.floor_char_boundary(20)],
            began.elapsed()
        );
    }
    assert!(!memory.find("cache*").is_empty() && !memory.find("head:cache").is_empty());
    assert!(!memory.find("the of and").is_empty(), "stop words are sought when there is nothing else");
}

#[test]
fn nobody_is_shown_how_lists_are_stored() {
    let mut memory = Memory::new();
    let id = memory.observe("Greet politely", "A word was wrong");
    let sql = "UPDATE observations SET facts = '[\"walrus one\",\"walrus two\"]', functions_changed = '[\"greet\",\"part\"]'";
    memory.database.execute(sql, []).unwrap();
    memory.index_some();
    let found = memory.ask(&request(&[("q", "walrus")]));
    assert_eq!(found.hits[0].snippet.text, "walrus one; walrus two");
    let document =
        crate::store::index::search::document(&memory.database, Kind::Observation, id).unwrap().unwrap();
    assert_eq!(document.detail, "greet, part");
}

#[test]
fn the_timeline_shows_what_came_before_and_after() {
    let memory = Memory::new();
    for number in 1..=9 {
        memory.observe_in("p", &format!("Step {number}"), "", NOW + number);
    }
    memory.observe_in("q", "Elsewhere", "", NOW + 5);
    memory.prompt(1, "go on");
    let around = |anchor, before, after| -> Vec<String> {
        let moments = index::timeline(&memory.database, anchor, before, after).unwrap();
        moments.iter().map(|moment| crate::responses::reference(moment.kind, moment.id)).collect()
    };
    assert_eq!(around((Kind::Observation, 5), 2, 1), ["3", "4", "5", "6"]);
    assert_eq!(around((Kind::Prompt, 1), 5, 1), ["P1", "1"]);
    assert_eq!(around((Kind::Observation, 9), 0, 7), ["9"]);
    assert!(around((Kind::Observation, 99), 5, 5).is_empty());
}
