//! The layer `observations`: the past work that matters most where the project stands now.
//!
//! Candidates come from three sides: the newest, those about files at hand, and those that a search finds, where there is
//! one. What a search thinks of them, their age, their files, their type and their branch decide together.

use std::collections::HashMap;

use rusqlite::Connection;

use super::line::one_line;
use super::page::Line;
use super::situation::{Question, is_topic};
use super::words::{Said, WordSet};
use super::{Request, age};
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::StoreError;
use crate::store::context::{self as table, Memory, Part};

/// How many are looked at, from each side.
const NEWEST: u32 = 120;
const LATEST_SESSIONS: u32 = 40;
const FILES_ASKED: usize = 4;
const FOR_EACH_FILE: u32 = 8;

/// What each side counts for.
const RELEVANCE: f64 = 1.0;
const RECENCY: f64 = 0.6;
const FILES: f64 = 0.6;
const TYPE: f64 = 0.4;
const BRANCH: f64 = 0.4;
/// The age at which recency counts for half.
const HALF_DAYS: f64 = 4.0;

/// So many are told with their summaries; the others by their titles.
const TOLD_IN_FULL: usize = 10;
/// What counts for less than this share of the best is not worth its tokens.
const LEAST_SHARE: f64 = 0.2;
/// Words in common from which on two observations are taken for one.
pub const ALIKE: f64 = 0.75;
const TITLE: usize = 150;
const SUMMARY: usize = 260;

const DAY: f64 = 24.0 * 60.0 * 60_000.0;

/// A candidate and what it counts for.
struct Candidate {
    memory: Memory,
    score: f64,
}

/// The newest, which are read while git looks around.
pub fn newest(database: &Connection, request: &Request<'_>) -> Result<Vec<Memory>, StoreError> {
    let ids = table::newest_observations(database, request.project_path, LATEST_SESSIONS, NEWEST)?;
    table::memories(database, request.project_path, &ids)
}

/// One line for each observation, the best first, without what was said already.
pub fn lines(
    database: &Connection,
    request: &Request<'_>,
    question: &Question,
    newest: Vec<Memory>,
    said: Said,
) -> Result<impl Iterator<Item = Line> + use<>, StoreError> {
    let found = found(request, question);
    let mut ids = about_files(database, request, question);
    ids.extend(found.keys());
    ids.retain(|id| newest.iter().all(|memory| memory.id != *id));
    ids.sort_unstable();
    ids.dedup();
    let topic = request.situation.branch.as_deref().filter(|branch| is_topic(branch));
    let mut candidates: Vec<Candidate> = newest
        .into_iter()
        .chain(table::memories(database, request.project_path, &ids)?)
        .map(|memory| {
            let relevance = match found.is_empty() {
                true => words_in_common(&memory, question),
                false => found.get(&memory.id).copied().unwrap_or(0.0),
            };
            let score = score(&memory, relevance, topic, request.now, question);
            Candidate { memory, score }
        })
        .collect();
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.memory.id.cmp(&a.memory.id)));
    let least = candidates.first().map_or(0.0, |best| best.score * LEAST_SHARE);
    candidates.retain(|candidate| candidate.score >= least);
    Ok(told(candidates, said, request.now))
}

/// What a search finds, from 0 to 1. A search that fails is like none.
fn found(request: &Request<'_>, question: &Question) -> HashMap<i64, f64> {
    let Some(recall) = request.recall.filter(|_| !question.words.is_empty()) else { return HashMap::new() };
    let hits = recall(question).unwrap_or_default();
    let best = hits.iter().map(|(_, score)| *score).fold(f64::MIN_POSITIVE, f64::max);
    hits.into_iter().map(|(id, score)| (id, (score / best).clamp(0.0, 1.0))).collect()
}

/// The same where no search helps: how many of the wanted words are there.
fn words_in_common(memory: &Memory, question: &Question) -> f64 {
    if question.words.is_empty() {
        return 0.0;
    }
    let words = WordSet::of(&[&memory.title, &memory.summary]);
    let wanted = question.words.len().clamp(1, 6) as f64;
    let known = question.words.iter().filter(|word| words.has(word)).count();
    (known as f64 / wanted).min(1.0)
}

