//! Words as the index has them: what counts as one, folded and stemmed in the same way. The index itself is made by
//! SQLite (`porter unicode61 remove_diacritics 2`) of the words that are found here; queries, scores and snippets use the
//! same ones.

use std::borrow::Cow;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<'a> {
    /// As it stands there.
    pub text: &'a str,
    /// The beginning, in bytes.
    pub start: usize,
    /// A run of a script that puts no blanks between words.
    pub unspaced: bool,
}

/// Scripts that put no blanks between words, and Hangul, whose words carry their particles.
pub fn is_unspaced(c: char) -> bool {
    !c.is_ascii()
        && matches!(u32::from(c),
        0x0E00..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x9FFF | 0xA000..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F | 0x20000..=0x333AF)
}

/// True for characters of words.
pub fn is_word(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() || is_mark(c) }
}

/// Marks that belong to the letter before them.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x0591..=0x05C7 | 0x064B..=0x065F)
}

/// The words of a text in order; runs of unspaced scripts as one word each.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += length_while(&text[at..], |c| !is_word(c));
        let (start, rest) = (at, &text[at..]);
        let unspaced = is_unspaced(rest.chars().next()?);
        at += length_while(rest, |c| is_word(c) && is_unspaced(c) == unspaced);
        Some(Word { text: &text[start..at], start, unspaced })
    })
}

/// The length in bytes of the beginning with such characters. Most are ASCII, and those are looked at as they are.
fn length_while(text: &str, is_such: impl Fn(char) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii() {
            if !is_such(char::from(*byte)) {
                break;
            }
            at += 1;
        } else {
            match text[at..].chars().next().filter(|c| is_such(*c)) {
                Some(c) => at += c.len_utf8(),
                None => break,
            }
        }
    }
    at
}

/// The pairs of characters by which an unspaced run is found, with the byte offset of each in the run; a single
/// character stands for itself.
pub fn pairs(run: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    let count = starts.len().saturating_sub(2).max(1);
    (0..count)
        .map(move |index| (starts[index], &run[starts[index]..starts[(index + 2).min(starts.len() - 1)]]))
}

/// The parts of `refreshToken` or `HTTPServer`, with the byte offset of each; nothing for a word without humps.
pub fn humps(word: &str) -> Vec<(usize, &str)> {
    let bytes = word.as_bytes();
    if !word.is_ascii() || !bytes.iter().skip(1).any(u8::is_ascii_uppercase) {
        return Vec::new();
    }
    let is_start = |at: usize| {
        let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        bytes[at].is_ascii_uppercase() && (!bytes[at - 1].is_ascii_uppercase() || next_is_lower)
    };
    let mut starts: Vec<usize> =
        std::iter::once(0).chain((1..bytes.len()).filter(|at| is_start(*at))).collect();
    if starts.len() < 2 {
        return Vec::new();
    }
    starts.push(bytes.len());
    starts.windows(2).map(|pair| (pair[0], &word[pair[0]..pair[1]])).collect()
}

/// The word in small letters without accents, as the index folds it.
pub fn fold(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    fold_into(word, &mut folded);
    folded
}

/// [`fold`] into a string that is used again.
pub fn fold_into(word: &str, folded: &mut String) {
    folded.clear();
    for c in word.chars() {
        if c.is_ascii() {
            folded.push(c.to_ascii_lowercase());
        } else if !is_mark(c) {
            folded.extend(c.to_lowercase().map(without_accent));
        }
    }
}

/// The stem by which the index finds a word.
pub fn key(word: &str) -> String {
    let folded = fold(word);
    stem(&folded).into_owned()
}

