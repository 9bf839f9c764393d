//! Finds the clues of a query in a text.

use std::collections::HashMap;

use crate::search::language::stem;
use crate::search::language::words::{fold_into, humps, pairs, words};
use crate::search::list;
use crate::search::query::{Clue, Shape};
use crate::store::index::search::Document;

/// Finds clues in texts.
#[derive(Debug)]
pub struct Matcher<'a> {
    /// Every stem that some clue wants, and its number.
    stems: HashMap<&'a str, usize>,
    beginnings: Beginnings,
    wanted: Vec<Wanted>,
}

/// The beginnings of the wanted stems. Most words of a text differ in their first letters; stemming changes the ends.
#[derive(Debug)]
struct Beginnings {
    /// For every first byte the second ones, by their lowest bits.
    seconds: [u32; 256],
}

impl Beginnings {
    fn of<'a>(stems: impl Iterator<Item = &'a str>) -> Self {
        let mut seconds = [0; 256];
        for stem in stems.map(str::as_bytes) {
            match stem {
                [] => {}
                [only] => seconds[usize::from(*only)] = u32::MAX,
                [first, second, ..] => seconds[usize::from(*first)] |= bit(*second),
            }
        }
        Self { seconds }
    }

    /// Of a word as it stands in the text.
    fn may_begin(&self, word: &str) -> bool {
        let first = word.as_bytes().first().copied().unwrap_or_default();
        !first.is_ascii() || self.seconds[usize::from(first.to_ascii_lowercase())] != 0
    }

    /// Of a folded word.
    fn may_have(&self, folded: &str) -> bool {
        match folded.as_bytes() {
            [] => false,
            [only] => self.seconds[usize::from(*only)] != 0,
            [first, second, ..] => self.seconds[usize::from(*first)] & bit(*second) != 0,
        }
    }
}

fn bit(byte: u8) -> u32 {
    1 << (byte & 31)
}

/// A clue, by the numbers of its stems.
#[derive(Debug)]
enum Wanted {
    Any(Vec<usize>),
    Phrase(Vec<usize>),
    Character(char),
}

/// A wanted stem at some place of a text.
#[derive(Debug, Clone, Copy)]
struct StemPosition {
    position: usize,
    stem: usize,
    bytes: (usize, usize),
}

impl<'a> Matcher<'a> {
    /// For these clues.
    pub fn new(clues: &'a [Clue]) -> Self {
        let mut stems = HashMap::new();
        let mut number = |stem: &'a String| {
            let next = stems.len();
            *stems.entry(stem.as_str()).or_insert(next)
        };
        let wanted = clues
            .iter()
            .map(|clue| match &clue.shape {
                Shape::Any(any) => Wanted::Any(any.iter().map(&mut number).collect()),
                Shape::Phrase(all) => Wanted::Phrase(all.iter().map(&mut number).collect()),
                Shape::Character(character) => Wanted::Character(character.chars().next().unwrap_or('\0')),
                Shape::Days => Wanted::Any(Vec::new()),
            })
            .collect();
        let beginnings = Beginnings::of(stems.keys().copied());
        Self { stems, beginnings, wanted }
    }

    /// Counts each clue in a document.
    pub fn counts(&self, document: &Document) -> Vec<f64> {
        let mut counts = vec![0.0; self.wanted.len()];
        let mut sightings = Vec::new();
        for text in document.texts().into_iter().filter(|text| !text.is_empty()) {
            sightings.clear();
            // A list may have its characters escaped.
            let text =
                if text.starts_with('[') && text.contains('\\') { &list(text).join("\n") } else { text };
            self.look(text, &mut sightings);
            self.count(text, &sightings, &mut counts);
        }
        counts
    }

    /// The byte ranges of everything that matches, in order and apart.
    pub fn ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let mut sightings = Vec::new();
        self.look(text, &mut sightings);
        let characters = self.wanted.iter().filter_map(|wanted| match wanted {
            Wanted::Character(character) => Some(*character),
            _ => None,
        });
        let single = characters.flat_map(|c| text.match_indices(c).map(|(at, found)| (at, at + found.len())));
        let mut ranges: Vec<_> = sightings.iter().map(|sighting| sighting.bytes).chain(single).collect();
        ranges.sort_unstable();
        let mut apart: Vec<(usize, usize)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match apart.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => apart.push((start, end)),
            }
        }
        apart
    }

    /// Walks over a text.
    fn look(&self, text: &str, sightings: &mut Vec<StemPosition>) {
        let mut folded = String::new();
        let mut position = 0;
        for word in words(text) {
            let mut see = |part: &str, at: usize, position: usize, is_stem: bool| {
                if is_stem {
                    folded.clear();
                    folded.push_str(part);
                } else {
                    if !self.beginnings.may_begin(part) {
                        return;
                    }
                    fold_into(part, &mut folded);
                    if !self.beginnings.may_have(&folded) {
                        return;
                    }
                    stem(&mut folded);
                }
                if let Some(stem) = self.stems.get(folded.as_str()) {
                    let start = word.start + at;
                    sightings.push(StemPosition {
                        position,
                        stem: *stem,
                        bytes: (start, start + part.len()),
                    });
                }
            };
            if word.unspaced {
                for (at, pair) in pairs(word.text) {
                    see(pair, at, position, true);
                    position += 1;
                }
                continue;
            }
            see(word.text, 0, position, false);
            let split = humps(word.text);
            for (index, (at, part)) in split.iter().enumerate() {
                see(part, *at, position + index, false);
            }
            position += split.len().max(1);
        }
    }

    fn count(&self, text: &str, sightings: &[StemPosition], counts: &mut [f64]) {
        let is_at = |position: usize, stem: usize| {
            let from = sightings.partition_point(|sighting| sighting.position < position);
            sightings[from..]
                .iter()
                .take_while(|sighting| sighting.position == position)
                .any(|sighting| sighting.stem == stem)
        };
        for (index, wanted) in self.wanted.iter().enumerate() {
            let count = match wanted {
                Wanted::Any(any) => sightings.iter().filter(|sighting| any.contains(&sighting.stem)).count(),
                Wanted::Phrase(all) => sightings
                    .iter()
                    .filter(|sighting| sighting.stem == all[0])
                    .filter(|first| (1..all.len()).all(|step| is_at(first.position + step, all[step])))
                    .count(),
                Wanted::Character(character) => text.matches(*character).count(),
            };
            counts[index] += count as f64;
        }
    }
}
