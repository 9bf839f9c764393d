//! Finds the clues of a query in a text.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::search::language::words::{fold_into, humps, pairs, stem, words};
use crate::search::list;
use crate::search::query::{Clue, Shape};
use crate::store::index::search::Document;

/// Finds clues in texts.
#[derive(Debug)]
pub struct Matcher<'a> {
    clues: &'a [Clue],
    /// Every stem that some clue wants.
    stems: HashSet<&'a str>,
    /// For each first byte of a stem the second ones, by their lowest bits. Stemming changes the ends, and most words of a text
    /// begin otherwise.
    beginnings: [u32; 256],
    /// The words that were stemmed so far: texts repeat them.
    stemmed: RefCell<HashMap<String, Option<&'a str>>>,
}

/// A wanted stem at some place of a text.
#[derive(Debug, Clone, Copy)]
struct StemPosition<'a> {
    /// Counted in words.
    position: usize,
    stem: &'a str,
    bytes: (usize, usize),
}

impl<'a> Matcher<'a> {
    /// For these clues.
    pub fn new(clues: &'a [Clue]) -> Self {
        let mut stems = HashSet::new();
        for clue in clues {
            if let Shape::Any(wanted) | Shape::Phrase(wanted) = &clue.shape {
                stems.extend(wanted.iter().map(String::as_str));
            }
        }
        let mut beginnings = [0; 256];
        for stem in stems.iter().filter(|stem| !stem.is_empty()) {
            beginnings[usize::from(stem.as_bytes()[0])] |= second(stem);
        }
        Self { clues, stems, beginnings, stemmed: RefCell::default() }
    }

    /// Counts each clue in a document.
    pub fn counts(&self, document: &Document) -> Vec<f64> {
        let mut counts = vec![0.0; self.clues.len()];
        for text in document.texts().into_iter().filter(|text| !text.is_empty()) {
            // A list may have its characters escaped.
            let text =
                if text.starts_with('[') && text.contains('\\') { &list(text).join("\n") } else { text };
            let sightings = self.look(text);
            for (sum, clue) in counts.iter_mut().zip(self.clues) {
                *sum += count(text, &sightings, &clue.shape) as f64;
            }
        }
        counts
    }

    /// The byte ranges of everything that matches, in order and apart.
    pub fn ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let mut ranges: Vec<_> = self.look(text).iter().map(|sighting| sighting.bytes).collect();
        for clue in self.clues {
            if let Shape::Character(character) = &clue.shape {
                ranges.extend(text.match_indices(character).map(|(at, found)| (at, at + found.len())));
            }
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            last.1 = if touches { last.1.max(next.1) } else { last.1 };
            touches
        });
        ranges
    }

    /// The wanted stems of a text, in order.
    fn look(&self, text: &str) -> Vec<StemPosition<'a>> {
        let mut sightings = Vec::new();
        let mut folded = String::new();
        let mut position = 0;
        for word in words(text) {
            let mut see = |part: &str, at: usize, position: usize| {
                let start = word.start + at;
                let wanted = if word.unspaced {
                    self.stems.get(part).copied()
                } else {
                    self.stem_of(part, &mut folded)
                };
                let bytes = (start, start + part.len());
                sightings.extend(wanted.map(|stem| StemPosition { position, stem, bytes }));
            };
            if word.unspaced {
                for (at, pair) in pairs(word.text) {
                    see(pair, at, position);
                    position += 1;
                }
                continue;
            }
            see(word.text, 0, position);
            let split = humps(word.text);
            for (index, (at, part)) in split.iter().enumerate() {
                see(part, *at, position + index);
            }
            position += split.len().max(1);
        }
        sightings
    }

    /// The wanted stem that a word has. `folded` is room to work in.
    fn stem_of(&self, word: &str, folded: &mut String) -> Option<&'a str> {
        let first = word.bytes().next()?;
        if first.is_ascii() && self.beginnings[usize::from(first.to_ascii_lowercase())] == 0 {
            return None;
        }
        fold_into(word, folded);
        let first = folded.bytes().next()?;
        if self.beginnings[usize::from(first)] & second(folded) == 0 {
            return None;
        }
        if let Some(known) = self.stemmed.borrow().get(folded.as_str()) {
            return *known;
        }
        let wanted = self.stems.get(stem(folded).as_ref()).copied();
        self.stemmed.borrow_mut().insert(folded.clone(), wanted);
        wanted
    }
}

/// The bit of a word's second byte; all bits if it has none.
fn second(word: &str) -> u32 {
    word.as_bytes().get(1).map_or(u32::MAX, |byte| 1 << (byte & 31))
}

fn count(text: &str, sightings: &[StemPosition<'_>], shape: &Shape) -> usize {
    let is_at = |position: usize, stem: &String| {
        let from = sightings.partition_point(|sighting| sighting.position < position);
        let mut here = sightings[from..].iter().take_while(|sighting| sighting.position == position);
        here.any(|sighting| sighting.stem == stem)
    };
    match shape {
        Shape::Any(any) => {
            sightings.iter().filter(|sighting| any.iter().any(|stem| stem == sighting.stem)).count()
        }
        Shape::Phrase(all) => sightings
            .iter()
            .filter(|first| first.stem == all[0])
            .filter(|first| (1..all.len()).all(|step| is_at(first.position + step, &all[step])))
            .count(),
        Shape::Character(character) => text.matches(character.as_str()).count(),
    }
}
