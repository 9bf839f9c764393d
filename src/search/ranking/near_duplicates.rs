//! Rows that say nearly the same, or belong to the same turn.

use std::collections::{HashMap, HashSet};

use super::Entry;
use crate::search::language::words::{fold, words};
use crate::search::words_cut;
use crate::store::index::search::{Document, Kind};

/// Rows of one project that say nearly the same become one, the best of them.
pub fn fold_near_duplicates(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    let mut by_title: HashMap<(Kind, String, String), Vec<usize>> = HashMap::new();
    for entry in entries {
        let document = &entry.document;
        let called = if document.title.is_empty() { &document.summary } else { &document.title };
        let title: String = words(words_cut(called, 400)).map(|word| fold(word.text) + " ").collect();
        let same = by_title.entry((document.kind, document.project.clone(), title)).or_default();
        match same.iter().find(|at| says_the_same(&kept[**at].document, document)) {
            Some(at) => kept[*at].similar.push(document.id),
            None => {
                same.push(kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}

/// The prompt and the summary of a turn are one hit with the best of its observations. Text that answers stands for the turn
/// before text that asks.
pub fn fold_turns(entries: Vec<Entry>) -> Vec<Entry> {
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

/// Nine words of ten in common.
fn says_the_same(a: &Document, b: &Document) -> bool {
    let set = |document: &Document| -> HashSet<String> {
        words(&document.summary).chain(words(&document.detail)).map(|word| fold(word.text)).collect()
    };
    let (a, b) = (set(a), set(b));
    let common = a.intersection(&b).count();
    common * 10 >= (a.len() + b.len() - common) * 9
}
