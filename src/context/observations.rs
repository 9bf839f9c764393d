//! The layer `observations`: the past work that matters most where the project stands now.
//!
//! Candidates come from three sources: the newest, those about changed files, and search hits, where there is a search. Search
//! score, age, files, type and branch rank them together.

use std::collections::HashMap;

use rusqlite::Connection;

use super::ContextRequest;
use super::page::Line;
use super::repo_state::{RelevanceQuery, is_topic};
use super::wording::{WIDE, Wording, gives_reason};
use super::words::{SeenText, WordSet};
use super::{CodeCheck, truth};
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::context::ContextMemory;
use crate::store::{StoreError, context as table};
use crate::text::age;
use crate::text::line::one_line;

/// Candidates read from each source.
const NEWEST: u32 = 120;
const FILES_ASKED: usize = 4;
const FOR_EACH_FILE: u32 = 8;

/// The weight of each signal.
const RELEVANCE: f64 = 1.0;
const RECENCY: f64 = 0.6;
const FILES: f64 = 0.6;
const TYPE: f64 = 0.4;
const BRANCH: f64 = 0.4;
const REASON: f64 = 0.3;
/// The age at which recency counts for half.
const HALF_DAYS: f64 = 4.0;

/// A candidate that scores less than this share of the best is not worth its tokens.
const LEAST_SHARE: f64 = 0.4;
/// Most notes at the start of a session that search serves: none, because the prompt brings those that it needs. Without search
/// nothing comes later.
const MOST_NOTES: usize = 0;
const MOST_WITHOUT_SEARCH: usize = 1;
/// Most notes with those about files that differ from the last commit, and most with those of this topic branch.
const MOST_OF_CHANGES: usize = 2;
const MOST_OF_BRANCH: usize = 4;
/// More changed files than this have no topic in common.
const FEW_CHANGED: usize = 4;
/// Most pinned notes, which take no place of the others, and the score that puts them first.
const MOST_PINNED: u32 = 4;
const PINNED: f64 = 100.0;
/// Words in common from which on two observations are taken for one.
pub const ALIKE: f64 = 0.75;
/// Files that a line names.
const MOST_NAMED: usize = 4;

const DAY: f64 = 24.0 * 60.0 * 60_000.0;

/// A candidate and its score.
struct Candidate {
    memory: ContextMemory,
    score: f64,
    /// Its place must be below this.
    most: usize,
    /// The reason for its choice.
    why: String,
}

/// The newest, which are read while git looks around.
pub fn newest(database: &Connection, request: &ContextRequest<'_>) -> Result<Vec<ContextMemory>, StoreError> {
    let ids = table::newest_observations(database, request.project, NEWEST)?;
    table::memories(database, request.project, &ids)
}

/// One line for each observation, the best first, without repetitions of earlier lines.
pub fn lines(
    database: &Connection,
    request: &ContextRequest<'_>,
    question: &RelevanceQuery,
    newest: Vec<ContextMemory>,
    seen: SeenText,
) -> Result<impl Iterator<Item = Line> + use<>, StoreError> {
    let found = found(request, question);
    let mut ids = about_files(database, request, question);
    ids.extend(table::pinned_observations(database, request.project, MOST_PINNED)?);
    ids.extend(found.keys());
    ids.retain(|id| newest.iter().all(|memory| memory.id != *id));
    ids.sort_unstable();
    ids.dedup();
    let topic = request.repo_state.branch.as_deref().filter(|branch| is_topic(branch));
    let others = if request.recall.is_some() { MOST_NOTES } else { MOST_WITHOUT_SEARCH };
    let mut candidates: Vec<Candidate> = newest
        .into_iter()
        .chain(table::memories(database, request.project, &ids)?)
        .map(|memory| {
            let relevance = match found.is_empty() {
                true => words_in_common(&memory, question),
                false => found.get(&memory.id).copied().unwrap_or(0.0),
            };
            let pinned = if memory.is_pinned { PINNED } else { 0.0 };
            let score = pinned + score(&memory, relevance, topic, request.now, question);
            let why = why(&memory, relevance, topic, score, question);
            let is_of_branch = topic.is_some() && memory.branch.as_deref() == topic;
            let most = match is_of_branch {
                _ if memory.is_pinned => usize::MAX,
                true => MOST_OF_BRANCH,
                false if is_about_changes(&memory, &question.changed_files) => MOST_OF_CHANGES,
                false => others,
            };
            Candidate { memory, score, most, why }
        })
        .collect();
    let in_order = |a: &Candidate, b: &Candidate| {
        b.score.total_cmp(&a.score).then_with(|| b.memory.id.cmp(&a.memory.id))
    };
    candidates.sort_by(in_order);
    let mut candidates = admitted(request, candidates);
    candidates.sort_by(in_order);
    let best = candidates.iter().find(|candidate| !candidate.memory.is_pinned);
    let least = best.map_or(0.0, |best| best.score * LEAST_SHARE);
    candidates.retain(|candidate| candidate.most > others || candidate.score >= least);
    let roots = [request.root.to_owned(), request.project_path.to_owned()];
    Ok(render(candidates, seen, request.now, roots))
}

