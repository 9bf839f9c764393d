//! Files that work on a prompt is likely to change.

use super::*;
use crate::search::likely_files;

const DAY: Millis = 24 * 60 * 60_000;

fn note(memory: &Memory, title: &str, changed: &str, read: &str, days_ago: i64) {
    let id = memory.observe_in("p", title, "", NOW - days_ago * DAY);
    let sql = "UPDATE observations SET files_modified = ?1, files_read = ?2 WHERE id = ?3";
    memory.database.execute(sql, params![changed, read, id]).unwrap();
}

fn files(memory: &Memory, prompt: &str) -> Vec<String> {
    likely_files(&memory.database, "p", prompt, NOW + 1, &Config::default().search, 10).unwrap()
}

#[test]
fn files_of_the_notes_like_a_prompt_come_first_and_recent_ones_before_old_ones() {
    let mut memory = Memory::new();
    note(&memory, "Retry the upload of invoices", r#"["src/upload.rs"]"#, r#"["src/disk.rs"]"#, 1);
    note(&memory, "Retry the upload of invoices again", r#"["src/old.rs"]"#, "[]", 60);
    note(&memory, "Paint the fence", r#"["src/fence.rs"]"#, "[]", 0);
    memory.index_some();
    let found = files(&memory, "the upload of invoices fails \"on retry\"");
    assert_eq!(found, ["src/upload.rs", "src/disk.rs", "src/old.rs"]);
    assert!(files(&memory, "").is_empty() && files(&memory, "teapot").is_empty());
}

#[test]
fn a_file_that_a_prompt_names_comes_first() {
    let mut memory = Memory::new();
    for days in 0..5 {
        note(&memory, "Retry the upload of invoices", r#"["src/upload.rs"]"#, "[]", days);
    }
    note(&memory, "Move the upload", r#"["src/Net.rs"]"#, "[]", 30);
    memory.index_some();
    assert_eq!(files(&memory, "retry the upload as net.rs does")[0], "src/Net.rs");
    assert_eq!(files(&memory, "retry the upload")[0], "src/upload.rs");
}

#[test]
fn files_of_other_projects_and_of_later_notes_are_not_likely() {
    let mut memory = Memory::new();
    note(&memory, "Retry the upload", r#"["src/later.rs"]"#, "[]", -2);
    note(&memory, "Retry the upload", r#"["src/other.rs"]"#, "[]", 1);
    memory.database.execute("UPDATE observations SET project = 'q' WHERE id = 2", []).unwrap();
    memory.index_some();
    assert!(files(&memory, "retry the upload").is_empty());
}
