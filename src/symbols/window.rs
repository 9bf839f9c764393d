//! Which parts of a large file must be parsed to see what one edit did.
//!
//! Parsing 2,000 lines takes 10 to 25 ms, twice. An edit is mostly in one function: the lines around it, together with
//! the first and last lines of what encloses it, are a small file with the same symbols in the same scopes. Indentation
//! and braces show where to cut. They are only a guess: the caller must check that the parts parse, and parse everything
//! if not.

use std::ops::Range;

use super::Language;

/// Smaller files are parsed whole: there is little to win.
const SMALL_BYTES: usize = 6 * 1024;
/// A part around the edit that is not larger than this needs no closer look.
const WINDOW_BYTES: usize = 4 * 1024;

/// Where two texts differ, in whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edit {
    pub start: usize,
    pub old_end: usize,
    pub new_end: usize,
}

impl Edit {
    pub(super) fn between(before: &str, after: &str) -> Self {
        let (old, new) = (before.as_bytes(), after.as_bytes());
        let same = old.iter().zip(new).take_while(|(left, right)| left == right).count();
        let start = memchr::memrchr(b'\n', &old[..same]).map_or(0, |newline| newline + 1);
        let (old_rest, new_rest) = (&old[start..], &new[start..]);
        let tails = old_rest.iter().rev().zip(new_rest.iter().rev());
        let same = tails.take_while(|(left, right)| left == right).count();
        let tail = &old_rest[old_rest.len() - same..];
        let begins_line = |rest: &[u8]| rest[..rest.len() - same].last().is_none_or(|last| *last == b'\n');
        let kept = if begins_line(old_rest) && begins_line(new_rest) {
            same
        } else {
            memchr::memchr(b'\n', tail).map_or(0, |newline| tail.len() - newline - 1)
        };
        Self { start, old_end: old.len() - kept, new_end: new.len() - kept }
    }

    /// What turns the text after into the text before.
    pub(super) fn reversed(self) -> Self {
        Self { start: self.start, old_end: self.new_end, new_end: self.old_end }
    }

    /// A part of the text before that touches the edit or not, as it is in the text after.
    fn shifted(self, part: &Range<usize>) -> Range<usize> {
        let moved = |at: usize| at - self.old_end + self.new_end;
        let start = if part.start > self.start { moved(part.start) } else { part.start };
        let end = if part.end >= self.old_end { moved(part.end) } else { part.end };
        start..end
    }
}

/// The parts of two texts that are enough to see what an edit did.
pub(super) struct Windows {
    pub before: Vec<Range<usize>>,
    pub after: Vec<Range<usize>>,
    /// What begins before this offset only encloses the edit, and may lack much of what it holds.
    pub start: usize,
}

impl Windows {
    /// Whether what begins at this offset of the text before is in the parts.
    fn keep(&self, offset: usize) -> bool {
        self.before.iter().any(|part| part.contains(&offset))
    }
}

/// The parts around an edit; nothing if it is better to parse all.
pub(super) fn windows(language: Language, before: &str, after: &str, edit: Edit) -> Option<Windows> {
    let (removed, added) = (&before[edit.start..edit.old_end], &after[edit.start..edit.new_end]);
    let opened = levels(language, removed);
    // An edit that opens or closes something changes what everything behind it belongs to.
    if before.len() < SMALL_BYTES || opened != levels(language, added) {
        return None;
    }
    if has_preprocessor(language) && (has_condition(removed) || has_condition(added)) {
        return None;
    }
    let lines = Lines::new(language, before);
    let changed = lines.at(edit.start)..lines.at(edit.old_end);
    let new_indent = least_indent(added);
    let mut kept = vec![false; lines.lines.len()];
    let first = lines.keep_around(&changed, new_indent, &mut kept);
    lines.keep_what_is_open(&changed, &mut kept);
    if !lines.keeps_all_of_it(&changed, opened, &kept) {
        return None;
    }
    lines.windows(kept, edit, first)
}

/// The windows with all of a type in them, given where it begins in the text before.
pub(super) fn widened(
    language: Language,
    before: &str,
    edit: Edit,
    windows: &Windows,
    type_start: usize,
) -> Option<Windows> {
    let lines = Lines::new(language, before);
    let mut kept: Vec<bool> = lines.lines.iter().map(|line| windows.keep(line.start)).collect();
    let first = lines.lines.partition_point(|line| line.start <= type_start).checked_sub(1)?;
    let indent = lines.lines[first].indent;
    let is_behind = |line: &Line<'_>| line.role == Role::First && line.indent <= indent;
    let end = (first + 1..lines.lines.len()).find(|line| is_behind(&lines.lines[*line]));
    let first = lines.lead_of(first, 0);
    kept[first..end.unwrap_or(lines.lines.len())].fill(true);
    lines.windows(kept, edit, first)
}

