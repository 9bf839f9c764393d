//! What holds for any turn whatsoever: no panic, bounded and plain output, the same output again.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::concepts::MOST_CONCEPTS;
use super::story::{DETAIL_COLUMNS, FACT_COLUMNS, MOST_FACTS, SUMMARY_COLUMNS};
use super::text::width;
use super::title::TITLE_COLUMNS;
use super::turns::{fixtures, sorted, turn};
use super::{error_signature, observe, summarize};
use crate::compress::routine::{SeenFiles, judge};
use crate::compress::turn::{Turn, TurnEvent};
use crate::config::Verbosity;
use crate::model::{ObservationDraft, ObservationType, SummaryDraft};

fn check(turn: &Turn) {
    let observations = observe(turn);
    assert_eq!(observations, observe(turn));
    assert!(observations.len() <= 6);
    for observation in &observations {
        check_draft(&observation.draft);
        assert!(!observation.sources.is_empty());
        assert!(observation.sources.iter().all(|id| turn.events.iter().any(|event| event.id == *id)));
    }
    let summary = summarize(turn);
    assert_eq!(summary, summarize(turn));
    check_summary(&summary);
    let mut seen = SeenFiles::default();
    for verbosity in [Verbosity::Minimal, Verbosity::Normal, Verbosity::Verbose] {
        turn.events.iter().for_each(|event| {
            judge(event, verbosity, &mut seen);
        });
    }
}

fn check_text(text: &str, columns: usize) {
    assert!(width(text) <= columns, "{} > {columns}: {text}", width(text));
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(!text.trim().is_empty());
}

fn check_draft(draft: &ObservationDraft) {
    check_text(draft.title.as_deref().unwrap(), TITLE_COLUMNS);
    draft.summary.iter().for_each(|text| check_text(text, SUMMARY_COLUMNS));
    draft.detail.iter().for_each(|text| check_text(text, DETAIL_COLUMNS));
    assert!(draft.facts.len() <= MOST_FACTS && draft.concepts.len() <= MOST_CONCEPTS);
    draft.facts.iter().for_each(|text| check_text(text, FACT_COLUMNS));
    draft.concepts.iter().for_each(|text| check_text(text, 80));
    let lists = [&draft.files_read, &draft.files_modified, &draft.functions_changed];
    for list in lists {
        assert!(list.len() <= 30);
        list.iter().for_each(|text| check_text(text, 180));
    }
    for kind in ObservationType::ALL {
        assert!(!draft.concepts.iter().any(|concept| concept == kind.as_str()));
    }
}

fn check_summary(summary: &SummaryDraft) {
    let texts =
        [&summary.request, &summary.investigated, &summary.learned, &summary.completed, &summary.notes];
    texts.into_iter().flatten().for_each(|text| check_text(text, 520));
    summary.summary.iter().for_each(|text| check_text(text, 400));
    let steps = summary.next_steps.iter().flat_map(|text| text.lines());
    steps.chain(summary.key_decisions.iter().map(String::as_str)).for_each(|text| check_text(text, 220));
}

/// Names that the readers look for, so that odd values meet them.
const NAMES: [&str; 26] = [
    "tool_input",
    "tool_response",
    "error",
    "command",
    "file_path",
    "old_string",
    "new_string",
    "content",
    "stdout",
    "stderr",
    "structuredPatch",
    "lines",
    "oldStart",
    "originalFile",
    "type",
    "file",
    "filenames",
    "pattern",
    "url",
    "query",
    "results",
    "answers",
    "plan",
    "edits",
    "is_interrupt",
    "description",
];

/// Pieces that mean something somewhere.
const PIECES: [&str; 30] = [
    "cargo test",
    "git commit -m 'x'",
    "cd a && ",
    " | tail",
    "<<'EOF'\n",
    "EOF\n",
    "test result: FAILED. 1 passed; 2 failed;",
    "error[E0502]: cannot borrow",
    "--- FAIL: TestX (0.0s)\n",
    "[main 1a2b3c4] Fix",
    "-> main",
    "\u{1b}[31m",
    "\u{0}",
    "`",
    "\"",
    "'",
    "$(",
    ")",
    "修复。",
    "für größe",
    "😀",
    "\n- ",
    "## Next steps\n",
    "**",
    "[a](b)",
    " panicked at src/a.rs:1:2:\n",
    "src/a.rs",
    "fn main() {\n    x\n}",
    "I fixed the bug, added",
    "[claude-mem: 9 bytes cut]",
];