/// The stem of a folded word as SQLite's `porter` cuts it: short words, long ones and those with other letters stay as they are.
pub fn stem(folded: &str) -> Cow<'_, str> {
    if !folded.is_ascii() || !(3..=64).contains(&folded.len()) {
        return Cow::Borrowed(folded);
    }
    let stem = Stemmer::create(Algorithm::Porter).stem(folded);
    // SQLite has one rule more: "technology" and "technological" are the same.
    let is_consonant = |c: char| !"aeiouy".contains(c);
    let is_long = |root: &str| root.trim_start_matches(is_consonant).contains(is_consonant);
    match stem.strip_suffix("logi") {
        Some(root) if is_long(root) => Cow::Owned(format!("{root}log")),
        _ => stem,
    }
}

/// Latin letters only, as SQLite does it.
fn without_accent(c: char) -> char {
    let is_latin = matches!(u32::from(c), 0xC0..=0x24F | 0x1E00..=0x1EFF);
    if is_latin { c.nfd().next().unwrap_or(c) } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        words(text).map(|word| word.text).collect()
    }

    #[test]
    fn words_end_where_the_index_ends_them() {
        assert_eq!(
            texts("refresh_token in src/auth-v2.rs!"),
            ["refresh", "token", "in", "src", "auth", "v2", "rs"]
        );
        assert_eq!(texts("用Redis连接池 のtest"), ["用", "Redis", "连接池", "の", "test"]);
        assert_eq!(texts("\0 \u{202e}… ☃"), Vec::<&str>::new());
    }

    #[test]
    fn unspaced_runs_are_found_by_pairs() {
        let found: Vec<_> = pairs("连接池").map(|(_, pair)| pair).collect();
        assert_eq!(found, ["连接", "接池"]);
        assert_eq!(pairs("池").collect::<Vec<_>>(), [(0, "池")]);
    }

    #[test]
    fn humps_split_where_people_read_them() {
        let parts = |word| humps(word).into_iter().map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(parts("refreshToken"), ["refresh", "Token"]);
        assert_eq!(parts("parseHTTPResponse"), ["parse", "HTTP", "Response"]);
        assert_eq!(parts("ID"), Vec::<&str>::new());
        assert_eq!(parts("Token"), Vec::<&str>::new());
    }

    #[test]
    fn accents_and_case_do_not_matter() {
        assert_eq!(fold("Nachführung"), "nachfuhrung");
        assert_eq!(fold("ÉTÉ Žlutý"), "ete zluty");
        assert_eq!(fold("Việt Øre"), "viet øre");
        assert_eq!(key("Connections"), "connect");
    }

    /// Every word of the evaluation set, and what SQLite's own stemmer makes of it. It cuts "eed", which is no word, down to "e".
    #[test]
    fn stems_are_those_of_the_index() {
        let texts =
            [include_str!("../../../eval/a.docs.jsonl"), include_str!("../../../eval/b.docs.jsonl")].concat();
        let database = rusqlite::Connection::open_in_memory().unwrap();
        database
            .execute_batch(
                "CREATE VIRTUAL TABLE i USING fts5 (w, tokenize = 'porter unicode61 remove_diacritics 2');
                 CREATE VIRTUAL TABLE v USING fts5vocab (i, row);",
            )
            .unwrap();
        let mut all: Vec<String> = texts
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| word.len() > 1 && *word != "eed")
            .map(str::to_ascii_lowercase)
            .chain(["technology", "geology", "ideology", "apologies", "yodelogy"].map(str::to_owned))
            .collect();
        all.sort();
        all.dedup();
        assert!(all.len() > 5000, "{}", all.len());
        let mut wrong = Vec::new();
        for word in all {
            database.execute("INSERT INTO i (w) VALUES (?1)", [&word]).unwrap();
            let theirs: String = database.query_row("SELECT term FROM v", [], |row| row.get(0)).unwrap();
            database.execute("DELETE FROM i", []).unwrap();
            let ours = stem(&word).into_owned();
            if ours != theirs {
                wrong.push((word, ours, theirs));
            }
        }
        assert!(wrong.is_empty(), "{} differ: {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    }
}
