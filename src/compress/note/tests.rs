use serde_json::{Value, json};

use super::*;
use crate::tools::RawEvent;

fn event(id: i64, tool: &str, payload: Value) -> ToolEvent {
    let failed = payload.get("error").is_some();
    let raw = RawEvent {
        id,
        tool_name: Some(tool.into()),
        payload: payload.to_string(),
        cwd: Some("/p".into()),
        failed,
        ..RawEvent::default()
    };
    ToolEvent::parse(&raw, Some("/p"))
}

fn edit(path: &str) -> ToolEvent {
    event(1, "Edit", json!({"tool_input": {"file_path": path, "old_string": "a", "new_string": "b"}}))
}

fn bash(command: &str, stdout: &str) -> ToolEvent {
    event(2, "Bash", json!({"tool_input": {"command": command}, "tool_response": {"stdout": stdout}}))
}

fn turn(prompt: &str, closing: &str, events: Vec<ToolEvent>) -> Turn {
    Turn {
        prompt: Some(prompt.into()),
        closings: Some(closing.to_owned()).filter(|text| !text.is_empty()).into_iter().collect(),
        project_path: Some("/p".into()),
        events,
        ..Turn::default()
    }
}

fn made(turn: &Turn) -> ObservationDraft {
    note(turn).expect("a note").observation
}

#[test]
fn a_note_has_the_result_and_the_reason_without_filler() {
    let closing = "Perfect! I've made the changes.\n\nRemoved the `cacheUrl` parameter from `load()`. With it the engine \
        clones the repository again, so the edited files were never evaluated.\n\nAll 1309 tests pass. Would you like me to commit?";
    let note = made(&turn("fix it please", closing, vec![edit("/p/src/load.rs")]));
    assert_eq!(note.title.as_deref(), Some("Removed the `cacheUrl` parameter from `load()`"));
    let summary = note.summary.unwrap();
    assert!(summary.contains("so the edited files were never evaluated."), "{summary}");
    assert!(
        !summary.contains("Perfect") && !summary.contains("1309") && !summary.contains("commit?"),
        "{summary}"
    );
    assert_eq!(note.files_modified, ["src/load.rs"]);
}

#[test]
fn a_commit_names_the_turn_and_its_body_gives_the_reason() {
    let command = "git commit -m 'fix(upload): retry on 503' -m 'The gateway restarts every night, so single failures are normal.'";
    let events = vec![edit("/p/src/up.rs"), bash(command, "[main 1a2b3c4] fix(upload): retry on 503")];
    let note = made(&turn("do the same there and commit", "Done.", events));
    assert_eq!(note.title.as_deref(), Some("Retry on 503"));
    assert!(note.summary.unwrap().contains("The gateway restarts every night"));
    assert!(note.facts.contains(&"Commit 1a2b3c4: fix(upload): retry on 503".to_owned()), "{:?}", note.facts);
    assert_eq!(note.kind, ObservationType::Bugfix);
}

#[test]
fn a_plan_gives_title_and_reason() {
    let prompt = "Implement the following plan:\n\n# Plan: Batch the remediation calls\n\n## Context\n\nOne call for forty issues \
        exceeds the context window.\n\n## Steps\n\n1. x";
    let note = made(&turn(prompt, "Added `chunkArray` to the engine.", vec![edit("/p/src/engine.ts")]));
    assert_eq!(note.title.as_deref(), Some("Batch the remediation calls"));
    assert!(note.summary.unwrap().contains("One call for forty issues exceeds the context window."));
}

#[test]
fn a_list_below_a_bare_introduction_is_kept() {
    let closing = "All tests pass. Here's a summary of the changes:\n\n1. **`src/common.rs`**: Added a check mark to the branch message\n\
        2. **`src/manual.rs`**: Added a call of `ensure_branch()` so both strategies create the branch";
    let note = made(&turn("yes", closing, vec![edit("/p/src/manual.rs")]));
    let summary = note.summary.unwrap();
    assert!(summary.contains("Added a check mark to the branch message"), "{summary}");
    assert_eq!(
        note.title.as_deref(),
        Some("Added a call of `ensure_branch()` so both strategies create the branch")
    );
}

#[test]
fn a_question_names_the_turn_that_only_answered_it() {
    let closing = "Yes: the issue form takes a free `input` field, and the terminal differs between reports often enough to ask for it, because each one wraps lines in its own way.";
    let asked = "ok, can we add a free field for the terminal to the form?";
    let title = made(&turn(asked, closing, Vec::new())).title;
    assert_eq!(title.as_deref(), Some("Can we add a free field for the terminal to the form?"));
    let done = made(&turn(asked, closing, vec![edit("/p/form.yml")])).title;
    assert_eq!(done.as_deref(), Some("Add a free field for the terminal to the form (form.yml)"));
}