/// Candidates that are compared with the code, the best: only these can have a line.
const MOST_CHECKED: usize = 24;

/// The candidates that may be shown on this branch; those whose code has changed with a lower score.
fn admitted(request: &ContextRequest<'_>, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let here = request.repo_state.branch.as_deref();
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let check = if kept.len() < MOST_CHECKED { request.code } else { CodeCheck::default() };
        let Some((memory, weight)) = truth::admitted(candidate.memory, here, check) else { continue };
        kept.push(Candidate { memory, score: candidate.score * weight, ..candidate });
    }
    kept
}

/// Search hits with their scores, from 0 to 1. A search that fails is like none.
fn found(request: &ContextRequest<'_>, question: &RelevanceQuery) -> HashMap<i64, f64> {
    let Some(recall) = request.recall.filter(|_| !question.words.is_empty()) else { return HashMap::new() };
    let hits = recall(question).unwrap_or_default();
    let best = hits.iter().map(|(_, score)| *score).fold(f64::MIN_POSITIVE, f64::max);
    hits.into_iter().map(|(id, score)| (id, (score / best).clamp(0.0, 1.0))).collect()
}

/// The same where no search helps: how many of the wanted words are there.
fn words_in_common(memory: &ContextMemory, question: &RelevanceQuery) -> f64 {
    if question.words.is_empty() {
        return 0.0;
    }
    let words = WordSet::of(&[&memory.title, &memory.summary]);
    let wanted = question.words.len().clamp(1, 6) as f64;
    let known = question.words.iter().filter(|word| words.has(word)).count();
    (known as f64 / wanted).min(1.0)
}

/// Observations about the changed files. An index that cannot be read is like none: the newest are still there.
fn about_files(database: &Connection, request: &ContextRequest<'_>, question: &RelevanceQuery) -> Vec<i64> {
    let files = question.files.iter().take(FILES_ASKED);
    let about =
        |file: &String| table::observations_with(database, request.project, ending(file), FOR_EACH_FILE);
    files.filter_map(|file| about(file).ok()).flatten().collect()
}