/// Observations about the files at hand. An index that cannot be read is like none: the newest are still there.
fn about_files(database: &Connection, request: &Request<'_>, question: &Question) -> Vec<i64> {
    let files = question.files.iter().take(FILES_ASKED);
    let about = |file: &String| {
        table::observations_with(database, request.project, Part::Head, ending(file), FOR_EACH_FILE)
    };
    files.filter_map(|file| about(file).ok()).flatten().collect()
}

/// A file's name and its folder's: enough to find it by, however its path was written.
pub fn ending(path: &str) -> &str {
    let mut slashes = path.match_indices('/').rev();
    slashes.nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

fn score(memory: &Memory, relevance: f64, topic: Option<&str>, now: Millis, question: &Question) -> f64 {
    let age = (now - memory.created_at).max(0) as f64 / DAY;
    let recency = 1.0 / (1.0 + age / HALF_DAYS);
    let is_of_branch = topic.is_some() && memory.branch.as_deref() == topic;
    RELEVANCE * relevance
        + RECENCY * recency
        + FILES * files_in_common(memory, &question.files)
        + TYPE * weight_of_type(&memory.kind)
        + BRANCH * f64::from(u8::from(is_of_branch))
}

/// From 0 to 1; a file that was changed tells more than one that was read.
fn files_in_common(memory: &Memory, files: &[String]) -> f64 {
    let count = |known: &[String]| {
        known.iter().filter(|known| files.iter().any(|file| is_same_file(known, file))).count() as f64
    };
    if files.is_empty() {
        return 0.0;
    }
    ((count(&memory.files_modified) + 0.4 * count(&memory.files_read)) / 2.0).min(1.0)
}

/// What was decided and what went wrong is needed again; what was merely changed can be seen in the code.
pub fn weight_of_type(kind: &str) -> f64 {
    match kind {
        "decision" => 1.0,
        "bugfix" | "discovery" => 0.8,
        "feature" => 0.6,
        "refactor" => 0.4,
        _ => 0.2,
    }
}

/// Of several that say nearly the same the best is told. Lines are made as they are asked for: most have no room.
fn told(candidates: Vec<Candidate>, said: Said, now: Millis) -> impl Iterator<Item = Line> {
    let mut kept: Vec<WordSet> = Vec::new();
    candidates.into_iter().filter_map(move |Candidate { memory, .. }| {
        if memory.title.is_empty() && memory.summary.is_empty() {
            return None;
        }
        let words = WordSet::of(&[&memory.title, &memory.summary]);
        if said.has(&words) || kept.iter().any(|other| words.alike(other) > ALIKE) {
            return None;
        }
        kept.push(words);
        Some(line(&memory, kept.len() <= TOLD_IN_FULL, now))
    })
}

/// An observation as one line: its id, what it is, how old, what it says.
pub fn line(memory: &Memory, is_in_full: bool, now: Millis) -> Line {
    let title = one_line(&memory.title, TITLE);
    let summary = one_line(&memory.summary, SUMMARY);
    let said = match (title.is_empty(), summary.is_empty()) {
        (true, _) => summary,
        (false, true) => title,
        (false, false) if !is_in_full || adds_little(&title, &summary) => title,
        (false, false) => format!("{}. {summary}", title.trim_end_matches(['.', '…', ' '])),
    };
    let age = age::ago(memory.created_at, now);
    Line {
        text: format!("#{} {}, {age}: {said}", memory.id, memory.kind),
        shows: Some(memory.id),
        group: None,
    }
}

fn adds_little(title: &str, summary: &str) -> bool {
    summary.trim_end_matches(['.', ' ']) == title.trim_end_matches(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_name_and_folder() {
        assert_eq!(ending("/w/src/auth/token.rs"), "auth/token.rs");
        assert_eq!(ending("token.rs"), "token.rs");
    }
}
