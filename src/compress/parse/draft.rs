//! Makes drafts of the fields that a model returned. Partial ones too: every field may be missing, but not all.

use serde_json::{Map, Value};

use super::fields::{self, DETAIL, FUNCTIONS, PATHS, SENTENCES, SUMMARY, TITLE, WORDS, list_of, text_of};
use crate::model::{ObservationDraft, ObservationType, SummaryDraft};

const FILES_READ: [&str; 6] = ["filesread", "fileread", "readfiles", "filesexamined", "filesviewed", "files"];
const FILES_MODIFIED: [&str; 9] = [
    "filesmodified",
    "filemodified",
    "modifiedfiles",
    "filesedited",
    "fileschanged",
    "changedfiles",
    "filesupdated",
    "fileswritten",
    "filescreated",
];

/// The observation that an object holds; `None` if it says nothing.
pub(super) fn observation(object: &Map<String, Value>) -> Option<ObservationDraft> {
    let mut draft = ObservationDraft {
        kind: kind(object),
        title: text_of(object, &["title", "headline", "heading"], TITLE)
            .and_then(|title| fields::line(&title, TITLE)),
        summary: text_of(
            object,
            &["summary", "subtitle", "shortsummary", "abstract", "overview", "tldr"],
            SUMMARY,
        ),
        detail: text_of(object, &["detail", "details", "narrative", "explanation"], DETAIL),
        facts: list_of(object, &["facts", "fact", "keyfacts", "keypoints", "points"], SENTENCES),
        concepts: list_of(object, &["concepts", "concept", "tags", "keywords", "topics"], WORDS),
        files_read: list_of(object, &FILES_READ, PATHS),
        files_modified: list_of(object, &FILES_MODIFIED, PATHS),
        functions_changed: list_of(
            object,
            &["functionschanged", "functions", "functionsmodified", "symbols"],
            FUNCTIONS,
        ),
    };
    let says_something =
        draft.title.is_some() || draft.summary.is_some() || draft.detail.is_some() || !draft.facts.is_empty();
    if !says_something {
        return None;
    }
    // Too common elsewhere to make an observation of what has nothing else.
    if draft.detail.is_none() {
        draft.detail = text_of(object, &["description", "content", "text", "body"], DETAIL);
    }
    draft.concepts.retain(|concept| {
        ObservationType::ALL.iter().all(|kind| !concept.eq_ignore_ascii_case(kind.as_str()))
    });
    Some(draft)
}

/// The observation that a mere sentence is.
pub(super) fn observation_of_text(text: &str) -> Option<ObservationDraft> {
    let text = fields::text(&Value::from(text), SUMMARY)?;
    Some(if text.chars().count() <= TITLE && !text.contains('\n') {
        ObservationDraft { title: Some(text), ..ObservationDraft::default() }
    } else {
        ObservationDraft { summary: Some(text), ..ObservationDraft::default() }
    })
}

fn kind(object: &Map<String, Value>) -> ObservationType {
    let word = text_of(object, &["type", "kind", "category", "observationtype"], TITLE).unwrap_or_default();
    match fields::plain(&word).as_str() {
        "fix" | "bug" | "hotfix" => ObservationType::Bugfix,
        "feat" => ObservationType::Feature,
        "refactoring" => ObservationType::Refactor,
        word => ObservationType::from_word(word),
    }
}

/// The summary that an object holds; `None` if it says nothing.
pub(super) fn summary(object: &Map<String, Value>) -> Option<SummaryDraft> {
    let text = |names: &[&str]| text_of(object, names, SUMMARY);
    let draft = SummaryDraft {
        summary: text(&["summary", "overview", "abstract", "tldr"]),
        request: text(&["request", "userrequest", "goal"]),
        investigated: text(&["investigated", "investigation", "explored"]),
        learned: text(&["learned", "learnings", "findings"]),
        completed: text(&["completed", "accomplished", "done"]),
        next_steps: text(&["nextsteps", "nextstep", "next", "remaining"]),
        notes: text(&["notes", "note"]),
        files_read: list_of(object, &FILES_READ, PATHS),
        files_edited: list_of(object, &FILES_MODIFIED, PATHS),
        key_decisions: list_of(object, &["keydecisions", "keydecision", "decisions", "decision"], SENTENCES),
    };
    let nothing_said = SummaryDraft {
        files_read: draft.files_read.clone(),
        files_edited: draft.files_edited.clone(),
        ..SummaryDraft::default()
    };
    (draft != nothing_said).then_some(draft)
}
