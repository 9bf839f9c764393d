//! Removes secrets from drafts before they are stored: a model or a rule may have quoted one.

use crate::model::{ObservationDraft, SummaryDraft};
use crate::privacy::redact::Redactor;

/// The observation without secrets.
pub fn observation(mut draft: ObservationDraft) -> ObservationDraft {
    let redactor = Redactor::new();
    [&mut draft.title, &mut draft.summary, &mut draft.detail]
        .into_iter()
        .for_each(|field| text(&redactor, field));
    let lists = [
        &mut draft.facts,
        &mut draft.concepts,
        &mut draft.files_read,
        &mut draft.files_modified,
        &mut draft.functions_changed,
    ];
    lists.into_iter().for_each(|field| list(&redactor, field));
    draft
}

/// The summary without secrets.
pub fn summary(mut draft: SummaryDraft) -> SummaryDraft {
    let redactor = Redactor::new();
    let texts = [
        &mut draft.summary,
        &mut draft.request,
        &mut draft.investigated,
        &mut draft.learned,
        &mut draft.completed,
        &mut draft.next_steps,
        &mut draft.notes,
    ];
    texts.into_iter().for_each(|field| text(&redactor, field));
    let lists = [&mut draft.files_read, &mut draft.files_edited, &mut draft.key_decisions];
    lists.into_iter().for_each(|field| list(&redactor, field));
    draft
}

fn text(redactor: &Redactor, field: &mut Option<String>) {
    if let Some(text) = field {
        *text = redactor.redact(text).into_string();
    }
}

fn list(redactor: &Redactor, field: &mut [String]) {
    for item in field {
        *item = redactor.redact(item).into_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_keeps_a_secret() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let text = || Some(format!("use {secret} here"));
        let list = || vec![format!("token {secret}")];
        let draft = ObservationDraft {
            title: text(),
            summary: text(),
            detail: text(),
            facts: list(),
            concepts: list(),
            files_read: list(),
            files_modified: list(),
            functions_changed: list(),
            ..ObservationDraft::default()
        };
        assert!(!format!("{:?}", observation(draft)).contains(secret));
        let draft = SummaryDraft {
            summary: text(),
            request: text(),
            investigated: text(),
            learned: text(),
            completed: text(),
            next_steps: text(),
            notes: text(),
            files_read: list(),
            files_edited: list(),
            key_decisions: list(),
        };
        assert!(!format!("{:?}", summary(draft)).contains(secret));
    }
}
