//! After a failure.

use rusqlite::params;

use super::*;
use crate::context::tests::HOUR;
use crate::store::memory::traces::hash;
use crate::tools::error_signature;

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
