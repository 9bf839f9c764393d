//! Changed lines: from a patch, or from the strings that were exchanged. What they count, touch, swap and rename.

use serde_json::Value;

use super::definitions::{Definition, Language, definition, enclosing, indent_of};
use super::edits::{Touch, Touched};
use super::payload::field;
use super::text::{one_line, shorten};

/// How many functions of one file are told.
const MOST_TOUCHED: usize = 24;
/// How many lines of a patch are searched for names, and how many around them.
const MOST_PATCH_LINES: usize = 4_000;
const MOST_LINES_WALKED: usize = 12_000;
/// The longest line that is quoted.
const SWAP_COLUMNS: usize = 90;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Kept,
    Added,
    Removed,
}

/// Some changed lines and what is around them.
pub(super) struct Hunk<'a> {
    /// The old file up to here, where it is known.
    before: &'a str,
    lines: Vec<(Mark, &'a str)>,
}

impl<'a> Hunk<'a> {
    /// Everything that one event changed.
    pub fn all(input: &'a Value, response: &'a Value, original: &'a str) -> Vec<Self> {
        if let Some(patch) =
            response.get("structuredPatch").and_then(Value::as_array).filter(|patch| !patch.is_empty())
        {
            return patch.iter().filter_map(|hunk| Self::from_patch(hunk, original)).collect();
        }
        if let Some(edits) = input.get("edits").and_then(Value::as_array) {
            return edits.iter().map(|edit| Self::from_strings(edit, original)).collect();
        }
        if input.get("old_string").is_some() || input.get("new_string").is_some() {
            return vec![Self::from_strings(input, original)];
        }
        match field(input, &["content", "new_source"]) {
            "" => Vec::new(),
            _ if field(response, &["type"]) == "update" => Vec::new(),
            content => vec![Self::added(content)],
        }
    }

    fn from_patch(hunk: &'a Value, original: &'a str) -> Option<Self> {
        let lines: Vec<(Mark, &str)> = hunk
            .get("lines")?
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .filter_map(|line| match line.as_bytes().first() {
                Some(b'+') => Some((Mark::Added, &line[1..])),
                Some(b'-') => Some((Mark::Removed, &line[1..])),
                Some(b' ') => Some((Mark::Kept, &line[1..])),
                _ => None,
            })
            .collect();
        let start =
            hunk.get("oldStart").and_then(Value::as_u64).and_then(|start| usize::try_from(start).ok());
        let before = start.map_or("", |start| text_before(original, start, &lines));
        Some(Self { before, lines })
    }

    fn from_strings(edit: &'a Value, original: &'a str) -> Self {
        let (old, new) = (field(edit, &["old_string"]), field(edit, &["new_string"]));
        let before = original.find(old).filter(|_| !old.is_empty()).map_or("", |at| &original[..at]);
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let same_head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
        let shorter = old.len().min(new.len()) - same_head;
        let same_tail = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(shorter)
            .take_while(|(one, other)| one == other)
            .count();
        let kept = old[..same_head].iter().map(|line| (Mark::Kept, *line));
        let removed = old[same_head..old.len() - same_tail].iter().map(|line| (Mark::Removed, *line));
        let added = new[same_head..new.len() - same_tail].iter().map(|line| (Mark::Added, *line));
        Self { before, lines: kept.chain(removed).chain(added).collect() }
    }

    /// A text that is new from its first line to its last.
    pub fn added(content: &'a str) -> Self {
        Self { before: "", lines: content.lines().map(|line| (Mark::Added, line)).collect() }
    }

    /// What a line of the hunk lies in, as far as the budget of lines lasts.
    fn around(&self, at: usize, mark: Mark, language: Language, budget: &mut usize) -> Option<Definition> {
        let mut walked = 0;
        let above = self.above(at, mark).take(*budget).inspect(|_| walked += 1);
        let found = enclosing(indent_of(self.lines[at].1), above, language);
        *budget -= walked;
        found
    }

    /// The lines above one of the hunk, nearest first, as they were (or are) on its side of the change.
    fn above(&self, at: usize, mark: Mark) -> impl Iterator<Item = &'a str> + '_ {
        let other = if mark == Mark::Added { Mark::Removed } else { Mark::Added };
        let inside =
            self.lines[..at].iter().rev().filter(move |(mark, _)| *mark != other).map(|(_, line)| *line);
        inside.chain(self.before.trim_end_matches('\n').rsplit('\n'))
    }
}

/// The original file up to line `start` (from 1), if the hunk really lies there: a long file may have been cut.
fn text_before<'a>(original: &'a str, start: usize, lines: &[(Mark, &str)]) -> &'a str {
    let offset = match start.saturating_sub(1) {
        0 => 0,
        skipped => memchr::memchr_iter(b'\n', original.as_bytes())
            .nth(skipped - 1)
            .map_or(original.len(), |at| at + 1),
    };
    let first_old = lines.iter().find(|(mark, _)| *mark != Mark::Added).map(|(_, line)| *line);
    let there = original[offset..].split('\n').next();
    if first_old.is_some() && first_old == there { &original[..offset] } else { "" }
}

