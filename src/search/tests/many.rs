//! With more rows than are looked at one by one.

use super::*;
use crate::store::index::count_waiting;

/// A memory of `rows` rows, each made of its number.
fn many(rows: i64, text_of: impl Fn(i64) -> String) -> Memory {
    let mut memory = Memory::new();
    memory.database.execute_batch("BEGIN").unwrap();
    for number in 1..=rows {
        memory.observe_in("p", &format!("Row {number}"), &text_of(number), NOW - rows + number);
    }
    memory.database.execute_batch("COMMIT").unwrap();
    memory.index_some();
    memory
}

#[test]
fn rows_are_indexed_many_at_a_time_and_found_before_that() {
    let memory = Memory::new();
    for number in 1..=16 {
        assert_eq!(count_waiting(&memory.database).unwrap(), number - 1);
        memory.observe(&format!("Walrus {number}"), "It barked");
        memory.database.pragma_update(None, "query_only", true).unwrap();
        assert_eq!(memory.find("walrus").len(), number as usize, "also while they wait");
        memory.database.pragma_update(None, "query_only", false).unwrap();
        indexing::index_batch(&memory.database).unwrap();
    }
    assert_eq!(count_waiting(&memory.database).unwrap(), 0);
    assert_eq!(memory.find("walrus").len(), 16);
    memory.assert_consistent();
}

#[test]
fn what_has_all_of_several_common_words_is_found_wherever_it_is() {
    let text = |number: i64| match number {
        1 => "mutex and lock".to_owned(),
        _ if number % 2 == 0 => format!("a lock of kind {number}"),
        _ => format!("a mutex of kind {number}"),
    };
    let memory = many(6_000, text);
    let found = memory.find("lock mutex");
    assert_eq!(found[0], "1", "the oldest row is the only one with both");
    assert!(found[1..].iter().all(|id| id.parse::<i64>().unwrap() > 5_000), "then the newest: {found:?}");
}

#[test]
fn a_summary_is_among_many_observations_with_the_same_common_word() {
    let mut memory = many(3_000, |number| format!("a cache of kind {number}"));
    memory
        .database
        .execute_batch(
            "INSERT INTO session_summaries (uid, session_id, project, request, completed, created_at)
         VALUES ('u', 's', 'p', 'Tame the cache', 'The cache is tame', 1)",
        )
        .unwrap();
    memory.index_some();
    assert!(memory.find_with(&[("q", "cache"), ("limit", "100")]).contains(&"S1".to_owned()));
}

#[test]
fn filters_find_the_few_among_many() {
    let mut memory = many(3_000, |number| format!("a cache of kind {number}"));
    memory.database.execute_batch(
        "UPDATE observations SET files_modified = '[\"src/auth/token.rs\"]', concepts = '[\"C++\", \"++\"]',
           type = 'decision' WHERE id = 7;
         UPDATE observations SET files_modified = '[\"src/other/token.rs\"]' WHERE id = 8;",
    ).unwrap();
    memory.index_some();
    let since = (NOW - 3_000 + 6).to_string();
    let until = (NOW - 3_000 + 8).to_string();
    for (name, value) in [
        ("file", "auth/token.rs"),
        ("file", "/home/me/project/src/auth/token.rs"),
        ("concept", "c++"),
        ("concept", "++"),
        ("type", "decision"),
    ] {
        for query in ["cache", ""] {
            assert_eq!(memory.find_with(&[("q", query), (name, value)]), ["7"], "{name} {value} {query}");
        }
    }
    let between = [("q", "cache"), ("since", since.as_str()), ("until", until.as_str())];
    assert_eq!(memory.find_with(&between).len(), 2);
}
