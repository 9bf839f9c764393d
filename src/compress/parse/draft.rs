//! Makes drafts of the fields that a model returned. Any field may be missing, but not all of them.

use serde_json::{Map, Value};

use super::fields::{self, DETAIL, FUNCTIONS, PATHS, SENTENCES, SUMMARY, TITLE, WORDS, list_of, text_of};
use crate::model::{Category, ObservationDraft, ObservationType, SummaryDraft};

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

/// The observation that an object holds; `None` if it is empty.
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
    // These names are common elsewhere too: alone they do not make an observation.
    if draft.detail.is_none() {
        draft.detail = text_of(object, &["description", "content", "text", "body"], DETAIL);
    }
    if let Some(why) = text_of(object, &["why", "reason", "rationale", "cause"], SUMMARY) {
        draft.summary = Some(with_reason(draft.summary.take(), &why));
    }
    draft.concepts.retain(|concept| {
        ObservationType::ALL.iter().all(|kind| !concept.eq_ignore_ascii_case(kind.as_str()))
    });
    Some(draft)
}

/// Adds the reason to the summary, so that it is shown wherever the summary is.
fn with_reason(summary: Option<String>, why: &str) -> String {
    match summary {
        Some(summary) if summary.contains(why) => summary,
        Some(summary) => {
            let end = if summary.ends_with(['.', '!', '?', '。']) { "" } else { "." };
            format!("{summary}{end} {why}")
        }
        None => why.to_owned(),
    }
}

/// An observation made from a bare sentence.
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

/// The summary that an object holds; `None` if it is empty.
pub(super) fn summary(object: &Map<String, Value>) -> Option<SummaryDraft> {
    let text = |names: &[&str]| text_of(object, names, SUMMARY);
    let draft = SummaryDraft {
        summary: text(&["summary", "overview", "abstract", "tldr"]),
        request: text(&["request", "userrequest", "goal"]),
        investigated: text(&["investigated", "investigation", "explored"]),
        learned: text(&["learned"]).or_else(|| learnt_as_text(object)).or_else(|| text(&["findings"])),
        completed: text(&["completed", "accomplished", "done"]),
        next_steps: open_points(object).or_else(|| text(&["nextsteps", "nextstep", "next", "remaining"])),
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

/// Open points, one on a line.
fn open_points(object: &Map<String, Value>) -> Option<String> {
    let points = list_of(object, &["open", "openitems", "openpoints", "todo"], SENTENCES);
    let lines: Vec<String> = points.iter().map(|point| format!("- {point}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Findings, under the name that older models use; a list of objects under that name is something else.
fn learnt_as_text(object: &Map<String, Value>) -> Option<String> {
    let value = fields::get(object, &["learnings"])?;
    let is_list = value.as_array().is_some_and(|items| items.iter().any(Value::is_object));
    (!is_list).then(|| fields::text(value, SUMMARY)).flatten()
}

/// A learning proposed by a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learnt {
    /// The category.
    pub category: Option<Category>,
    /// The text.
    pub content: String,
    /// True if it applies to every project.
    pub everywhere: bool,
    /// The number of the known learning that this repeats.
    pub known: Option<usize>,
    /// The number of the known learning that this replaces.
    pub replaces: Option<usize>,
}

/// The learning that a value holds.
pub(super) fn learnt(value: &Value) -> Option<Learnt> {
    const LONGEST: usize = 400;
    let Value::Object(object) = value else {
        let content = fields::line(value.as_str()?, LONGEST)?;
        return Some(Learnt { content, ..Learnt::default() });
    };
    let content = text_of(object, &["content", "learning", "text", "fact", "rule", "statement"], LONGEST)?;
    let number = |name: &str| match fields::get(object, &[name])? {
        Value::Number(number) => usize::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.trim_matches(['[', ']', '#', ' ']).parse().ok(),
        _ => None,
    };
    Some(Learnt {
        category: text_of(object, &["category", "type", "kind"], TITLE)
            .and_then(|word| Category::from_word(&word)),
        content: fields::line(&content, LONGEST)?,
        everywhere: fields::get(object, &["everywhere", "global"])
            .and_then(Value::as_bool)
            .unwrap_or_default(),
        known: number("known").or_else(|| number("confirms")),
        replaces: number("replaces").or_else(|| number("supersedes")),
    })
}