/// How a line goes together with its neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Blank,
    /// May begin a statement or a declaration.
    First,
    /// A comment, an attribute: goes with what follows.
    Lead,
    /// A closing bracket, `else`: goes with what was.
    Further,
}

impl Role {
    /// The role of a line, by how it begins, and by how the written line before it ends.
    fn of(line: &str, previous: &str, language: Language) -> Self {
        let word = first_word(line);
        match line.as_bytes() {
            [] => Self::Blank,
            [b'@' | b'#' | b'[' | b'*', ..] | [b'/', b'/' | b'*', ..] => Self::Lead,
            [
                b'}' | b')' | b']' | b'{' | b'.' | b',' | b';' | b':' | b'?' | b'&' | b'|' | b'=' | b'+'
                | b'<' | b'>',
                ..,
            ] => Self::Further,
            _ if FURTHER_WORDS.contains(&word) => Self::Further,
            _ if word == "template" && !line.contains(['{', ';', '(']) => Self::Lead,
            // Where statements have an end, what follows something else goes on with it.
            _ if ends_statements(language) && previous.ends_with(is_unfinished) => Self::Further,
            _ => Self::First,
        }
    }
}

fn ends_statements(language: Language) -> bool {
    use Language::{C, CSharp, Cpp, Java, Rust};
    matches!(language, C | CSharp | Cpp | Java | Rust)
}

fn without_comment(line: &str) -> &str {
    line.split_once(" //").map_or(line, |(code, _)| code.trim_ascii_end())
}

fn is_unfinished(last: char) -> bool {
    last.is_alphanumeric() || matches!(last, '_' | '&' | '*' | '>' | '=' | '+' | '-' | '|' | '(' | '.')
}

const FURTHER_WORDS: [&str; 10] =
    ["else", "elif", "elsif", "except", "finally", "catch", "rescue", "ensure", "end", "where"];

struct Line<'text> {
    start: usize,
    /// How many blanks it begins with.
    indent: usize,
    text: &'text str,
    role: Role,
}

impl Line<'_> {
    /// Comments stand anywhere, their indentation says nothing.
    fn is_code(&self) -> bool {
        matches!(self.role, Role::First | Role::Further)
    }
}

struct Lines<'text> {
    language: Language,
    lines: Vec<Line<'text>>,
    length: usize,
}

impl<'text> Lines<'text> {
    fn new(language: Language, text: &'text str) -> Self {
        let mut lines: Vec<Line<'_>> = Vec::with_capacity(text.len() / 32);
        let (mut start, mut previous) = (0, "");
        for line in text.split_inclusive('\n') {
            let written = line.trim_ascii();
            let indent = line.len() - line.trim_ascii_start().len();
            let role = Role::of(written, previous, language);
            lines.push(Line { start, indent, text: written, role });
            start += line.len();
            match role {
                Role::First | Role::Further => previous = without_comment(written),
                Role::Lead => previous = "",
                Role::Blank => {}
            }
        }
        Self { language, lines, length: text.len() }
    }

    /// The line that begins at this offset.
    fn at(&self, offset: usize) -> usize {
        self.lines.partition_point(|line| line.start < offset)
    }

    fn start_of(&self, line: usize) -> usize {
        self.lines.get(line).map_or(self.length, |line| line.start)
    }

    fn bytes(&self, lines: &Range<usize>) -> usize {
        self.start_of(lines.end) - self.start_of(lines.start)
    }

    fn least_indent(&self, lines: Range<usize>) -> Option<usize> {
        self.lines[lines].iter().filter(|line| line.is_code()).map(|line| line.indent).min()
    }

    /// Keeps the lines around the change, and what encloses them by its indentation. Says where the former begin.
    fn keep_around(&self, changed: &Range<usize>, new_indent: Option<usize>, kept: &mut [bool]) -> usize {
        let mut block = 0..self.lines.len();
        loop {
            let Some(level) = self.least_indent(block.clone()) else { return block.start };
            let firsts: Vec<_> = block.clone().filter(|line| self.begins_item(*line, level)).collect();
            let earlier = firsts.partition_point(|first| *first < changed.start);
            let later = firsts.partition_point(|first| *first < changed.end);
            let first = |index: usize| firsts.get(index).copied().unwrap_or(block.end);
            // With a neighbour on each side, so that what stands between two items is seen to do so.
            let wide = earlier.checked_sub(2).map_or(block.start, first)..first(later + 1);
            let item = earlier.checked_sub(1).map_or(block.start, first)..first(later);
            let deepest = self.least_indent(changed.clone()).into_iter().chain(new_indent).min();
            let is_inside = earlier == later && deepest.is_none_or(|indent| indent > level);
            if !is_inside || self.bytes(&wide) <= WINDOW_BYTES {
                return self.keep(wide, changed, &block, kept);
            }
            match self.inside(&item, changed, level, kept).filter(|inner| inner.len() < block.len()) {
                Some(inner) => block = inner,
                None => return self.keep(item, changed, &block, kept),
            }
        }
    }

