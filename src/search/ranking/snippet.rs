//! The passage of a text that shows why it was found, with the matches marked.

use std::cmp::Reverse;
use std::iter::repeat_n;

use super::matcher::Matcher;
use crate::search::list;
use crate::store::index::search::Document;

/// A passage. Marks are byte ranges of matches in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The passage, on one line.
    pub text: String,
    /// The places of the matches.
    pub marks: Vec<(usize, usize)>,
}

/// The length of a passage in bytes; it ends at a word.
const LENGTH: usize = 200;

/// The passage of a document with the most matches; its beginning if none of its text matches.
pub fn snippet(document: &Document, matcher: &Matcher<'_>) -> Snippet {
    let facts = list(&document.facts).join("; ");
    let fields = [&document.summary, &document.detail, &facts];
    let best = fields.into_iter().map(|text| window(text, matcher)).max_by_key(|(count, _)| *count);
    match best {
        Some((count, passage)) if count > 0 => passage,
        _ => passage(&document.summary, 0, &[]),
    }
}

/// The marks of a text that is shown as a whole, for example a title.
pub fn mark_all(text: &str, matcher: &Matcher<'_>) -> Snippet {
    one_line("", text, &matcher.ranges(text))
}

/// The number of matches in the best passage of a text, and the passage.
fn window(text: &str, matcher: &Matcher<'_>) -> (usize, Snippet) {
    let ranges = matcher.ranges(text);
    let within =
        |start: usize| ranges.iter().filter(|(from, to)| *from >= start && *to <= start + LENGTH).count();
    let starts = ranges.iter().map(|(start, _)| *start);
    match starts.max_by_key(|start| (within(*start), Reverse(*start))) {
        None => (0, Snippet::default()),
        Some(start) => (within(start), passage(text, start, &ranges)),
    }
}

/// A passage around a place, with a little of what stands before it.
fn passage(text: &str, around: usize, ranges: &[(usize, usize)]) -> Snippet {
    let lead = around.saturating_sub(LENGTH / 5);
    let start = if lead == 0 { 0 } else { boundary(text, lead) };
    let end = if start + LENGTH >= text.len() { text.len() } else { boundary(text, start + LENGTH) };
    let inside: Vec<(usize, usize)> = ranges
        .iter()
        .filter(|(from, to)| *from >= start && *to <= end)
        .map(|(from, to)| (from - start, to - start))
        .collect();
    let mut snippet = one_line(if start > 0 { "…" } else { "" }, &text[start..end], &inside);
    if end < text.len() {
        snippet.text.push('…');
    }
    snippet
}

/// The end of the word that is nearest before a place; a character's edge where there are no blanks.
fn boundary(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    text[..at]
        .rfind(char::is_whitespace)
        .filter(|blank| at - blank < 40)
        .map_or(at, |blank| text.ceil_char_boundary(blank + 1))
}

/// A text on one line behind `before`. Marks move with it.
fn one_line(before: &str, text: &str, ranges: &[(usize, usize)]) -> Snippet {
    let mut line = before.to_owned();
    // The place in the line of each byte of the text.
    let mut places = Vec::with_capacity(text.len() + 1);
    for c in text.chars() {
        places.extend(repeat_n(line.len(), c.len_utf8()));
        if !c.is_whitespace() && !c.is_control() {
            line.push(c);
        } else if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
    }
    places.push(line.len());
    Snippet { marks: ranges.iter().map(|(from, to)| (places[*from], places[*to])).collect(), text: line }
}
