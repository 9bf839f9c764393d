//! Words of other languages beside their English ones, for a model that knows English alone: a text in German, Chinese or
//! Japanese then means about what its English words mean.

use std::collections::HashMap;

use crate::search::words::{fold, words};

/// On each line a word in English (the first of its group counts), German, Chinese and Japanese, between tabs: everyday words
/// of work with software.
const WORDS: &str = include_str!("../../../assets/glossary.tsv");

/// Endings that German words take; a word is looked up with them first.
const ENDINGS: [&str; 8] = ["en", "n", "e", "er", "es", "s", "te", "t"];

/// Words that only German, and only English texts are full of. "in" or "was" are words of both.
const GERMAN: [&str; 45] = [
    "aber", "als", "am", "auch", "auf", "aus", "bei", "beim", "das", "dass", "dem", "der", "des", "durch",
    "ein", "eine", "einem", "einen", "einer", "es", "fur", "hat", "im", "ist", "kein", "keine", "mit",
    "nach", "nicht", "oder", "sich", "sind", "uber", "und", "vom", "von", "warum", "wenn", "wie", "wir",
    "wird", "wurde", "wurden", "zu", "zum",
];
const ENGLISH: [&str; 26] = [
    "and", "are", "as", "at", "by", "for", "from", "has", "how", "is", "it", "not", "of", "on", "our",
    "that", "the", "this", "to", "we", "what", "when", "which", "why", "with", "you",
];

/// From other languages to English.
#[derive(Debug)]
pub struct Glossary {
    german: HashMap<String, &'static str>,
    /// Words of scripts without blanks, and the most characters that one has.
    unspaced: HashMap<&'static str, &'static str>,
    longest: usize,
}

impl Glossary {
    /// The one that is built in.
    pub fn new() -> Self {
        let mut glossary = Self { german: HashMap::new(), unspaced: HashMap::new(), longest: 0 };
        for line in WORDS.lines() {
            let mut languages = line.split('\t').map(str::split_whitespace);
            let Some(english) = languages.next().and_then(|mut group| group.next()) else { continue };
            for word in languages.next().into_iter().flatten() {
                glossary.german.entry(fold(word)).or_insert(english);
            }
            for word in languages.flatten() {
                glossary.longest = glossary.longest.max(word.chars().count());
                glossary.unspaced.entry(word).or_insert(english);
            }
        }
        glossary
    }

    /// The English words for what a text says in other languages, each once; nothing for an English text.
    pub fn in_english(&self, text: &str) -> String {
        let is_german = is_german(text);
        let mut found: Vec<&str> = Vec::new();
        for word in words(text) {
            if word.unspaced {
                self.of_run(word.text, &mut found);
            } else if is_german {
                found.extend(self.of_german(&fold(word.text)));
            }
        }
        let mut once = Vec::with_capacity(found.len());
        found.into_iter().for_each(|word| {
            if !once.contains(&word) {
                once.push(word);
            }
        });
        once.join(" ")
    }

    /// The longest known word at each place of a run without blanks.
    fn of_run(&self, run: &str, found: &mut Vec<&'static str>) {
        let mut rest = run;
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take(self.longest);
            let known = ends.filter_map(|end| Some((end, *self.unspaced.get(&rest[..end])?))).last();
            found.extend(known.map(|(_, english)| english));
            let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
            rest = &rest[known.map_or(first, |(end, _)| end)..];
        }
    }

    fn of_german(&self, word: &str) -> Option<&'static str> {
        let without = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
        std::iter::once(word).chain(without).find_map(|form| self.german.get(form).copied())
    }
}

/// True if a text has more of the small words of German than of those of English.
fn is_german(text: &str) -> bool {
    let (mut german, mut english) = (0, 0);
    for word in words(text).filter(|word| !word.unspaced) {
        let word = fold(word.text);
        german += usize::from(GERMAN.binary_search(&word.as_str()).is_ok());
        english += usize::from(ENGLISH.binary_search(&word.as_str()).is_ok());
    }
    german > english
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_languages_are_told_in_english() {
        let glossary = Glossary::new();
        assert_eq!(glossary.in_english("数据库连接超时"), "database connection timeout");
        assert_eq!(
            glossary.in_english("データベースへの接続がタイムアウトする"),
            "database connection timeout"
        );
        assert_eq!(
            glossary.in_english("Die Verbindungen zur Datenbank laufen in eine Zeitüberschreitung"),
            "connection database timeout"
        );
    }

    #[test]
    fn english_stays_as_it_is() {
        let glossary = Glossary::new();
        for text in [
            "",
            "the kind of post that the spur line had",
            "Kind",
            "refreshToken in src/auth.rs",
            "\u{1F980}\0",
        ] {
            assert_eq!(glossary.in_english(text), "", "{text}");
        }
    }

    #[test]
    fn small_words_are_sorted_for_the_look_up() {
        assert!(GERMAN.is_sorted() && ENGLISH.is_sorted());
    }

    #[test]
    fn every_line_has_four_languages() {
        for line in WORDS.lines() {
            assert_eq!(line.split('\t').filter(|group| !group.trim().is_empty()).count(), 4, "{line}");
        }
    }
}