    fn begins_item(&self, line: usize, level: usize) -> bool {
        self.lines[line].role == Role::First && self.lines[line].indent == level
    }

    /// In Python nothing marks the end of a function, so that it must be kept whole to have one.
    fn begins_function(&self, line: usize) -> bool {
        self.lines
            .get(line)
            .is_some_and(|line| line.text.starts_with("def ") || line.text.starts_with("async "))
    }

    /// Keeps the change and the lines around it: with the attributes and comments that lead to the first, and without
    /// those at their end that belong to what follows.
    fn keep(
        &self,
        lines: Range<usize>,
        changed: &Range<usize>,
        block: &Range<usize>,
        kept: &mut [bool],
    ) -> usize {
        let is_lead = |line: &usize| matches!(self.lines[*line].role, Role::Lead | Role::Blank);
        let end = match lines.end {
            end if end < block.end => end - (changed.end..end).rev().take_while(is_lead).count(),
            end => end,
        };
        let start = self.lead_of(lines.start, block.start);
        kept[start..end].fill(true);
        start
    }

    /// The first of the attributes and comments that lead to a line.
    fn lead_of(&self, line: usize, least: usize) -> usize {
        let mut start = line;
        while start > least {
            let last = &self.lines[start - 1];
            // The end of an attribute of several lines looks like the end of anything.
            let first = match last.role {
                Role::Further if last.text.starts_with([')', ']']) => {
                    (least..start - 1).rev().find(|line| self.lines[*line].indent <= last.indent)
                }
                _ => Some(start - 1),
            };
            match first.filter(|first| self.lines[*first].role == Role::Lead) {
                Some(first) => start = first,
                None => break,
            }
        }
        start
    }

    /// The lines inside an item around the change. Those of the item's own indentation are kept, and what leads to the
    /// first one inside.
    fn inside(
        &self,
        item: &Range<usize>,
        changed: &Range<usize>,
        level: usize,
        kept: &mut [bool],
    ) -> Option<Range<usize>> {
        if self.language == Language::Python && self.begins_function(item.start) {
            return None;
        }
        let is_frame = |line: &usize| {
            let line = &self.lines[*line];
            line.is_code() && line.indent <= level
        };
        let start = (item.start..changed.start).rev().find(is_frame)? + 1;
        let end = (changed.end..item.end).find(is_frame).unwrap_or(item.end);
        let inner = self.least_indent(start..end)?;
        item.clone().filter(is_frame).for_each(|line| kept[line] = true);
        kept[self.lead_of(item.start, 0)..item.start].fill(true);
        let header_end = (start..end).find(|line| self.begins_item(*line, inner)).unwrap_or(start);
        let header = start..header_end.min(changed.start);
        header.filter(|line| self.lines[*line].is_code()).for_each(|line| kept[line] = true);
        Some(start..end)
    }

    /// Keeps the lines that open what encloses the change without being seen by indentation, and those that close it.
    fn keep_what_is_open(&self, changed: &Range<usize>, kept: &mut [bool]) {
        let mut open = Vec::new();
        for line in (0..changed.start).filter(|line| !kept[*line]) {
            balance(&mut open, line, nesting(self.language, self.lines[line].text));
        }
        let mut close = Vec::new();
        for line in (changed.end..self.lines.len()).rev().filter(|line| !kept[*line]) {
            balance(&mut close, line, -nesting(self.language, self.lines[line].text));
        }
        close.into_iter().for_each(|line| kept[line] = true);
        for line in open {
            // The brace may have a line of its own.
            let header = (0..=line).rev().find(|line| self.lines[*line].role == Role::First).unwrap_or(line);
            kept[header..=line].fill(true);
        }
    }

    /// Whether what the changed lines open, or close, is kept to its other end.
    fn keeps_all_of_it(&self, changed: &Range<usize>, opened: isize, kept: &[bool]) -> bool {
        let mut open = opened.abs();
        let mut ends_at = |line: usize| {
            open += opened.signum() * nesting(self.language, self.lines[line].text);
            !kept[line] || open <= 0
        };
        let other_end = match opened {
            0 => return true,
            1.. => (changed.end..self.lines.len()).find(|line| ends_at(*line)),
            _ => (0..changed.start).rev().find(|line| ends_at(*line)),
        };
        other_end.is_some_and(|line| kept[line])
    }

