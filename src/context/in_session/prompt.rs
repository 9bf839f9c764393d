//! With a prompt: the few memories that it has most in common with, if that is enough.
//!
//! Search finds candidates. Its scores compare the hits of one question with each other; if the best of them is good
//! enough is decided here: by the words, rare in the project, that the prompt and a memory share.

use std::collections::HashMap;

use rusqlite::Connection;

use super::{Candidate, InSessionQuery};
use crate::compress::note::is_trivial;
use crate::context::repo_state::{is_topic, stem};
use crate::context::words::{WordSet, content_words};
use crate::context::{observations, relevance};
use crate::model::Millis;
use crate::search::{self, Filter};
use crate::store::context::Memory;
use crate::store::index::search::Kind;
use crate::store::{StoreError, context as table};
use crate::text::without_ending;

/// Most memories.
pub const MOST: usize = 3;
/// The least that a memory must have in common with the prompt, from 0 to 1, closeness included. At 0.60 a reader found only half
/// of 25 answers relevant. `make eval-recall` prints the floor that each two projects choose, and its effect on the third.
pub const FLOOR: f64 = 0.65;

/// Of a prompt no more than this is a question, besides the files and symbols that it names.
const CHARACTERS: usize = 300;
/// Nor are more words than this.
const MOST_WORDS: usize = 40;
const HITS: usize = 24;
/// Rows that search reads in full.
const READ: usize = 40;
/// The worth of words in common at which a memory fits by half: so much, and a share of all that was asked, since a long prompt
/// has words in common with anything.
const HALF: f64 = 0.8;
const HALF_OF_ASKED: f64 = 0.07;
/// The share of a word's worth by where the memory has it.
const IN_TITLE: f64 = 1.0;
const IN_SUMMARY: f64 = 0.7;
const IN_REST: f64 = 0.2;
/// A word that names a file or a symbol is worth more than one of the language.
const NAMED: f64 = 1.3;

/// Added to the fit of a memory of the session's topic branch, and of a memory of today; the latter halves after
/// [`RECENT_DAYS`]. Between memories with the same words in common these decide (docs/decisions/014-context-lines.md).
const SAME_BRANCH: f64 = 0.08;
const RECENT: f64 = 0.06;
const RECENT_DAYS: f64 = 2.0;

/// A memory and how well it fits.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The memory.
    pub memory: Memory,
    /// From 0 to 1.
    pub fit: f64,
    /// The words in common, the rarest first.
    pub words: Vec<String>,
}

/// The memories that fit, the best first.
pub(super) fn candidates(
    database: &Connection,
    request: &InSessionQuery<'_>,
    prompt: &str,
) -> Result<Vec<Candidate>, StoreError> {
    let fitted = fitted(database, request, prompt)?;
    let candidate = |Fitted { memory, fit, words }: Fitted| {
        let wording = request.wording(&memory);
        let why = format!("fits by {fit:.2}: {}", words.join(", "));
        let line = observations::line(&memory, &wording, "", request.now).because(why);
        (!wording.is_empty()).then_some(Candidate { memory: Some(memory), line, is_urgent: false })
    };
    Ok(fitted.into_iter().filter(|fitted| fitted.fit >= FLOOR).filter_map(candidate).collect())
}

/// All candidates with how well they fit, whatever the floor; none for a prompt that asks nothing.
pub fn fitted(
    database: &Connection,
    request: &InSessionQuery<'_>,
    prompt: &str,
) -> Result<Vec<Fitted>, StoreError> {
    let Some(asked) = Asked::of(prompt) else { return Ok(Vec::new()) };
    let counted = relevance::counted(database, request.project, &asked.words)?;
    let query = relevance::rarest(&asked.words, &counted);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let found = search::search(
        database,
        &search::Request {
            query: query.join(" "),
            filter: Filter { project: Some(request.project.to_owned()), ..Filter::default() },
            limit: HITS,
            without_text: true,
            now: request.now,
            ..search::Request::default()
        },
        &relevance::shallow(request.settings, READ),
    )?;
    let mut memories: Vec<Memory> = Vec::new();
    for hit in found.hits {
        let memory = match hit.kind {
            Kind::Observation => table::memories(database, request.project, &[hit.id])?.pop(),
            Kind::Summary => table::memory_of_summary(database, request.project, hit.id)?,
            // What was asked is no answer.
            Kind::Prompt => None,
        };
        memories.extend(memory.filter(|memory| {
            memory.session_id != request.session.as_str()
                && memories.iter().all(|known| known.id != memory.id)
        }));
    }
    let worth = worth(&asked.words, &asked.named, &counted, found.as_of.rows);
    let branch = table::branch_of(database, request.session)?.filter(|branch| is_topic(branch));
    let close = |memory: Memory| {
        let closeness = closeness(&memory, branch.as_deref(), request.now);
        let fitted = fit(memory, &worth);
        Fitted { fit: fitted.fit + closeness, ..fitted }
    };
    let mut fitted: Vec<Fitted> = memories.into_iter().map(close).collect();
    fitted.sort_by(|a, b| b.fit.total_cmp(&a.fit).then_with(|| b.memory.id.cmp(&a.memory.id)));
    Ok(fitted)
}