/// A file's name and its folder's: enough to find it by, however its path was written.
pub fn ending(path: &str) -> &str {
    let mut slashes = path.match_indices('/').rev();
    slashes.nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

fn score(
    memory: &ContextMemory,
    relevance: f64,
    topic: Option<&str>,
    now: Millis,
    question: &RelevanceQuery,
) -> f64 {
    let age = (now - memory.created_at).max(0) as f64 / DAY;
    let recency = 1.0 / (1.0 + age / HALF_DAYS);
    let is_of_branch = topic.is_some() && memory.branch.as_deref() == topic;
    RELEVANCE * relevance
        + RECENCY * recency
        + FILES * files_in_common(memory, &question.files)
        + TYPE * weight_of_type(&memory.kind)
        + BRANCH * f64::from(u8::from(is_of_branch))
        + REASON * f64::from(u8::from(gives_reason(&memory.summary)))
}

fn why(
    memory: &ContextMemory,
    relevance: f64,
    topic: Option<&str>,
    score: f64,
    question: &RelevanceQuery,
) -> String {
    let mut why = Vec::new();
    if memory.is_pinned {
        why.push("pinned".to_owned());
    }
    if relevance > 0.0 {
        why.push(format!("words in common with the last work ({relevance:.2})"));
    }
    if files_in_common(memory, &question.files) > 0.0 {
        why.push("files that are being changed".to_owned());
    }
    if topic.is_some() && memory.branch.as_deref() == topic {
        why.push("this branch".to_owned());
    }
    if why.is_empty() {
        why.push("recent".to_owned());
    }
    format!("{}; score {score:.2}", why.join(", "))
}

/// From 0 to 1; a changed file counts more than one that was read.
fn files_in_common(memory: &ContextMemory, files: &[String]) -> f64 {
    let count = |known: &[String]| {
        known.iter().filter(|known| files.iter().any(|file| is_same_file(known, file))).count() as f64
    };
    if files.is_empty() {
        return 0.0;
    }
    ((count(&memory.files_modified) + 0.4 * count(&memory.files_read)) / 2.0).min(1.0)
}

/// True if the memory changed one of the few files that differ from the last commit.
fn is_about_changes(memory: &ContextMemory, changed: &[String]) -> bool {
    changed.len() <= FEW_CHANGED
        && memory.files_modified.iter().any(|known| changed.iter().any(|file| is_same_file(known, file)))
}

/// Decisions and defects are needed again; a mere change can be seen in the code.
pub fn weight_of_type(kind: &str) -> f64 {
    match kind {
        "decision" => 1.0,
        "bugfix" | "discovery" => 0.8,
        "feature" => 0.6,
        "refactor" => 0.4,
        _ => 0.2,
    }
}

/// The lines of the candidates, the best of near-duplicates only. Lines are made lazily: most have no room.
fn render(
    candidates: Vec<Candidate>,
    seen: SeenText,
    now: Millis,
    roots: [String; 2],
) -> impl Iterator<Item = Line> {
    let mut kept: Vec<WordSet> = Vec::new();
    let mut pinned = 0;
    candidates.into_iter().filter_map(move |Candidate { memory, why, most, .. }| {
        if kept.len() - pinned >= most {
            return None;
        }
        let words = WordSet::of(&[&memory.title, &memory.summary]);
        if seen.has(&words) || kept.iter().any(|other| words.alike(other) > ALIKE) {
            return None;
        }
        let roots = [roots[0].as_str(), roots[1].as_str()];
        let wording = Wording::of(&memory, &seen, &roots, WIDE);
        // A title alone that a session's line has already.
        if wording.statements.is_empty()
            && (wording.title.is_empty() || seen.has(&WordSet::of(&[&wording.title])))
        {
            return None;
        }
        kept.push(words);
        pinned += usize::from(memory.is_pinned);
        Some(line(&memory, &wording, "", now).because(why))
    })
}

/// A memory as one line: its id, type and age, its statements, and the files that it changed.
pub fn line(memory: &ContextMemory, wording: &Wording, lead: &str, now: Millis) -> Line {
    let words = format!("{lead}{}{}", wording.text(), files_of(memory, wording));
    let reference = reference(memory.id);
    Line {
        text: format!(
            "{reference} {}, {}{}: {words}",
            memory.kind,
            age::roughly(memory.created_at, now),
            memory.label
        ),
        lasting: format!("{reference}: {words}"),
        shows: Some(memory.id),
        ..Line::default()
    }
}

/// `#12` for an observation, `S12` for a summary.
fn reference(id: i64) -> String {
    if id < 0 { format!("S{}", -id) } else { format!("#{id}") }
}

/// The names of the files that a memory changed and its words do not name.
fn files_of(memory: &ContextMemory, wording: &Wording) -> String {
    let text = wording.text();
    let name = |path: &String| one_line(path.rsplit('/').next().unwrap_or(path), 60);
    let mut names: Vec<String> = memory.files_modified.iter().map(name).collect();
    names.retain(|name| !name.is_empty() && !text.contains(name.as_str()));
    names.dedup();
    let rest = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    match (names.is_empty(), rest) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", names.join(", ")),
        (false, rest) => format!(" ({} and {rest} more)", names.join(", ")),
    }
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
