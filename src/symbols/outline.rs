//! Builds the list of symbols from a syntax tree.

use std::ops::Range;

use tree_sitter::Node;
use xxhash_rust::xxh3::xxh3_64;

use super::grammars::{Item, Meaning, NodeScope, declaration_start, is_attribute, meaning};
use super::{Language, Symbol, SymbolKind};

/// Maximum length of a signature, which is one line of a list.
const MAX_SIGNATURE_CHARS: usize = 160;
/// Maximum recursion depth. Real classes do not nest this deep, but arbitrary text may.
const MAX_DEPTH: usize = 64;

/// A symbol and its part of the file.
struct FoundSymbol {
    symbol: Symbol,
    bytes: Range<usize>,
    /// True for a declaration whose definition may be elsewhere.
    is_prototype: bool,
}

/// Returns all symbols below `root`, in file order.
pub(super) fn outline(language: Language, root: Node<'_>, source: &str) -> Vec<Symbol> {
    let mut outline =
        Outline { language, source, found: Vec::new(), comments: Vec::new(), scratch: Vec::new() };
    outline.visit_children(root, &NodeScope::default(), None, 0);
    let mut found = outline.found;
    drop_answered_prototypes(&mut found);
    found.into_iter().map(|found| found.symbol).collect()
}

/// Drops prototypes whose definition is in the list.
fn drop_answered_prototypes(found: &mut Vec<FoundSymbol>) {
    if !found.iter().any(|one| one.is_prototype) {
        return;
    }
    let defined = found.iter().filter(|one| !one.is_prototype);
    let defined: std::collections::HashSet<_> =
        defined.map(|one| one.symbol.qualified_name.clone()).collect();
    found.retain(|one| !(one.is_prototype && defined.contains(&one.symbol.qualified_name)));
}

struct Outline<'source> {
    language: Language,
    source: &'source str,
    found: Vec<FoundSymbol>,
    /// The comments between symbols.
    comments: Vec<Range<usize>>,
    /// The text to hash; reused to save allocations.
    scratch: Vec<u8>,
}

/// The node whose extent a symbol takes over, and the start of the attributes in front of it.
#[derive(Clone, Copy)]
struct EnclosingNode<'tree> {
    outermost: Node<'tree>,
    attribute: Option<Node<'tree>>,
}

impl<'tree> EnclosingNode<'tree> {
    fn first(self) -> Node<'tree> {
        self.attribute.unwrap_or(self.outermost)
    }

    fn bytes(self) -> Range<usize> {
        self.first().start_byte()..self.outermost.end_byte()
    }

    fn lines(self) -> (u32, u32) {
        let (start, end) = (self.first().start_position(), self.outermost.end_position());
        // A node that includes its newline ends before the first column of the next line.
        let end_row = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
        let line = |row: usize| u32::try_from(row + 1).unwrap_or(u32::MAX);
        (line(start.row), line(end_row))
    }
}

impl Outline<'_> {
    fn visit_children(
        &mut self,
        parent: Node<'_>,
        scope: &NodeScope,
        frame: Option<EnclosingNode<'_>>,
        depth: usize,
    ) {
        if depth > MAX_DEPTH {
            return;
        }
        let mut cursor = parent.walk();
        let mut attribute = None;
        for child in parent.named_children(&mut cursor) {
            if is_attribute(child) {
                attribute = attribute.or(Some(child));
            } else if child.is_extra() {
                self.comments.push(child.byte_range());
            } else {
                let own = EnclosingNode { outermost: child, attribute: attribute.take() };
                self.visit(child, scope, frame.unwrap_or(own), depth);
            }
        }
    }

    fn visit(&mut self, node: Node<'_>, scope: &NodeScope, frame: EnclosingNode<'_>, depth: usize) {
        match meaning(self.language, node, self.source, scope) {
            Meaning::Nothing => {}
            Meaning::Through(body) => self.visit_children(body, scope, None, depth + 1),
            Meaning::Wrapper => self.visit_children(node, scope, Some(frame), depth + 1),
            Meaning::Scope(inner, body) => {
                let path = joined(scope, inner.joint, &inner.path);
                self.visit_children(body, &NodeScope { path, ..inner }, None, depth + 1);
            }
            Meaning::Symbol(item) => self.symbol(item, scope, frame, depth),
        }
    }

    fn symbol(&mut self, item: Item<'_>, scope: &NodeScope, frame: EnclosingNode<'_>, depth: usize) {
        // An alias in a type is a part of the type.
        if item.name.is_empty() || (scope.is_type && item.kind == SymbolKind::Type) {
            return;
        }
        let kind = match item.kind {
            SymbolKind::Function if scope.is_type => SymbolKind::Method,
            kind => kind,
        };
        let qualified_name = joined(scope, item.joint, &item.name);
        let name_at = qualified_name.len() - own_name(&item.name).len();
        let signature = signature(self.source, declaration_start(frame.outermost)..item.header_end);
        let (line_start, line_end) = frame.lines();
        let symbol = Symbol { qualified_name, name_at, kind, signature, line_start, line_end, body_hash: 0 };
        let index = self.found.len();
        let first_comment = self.comments.len();
        self.found.push(FoundSymbol { symbol, bytes: frame.bytes(), is_prototype: item.is_prototype });
        if let Some(members) = item.members {
            let path = self.found[index].symbol.qualified_name.clone();
            self.visit_children(
                members,
                &NodeScope { path, is_type: true, ..NodeScope::default() },
                None,
                depth + 1,
            );
        }
        self.found[index].symbol.body_hash = self.hash(index, first_comment);
    }

    /// Returns the hash of a symbol's text without its members and the comments among them, so that
    /// an edit in a method does not change its class; and without its own name and the name of the
    /// type around it, so that a rename alone changes nothing.
    fn hash(&mut self, index: usize, first_comment: usize) -> u64 {
        let Some((own, members)) = self.found[index..].split_first() else { return 0 };
        let members = members.iter().map(|member| member.bytes.clone());
        let mut left_out: Vec<_> = members.chain(self.comments[first_comment..].iter().cloned()).collect();
        left_out.sort_by_key(|bytes| bytes.start);
        self.scratch.clear();
        let mut canonical = Canonical {
            text: &mut self.scratch,
            names: [own.symbol.name(), type_in(own.symbol.scope())]
                .map(|name| identifier_at_end(name).as_bytes()),
            commas_end_lists: self.language != Language::Python,
            word_start: None,
            gap: false,
        };
        let mut at = own.bytes.start;
        for bytes in left_out {
            // A nested omission starts before the end of its owner.
            if bytes.start >= at {
                canonical.push(self.source.as_bytes().get(at..bytes.start).unwrap_or_default());
                at = bytes.end;
            }
        }
        canonical.push(self.source.as_bytes().get(at..own.bytes.end).unwrap_or_default());
        canonical.end_word();
        xxh3_64(&self.scratch)
    }
}

