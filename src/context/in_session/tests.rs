//! Triggers, on real databases.

use rusqlite::params;

use super::*;
use crate::config::Config;
use crate::context::tests::{HOUR, History, NOW, PATH, Seen, rich};
use crate::store::log::{LogEntry, log};
use crate::store::memory::traces::{hash, line_hash};
use crate::tools::error_signature;

fn snippet_for(history: &History, session: &str, trigger: &Trigger) -> RecallText {
    let (session, config) = (SessionId(session.into()), Config::default());
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &session,
        settings: &config.search,
        now: NOW,
        budget: 300,
        code: CodeCheck::default(),
    };
    build(&history.database, &request, trigger, &Shown::default()).unwrap()
}

fn prompt(text: &str) -> Trigger {
    Trigger::Prompt { text: text.into() }
}

fn edit(path: &str, removed: &[&str], added: &[&str]) -> Trigger {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    Trigger::FileEdit { path: path.into(), added: lines(added), removed: lines(removed) }
}

/// Logs the memories that a session was shown, as its hook does.
fn note(history: &History, session: &str, event_type: &'static str, data: Value) {
    let session = Some(SessionId(session.into()));
    log(&history.database, &LogEntry { event_type, session, data, ..LogEntry::default() }, NOW).unwrap();
}

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
fn a_prompt_brings_what_it_touches_and_nothing_else() {
    let history = rich();
    for number in 0..60 {
        let title = format!("Unrelated matter number {number} of the invoices");
        history.observe(
            "a",
            Seen { kind: "change", title: &title, summary: "Nothing to do with it.", files: &[] },
        );
    }
    let snippet =
        snippet_for(&history, "now", &prompt("why do we retry uploads when the storage answers 503?"));
    assert!(snippet.text.contains("because repeating a bad request never helps"), "{}", snippet.text);
    assert!(
        snippet.shown.len() <= prompt::MOST && snippet.lines[0].why.starts_with("fits by"),
        "{:?}",
        snippet.lines
    );
    for nothing in [
        "thanks, go on",
        "ok",
        "commit",
        "/compact",
        "/retry uploads storage",
        "<task-notification>retry uploads 503 storage</task-notification>",
        "",
        "paint the bicycle shed green",
    ] {
        assert_eq!(snippet_for(&history, "now", &prompt(nothing)).text, "", "{nothing}");
    }
    // What the session did itself it knows.
    assert_eq!(
        snippet_for(&history, "b", &prompt("why do we retry uploads when the storage answers 503?")).text,
        ""
    );
}

/// The best fit of a prompt.
fn best_fit(history: &History, text: &str) -> f64 {
    let config = Config::default();
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &SessionId("now".into()),
        settings: &config.search,
        now: NOW,
        budget: 300,
        code: CodeCheck::default(),
    };
    fitted(&history.database, &request, text).unwrap().first().map_or(0.0, |fitted| fitted.fit)
}

#[test]
fn later_prompts_need_a_better_fit() {
    let history = rich();
    for number in 0..60 {
        let title = format!("Matter number {number} of the invoices");
        history.observe(
            "a",
            Seen { kind: "change", title: &title, summary: "Nothing to do with it.", files: &[] },
        );
    }
    // Each word that the memory has not makes it fit a little less.
    let asked = (0..30).map(|count| format!("retry uploads storage {}", "invoices matter ".repeat(count)));
    let asked =
        asked.chain(["retry uploads", "uploads storage", "storage evening", "retry storage"].map(Into::into));
    let between = asked.into_iter().find(|text| (FIRST_FLOOR..FLOOR).contains(&best_fit(&history, text)));
    let question = prompt(&between.expect("a prompt that fits only a first one"));
    history.session("now", PATH, "main", NOW);
    assert!(!snippet_for(&history, "now", &question).text.is_empty());
    history.observe("now", Seen { kind: "change", title: "Paint the shed", summary: "Green.", files: &[] });
    assert_eq!(snippet_for(&history, "now", &question).text, "");
}

#[test]
fn named_files_bring_their_notes_forward() {
    let history = rich();
    history.observe(
        "a",
        Seen {
            kind: "bugfix",
            title: "Probes wait for the database",
            summary: "The pods were restarted before the database answered.",
            files: &["deploy/harbor.yaml"],
        },
    );
    let fit = |path: &str| best_fit(&history, &format!("why do the probes restart in {path}:14?"));
    assert!(fit("deploy/harbor.yaml") > fit("harbor.yaml") + 0.05);
}