#[test]
fn several_commits_name_the_turn_together() {
    let commit = |id: i64, subject: &str| {
        let output = format!("[main 1a2b3c{id}] {subject}");
        bash(&format!("git commit -m '{subject}'"), &output)
    };
    let events = vec![edit("/p/a.rs"), commit(4, "Retry uploads on 503"), commit(5, "Log the final failure")];
    let note = made(&turn("commit in logical units", "Two commits made.", events));
    assert_eq!(note.title.as_deref(), Some("Retry uploads on 503; Log the final failure"));
}

#[test]
fn only_certain_test_results_are_facts() {
    let ok = "test result: ok. 12 passed; 0 failed;";
    let closing = "Moved the parser into a crate of its own so that the hook need not link it.";
    let certain =
        made(&turn("split the parser crate off", closing, vec![edit("/p/a.rs"), bash("cargo test", ok)]));
    assert!(certain.facts.contains(&"`cargo test`: 12 passed".to_owned()), "{:?}", certain.facts);
    let piped = made(&turn(
        "split the parser crate off",
        closing,
        vec![edit("/p/a.rs"), bash("cargo test | tail -3", ok)],
    ));
    assert!(piped.facts.iter().all(|fact| !fact.contains("passed")), "{:?}", piped.facts);
}

#[test]
fn decisions_of_the_user_are_facts() {
    let answered = json!({"tool_response": {"answers": {"Which store?": "SQLite"}}});
    let refused = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse a view";
    let events = vec![
        event(1, "AskUserQuestion", answered),
        event(2, "Write", json!({"tool_input": {"file_path": "/p/a.sql"}, "error": refused})),
    ];
    let note = made(&turn("plan the storage layer of the exporter", "Will use SQLite.", events));
    assert_eq!(
        note.facts[..2],
        ["User's decision: Which store? SQLite", "User refused a call: \"use a view\""]
    );
    assert_eq!(note.kind, ObservationType::Decision);
}

#[test]
fn tables_become_facts_and_open_points_are_kept() {
    let closing = "The queue drops rows in two places.\n\n| Place | Cause |\n|---|---|\n| `claim()` | no lock |\n| `drain()` | early return |\n\n\
        **Not done:**\n- Fix `drain()`\n- Test on macOS";
    let note = note(&turn("where does the queue lose rows?", closing, Vec::new())).unwrap();
    assert!(
        note.observation.facts.contains(&"Place: `claim()`; Cause: no lock".to_owned()),
        "{:?}",
        note.observation.facts
    );
    assert_eq!(note.open, ["Fix `drain()`", "Test on macOS"]);
}

#[test]
fn small_talk_and_status_have_no_note() {
    for (prompt, closing) in [
        ("thanks", "You're welcome!"),
        ("commit", "Committed as 1a2b3c4."),
        ("is lint ok?", "Yes, lint is clean."),
        ("/clear", ""),
        ("run the tests", "All 312 tests pass."),
    ] {
        assert_eq!(note(&turn(prompt, closing, Vec::new())), None, "{prompt}");
    }
}

#[test]
fn a_turn_without_a_closing_message_names_its_files() {
    let mut interrupted =
        turn("rename the session id column in the exporter", "", vec![edit("/p/src/export.rs")]);
    interrupted.functions = vec!["Exporter::columns".into()];
    let note = made(&interrupted);
    assert_eq!(note.title.as_deref(), Some("Rename the session id column in the exporter (export.rs)"));
    assert_eq!(
        note.summary.as_deref(),
        Some(
            "Requested: Rename the session id column in the exporter. Edited src/export.rs, changing Exporter::columns. The turn ended without a closing message."
        )
    );
}

#[test]
fn an_agents_finding_stands_in_for_a_missing_closing() {
    let report = "Perfect! Now I have all the information I need.\n\nThe token is read in `auth.rs` before the file exists, because the installer runs later.";
    let agent = event(
        1,
        "Agent",
        json!({"tool_input": {"description": "Find the token"}, "tool_response": {"content": [{"type": "text", "text": report}]}}),
    );
    let note = made(&turn("why is the auth token missing at first start?", "", vec![agent]));
    assert_eq!(note.title.as_deref(), Some("Why is the auth token missing at first start?"));
    assert_eq!(
        note.summary.as_deref(),
        Some(
            "Agent's report: The token is read in `auth.rs` before the file exists, because the installer runs later."
        )
    );
}

#[test]
fn titles_never_begin_with_an_activity() {
    for prompt in [
        "run the e2e tests for the exporter on linux",
        "research how atuin stores history rows",
        "push the exporter branch upstream",
    ] {
        let closing = "The exporter writes rows twice because the retry keeps its buffer.";
        let title = made(&turn(prompt, closing, Vec::new())).title.unwrap();
        assert_eq!(title, "The exporter writes rows twice because the retry keeps its buffer", "{prompt}");
    }
}

