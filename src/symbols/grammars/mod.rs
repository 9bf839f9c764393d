//! What the nodes of each language's syntax tree mean for an outline.
//!
//! One file a language, or a family of them: a function from a node to its [`Meaning`]. They know nothing of hashes,
//! signatures or changes.

mod c;
mod csharp;
mod go;
mod java;
mod python;
mod ruby;
mod rust;
mod script;

use tree_sitter::Node;

use super::{Language, SymbolKind};

/// What a node is to an outline.
pub(super) enum Meaning<'tree> {
    /// No symbol, and none in it that counts: what is declared inside a function is the function's own affair.
    Nothing,
    /// Transparent: its children count as if they stood in its place.
    Through(Node<'tree>),
    /// Transparent, and a symbol among its children begins and ends where it does: `export`, `template <…>`.
    Wrapper,
    /// Not a symbol, but what is in it is named after it.
    Scope(Scope, Node<'tree>),
    /// A symbol.
    Symbol(Item<'tree>),
}

/// A symbol as its language sees it.
pub(super) struct Item<'tree> {
    /// A function in a type becomes a method by that alone.
    pub kind: SymbolKind,
    /// Its own name; with the type in front where the language has it there (`Type::method` outside the class).
    pub name: String,
    /// What stands between the name of the scope and its own.
    pub joint: &'static str,
    /// Where its signature ends, as an offset.
    pub header_end: usize,
    /// What holds the members, if it has any.
    pub members: Option<Node<'tree>>,
    /// Whether this only announces what is defined elsewhere.
    pub is_prototype: bool,
}

/// Where a node stands.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The names around it, joined.
    pub path: String,
    /// What joins this scope's name to the one around it.
    pub joint: &'static str,
    /// A type: its functions are methods.
    pub is_type: bool,
    /// Its methods belong to the class and not to its instances (Ruby).
    pub is_singleton: bool,
}

/// What `node` means in that language.
pub(super) fn meaning<'tree>(
    language: Language,
    node: Node<'tree>,
    source: &str,
    scope: &Scope,
) -> Meaning<'tree> {
    match language {
        Language::Rust => rust::meaning(node, source),
        Language::Python => python::meaning(node, source),
        Language::TypeScript | Language::Tsx | Language::JavaScript => script::meaning(node, source),
        Language::Go => go::meaning(node, source),
        Language::Java => java::meaning(node, source),
        Language::C | Language::Cpp => c::meaning(node, source, scope),
        Language::Ruby => ruby::meaning(node, source, scope),
        Language::CSharp => csharp::meaning(node, source),
    }
}

/// Whether the node belongs to the one after it: an attribute or a decorator that is its sibling.
pub(super) fn is_attribute(node: Node<'_>) -> bool {
    matches!(node.kind(), "attribute_item" | "decorator" | "attribute_declaration")
}

/// Where what a reader would call the declaration begins: behind attributes, annotations and decorators.
pub(super) fn declaration_start(node: Node<'_>) -> usize {
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        match child.kind() {
            "decorator" | "attribute_list" | "annotation" | "marker_annotation" => {}
            "modifiers" => {
                let start = declaration_start(child);
                if start < child.end_byte() {
                    return start;
                }
            }
            _ => return child.start_byte(),
        }
    }
    if node.child_count() == 0 { node.start_byte() } else { node.end_byte() }
}

fn text<'source>(node: Node<'_>, source: &'source str) -> &'source str {
    source.get(node.byte_range()).unwrap_or_default()
}

fn field_text(node: Node<'_>, field: &str, source: &str) -> Option<String> {
    node.child_by_field_name(field).map(|name| text(name, source).to_owned())
}

/// A symbol in a language where a name is a field called `name` and a body is a field called `body`.
fn named<'tree>(kind: SymbolKind, node: Node<'tree>, source: &str, joint: &'static str) -> Meaning<'tree> {
    let Some(name) = field_text(node, "name", source) else { return Meaning::Nothing };
    let body = node.child_by_field_name("body");
    Meaning::Symbol(Item {
        kind,
        name,
        joint,
        header_end: body.map_or(node.end_byte(), |body| body.start_byte()),
        members: body.filter(|_| kind.has_members()),
        is_prototype: false,
    })
}
