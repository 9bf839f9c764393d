//! The files that work on a prompt is likely to change (docs/decisions/003-search.md).

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::{Entry, Search};
use crate::config::SearchSettings as Settings;
use crate::model::Millis;
use crate::search::query::Query;
use crate::search::{Filter, Request, list, words_cut};
use crate::store::StoreError;
use crate::store::index::search::{Document, Kind};

/// More of a long prompt adds nothing.
const MOST_OF_A_PROMPT: usize = 1_000;
/// Notes that are read, and those of them whose files are counted.
const READ_NOTES: u64 = 300;
const NOTES: usize = 100;
/// BM25's saturation and its correction for length. Without the correction fewer files are found in two of three projects.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// Half of a note's worth is gone after this many days.
const HALF_LIFE_DAYS: f64 = 7.0;
/// The share of a file that was read and not changed.
const READ: f64 = 0.3;
/// A note about many files says less of each: its worth is divided by their number to this power.
const SPREAD: f64 = 0.3;

const DAY: f64 = 24.0 * 60.0 * 60_000.0;

/// The files of the project's notes before `now` that a prompt is most likely about, at most `most`, the best first: those that
/// it names, then those of the notes that are most like it, recent ones first.
pub fn likely_files(
    database: &Connection,
    project: &str,
    prompt: &str,
    now: Millis,
    settings: &Settings,
    most: usize,
) -> Result<Vec<String>, StoreError> {
    let mut query = Query::parse(words_cut(prompt, MOST_OF_A_PROMPT));
    if query.clues.is_empty() {
        return Ok(Vec::new());
    }
    // Quotation marks in a prompt require nothing.
    query.required.clear();
    let request = Request {
        filter: Filter {
            project: Some(project.to_owned()),
            kinds: vec![Kind::Observation],
            until: Some(now),
            ..Filter::default()
        },
        now,
        ..Request::default()
    };
    // By their own words alone.
    let settings = Settings { depth: READ_NOTES, context_weight: 0.0, ..settings.clone() };
    let (entries, rarities) = Search::new(database, &request, &settings)?.rows(&mut query)?;
    let mut sums = sums(&entries, &weights(&query, &rarities), now);
    let largest = sums.values().copied().fold(0.0, f64::max);
    let prompt = prompt.to_lowercase();
    for (file, sum) in sums.iter_mut().filter(|(_, sum)| **sum > 0.0) {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        *sum += if prompt.contains(&name) { largest } else { 0.0 };
    }
    // Notes whose neighbours alone have words of the prompt are worth nothing.
    let mut files: Vec<(String, f64)> = sums.into_iter().filter(|(_, sum)| *sum > 0.0).collect();
    files.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(files.into_iter().take(most).map(|(file, _)| file).collect())
}

fn weights(query: &Query, rarities: &[f64]) -> Vec<f64> {
    query.clues.iter().zip(rarities).map(|(clue, rarity)| clue.weight * rarity).collect()
}

/// The worth of every file of the notes.
fn sums(entries: &[Entry], weights: &[f64], now: Millis) -> HashMap<String, f64> {
    let lengths: Vec<f64> = entries.iter().map(|entry| length(&entry.document)).collect();
    let mean = (lengths.iter().sum::<f64>() / entries.len().max(1) as f64).max(1.0);
    let score = |entry: &Entry, length: f64| -> f64 {
        let room = SATURATION * (1.0 - LENGTH + LENGTH * length / mean);
        weights.iter().zip(&entry.counts).map(|(weight, count)| weight * count / (count + room)).sum()
    };
    let mut notes: Vec<(f64, &Entry)> =
        entries.iter().zip(lengths).map(|(entry, length)| (score(entry, length), entry)).collect();
    notes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut sums = HashMap::new();
    for (score, entry) in notes.into_iter().take(NOTES) {
        let age = (now - entry.document.created_at).max(0) as f64 / DAY;
        let worth = score * score * 0.5_f64.powf(age / HALF_LIFE_DAYS);
        let changed: HashSet<String> = list(&entry.document.files_modified).into_iter().collect();
        let share = (changed.len().max(1) as f64).powf(-SPREAD);
        let read = list(&entry.document.files_read).into_iter().filter(|file| !changed.contains(file));
        for file in read.collect::<HashSet<_>>() {
            *sums.entry(file).or_default() += READ * worth;
        }
        for file in changed {
            *sums.entry(file).or_default() += share * worth;
        }
    }
    sums
}

fn length(document: &Document) -> f64 {
    document.texts().iter().map(|text| text.len()).sum::<usize>() as f64
}
