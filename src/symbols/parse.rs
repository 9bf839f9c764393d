//! Parses text into a syntax tree, and decides whether the tree is reliable.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, ParseState, Parser, Point, Tree};

use super::{Language, MAX_SOURCE_BYTES};

/// Maximum parse time. No regular file takes this long, but text in another format than its name
/// suggests might. Tests may run on a loaded machine.
const MAX_TIME: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 500 });
/// One byte in this many may be skipped.
const TOLERATED_SHARE: usize = 20;

/// Parses a text; `None` if it is too large or takes too long.
pub(super) fn parse(language: Language, source: &str) -> Option<Tree> {
    if source.len() > MAX_SOURCE_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let bytes = source.as_bytes();
    let mut read = |offset: usize, _: Point| bytes.get(offset..).unwrap_or_default();
    let deadline = Instant::now() + MAX_TIME;
    let mut in_time = |_: &ParseState| {
        if Instant::now() < deadline { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    parser.parse_with_options(&mut read, None, Some(ParseOptions::new().progress_callback(&mut in_time)))
}

/// True if the outline of the file is reliable despite parse errors.
///
/// Errors inside functions leave the outline intact. Errors between them mostly mean a missing
/// bracket, and everything behind it is misplaced; except in C and C++, where macros look like
/// that.
pub(super) fn is_sound(language: Language, tree: &Tree) -> bool {
    let root = tree.root_node();
    if !root.has_error() {
        return true;
    }
    let has_macros = matches!(language, Language::C | Language::Cpp);
    let mut skipped = 0;
    // Depth in the tree at which the current function begins.
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

/// Nodes that hold the statements of a function.
const BODIES: [&str; 5] =
    ["block", "statement_block", "compound_statement", "constructor_body", "body_statement"];
