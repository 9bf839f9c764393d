//! English words for what a text says in German, Chinese or Japanese: queries are also looked up by them, and the embedding
//! models, which know English alone, read them before the text.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::stop_words;
use super::words::{fold, words};

/// On each line a word in English (the first of its group counts), German, Chinese and Japanese, between tabs: everyday words
/// of work with software.
const WORDS: &str = include_str!("../../../assets/glossary.tsv");

/// Endings that German words take; a word is looked up with them first.
const ENDINGS: [&str; 8] = ["en", "n", "e", "er", "es", "s", "te", "t"];

/// From other languages to English.
#[derive(Default)]
struct Glossary {
    german: HashMap<String, &'static str>,
    /// Words of scripts without blanks, and the largest number of characters in one.
    unspaced: HashMap<&'static str, &'static str>,
    longest: usize,
}

static GLOSSARY: LazyLock<Glossary> = LazyLock::new(|| {
    let mut glossary = Glossary::default();
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
});

/// The English words for what a text says in other languages, each once; none for an English text.
pub fn in_english(text: &str) -> Vec<&'static str> {
    let is_german = is_german(text);
    let mut found: Vec<&str> = Vec::new();
    for word in words(text) {
        if word.unspaced {
            GLOSSARY.add_run(word.text, &mut found);
        } else if is_german {
            found.extend(GLOSSARY.german_word(&fold(word.text)));
        }
    }
    let mut seen = HashSet::new();
    found.retain(|word| seen.insert(*word));
    found
}

impl Glossary {
    /// Adds the longest known word at each place of a run without blanks.
    fn add_run(&self, run: &str, found: &mut Vec<&'static str>) {
        let mut rest = run;
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take(self.longest);
            let known = ends.filter_map(|end| Some((end, *self.unspaced.get(&rest[..end])?))).last();
            found.extend(known.map(|(_, english)| english));
            let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
            rest = &rest[known.map_or(first, |(end, _)| end)..];
        }
    }

    fn german_word(&self, word: &str) -> Option<&'static str> {
        let without = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
        std::iter::once(word).chain(without).find_map(|form| self.german.get(form).copied())
    }
}

/// True if a text has more of the small words of German than of those of English.
fn is_german(text: &str) -> bool {
    let folded: Vec<String> = words(text).filter(|word| !word.unspaced).map(|word| fold(word.text)).collect();
    let count = |is_of: fn(&str) -> bool| folded.iter().filter(|word| is_of(word)).count();
    count(stop_words::is_german) > count(stop_words::is_english)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_languages_are_given_in_english() {
        let expected = ["database", "connection", "timeout"];
        assert_eq!(in_english("数据库连接超时"), expected);
        assert_eq!(in_english("データベースへの接続がタイムアウトする"), expected);
        assert_eq!(
            in_english("Die Verbindungen zur Datenbank laufen in eine Zeitüberschreitung"),
            ["connection", "database", "timeout"]
        );
        assert_eq!(in_english("六月遇到的死锁"), ["june", "deadlock"]);
    }

    #[test]
    fn english_stays_as_it_is() {
        for text in [
            "",
            "the kind of post that the spur line had",
            "Kind",
            "refreshToken in src/auth.rs",
            "\u{1F980}\0",
        ] {
            assert!(in_english(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn every_line_has_four_languages() {
        for line in WORDS.lines() {
            assert_eq!(line.split('\t').filter(|group| !group.trim().is_empty()).count(), 4, "{line}");
        }
    }
}
