//! Finds names of secrets that a value is assigned to. Independent of the value.

use std::ops::Range;

use aho_corasick::AhoCorasick;

/// A longer word is data, not a name.
const LONGEST: usize = 64;

/// Common suffixes of names: `API_KEY_PROD`, `password2`.
#[rustfmt::skip]
const TAILS: [&str; 14] = [
    "production", "prod", "staging", "stage", "dev", "test", "live", "new", "old", "primary", "secondary", "value",
    "base64", "b64",
];

/// The names of one rule.
#[derive(Debug)]
pub(super) struct Names {
    /// Finds the words in which the names end.
    words: AhoCorasick,
    /// As the end of a name, without separators and in any case: `apikey` stands for `API_KEY` and `x-api-key`.
    names: Vec<String>,
    /// As the end of a name with the byte before it, to the letter: `_PASS`, `;pwd`.
    endings: Vec<String>,
}

/// A name and where its value begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) name: Range<usize>,
    pub(super) value_at: usize,
}

impl Names {
    pub(super) fn new(words: AhoCorasick, names: Vec<String>, endings: Vec<String>) -> Self {
        Self { words, names, endings }
    }

    /// The next name at or after `from` to which something is assigned.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Assigned> {
        let mut from = from;
        while let Some(word) = self.words.find(aho_corasick::Input::new(text).range(from..)) {
            let name = name_around(text, word.range());
            from = name.end;
            let Some(value_at) = assigned_after(text, name.end) else { continue };
            if self.contains(text, &name) {
                return Some(Assigned { name, value_at });
            }
        }
        None
    }

    fn contains(&self, text: &str, name: &Range<usize>) -> bool {
        let with_byte_before = &text.as_bytes()[name.start.saturating_sub(1)..name.end];
        let word = without_tail(&text[name.clone()]);
        self.names.iter().any(|known| ends_with_letters(word, known))
            || self.endings.iter().any(|ending| with_byte_before.ends_with(ending.as_bytes()))
    }
}

fn name_around(text: &str, word: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes[..word.start].iter().rev().take(LONGEST).take_while(|byte| is_name(**byte)).count();
    let after =
        bytes[word.end..].iter().take(LONGEST).take_while(|byte| is_name(**byte) && **byte != b'.').count();
    let mut start = word.start - before;
    // The letter of an escaped line break is not part of the name.
    if start > 0
        && bytes[start - 1] == b'\\'
        && start < word.start
        && matches!(bytes[start], b'n' | b'r' | b't')
    {
        start += 1;
    }
    start..word.end + after
}

/// Returns the length of the name at the start of `text`, in bytes.
pub(super) fn length(text: &str) -> usize {
    text.bytes().take_while(|byte| is_name(*byte)).count()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn without_tail(name: &str) -> &str {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let tail = TAILS.iter().find_map(|tail| {
        let head = name.len().checked_sub(tail.len())?;
        name.as_bytes()[head..].eq_ignore_ascii_case(tail.as_bytes()).then(|| &name[..head])
    });
    tail.unwrap_or(name).trim_end_matches(['_', '-'])
}

/// Returns true if the letters and digits of `name` end in those of `known`, which has no others.
pub(super) fn ends_with_letters(name: &str, known: &str) -> bool {
    let mut letters = name.bytes().rev().filter(u8::is_ascii_alphanumeric);
    known.bytes().rev().all(|byte| letters.next().is_some_and(|letter| letter.eq_ignore_ascii_case(&byte)))
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the start of the value assigned to the name that ends at `at`: behind `=`, `:`, `": "`, `:=`, `=>`, `==`,
/// `"] =`, or a type and `=`.
fn assigned_after(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let unescaped = rest.trim_start_matches('\\');
    let unquoted =
        unescaped.strip_prefix(['"', '\'', '`']).or((unescaped.len() == rest.len()).then_some(rest))?;
    let separator = unquoted.strip_prefix(']').unwrap_or(unquoted).trim_start_matches(BLANKS);
    let after = typed(separator).or_else(|| {
        let equals = separator.strip_prefix([':', '?', '+']).unwrap_or(separator);
        let value = equals.trim_start_matches('=');
        match equals.len() - value.len() {
            0 => separator.strip_prefix(':').filter(|value| !value.starts_with(':')),
            1..=3 => Some(value.strip_prefix('>').unwrap_or(value)),
            _ => None,
        }
    })?;
    Some(text.len() - after.trim_start_matches(BLANKS).len())
}

/// Skips `: &'static str =`.
fn typed(separator: &str) -> Option<&str> {
    let kind = separator.strip_prefix(':')?.trim_start_matches(BLANKS);
    let kind = kind.strip_prefix('&').unwrap_or(kind);
    let kind = kind.strip_prefix("'static ").unwrap_or(kind);
    let word =
        kind.bytes().take(LONGEST).take_while(|byte| byte.is_ascii_alphanumeric() || b"_<>".contains(byte));
    let behind = &kind[word.count()..];
    let value = behind.trim_start_matches(BLANKS).strip_prefix('=')?;
    (behind.len() < kind.len() && behind.starts_with(BLANKS)).then_some(value)
}
