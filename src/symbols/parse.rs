//! From text to a syntax tree, and whether the tree can be believed.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{InputEdit, ParseOptions, ParseState, Parser, Point, Tree};

use super::window::Edit;
use super::{Language, MAX_SOURCE_BYTES};

/// No honest file takes this long; text that is not what its name says might.
/// A test may run on a machine that has no time for it.
const MAX_TIME: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 500 });
/// One byte in so many may be left out.
const TOLERATED_SHARE: usize = 20;

/// The tree of the text, or of those parts of it alone; nothing if the text is too large or takes too long. The old tree
/// is of the text before an edit that was [noted](note_edit) in it.
///
/// The parser is made anew each time: that takes microseconds, and what it grew to goes back with it.
pub(super) fn parse(
    language: Language,
    source: &str,
    parts: &[Range<usize>],
    old_tree: Option<&Tree>,
) -> Option<Tree> {
    if source.len() > MAX_SOURCE_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    parser.set_included_ranges(&ranges(source, parts)).ok()?;
    let bytes = source.as_bytes();
    let mut read = |offset: usize, _: Point| bytes.get(offset..).unwrap_or_default();
    let deadline = Instant::now() + MAX_TIME;
    let mut in_time = |_: &ParseState| {
        if Instant::now() < deadline { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    parser.parse_with_options(&mut read, old_tree, Some(ParseOptions::new().progress_callback(&mut in_time)))
}

/// Tells a tree what changed in its text, so that the rest of it can be used again.
pub(super) fn note_edit(tree: &mut Tree, before: &str, after: &str, edit: Edit) {
    let (mut old, mut new) = (Points::of(before), Points::of(after));
    tree.edit(&InputEdit {
        start_byte: edit.start,
        old_end_byte: edit.old_end,
        new_end_byte: edit.new_end,
        start_position: old.at(edit.start),
        old_end_position: old.at(edit.old_end),
        new_end_position: new.at(edit.new_end),
    });
}

fn ranges(source: &str, parts: &[Range<usize>]) -> Vec<tree_sitter::Range> {
    let mut points = Points::of(source);
    let range = |part: &Range<usize>| tree_sitter::Range {
        start_byte: part.start,
        end_byte: part.end,
        start_point: points.at(part.start),
        end_point: points.at(part.end),
    };
    parts.iter().map(range).collect()
}

/// Rows and columns of offsets that are asked for in rising order.
struct Points<'text> {
    text: &'text [u8],
    row: usize,
    seen: usize,
}

impl<'text> Points<'text> {
    fn of(text: &'text str) -> Self {
        Self { text: text.as_bytes(), row: 0, seen: 0 }
    }

    fn at(&mut self, offset: usize) -> Point {
        let upto = &self.text[..offset.min(self.text.len())];
        self.row += memchr::memchr_iter(b'\n', upto.get(self.seen..).unwrap_or_default()).count();
        self.seen = upto.len();
        let line_start = memchr::memrchr(b'\n', upto).map_or(0, |newline| newline + 1);
        Point { row: self.row, column: upto.len() - line_start }
    }
}

/// Whether the outline of the file can be believed, whatever the parser did not understand.
///
/// Errors inside functions leave the outline whole. Errors between them mostly mean that a bracket is missing, and
/// everything behind it is in the wrong place; except in C and C++, where macros look like that.
pub(super) fn is_sound(language: Language, tree: &Tree) -> bool {
    let root = tree.root_node();
    if !root.has_error() {
        return true;
    }
    let has_macros = matches!(language, Language::C | Language::Cpp);
    let mut skipped = 0;
    // How deep in the tree the function begins that the cursor is in.
    let mut function: Option<u32> = None;
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if function.is_some_and(|depth| cursor.depth() <= depth) {
            function = None;
        }
        if node.is_error() || node.is_missing() {
            skipped += node.end_byte() - node.start_byte();
            let is_bracket = matches!(node.kind(), "{" | "}" | "(" | ")" | "end");
            if (node.is_missing() && is_bracket) || !(has_macros || function.is_some()) {
                return false;
            }
        } else if function.is_none() && BODIES.contains(&node.kind()) {
            function = Some(cursor.depth());
        }
        let inside = node.has_error() && !node.is_error() && cursor.goto_first_child();
        if !inside {
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return skipped * TOLERATED_SHARE <= root.end_byte() - root.start_byte();
                }
            }
        }
    }
}

/// What holds the statements of a function.
const BODIES: [&str; 5] =
    ["block", "statement_block", "compound_statement", "constructor_body", "body_statement"];
