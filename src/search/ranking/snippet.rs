//! The passage of a text that shows why it was found, with the matches marked.

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

impl Snippet {
    /// The text with something before and after each match.
    pub fn marked(&self, before: &str, after: &str) -> String {
        let mut marked =
            String::with_capacity(self.text.len() + self.marks.len() * (before.len() + after.len()));
        let mut at = 0;
        for &(start, end) in &self.marks {
            marked.push_str(&self.text[at..start]);
            marked.push_str(before);
            marked.push_str(&self.text[start..end]);
            marked.push_str(after);
            at = end;
        }
        marked.push_str(&self.text[at..]);
        marked
    }
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
    let ranges = matcher.ranges(text);
    one_line(text, &ranges)
}

fn window(text: &str, matcher: &Matcher<'_>) -> (usize, Snippet) {
    let ranges = matcher.ranges(text);
    let within =
        |start: usize| ranges.iter().filter(|(from, to)| *from >= start && *to <= start + LENGTH).count();
    let best = ranges
        .iter()
        .map(|(start, _)| *start)
        .max_by_key(|start| (within(*start), std::cmp::Reverse(*start)));
    match best {
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
    let mut snippet = one_line(&text[start..end], &inside);
    if start > 0 {
        snippet.text.insert(0, '…');
        snippet
            .marks
            .iter_mut()
            .for_each(|(from, to)| (*from, *to) = (*from + '…'.len_utf8(), *to + '…'.len_utf8()));
    }
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

/// The text on one line; marks keep their places.
fn one_line(text: &str, ranges: &[(usize, usize)]) -> Snippet {
    let mut snippet = Snippet::default();
    let mut ranges = ranges.iter().copied().peekable();
    let mut open = None;
    for (at, c) in text.char_indices() {
        if let Some((_, end)) = open.filter(|(_, end)| *end <= at) {
            let _: usize = end;
            close(&mut snippet, &mut open);
        }
        if let Some((_, to)) = ranges.next_if(|(from, _)| *from == at) {
            open = Some((snippet.text.len(), to));
        }
        let is_blank = c.is_whitespace() || c.is_control();
        if !is_blank {
            snippet.text.push(c);
        } else if !snippet.text.ends_with(' ') && !snippet.text.is_empty() {
            snippet.text.push(' ');
        }
    }
    close(&mut snippet, &mut open);
    snippet
}

fn close(snippet: &mut Snippet, open: &mut Option<(usize, usize)>) {
    if let Some((start, _)) = open.take() {
        snippet.marks.push((start, snippet.text.len()));
    }
}