/// Lines added and removed.
pub(super) fn counts(hunks: &[Hunk<'_>]) -> (usize, usize) {
    let count =
        |wanted: Mark| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|(mark, _)| *mark == wanted).count();
    (count(Mark::Added), count(Mark::Removed))
}

/// Functions and types that the changed lines define or lie in.
pub(super) fn touched(hunks: &[Hunk<'_>], language: Language) -> Vec<Touched> {
    let mut touched = Vec::new();
    // What may be walked through for one event, so that a huge file costs no more than a large one.
    let mut budget = MOST_LINES_WALKED;
    for hunk in hunks.iter().filter(|_| language != Language::None) {
        let mut previous: Option<(Mark, usize)> = None;
        for (at, (mark, line)) in hunk.lines.iter().enumerate().take(MOST_PATCH_LINES) {
            let indent = indent_of(line);
            let bare = line.trim().trim_matches(['{', '}', '(', ')', '[', ']', ',', ';']);
            if *mark == Mark::Kept || bare.is_empty() {
                previous = None;
                continue;
            }
            let own = definition(line, language);
            // Where it is no less deep than the changed line before it, it lies in the same function.
            let same = previous.is_some_and(|(before, depth)| before == *mark && indent >= depth);
            previous = Some((*mark, indent));
            let around =
                if same && own.is_none() { None } else { hunk.around(at, *mark, language, &mut budget) };
            match (own, around) {
                (Some(own), around) => {
                    let how = if *mark == Mark::Added { Touch::New } else { Touch::Removed };
                    add_touched(&mut touched, &qualified(&own, around.as_ref(), language), how);
                }
                (None, Some(outer)) => add_touched(&mut touched, &outer.name, Touch::Changed),
                (None, None) => {}
            }
        }
    }
    touched
}

/// The name of a definition with that of the type it lies in.
fn qualified(own: &Definition, around: Option<&Definition>, language: Language) -> String {
    match around.filter(|outer| outer.container && !own.name.contains(&outer.name)) {
        Some(outer) => format!("{}{}{}", outer.name, language.separator(), own.name),
        None => own.name.clone(),
    }
}

/// Removed and added is changed; what is new stays new.
pub(super) fn add_touched(touched: &mut Vec<Touched>, name: &str, how: Touch) {
    if let Some(known) = touched.iter_mut().find(|known| known.name == name) {
        known.how = match (known.how, how) {
            (Touch::New, Touch::Changed | Touch::New) => Touch::New,
            (Touch::Changed, Touch::Removed) | (Touch::Removed, Touch::Changed | Touch::Removed) => {
                Touch::Removed
            }
            _ => Touch::Changed,
        };
    } else if touched.len() < MOST_TOUCHED {
        touched.push(Touched { name: name.to_owned(), how });
    }
}

/// The one line that was replaced, added or removed, if that is all.
pub(super) fn swap(hunks: &[Hunk<'_>]) -> Option<(String, String)> {
    let [hunk] = hunks else { return None };
    let of = |wanted: Mark| -> Vec<&str> {
        hunk.lines
            .iter()
            .filter(|(mark, line)| *mark == wanted && !line.trim().is_empty())
            .map(|(_, line)| *line)
            .collect()
    };
    let quoted = |line: &str| shorten(&one_line(line).replace('`', "'"), SWAP_COLUMNS);
    match (of(Mark::Removed).as_slice(), of(Mark::Added).as_slice()) {
        ([old], [new]) => Some((quoted(old), quoted(new))),
        ([], [new]) => Some((String::new(), quoted(new))),
        ([old], []) => Some((quoted(old), String::new())),
        _ => None,
    }
}

/// The name that was replaced by another everywhere in the patch, if nothing else changed.
pub(super) fn rename(hunks: &[Hunk<'_>]) -> Option<(String, String, usize)> {
    let mut found: Option<(&str, &str, usize)> = None;
    for hunk in hunks {
        let of =
            |wanted: Mark| hunk.lines.iter().filter(move |(mark, _)| *mark == wanted).map(|(_, line)| *line);
        if of(Mark::Removed).count() != of(Mark::Added).count() {
            return None;
        }
        for (old, new) in of(Mark::Removed).zip(of(Mark::Added)) {
            let (old, new): (Vec<&str>, Vec<&str>) = (tokens(old), tokens(new));
            if old.len() != new.len() {
                return None;
            }
            for (from, to) in old.into_iter().zip(new).filter(|(from, to)| from != to) {
                let is_word = |token: &str| {
                    token.len() > 1 && token.starts_with(|first: char| first.is_alphabetic() || first == '_')
                };
                found = match found {
                    None if is_word(from) && is_word(to) => Some((from, to, 1)),
                    Some((known, known_to, count)) if (known, known_to) == (from, to) => {
                        Some((from, to, count + 1))
                    }
                    _ => return None,
                };
            }
        }
    }
    found.map(|(from, to, count)| (shorten(from, 60), shorten(to, 60), count))
}

/// Words and single characters of a line.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        let end = if is_word(first) {
            rest.find(|char: char| !is_word(char)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}
