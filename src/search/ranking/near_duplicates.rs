//! Rows that say the same, or belong to the same turn.

use std::collections::HashMap;

use super::Entry;
use crate::search::language::words::{fold, words};
use crate::store::index::search::{Document, Kind};

/// Folds rows of a project that have the same words, and then the rows of each turn.
pub fn fold_repeats(entries: Vec<Entry>) -> Vec<Entry> {
    fold_turns(fold_same_words(entries))
}

/// The best of several rows with the same words stands for all.
fn fold_same_words(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    let mut known: HashMap<(Kind, String, String), usize> = HashMap::new();
    for entry in entries {
        let Document { kind, project, title, summary, detail, .. } = &entry.document;
        let text: Vec<String> = [title, summary, detail]
            .into_iter()
            .flat_map(|text| words(text))
            .map(|word| fold(word.text))
            .collect();
        let at = *known.entry((*kind, project.clone(), text.join(" "))).or_insert(kept.len());
        match kept.get_mut(at) {
            Some(first) => first.similar.push(entry.document.id),
            None => kept.push(entry),
        }
    }
    kept
}

/// The prompt and the summary of a turn are one hit with the best of its observations. Text that answers stands for the turn
/// before text that asks.
fn fold_turns(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    let mut turns: HashMap<(String, i64), usize> = HashMap::new();
    for mut entry in entries {
        let turn = entry.document.prompt_number.map(|number| (entry.document.session_id.clone(), number));
        let Some(at) = turn.as_ref().and_then(|turn| turns.get(turn)).copied() else {
            turns.extend(turn.map(|turn| (turn, kept.len())));
            kept.push(entry);
            continue;
        };
        let first = &mut kept[at];
        if first.document.kind == Kind::Observation && entry.document.kind == Kind::Observation {
            // Several observations of a turn are several memories.
            kept.push(entry);
        } else if first.document.kind == Kind::Prompt && entry.document.kind != Kind::Prompt {
            entry.score = first.score;
            *first = entry;
        }
    }
    kept
}
