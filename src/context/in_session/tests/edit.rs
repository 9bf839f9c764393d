//! Before an edit.

use rusqlite::params;

use super::*;
use crate::context::in_session::edit::MOST;
use crate::context::tests::HOUR;
use crate::store::memory::traces::line_hash;

/// A turn that took a line out of a file, with its note.
fn removal(history: &History) -> i64 {
    history.session("fix", PATH, "main", NOW - HOUR);
    let id = history.observe("fix", Seen {
        kind: "bugfix",
        title: "Impact was measured on the original files",
        summary: "The engine receives only the local path, because with an address it clones the repository again.",
        files: &["src/routes/remediation.ts"],
    });
    history.run(&format!("UPDATE observations SET prompt_number = 1 WHERE id = {id}"));
    let bytes = line_hash("repositoryUrl: repoUrl,").unwrap().to_le_bytes();
    let sql =
        "INSERT INTO edit_traces (session_id, project, prompt_number, file_path, removed, added, created_at)
               VALUES ('fix', 'harbor', 1, 'src/routes/remediation.ts', ?1, x'', ?2)";
    history.database.execute(sql, params![bytes.as_slice(), NOW - HOUR]).unwrap();
    id
}

#[test]
fn an_edit_that_brings_back_what_was_taken_out_hears_the_reason_first() {
    let history = rich();
    let removal = removal(&history);
    let back = edit("src/routes/remediation.ts", &[], &["\t\trepositoryUrl: repoUrl,"]);
    let snippet = snippet_for(&history, "now", &back);
    assert_eq!(snippet.shown, [removal]);
    assert!(
        snippet.text.contains("undone by this edit: it removed `repositoryUrl: repoUrl,`"),
        "{}",
        snippet.text
    );
    assert!(
        snippet.text.contains("because with an address it clones the repository again"),
        "{}",
        snippet.text
    );
    // It is shown although the start named the memory, although the file was spoken of, and in any worktree; but once.
    note(&history, "now", "context", json!({"shown": [removal]}));
    note(&history, "now", "context_file", json!({"shown": [], "file": "src/routes/remediation.ts"}));
    assert_eq!(snippet_for(&history, "now", &back).shown, [removal]);
    let elsewhere = edit(".claude/worktrees/x/src/routes/remediation.ts", &[], &["repositoryUrl: repoUrl"]);
    assert_eq!(snippet_for(&history, "other", &elsewhere).shown, [removal]);
    note(&history, "now", "context_file", json!({"shown": [removal], "keys": [snippet.lines[0].key]}));
    assert_eq!(snippet_for(&history, "now", &back).text, "");
    // The session that took it out may change its mind, and another line is no undoing.
    assert_eq!(snippet_for(&history, "fix", &back).text, "");
    let other = edit("src/routes/remediation.ts", &[], &["cleanupAfterwards: true,"]);
    assert!(!snippet_for(&history, "third", &other).text.contains("undone"));
}

#[test]
fn a_line_that_somebody_put_back_since_is_not_undone_again() {
    let history = rich();
    removal(&history);
    history.session("back", PATH, "main", NOW - HOUR / 2);
    let bytes = line_hash("repositoryUrl: repoUrl,").unwrap().to_le_bytes();
    let sql =
        "INSERT INTO edit_traces (session_id, project, prompt_number, file_path, removed, added, created_at)
               VALUES ('back', 'harbor', 1, 'src/routes/remediation.ts', x'', ?1, ?2)";
    history.database.execute(sql, params![bytes.as_slice(), NOW - HOUR / 2]).unwrap();
    let again = edit("src/routes/remediation.ts", &[], &["repositoryUrl: repoUrl,"]);
    assert!(!snippet_for(&history, "now", &again).text.contains("undone"));
}