    /// The kept lines as windows, unless they are most of the text. What begins before `first` only encloses the edit.
    fn windows(&self, mut kept: Vec<bool>, edit: Edit, first: usize) -> Option<Windows> {
        if has_preprocessor(self.language) {
            self.drop_torn_conditions(&mut kept);
        }
        let before = self.parts(&kept);
        let total: usize = before.iter().map(Range::len).sum();
        let after = before.iter().map(|part| edit.shifted(part)).collect();
        (2 * total < self.length).then(|| Windows { before, after, start: self.start_of(first) })
    }

    /// An `#if` of which not all directives are kept is left out: what stands in it counts all the same. Most headers
    /// stand in one.
    fn drop_torn_conditions(&self, kept: &mut [bool]) {
        let mut open: Vec<Vec<usize>> = Vec::new();
        for line in 0..self.lines.len() {
            let Some(condition) = Condition::of(self.lines[line].text) else { continue };
            if condition == Condition::Begins {
                open.push(Vec::new());
            }
            // One that belongs to nothing is torn already.
            let Some(directives) = open.last_mut() else {
                kept[line] = false;
                continue;
            };
            directives.push(line);
            if condition == Condition::Ends
                && let Some(directives) = open.pop()
                && !directives.iter().all(|line| kept[*line])
            {
                directives.iter().for_each(|line| kept[*line] = false);
            }
        }
        open.iter().flatten().for_each(|line| kept[*line] = false);
    }

    /// The kept lines as stretches of the text.
    fn parts(&self, kept: &[bool]) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for line in (0..kept.len()).filter(|line| kept[*line]) {
            let (start, end) = (self.start_of(line), self.start_of(line + 1));
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        parts
    }
}

/// A directive that takes part in a condition.
#[derive(PartialEq, Eq)]
enum Condition {
    Begins,
    GoesOn,
    Ends,
}

impl Condition {
    fn of(line: &str) -> Option<Self> {
        let word = first_word(line.strip_prefix('#')?.trim_ascii_start());
        match word {
            "if" | "ifdef" | "ifndef" => Some(Self::Begins),
            "else" | "elif" | "elifdef" | "elifndef" => Some(Self::GoesOn),
            "endif" => Some(Self::Ends),
            _ => None,
        }
    }
}

fn has_preprocessor(language: Language) -> bool {
    matches!(language, Language::C | Language::Cpp | Language::CSharp)
}

fn has_condition(text: &str) -> bool {
    text.lines().any(|line| Condition::of(line.trim_ascii()).is_some())
}

/// Notes that a line opens so many levels, or closes them.
fn balance(open: &mut Vec<usize>, line: usize, levels: isize) {
    if levels > 0 {
        open.push(line);
    } else if levels < 0 {
        open.pop();
    }
}

/// How many levels a line opens, less those that it closes. Braces in texts and comments are counted too: what that
/// leads to does not parse.
fn nesting(language: Language, line: &str) -> isize {
    match language {
        Language::Python => 0,
        Language::Ruby => ruby_nesting(line),
        _ => line.bytes().map(|byte| isize::from(byte == b'{') - isize::from(byte == b'}')).sum(),
    }
}

fn ruby_nesting(line: &str) -> isize {
    let word = first_word(line);
    let opens = match word {
        "module" | "class" | "begin" | "if" | "unless" | "case" | "while" => true,
        "def" => !is_endless(line),
        _ => line.ends_with(" do") || line.ends_with('|'),
    };
    isize::from(opens) - isize::from(word == "end" || line.ends_with("; end"))
}

/// `def name(parameters) = value`
fn is_endless(definition: &str) -> bool {
    let mut depth = 0;
    let after_parameters = definition.find(|character| {
        depth += isize::from(character == '(') - isize::from(character == ')');
        depth == 0 && character == '='
    });
    after_parameters.is_some_and(|at| definition[..at].ends_with(' ') && definition[at..].starts_with("= "))
}

fn first_word(line: &str) -> &str {
    line.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .next()
        .unwrap_or_default()
}

fn levels(language: Language, text: &str) -> isize {
    text.lines().map(|line| nesting(language, line.trim_ascii())).sum()
}

fn least_indent(text: &str) -> Option<usize> {
    let written = text.lines().filter(|line| !line.trim_ascii().is_empty());
    written.map(|line| line.len() - line.trim_ascii_start().len()).min()
}
