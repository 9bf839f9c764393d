//! The words that a turn is about, to separate its subject from asides and recaps in its closing message.

use std::collections::{HashMap, HashSet};

use super::Material;
use super::clarity::is_weak;
use super::request::is_trivial;
use crate::compress::turn::Turn;

/// Points of a line whose every word occurs elsewhere in the turn.
const COVERAGE_POINTS: usize = 14;

/// Words of the turn outside of a candidate's own source: a title about the turn's subject shares most of its words with them.
pub(super) struct Evidence {
    request: HashSet<String>,
    closing: HashMap<String, usize>,
    changed: HashSet<String>,
}

impl Evidence {
    pub fn of(turn: &Turn, material: &Material) -> Self {
        let mut closing = HashMap::new();
        for unit in &material.units {
            let words: HashSet<String> = stems(&format!("{} {}", unit.heading, unit.text)).collect();
            words.into_iter().for_each(|word| *closing.entry(word).or_default() += 1);
        }
        let request = turn.request().filter(|request| !is_trivial(request)).unwrap_or_default();
        let changed = turn.changed_files().join(" ") + " " + &turn.functions.join(" ");
        Self { request: stems(request).collect(), closing, changed: stems(&changed).collect() }
    }

    /// Points by the share of the line's words that occur elsewhere: in changed names, in the request, or in another statement.
    pub fn coverage(&self, line: &str, is_request: bool) -> i32 {
        let words: HashSet<String> = stems(line).collect();
        let occurs = |word: &&String| {
            let statements = self.closing.get(*word).copied().unwrap_or_default();
            let is_asked = !is_request && self.request.contains(*word);
            self.changed.contains(*word) || is_asked || statements > usize::from(!is_request)
        };
        let known = words.iter().filter(occurs).count();
        (COVERAGE_POINTS * known / words.len().max(3)) as i32
    }

    /// True if a statement is about this turn: it shares a word with the changed names, or two with the request.
    pub fn concerns(&self, text: &str) -> bool {
        let words: HashSet<String> = stems(text).collect();
        let shared = |known: &HashSet<String>| words.iter().filter(|word| known.contains(*word)).count();
        shared(&self.changed) >= 1 || shared(&self.request) >= 2
    }
}

/// The words of a text that name something, cut to their beginnings so that "session" and "sessions" are one.
fn stems(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase();
    let words: Vec<String> = lower
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| word.chars().count() > 3 && !is_weak(word))
        .map(|word| word.chars().take(6).collect())
        .collect();
    words.into_iter()
}