/// The part of the fit that does not depend on words.
fn closeness(memory: &Memory, branch: Option<&str>, now: Millis) -> f64 {
    const DAY: f64 = 24.0 * 60.0 * 60_000.0;
    let days = (now - memory.created_at).max(0) as f64 / DAY;
    let is_of_branch = branch.is_some() && memory.branch.as_deref() == branch;
    RECENT / (1.0 + days / RECENT_DAYS) + if is_of_branch { SAME_BRANCH } else { 0.0 }
}

/// The words that a prompt asks with.
struct Asked {
    words: Vec<String>,
    named: Vec<String>,
}

impl Asked {
    /// None for a command, a note of the client, or an answer of a few words.
    fn of(prompt: &str) -> Option<Self> {
        // An address names the host and the owner of everything here.
        let words: Vec<&str> = prompt.split(' ').filter(|word| !word.contains("://")).collect();
        let prompt = words.join(" ");
        let prompt = prompt.trim();
        let is_command = prompt.starts_with('/')
            && !prompt.split_whitespace().next().is_some_and(|word| word[1..].contains('/'));
        if is_command || prompt.starts_with(['<', '!']) || is_trivial(prompt) {
            return None;
        }
        let named = named(prompt);
        let mut words: Vec<String> = Vec::new();
        for word in named.iter().cloned().chain(content_words(question(prompt))) {
            if words.len() < MOST_WORDS && !words.contains(&word) {
                words.push(word);
            }
        }
        (words.len() >= 2).then_some(Self { words, named })
    }
}

/// The worth of each word: 1 for one that a single memory has, next to nothing for one that all have.
pub(super) fn worth(
    words: &[String],
    named: &[String],
    counted: &HashMap<String, u32>,
    rows: i64,
) -> Vec<(String, f64)> {
    let rarity = |having: f64| (1.0 + (rows as f64 - having + 0.5).max(0.0) / (having + 0.5)).ln();
    let rarest = rarity(1.0).max(1.0);
    let worth = |word: &String| {
        let having = counted.get(word).copied().filter(|having| *having > 0)?;
        let named = if named.contains(word) { NAMED } else { 1.0 };
        Some((word.clone(), named * rarity(f64::from(having)) / rarest))
    };
    let mut worth: Vec<(String, f64)> = words.iter().filter_map(worth).collect();
    worth.sort_by(|a, b| b.1.total_cmp(&a.1));
    worth
}

/// The part of a prompt that has its topic: a plan's heading and the text after it, or the beginning.
fn question(prompt: &str) -> &str {
    let is_plan = prompt.starts_with("Implement the following plan");
    let heading = prompt.find("\n#").filter(|_| is_plan).map(|at| &prompt[at + 1..]);
    let text = heading.unwrap_or(prompt);
    text.char_indices().nth(CHARACTERS).map_or(text, |(end, _)| &text[..end])
}

/// Files and symbols that a prompt names anywhere, as words.
fn named(prompt: &str) -> Vec<String> {
    const MOST_NAMED: usize = 12;
    let mut named: Vec<String> = Vec::new();
    for token in prompt.split(|char: char| char.is_whitespace() || "`'\"()[]{}<>,;".contains(char)) {
        let token = token.trim_matches(['.', ':', '*', '!', '?']);
        let is_file = token.rsplit_once('.').is_some_and(|(name, end)| {
            !name.is_empty()
                && (1..=5).contains(&end.len())
                && end.chars().all(|char| char.is_ascii_alphabetic())
        });
        let humps = token.char_indices().filter(|(at, char)| *at > 0 && char.is_ascii_uppercase()).count();
        let is_symbol = token.len() >= 5
            && token.chars().all(|char| char.is_alphanumeric() || "_.:".contains(char))
            && (token.contains('_') || (humps > 0 && token.chars().any(|char| char.is_ascii_lowercase())));
        if is_file || is_symbol {
            let words = content_words(if is_file { stem(token) } else { token });
            for word in words.into_iter().filter(|word| word.len() >= 4) {
                if named.len() < MOST_NAMED && !named.contains(&word) {
                    named.push(word);
                }
            }
        }
    }
    named
}

/// Scores a memory: the worth of the words in common, against the worth at which it would fit by half.
pub(super) fn fit(memory: Memory, worth: &[(String, f64)]) -> Fitted {
    let set = |texts: &[&str]| WordSet::stemmed(texts);
    let files: Vec<&str> = memory.files_modified.iter().map(|path| stem(path)).collect();
    let facts: Vec<&str> = memory.facts.iter().map(String::as_str).collect();
    let places = [
        (set(&[&memory.title]), IN_TITLE),
        (set(&[&memory.summary]), IN_SUMMARY),
        (set(&files), IN_SUMMARY),
        (set(&[&[memory.detail.as_str()], facts.as_slice()].concat()), IN_REST),
    ];
    let mut amount = 0.0;
    let mut words = Vec::new();
    for (word, worth) in worth {
        let stem = without_ending(word);
        let place =
            places.iter().filter(|(set, _)| set.has(stem)).map(|(_, share)| *share).fold(0.0, f64::max);
        if place > 0.0 {
            amount += worth * place;
            words.push(word.clone());
        }
    }
    let asked: f64 = worth.iter().map(|(_, worth)| worth).sum();
    Fitted { memory, fit: amount / (amount + HALF + HALF_OF_ASKED * asked), words }
}