#[test]
fn a_plan_is_asked_by_its_heading_and_by_the_files_it_names() {
    let history = rich();
    for number in 0..60 {
        let title = format!("Unrelated matter number {number} of the invoices");
        history.observe("a", Seen { kind: "change", title: &title, summary: "Nothing.", files: &[] });
    }
    let steps = "Something about colours and fonts that nobody has ever done here. ".repeat(20);
    let plan = format!(
        "Implement the following plan:\n\n# Retry uploads on 503 for longer\n\nThe storage sheds load.\n\n{steps}"
    );
    assert!(snippet_for(&history, "now", &prompt(&plan)).text.contains("Retry uploads on 429"));
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
    assert!(
        snippet.shown.len() <= edit::MOST && !snippet.text.contains("Split the uploader"),
        "{}",
        snippet.text
    );
    assert_eq!(snippet_for(&history, "now", &edit("src/unknown.rs", &[], &[])).text, "");
    // An edit about something else hears nothing.
    assert_eq!(snippet_for(&history, "now", &edit("src/upload.rs", &["let colour = blue();"], &[])).text, "");
    note(&history, "now", "context_file", json!({"shown": [], "file": "src/upload.rs"}));
    assert_eq!(snippet_for(&history, "now", &edit("src/upload.rs", &[], &[])).text, "");
}