#[test]
fn any_turn_gives_a_bounded_note() {
    let long = "word ".repeat(50_000);
    let odd = ["", "\u{0}", "|||", "```", "- ", "# ", "**", "“", "a: b: c:", &long, "。。。", "🙂🙂🙂🙂"];
    for prompt in odd {
        for closing in odd {
            let turn = turn(prompt, closing, vec![edit("/p/a.rs"), bash("git commit -m ''", "")]);
            if let Some(note) = note(&turn) {
                let draft = &note.observation;
                let length = |text: &Option<String>| text.as_deref().unwrap_or_default().chars().count();
                assert!(
                    length(&draft.title) <= 190
                        && length(&draft.summary) <= 1_000
                        && length(&draft.detail) <= 2_000
                );
                assert!(draft.title.as_deref().is_some_and(|title| !title.trim().is_empty()));
                summarize(&turn, &note);
            }
        }
    }
}

#[test]
fn detail_keeps_every_long_closing_message_of_a_turn() {
    let analysis = "## Can the prompt be cached on an empty Enter?\n\nAn empty Enter is how people refresh their prompt, so a cached \
        one would freeze the branch and the clock.\n\nSegments that change with time would go stale at once. The recommendation is to \
        cache single segments with `cache_duration` and to leave the whole prompt alone.";
    let result = "Added the `.Executed` property to every template. It is false if Enter was pressed without a command, so that a \
        template can hide a stale exit code. The recorder writes it too, and a data file may set it for a replay without a shell.";
    let errand = "Committed as 1a2b3c4, the tree is clean now.";
    let mut several = turn("add the property, and look at caching", analysis, vec![edit("/p/src/cache.rs")]);
    several.closings.extend([result.to_owned(), errand.to_owned()]);
    let single = turn("add the property, and look at caching", result, vec![edit("/p/src/cache.rs")]);
    let (several, single) = (made(&several), made(&single));
    assert_eq!((&several.title, &several.summary), (&single.title, &single.summary));
    let detail = several.detail.unwrap();
    assert!(detail.contains("Also said in this turn: ") && detail.contains("`cache_duration`"), "{detail}");
    assert!(!detail.contains("1a2b3c4"), "{detail}");
}

#[test]
fn a_guess_keeps_its_introduction() {
    let closing = "The branch is gone, and the state file names a session that nobody on this machine has started.\n\nHere's what I think happened:\n\n1. The session saved a checkpoint before the lock was taken\n\
        2. The user removed the files in another terminal\n\nThe most likely scenario for the empty tree:\n\nThe cleanup ran outside of the session.";
    let note = made(&turn("why is the working tree of the exporter empty?", closing, Vec::new()));
    let text = format!("{} {}", note.summary.unwrap(), note.detail.unwrap_or_default());
    assert!(text.contains("Here's what I think happened: The session saved"), "{text}");
    assert!(text.contains("The most likely scenario for the empty tree: The cleanup ran"), "{text}");
}

#[test]
fn a_table_without_a_header_loses_no_row() {
    let closing = "The catalog lists every segment by its type.\n\n| | |\n|---|---|\n| `c9a6` | guard for the registry |\n| `c0a8` | the catalog |";
    let note = made(&turn("ship the catalog of segments", closing, vec![edit("/p/a.go")]));
    assert_eq!(note.facts, ["`c9a6`: guard for the registry", "`c0a8`: the catalog"]);
}

#[test]
fn a_solution_that_was_not_carried_out_is_a_proposal() {
    let closing = "## Problem\n\nTwo sessions write one branch.\n\n## Solution\n\nBranches use numeric suffixes, so that each session has its own.";
    let asked = "describe the isolation of the shadow branches";
    let summary = |events: Vec<ToolEvent>| made(&turn(asked, closing, events)).summary.unwrap();
    assert!(summary(Vec::new()).contains("Proposed: Solution: Branches use"), "{}", summary(Vec::new()));
    let done = summary(vec![edit("/p/a.go")]);
    assert!(done.contains("Solution: Branches use") && !done.contains("Proposed"), "{done}");
    let explained = closing.replace("## Solution", "## Before the fix");
    let explained = made(&turn(asked, &explained, Vec::new())).summary.unwrap();
    assert!(!explained.contains("Proposed"), "{explained}");
}

#[test]
fn a_branch_or_the_only_file_says_where_a_nameless_change_is() {
    let closing = "The subtests now run in parallel, since they only read.";
    let titled = |branch: &str, events: Vec<ToolEvent>| {
        let turn = Turn { branch: Some(branch.into()), ..turn("yes", closing, events) };
        made(&turn).title.unwrap()
    };
    let both = || vec![edit("/p/a.go"), edit("/p/b.go")];
    let line = "The subtests now run in parallel, since they only read";
    assert_eq!(titled("dev/list-command", both()), format!("{line} (branch dev/list-command)"));
    assert_eq!(titled("main", vec![edit("/p/hooks.go")]), format!("{line} (hooks.go)"));
    assert_eq!(titled("main", both()), line);
    assert_eq!(titled("tool/brave-newton-a1b2c3", both()), line);
}