/// Joins `Scope`, separator and name, or returns the name alone outside of any scope. A scope may
/// have no name of its own.
fn joined(scope: &NodeScope, joint: &str, name: &str) -> String {
    match (scope.path.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => scope.path.clone(),
        _ => format!("{}{joint}{name}", scope.path),
    }
}

/// Returns the last part of a qualified name: `method` of `Type::method`.
fn own_name(name: &str) -> &str {
    if name.starts_with(['[', '<']) || name.starts_with("operator") {
        return name;
    }
    let after = |joint: &str| name.rfind(joint).map_or(0, |at| at + joint.len());
    let start = after("::").max(after("."));
    // `Vector::operator[]`, where the symbol is part of the name.
    match name.find("operator") {
        Some(at) if at > 0 => &name[at..],
        _ if start < name.len() => &name[start..],
        _ => name,
    }
}

/// Returns the type of a scope: `Type` of `<Type as Trait>`.
fn type_in(scope: &str) -> &str {
    let of_trait = scope.rsplit_once('<').and_then(|(_, inside)| inside.split_once(" as "));
    of_trait.map_or(scope, |(of, _)| of)
}

fn identifier_at_end(name: &str) -> &str {
    let start = name
        .rfind(|character: char| !is_word(character))
        .map(|at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    &name[start.unwrap_or(0)..]
}

pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Text in which whitespace counts only between two words, a trailing comma in a list is ignored,
/// and some names are replaced by a placeholder.
struct Canonical<'scratch, 'name> {
    text: &'scratch mut Vec<u8>,
    names: [&'name [u8]; 2],
    /// False in Python, where a trailing comma makes a tuple.
    commas_end_lists: bool,
    word_start: Option<usize>,
    gap: bool,
}

impl Canonical<'_, '_> {
    fn push(&mut self, piece: &[u8]) {
        for &byte in piece {
            if byte.is_ascii_whitespace() {
                self.end_word();
                self.gap = true;
                continue;
            }
            if is_word_byte(byte) {
                self.begin_word();
            } else {
                self.end_word();
                if self.commas_end_lists
                    && matches!(byte, b')' | b']' | b'}')
                    && self.text.last() == Some(&b',')
                {
                    self.text.pop();
                }
            }
            self.gap = false;
            self.text.push(byte);
        }
    }

    fn begin_word(&mut self) {
        if self.word_start.is_none() {
            let follows_word = self.text.last().is_some_and(|last| is_word_byte(*last) || *last < 2);
            if self.gap && follows_word {
                self.text.push(b' ');
            }
            self.word_start = Some(self.text.len());
        }
    }

    fn end_word(&mut self) {
        let Some(start) = self.word_start.take() else { return };
        let known = self.names.iter().position(|name| self.text[start..] == **name);
        if let Some(which) = known {
            self.text.truncate(start);
            self.text.push(if which == 0 { 0 } else { 1 });
        }
    }
}

/// Builds a one-line signature: whitespace folded, the start of the body cut off, bounded.
fn signature(source: &str, header: Range<usize>) -> String {
    let written = source.get(header.start..header.end.max(header.start)).unwrap_or_default();
    let mut line = String::with_capacity(written.len().min(4 * MAX_SIGNATURE_CHARS));
    for word in written.split_whitespace() {
        if !line.is_empty() && !line.ends_with('(') && !word.starts_with([')', ',', ';']) {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * MAX_SIGNATURE_CHARS {
            break;
        }
    }
    let kept = without_opening(&line);
    match kept.char_indices().nth(MAX_SIGNATURE_CHARS - 1) {
        Some((at, last)) if at + last.len_utf8() < kept.len() => format!("{}…", &kept[..at]),
        _ => kept.to_owned(),
    }
}

/// Returns the declaration without the tokens that open the body.
fn without_opening(line: &str) -> &str {
    let mut kept = line;
    while let Some(shorter) = ["{", "=>", ":", "=", ";", ","].iter().find_map(|end| kept.strip_suffix(end)) {
        kept = shorter.trim_end();
    }
    kept
}
