//! Scores rows by words, by the best hits of their session, and by meaning (docs/decisions/003-search.md).

use std::collections::HashMap;

use super::{Entry, Search, SimilarityScores};
use crate::project::is_same_file;
use crate::search::candidates::Candidates;
use crate::search::candidates::filter::files;
use crate::search::query::Clue;
use crate::store::StoreError;
use crate::store::index::search::{Document, Kind};

/// BM25's saturation: how soon repetition stops to count.
const SATURATION: f64 = 0.8;
/// The hits of a session that lift each other.
const LIFTING: usize = 2;
/// The weight of that lift once meaning is known.
const LIFT_WITH_MEANING: f64 = 0.1;
/// A best row with a smaller share of the question than this matches by chance.
const SURE: f64 = 0.8;

/// The worth of a clue, given the number of rows that have it.
pub fn rarity(rows: f64, having: f64) -> f64 {
    (1.0 + ((rows - having).max(0.0) + 0.5) / (having + 0.5)).ln()
}

/// BM25's value of a number of occurrences, 1 for one. Without its correction for length, which cost 1.2 points of LoCoMo.
pub fn saturated(count: f64) -> f64 {
    count * (SATURATION + 1.0) / (count + SATURATION)
}

pub(super) fn best_score(entries: &[Entry]) -> f64 {
    entries.iter().map(|entry| entry.score).fold(0.0, f64::max)
}

impl Search<'_> {
    /// Scores by words, from 0 to about 1: the share of the question that a row has, the best hits of its session included.
    pub(super) fn score_words(&self, entries: &mut [Entry], clues: &[Clue], found: &Candidates) {
        let asked: f64 = clues.iter().zip(&found.rarities).map(|(clue, rarity)| clue.weight * rarity).sum();
        for entry in entries.iter_mut() {
            entry.parts.words = 0.0;
            for (at, clue) in clues.iter().enumerate() {
                let has = |place| found.contexts[at].binary_search(&place).is_ok();
                let context = if entry.place.is_some_and(has) { self.settings.context_weight } else { 0.0 };
                entry.parts.words += clue.weight * found.rarities[at] * saturated(entry.counts[at] + context)
                    / asked.max(1e-9);
            }
            entry.score = entry.parts.words;
        }
        let weight = self.settings.session_weight;
        lift_sessions(entries, weight);
        for entry in entries {
            entry.parts.session = entry.score * (1.0 + weight) - entry.parts.words;
        }
    }

    /// Scores by words and by meaning together, both as shares of the best, so that each counts by its weight. Where even the
    /// best row has little of the question in words, they are chance, and the weight of meaning grows.
    pub(super) fn add_meaning(
        &self,
        entries: &mut [Entry],
        scores: &SimilarityScores,
    ) -> Result<(), StoreError> {
        let (best_words, nearest) = (best_score(entries), scores.best());
        if nearest <= 0.0 {
            return Ok(());
        }
        let trust = (best_words / SURE).min(1.0).powi(2) / best_words.max(f64::EPSILON);
        for entry in entries.iter_mut() {
            let cosine = entry.place.map(|place| scores.cosine(self.database, place)).transpose()?.flatten();
            entry.parts.meaning = (f64::from(cosine.unwrap_or_default()) / nearest).clamp(0.0, 1.0);
            let weight = scores.scale.weight;
            entry.score = (1.0 - weight) * trust * entry.score + weight * entry.parts.meaning;
        }
        lift_sessions(entries, LIFT_WITH_MEANING);
        // The best hit is worth its words or its meaning, so that scores of different queries can be compared.
        let worth =
            best_words.max(nearest / scores.scale.most).min(1.0) / best_score(entries).max(f64::EPSILON);
        entries.iter_mut().for_each(|entry| entry.score *= worth);
        Ok(())
    }

    /// Applies the factors for kind and files.
    pub(super) fn weigh(&self, entries: &mut [Entry]) {
        for Entry { document, parts, score, .. } in entries {
            parts.kind = match document.kind {
                Kind::Observation => 1.0,
                Kind::Summary => self.settings.summaries_weight,
                Kind::Prompt => self.settings.prompts_weight,
            };
            parts.files = self.files_factor(document);
            *score *= parts.kind * parts.files;
        }
    }

    fn files_factor(&self, document: &Document) -> f64 {
        let near = &self.request.near_files;
        if near.is_empty() {
            return 1.0;
        }
        let shared = files(document).filter(|path| near.iter().any(|near| is_same_file(path, near))).count();
        1.0 + self.settings.near_files_weight * (shared.min(3) as f64 / 3.0)
    }
}

/// Adds to the score of every hit that of the best hits of its session, by `weight`.
fn lift_sessions(entries: &mut [Entry], weight: f64) {
    let mut sessions: HashMap<&str, Vec<f64>> = HashMap::new();
    for entry in entries.iter() {
        sessions.entry(&entry.document.session_id).or_default().push(entry.score);
    }
    let lift = |scores: &mut Vec<f64>| {
        scores.sort_by(|a, b| b.total_cmp(a));
        scores.iter().take(LIFTING).sum::<f64>() / LIFTING as f64
    };
    let lifts: HashMap<String, f64> =
        sessions.iter_mut().map(|(session, scores)| ((*session).to_owned(), lift(scores))).collect();
    for entry in entries.iter_mut().filter(|entry| entry.score > 0.0) {
        entry.score = (entry.score + weight * lifts[&entry.document.session_id]) / (1.0 + weight);
    }
}
