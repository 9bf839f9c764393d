//! No answer of a model makes the parser panic, and nothing that it returns is empty, unbounded or repeated.

use claude_mem::compress::parse::{self, MOST_LEARNINGS, MOST_OBSERVATIONS};
use claude_mem::model::{ObservationDraft, ObservationType, SummaryDraft};

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(answer) = parse::turn(text) {
        assert!(answer.observations.len() <= MOST_OBSERVATIONS);
        answer.observations.iter().for_each(check_draft);
        answer.summary.iter().for_each(check_summary);
        assert!(answer.learnings.len() <= MOST_LEARNINGS);
        answer.learnings.iter().for_each(|learnt| check_text(&learnt.content));
    }
}

fn check_summary(draft: &SummaryDraft) {
    let texts = [&draft.summary, &draft.request, &draft.investigated, &draft.learned, &draft.completed];
    texts.into_iter().chain([&draft.next_steps, &draft.notes]).flatten().for_each(|text| check_text(text));
    [&draft.files_read, &draft.files_edited, &draft.key_decisions]
        .into_iter()
        .for_each(|list| check_list(list));
}

fn check_draft(draft: &ObservationDraft) {
    assert!(
        draft.title.is_some() || draft.summary.is_some() || draft.detail.is_some() || !draft.facts.is_empty()
    );
    [&draft.title, &draft.summary, &draft.detail].into_iter().flatten().for_each(|text| check_text(text));
    let lists =
        [&draft.facts, &draft.concepts, &draft.files_read, &draft.files_modified, &draft.functions_changed];
    lists.into_iter().for_each(|list| check_list(list));
    let is_type =
        |word: &String| ObservationType::ALL.iter().any(|kind| word.eq_ignore_ascii_case(kind.as_str()));
    assert!(!draft.concepts.iter().any(is_type));
}

fn check_text(text: &str) {
    assert!(!text.trim().is_empty() && text.chars().count() <= 8_000 && !text.contains('\0'));
}

fn check_list(list: &[String]) {
    assert!(list.len() <= 60);
    for (at, item) in list.iter().enumerate() {
        assert!(!item.trim().is_empty() && item.chars().count() <= 600 && !list[..at].contains(item));
    }
}