fn words() -> impl Strategy<Value = String> {
    let known = proptest::sample::select(PIECES.to_vec()).prop_map(str::to_owned);
    let piece = prop_oneof![3 => known, 1 => any::<String>()];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => words().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let names = proptest::sample::select(NAMES.to_vec());
        prop_oneof![
            1 => vec(inner.clone(), 0..6).prop_map(Value::from),
            3 => vec((names, inner), 0..6).prop_map(|fields| {
                let owned = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(owned.collect::<Map<_, _>>())
            }),
        ]
    })
}

const TOOLS: [&str; 14] = [
    "Bash",
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Grep",
    "Glob",
    "WebFetch",
    "WebSearch",
    "Agent",
    "AskUserQuestion",
    "mcp__a__create_b",
    "Unknown",
];

fn events() -> impl Strategy<Value = TurnEvent> {
    let payload = prop_oneof![
        5 => (values(), values(), any::<bool>()).prop_map(|(input, response, failed)| match failed {
            true => json!({"tool_input": input, "error": response}).to_string(),
            false => json!({"tool_input": input, "tool_response": response}).to_string(),
        }),
        1 => words(),
    ];
    let tool = proptest::option::of(proptest::sample::select(TOOLS.to_vec()));
    (
        any::<i64>(),
        tool,
        payload,
        any::<bool>(),
        proptest::option::of(words()),
        proptest::option::of(Just("Explore")),
    )
        .prop_map(|(id, tool, payload, failed, cwd, agent)| TurnEvent {
            id,
            tool_name: tool.map(str::to_owned),
            payload,
            failed,
            cwd,
            agent_type: agent.map(str::to_owned),
            raw_bytes: 0,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_that_a_turn_may_hold_does_harm(
        events in vec(events(), 0..10),
        project_path in proptest::option::of(words()),
        prompt in proptest::option::of(words()),
        last_assistant_message in proptest::option::of(words()),
    ) {
        check(&Turn { project_path, prompt, last_assistant_message, events, ..Turn::default() });
    }

    #[test]
    fn a_real_turn_cut_anywhere_is_still_told(
        chosen in any::<prop::sample::Index>(),
        event in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
    ) {
        let paths = sorted(&fixtures().join("turns"));
        let mut turn = turn(&paths[chosen.index(paths.len())].file_stem().unwrap().to_string_lossy());
        let count = turn.events.len();
        let payload = &mut turn.events[event.index(count)].payload;
        let cut = payload.floor_char_boundary(at.index(payload.len()));
        payload.truncate(cut);
        check(&turn);
    }

    #[test]
    fn a_signature_is_bounded_and_stable(text in words()) {
        if let Some(signature) = error_signature(&text) {
            check_text(&signature, 160);
            prop_assert_eq!(error_signature(&text), Some(signature));
        }
    }
}

/// A payload at the hook's limit, of the kinds that make a reader walk through all of it.
#[test]
fn the_largest_payloads_are_survived() {
    let line = "error: something failed at 3.25s in /a/b/c.rs:10:5 with 'x' (test_a) ... FAILED\n";
    let long = line.repeat(1_048_576 / line.len());
    let inputs = [
        ("Bash", json!({"tool_input": {"command": long}, "tool_response": {"stdout": long}}).to_string()),
        (
            "Edit",
            json!({"tool_input": {"file_path": "/a.rs", "old_string": long, "new_string": line}, "tool_response": {"originalFile": long}})
                .to_string(),
        ),
        ("Bash", json!({"tool_input": {"command": "cargo test"}, "error": "x".repeat(1_048_576)}).to_string()),
        ("Unknown", "[".repeat(100_000)),
    ];
    for (tool, payload) in inputs {
        let event = TurnEvent { id: 1, tool_name: Some(tool.to_owned()), payload, ..TurnEvent::default() };
        let message = Some(long.clone());
        check(&Turn {
            events: vec![event],
            prompt: message.clone(),
            last_assistant_message: message,
            ..Turn::default()
        });
    }
}

#[test]
fn an_empty_turn_gives_nothing() {
    assert_eq!(observe(&Turn::default()), []);
    assert_eq!(summarize(&Turn::default()), SummaryDraft::default());
    let prompt = Some("Fix the login".to_owned());
    assert_eq!(observe(&Turn { prompt, ..Turn::default() }), []);
}