#[test]
fn an_edit_hears_the_reasons_of_its_file_the_newest_first_and_nothing_without_one() {
    let history = rich();
    let newer = history.observe(
        "b",
        Seen {
            kind: "decision",
            title: "Uploads are limited to eight at a time",
            summary: "More of them fail, because the storage counts connections.",
            files: &["src/upload.rs"],
        },
    );
    history.run(&format!("UPDATE observations SET created_at = created_at + 1 WHERE id = {newer}"));
    let snippet = snippet_for(&history, "now", &edit("src/upload.rs", &[], &[]));
    assert_eq!(snippet.shown.first(), Some(&newer));
    assert!(snippet.shown.len() <= MOST && !snippet.text.contains("Split the uploader"), "{}", snippet.text);
    assert_eq!(snippet_for(&history, "now", &edit("src/unknown.rs", &[], &[])).text, "");
    // An edit about something else hears nothing.
    assert_eq!(snippet_for(&history, "now", &edit("src/upload.rs", &["let colour = blue();"], &[])).text, "");
    note(&history, "now", "context_file", json!({"shown": [], "file": "src/upload.rs"}));
    assert_eq!(snippet_for(&history, "now", &edit("src/upload.rs", &[], &[])).text, "");
}

#[test]
fn a_line_with_another_number_is_not_brought_back() {
    let history = rich();
    removal(&history);
    let bytes = line_hash("7. Write the summary of all changes").unwrap().to_le_bytes();
    let sql = "UPDATE edit_traces SET removed = ?1 WHERE session_id = 'fix'";
    history.database.execute(sql, [bytes.as_slice()]).unwrap();
    let file = "src/routes/remediation.ts";
    let back = edit(file, &[], &["7. Write the summary of all changes"]);
    assert!(snippet_for(&history, "now", &back).text.contains("undone"));
    let renumbered =
        edit(file, &["6. Write the summary of all changes"], &["7. Write the summary of all changes"]);
    assert!(!snippet_for(&history, "now", &renumbered).text.contains("undone"));
}

#[test]
fn tests_and_wholesale_edits_get_nothing() {
    let history = crowded();
    for file in ["src/limits.rs", "src/limits_test.rs", "tests/limits.rs"] {
        history.observe(
            "b",
            Seen {
                kind: "decision",
                title: "maxUploads is eight",
                summary: "More of maxUploads fail, because the storage counts openConnections.",
                files: &[file],
            },
        );
    }
    let line = "const maxUploads = openConnections(8);";
    let shown = |file: &str, removed: &[&str], added: &[&str]| {
        snippet_for(&history, "now", &edit(file, removed, added)).shown.len()
    };
    assert_eq!(shown("src/limits.rs", &[line], &["const maxUploads = openConnections(9);"]), 1);
    assert_eq!(shown("src/limits_test.rs", &[line], &["const maxUploads = openConnections(9);"]), 0);
    assert_eq!(shown("tests/limits.rs", &[line], &["const maxUploads = openConnections(9);"]), 0);
    assert_eq!(shown("src/limits.rs", &[], &[line; 9]), 0);
    assert_eq!(shown("src/limits.rs", &[line; 13], &[]), 0);
}

#[test]
fn of_a_note_about_several_files_only_the_part_about_the_edit_is_shown() {
    let history = crowded();
    history.session("wide", PATH, "main", NOW - HOUR);
    let id = history.observe(
        "wide",
        Seen {
            kind: "feature",
            title: "Retry a pendingEvaluation in the cloud",
            summary: "`App.tsx` hides the bookmarks, because nobody owns them there. `jobRunner.ts` retries \
                  pendingEvaluation twice, because the first try often meets a cold cache.",
            files: &["web/App.tsx", "src/jobRunner.ts", "src/index.ts"],
        },
    );
    let snippet = snippet_for(
        &history,
        "now",
        &edit("src/jobRunner.ts", &["retry(pendingEvaluation, 2)"], &["once()"]),
    );
    assert_eq!(snippet.shown, [id], "{}", snippet.text);
    assert!(snippet.text.contains("cold cache") && !snippet.text.contains("bookmarks"), "{}", snippet.text);
    // The reason of another file is none for this one.
    let other = edit("src/index.ts", &["export const pendingBookmarks = 2;"], &[]);
    assert_eq!(snippet_for(&history, "now", &other).text, "");
}
