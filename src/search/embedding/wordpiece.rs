//! The tokens of a BERT model: words, punctuation and single ideographs, cut into the longest pieces that its vocabulary
//! has. In its uncased form: small letters without accents.

use std::collections::HashMap;

use crate::search::language::words::{fold_into, is_word};

/// A vocabulary, and how to write texts in it.
#[derive(Debug)]
pub struct WordPiece {
    pieces: HashMap<Box<str>, i32>,
    unknown: i32,
    begin: i32,
    end: i32,
}

/// Longer words are not words.
const LONGEST_WORD: usize = 100;

impl WordPiece {
    /// From a vocabulary with one piece on each line. Nothing if it lacks what every such vocabulary has.
    pub fn new(vocabulary: &str) -> Option<Self> {
        let lines = vocabulary.lines().map(str::trim_end);
        let pieces: HashMap<Box<str>, i32> = (0..).zip(lines).map(|(id, piece)| (piece.into(), id)).collect();
        let id = |piece: &str| pieces.get(piece).copied();
        let (unknown, begin, end) = (id("[UNK]")?, id("[CLS]")?, id("[SEP]")?);
        Some(Self { pieces, unknown, begin, end })
    }

    /// The ids of a text's pieces between the two marks, at most `most` in all.
    pub fn encode(&self, text: &str, most: usize) -> Vec<i32> {
        let mut ids = vec![self.begin];
        let mut folded = String::new();
        for word in basic_words(text) {
            if ids.len() >= most {
                break;
            }
            fold_into(word, &mut folded);
            // A word that cannot be cut up is unknown as a whole.
            ids.extend(self.pieces_of(&folded).unwrap_or_else(|| vec![self.unknown]));
        }
        ids.truncate(most.saturating_sub(1));
        ids.push(self.end);
        ids
    }

    /// The longest pieces that a folded word can be cut into; nothing if it cannot.
    fn pieces_of(&self, word: &str) -> Option<Vec<i32>> {
        if word.len() > LONGEST_WORD && word.chars().count() > LONGEST_WORD {
            return None;
        }
        let mut ids = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let prefix = if ids.is_empty() { "" } else { "##" };
            let known = |end: usize| self.pieces.get(format!("{prefix}{}", &rest[..end]).as_str());
            let mut ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let (end, id) = ends.find_map(|end| Some((end, *known(end)?)))?;
            ids.push(id);
            rest = &rest[end..];
        }
        Some(ids)
    }
}

/// Splits at blanks; punctuation and ideographs stand alone.
fn basic_words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_control());
        let first = rest.chars().next()?;
        let end = if stands_alone(first) {
            first.len_utf8()
        } else {
            rest.find(|c: char| c.is_whitespace() || c.is_control() || stands_alone(c)).unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// True for punctuation, symbols and ideographs.
fn stands_alone(c: char) -> bool {
    let is_ideograph = matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2CEAF | 0x2F800..=0x2FA1F);
    is_ideograph || !is_word(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> WordPiece {
        WordPiece::new("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncache\n##s\n##d\nuber\n池\n.\nto\n##ken").unwrap()
    }

    #[test]
    fn words_are_cut_into_the_longest_pieces() {
        let ids = |text| vocabulary().encode(text, 64);
        assert_eq!(ids("The CACHES."), [2, 4, 5, 6, 10, 3]);
        assert_eq!(ids("Über token 池池"), [2, 8, 11, 12, 9, 9, 3]);
        assert_eq!(ids("cachex the"), [2, 1, 4, 3]);
        assert_eq!(ids(""), [2, 3]);
    }

    #[test]
    fn long_texts_are_cut_and_still_end_with_their_mark() {
        let ids = vocabulary().encode(&"the ".repeat(1000), 16);
        assert_eq!((ids.len(), ids[0], ids[15]), (16, 2, 3));
        assert_eq!(vocabulary().encode(&"x".repeat(100_000), 16), [2, 1, 3]);
        assert_eq!(vocabulary().encode(&"the".repeat(100_000), 16), [2, 1, 3], "no word is that long");
    }
}