#[test]
fn a_turn_that_only_adds_tests_does_not_claim_what_they_test() {
    let closing = "## Changes\n\n- Modified `open()` to read the state before it fails\n\n## Tests\n\n- `TestOpen_ReturnsConflict` checks that a second owner gets the conflict error";
    let mut tests = turn("can you add an explicit one for this?", closing, vec![edit("/p/open_test.go")]);
    tests.functions = vec!["TestOpen_ReturnsConflict".into()];
    let note = made(&tests);
    assert!(note.title.unwrap().starts_with("`TestOpen_ReturnsConflict` checks"));
    assert!(!note.summary.unwrap().contains("Modified `open()`"));
}

#[test]
fn an_instruction_that_changed_nothing_was_only_asked() {
    let closing = "The changelog would list the retry of uploads and the new catalog, because both are visible to users.";
    let note = made(&turn("generate a changelog update for the uploader release", closing, Vec::new()));
    assert_eq!(note.title.as_deref(), Some("Asked to generate a changelog update for the uploader release"));
}

#[test]
fn after_commit_the_commit_tells_the_work() {
    let command = "git commit -m 'Check out the commit that was asked for' -m 'Failures of fetch were caught silently, so the wrong commit was evaluated.'";
    let closing = "Committed. Note: the staged `logo.svg` was included by the hook since it was staged before, and the other tab stays unstaged.";
    let note = made(&turn(
        "commit",
        closing,
        vec![bash(command, "[main 1a2b3c4] Check out the commit that was asked for")],
    ));
    assert!(note.summary.unwrap().starts_with("Failures of fetch were caught silently"));
}

#[test]
fn a_sentence_that_the_next_one_takes_back_is_no_title() {
    let closing = "Deleting the shadow data of a closed session may seem safe. However, a stash would lose its work. \
        The suffix of a branch keeps both sessions apart, because each has its own history.";
    let note = made(&turn("and what about that?", closing, Vec::new()));
    assert_eq!(
        note.title.as_deref(),
        Some("The suffix of a branch keeps both sessions apart, because each has its own history")
    );
}

#[test]
fn a_report_that_is_cut_is_no_reason() {
    let report = "The exporter tests failed because the environment of the machine has commit signing configured globally, causing commits in test repositories to fail with signing errors";
    let closing = "Added the `gpgsign` option to the exporter.";
    let summary = made(&turn(report, closing, vec![edit("/p/export.rs")])).summary;
    assert_eq!(summary.as_deref(), Some(closing));
}

#[test]
fn the_users_words_name_a_turn_whose_answer_only_lists_options() {
    let closing = "Let me propose better alternatives:\n\n**Option 1: Return errors and handle them**\nChange the callers to use `parse_id()` and \
        skip invalid entries instead of stopping.\n\n**Option 2: Typed fields**\nValidate once when the file is read, because then nobody can forget it.";
    let note = made(&turn(
        "hmm but panics in the parser are not great either, any other option?",
        closing,
        Vec::new(),
    ));
    assert_eq!(note.title.as_deref(), Some("Panics in the parser are not great either, any other option?"));
    assert!(note.facts.iter().all(|fact| fact.starts_with("Option 1")), "{:?}", note.facts);
}

#[test]
fn headings_above_code_alone_and_long_items_are_kept() {
    let closing = "I've addressed both issues:\n\n### 1. The token count now begins at the checkpoint\n```go\nlines = lines[offset:]\n```\n\n\
        ### 2. Prompts of the editor lose their context tags\n```go\nstrip(prompt)\n```\n";
    let note =
        made(&turn("fix the token count and the prompts of the editor", closing, vec![edit("/p/a.go")]));
    let text = format!("{} {}", note.title.unwrap(), note.summary.unwrap());
    assert!(text.contains("begins at the checkpoint") && text.contains("lose their context tags"), "{text}");
    let long = "a version that is described at length, ".repeat(12);
    let closing =
        format!("I've created three files:\n1. `a.md` - {long}\n2. `b.md` - {long}\n3. `c.md` - {long}");
    let note = made(&turn("write the plan into three files", &closing, vec![edit("/p/a.md")]));
    let (summary, detail) = (note.summary.unwrap(), note.detail.unwrap());
    assert!(summary.contains("`a.md`") && summary.contains("; and 2 more"), "{summary}");
    assert!(detail.contains("`b.md`") && detail.contains("`c.md`"), "{detail}");
}