#[test]
fn of_a_note_about_several_files_only_the_part_about_the_edit_is_shown() {
    let history = rich();
    for number in 0..60 {
        let title = format!("Unrelated matter number {number} of the invoices");
        history.observe("a", Seen { kind: "change", title: &title, summary: "Nothing.", files: &[] });
    }
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

#[test]
fn a_failure_of_any_ecosystem_hears_the_change_that_repaired_it_with_its_reason() {
    for (error, title, reason, file) in [
        (
            "error[E0502]: cannot borrow `self.queue` as mutable because it is also borrowed as immutable",
            "Cannot borrow self.queue as mutable while also borrowed as immutable",
            "The guard is dropped first, because it borrows the queue.",
            "src/queue.rs",
        ),
        (
            "E   sqlalchemy.exc.InvalidRequestError: Table 'jobs' is already defined for this MetaData instance",
            "Table jobs is already defined for this MetaData instance (sqlalchemy InvalidRequestError)",
            "The models are imported once, because two paths to them register the table twice.",
            "tests/conftest.py",
        ),
        (
            "src/api.ts(3,7): error TS2345: Argument of type 'string' is not assignable to parameter of type 'Url'",
            "Argument of type string is not assignable to parameter of type Url (error TS2345)",
            "The client takes a parsed address, so that a typo fails early.",
            "src/api.ts",
        ),
        (
            "panic: sql: Register called twice for driver sqlite3",
            "panic: Register called twice for driver sqlite3",
            "One package registers the driver, because init runs in both.",
            "internal/db/open.go",
        ),
        (
            "ERROR: failed to solve: manifest unknown for the tag of the base image",
            "failed to solve: manifest unknown for the tag of the base image",
            "The image is pinned by digest, because the registry drops old tags.",
            "Dockerfile",
        ),
    ] {
        let history = rich();
        history.session("fix", PATH, "main", NOW - HOUR);
        let note = history.observe("fix", Seen { kind: "bugfix", title, summary: reason, files: &[file] });
        history.run(&format!("UPDATE observations SET prompt_number = 3 WHERE id = {note}"));
        let signature = error_signature(error).unwrap();
        let sql =
            "INSERT INTO repairs (session_id, project, prompt_number, signature, command, files, created_at)
                   VALUES ('fix', 'harbor', 3, ?1, NULL, json_array(?2), ?3)";
        history.database.execute(sql, params![hash(&signature), file, NOW - HOUR]).unwrap();
        let failure = Trigger::Failure { error: format!("Exit code 1\n{error}") };
        let snippet = snippet_for(&history, "now", &failure);
        let name = file.rsplit('/').next().unwrap();
        assert!(snippet.text.contains(&format!("repaired by changing {name}")), "{error}: {}", snippet.text);
        assert!(snippet.text.contains(reason), "{}", snippet.text);
        // A note about something else explains nothing.
        history.run(&format!(
            "UPDATE observations SET title = 'Paint the shed', summary = 'Green.' WHERE id = {note}"
        ));
        assert_eq!(snippet_for(&history, "now", &failure).text, "", "{error}");
    }
}

#[test]
fn a_failure_hears_the_command_that_repaired_it_and_a_generic_one_nothing() {
    let history = rich();
    let error = "Exit code 2\nerror: unrecognized subcommand 'bun'\n\nUsage: rtk [OPTIONS] <COMMAND>";
    let generic = "Exit code 1\nls: cannot access 'x': No such file or directory";
    for (text, command) in [(error, "bun run test"), (generic, "ls")] {
        let signature = error_signature(text).unwrap();
        let sql =
            "INSERT INTO repairs (session_id, project, prompt_number, signature, command, files, created_at)
                   VALUES ('b', 'harbor', 1, ?1, ?2, '[]', ?3)";
        history.database.execute(sql, params![hash(&signature), command, NOW - HOUR]).unwrap();
    }
    let failure = |error: &str| Trigger::Failure { error: error.into() };
    let snippet = snippet_for(&history, "now", &failure(error));
    assert!(snippet.text.contains("`bun run test` then succeeded"), "{}", snippet.text);
    for other in [generic, "Exit code 1", "", "Exit code 1\nerror: Merge conflict in a.rs"] {
        assert_eq!(snippet_for(&history, "now", &failure(other)).text, "", "{other}");
    }
    note(&history, "now", "context_failure", json!({"keys": [snippet.lines[0].key]}));
    assert_eq!(snippet_for(&history, "now", &failure(error)).text, "");
    // After a compaction the list starts again; a resumed session keeps it.
    note(&history, "now", "context", json!({"shown": [], "source": "resume"}));
    assert_eq!(snippet_for(&history, "now", &failure(error)).text, "");
    let earlier = format!("UPDATE event_log SET created_at = {}", NOW - HOUR);
    history.run(&earlier);
    note(&history, "now", "context", json!({"shown": [], "source": "compact"}));
    assert!(!snippet_for(&history, "now", &failure(error)).text.is_empty());
}

#[test]
fn a_failure_is_answered_once_in_a_session_with_the_repair_that_most_sessions_used() {
    let history = rich();
    let error = "Exit code 2\nerror: unrecognized subcommand 'bun'\n\nUsage: rtk [OPTIONS] <COMMAND>";
    let signature = hash(&error_signature(error).unwrap());
    let repaired = |session: &str, command: &str| {
        history.session(session, PATH, "main", NOW - HOUR);
        let sql =
            "INSERT INTO repairs (session_id, project, prompt_number, signature, command, files, created_at)
                   VALUES (?1, 'harbor', 1, ?2, ?3, '[]', ?4)";
        history.database.execute(sql, params![session, signature, command, NOW - HOUR]).unwrap();
    };
    repaired("x", "bun run test");
    repaired("y", "bun run test");
    repaired("z", "rtk test bun run test");
    let failure = Trigger::Failure { error: error.into() };
    let snippet = snippet_for(&history, "now", &failure);
    assert!(snippet.text.contains(": `bun run test` then succeeded"), "{}", snippet.text);
    note(&history, "now", "context_failure", json!({"keys": [snippet.lines[0].key]}));
    repaired("u", "rtk test bun run test");
    repaired("v", "rtk test bun run test");
    assert_eq!(snippet_for(&history, "now", &failure).text, "");
    assert!(snippet_for(&history, "other", &failure).text.contains("rtk test"));
}

#[test]
fn of_equal_memories_that_of_the_branch_fits_better() {
    let history = rich();
    let shrink = |session: &str, branch: &str, summary: &str| {
        history.session(session, PATH, branch, NOW - 3 * HOUR);
        history.observe(session, Seen { kind: "change", title: "Shrink thumbnails", summary, files: &[] })
    };
    let elsewhere = shrink("x", "fix/other", "The gallery loads twelve of them at once on a phone.");
    let here = shrink("y", "fix/thumbnails", "Invoices had pictures of half a megabyte in every row.");
    history.session("now", PATH, "fix/thumbnails", NOW);
    let session = SessionId("now".into());
    let settings = Config::default().search;
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &session,
        settings: &settings,
        now: NOW,
        budget: 400,
        code: CodeCheck::default(),
    };
    let fitted = fitted(&history.database, &request, "shrink the thumbnails further").unwrap();
    let fit = |id: i64| fitted.iter().find(|fitted| fitted.memory.id == id).unwrap().fit;
    assert!(fit(here) > fit(elsewhere), "{} {}", fit(here), fit(elsewhere));
}
