//! The page that a context is written on: lines go in until the tokens or the client's units are used up.

use xxhash_rust::xxh3::xxh3_64;

use crate::protocol::MAX_CONTEXT_UNITS;
use crate::text::line::shorten;
use crate::tokens::Budget;

/// One line of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The heading of several lines, written before the first of them.
    pub group: Option<String>,
    /// Its words, without its dash.
    pub text: String,
    /// The memory that it shows.
    pub shows: Option<i64>,
    /// The session that it is about, if it is about a whole one.
    pub session: Option<String>,
    /// The part of it that does not change with time; the whole text if empty.
    pub lasting: String,
    /// The reason for its choice, for `--explain`.
    pub why: String,
}

impl Line {
    /// A line that stands alone.
    pub fn new(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// The line with the reason for its choice.
    pub fn because(self, why: String) -> Self {
        Self { why, ..self }
    }

    /// A hash of the part that does not change with time.
    pub fn key(&self) -> i64 {
        let lasting = if self.lasting.is_empty() { &self.text } else { &self.lasting };
        xxh3_64(lasting.as_bytes()).cast_signed()
    }
}

/// The result of writing a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenLayer {
    /// The lines that are on the page now.
    pub lines: Vec<Line>,
    /// Tokens that the layer was allowed and did not use.
    pub left: usize,
}

/// Text under construction, and how much more it may hold.
#[derive(Debug, Clone)]
pub struct Page {
    text: String,
    tokens: Budget,
    units: usize,
}

/// A line that was cut to less than this says nothing.
const LEAST_CHARACTERS: usize = 24;

impl Page {
    /// An empty page with a budget in tokens.
    pub fn new(tokens: usize) -> Self {
        Self { text: String::new(), tokens: Budget::new(tokens), units: MAX_CONTEXT_UNITS }
    }

    /// Adds a line if all of it fits.
    pub fn line(&mut self, line: &str) -> bool {
        let fits = self.reserve(line);
        if fits {
            self.put(line);
        }
        fits
    }

    /// Keeps room for a line that is [`put`](Self::put) later, if there is room.
    pub fn reserve(&mut self, line: &str) -> bool {
        let units = line.encode_utf16().count() + 1;
        let fits = units <= self.units && self.tokens.take(line);
        if fits {
            self.units -= units;
        }
        fits
    }

    /// Writes a line that room was kept for.
    pub fn put(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Whole tokens that are left.
    pub fn left(&self) -> usize {
        self.tokens.left()
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes as much of a layer as `allowance` tokens hold: whole lines, from the first on. Only if not even the first
    /// one fits is that one cut. Nothing, not even the heading, if no line can be had. Lines that have no room are not
    /// even made.
    pub fn layer(
        &mut self,
        heading: &str,
        lines: impl IntoIterator<Item = Line>,
        allowance: usize,
    ) -> WrittenLayer {
        let before = self.clone();
        let mut share = Budget::new(allowance.min(self.tokens.left()));
        let mut written = WrittenLayer::default();
        if self.both(&mut share, "") && self.both(&mut share, heading) {
            for line in lines {
                let group = written.lines.last().and_then(|last| last.group.as_deref());
                let is_new_group = line.group.as_deref() != group;
                if self.entry(&mut share, &line, is_new_group) {
                    written.lines.push(line);
                    continue;
                }
                if written.lines.is_empty() {
                    written.lines.extend(self.cut_entry(&mut share, &line));
                }
                break;
            }
        }
        if written.lines.is_empty() {
            *self = before;
            written.left = allowance;
        } else {
            written.left = share.left();
        }
        written
    }

    /// A line of a layer, after its group if that begins with it: both or neither.
    fn entry(&mut self, share: &mut Budget, line: &Line, is_new_group: bool) -> bool {
        let (length, tokens, units) = (self.text.len(), self.tokens.clone(), self.units);
        let before = share.clone();
        let fits = match &line.group {
            None => self.both(share, &format!("- {}", line.text)),
            Some(group) => {
                (!is_new_group || self.both(share, &format!("- {group}")))
                    && self.both(share, &format!("  - {}", line.text))
            }
        };
        if !fits {
            self.text.truncate(length);
            (self.tokens, self.units, *share) = (tokens, units, before);
        }
        fits
    }

    /// The longest beginning of a line that fits.
    fn cut_entry(&mut self, share: &mut Budget, line: &Line) -> Option<Line> {
        let (mut fits, mut too_long) = (LEAST_CHARACTERS, line.text.chars().count());
        let cut = |length: usize| Line { text: shorten(&line.text, length), ..line.clone() };
        let mut longest = None;
        while fits <= too_long {
            let middle = fits.midpoint(too_long);
            let candidate = cut(middle);
            if self.clone().entry(&mut share.clone(), &candidate, true) {
                longest = Some(candidate);
                fits = middle + 1;
            } else {
                too_long = middle - 1;
            }
        }
        longest.filter(|line| self.entry(share, line, true))
    }

    /// A line that counts for the page and for a share of it.
    fn both(&mut self, share: &mut Budget, line: &str) -> bool {
        share.take(line) && self.line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens;

    fn lines(count: usize) -> Vec<Line> {
        (0..count).map(|number| Line::new(format!("line number {number} of them"))).collect()
    }

    #[test]
    fn a_layer_gives_whole_lines_and_hands_down_what_it_does_not_use() {
        let mut page = Page::new(500);
        let written = page.layer("## Some", lines(3), 300);
        assert_eq!(written.lines.len(), 3);
        assert!(written.left > 200, "{written:?}");
        let written = page.layer("## More", lines(300), 100);
        assert!((1..300).contains(&written.lines.len()));
        assert!(
            page.text()
                .lines()
                .all(|line| line.is_empty() || line.ends_with("them") || line.starts_with('#'))
        );
        assert!(tokens::ceiling(page.text()) <= 500);
    }

    #[test]
    fn a_heading_without_lines_is_not_written() {
        let mut page = Page::new(500);
        let written = page.layer("## Some", lines(3), 6);
        assert_eq!((written.lines.len(), written.left, page.text()), (0, 6, ""));
    }

    #[test]
    fn only_a_first_line_is_cut() {
        let mut page = Page::new(60);
        let long = Line::new("a line with very many words that goes on ".repeat(20));
        let written = page.layer("## Some", [long.clone(), long], 60);
        assert_eq!(written.lines.len(), 1);
        assert!(page.text().trim_end().ends_with('…'), "{}", page.text());
        assert!(tokens::ceiling(page.text()) <= 60);
    }

    #[test]
    fn a_group_is_written_with_its_first_line_or_not_at_all() {
        let grouped = |text: &str| Line { group: Some("src/a.rs".into()), ..Line::new(text.into()) };
        let mut page = Page::new(200);
        page.layer("## Code", [grouped("one"), grouped("two")], 200);
        assert_eq!(page.text(), "\n## Code\n- src/a.rs\n  - one\n  - two\n");
    }
}
