//! The meaning of each language's syntax nodes for an outline.
//!
//! One file per language or language family: a function from a node to its [`Meaning`]. Independent
//! of hashes, signatures and changes.

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

/// The role of a node in an outline.
pub(super) enum Meaning<'tree> {
    /// Not a symbol, and without relevant symbols in it: declarations inside a function are part of
    /// the function.
    Nothing,
    /// Transparent: its children count as if they were in its place.
    Through(Node<'tree>),
    /// Transparent, and a symbol among its children takes over its extent: `export`, `template
    /// <…>`.
    Wrapper,
    /// Not a symbol, but a scope for the names in it.
    Scope(NodeScope, Node<'tree>),
    /// A symbol.
    Symbol(Item<'tree>),
}

/// A symbol in the terms of its language.
pub(super) struct Item<'tree> {
    /// Its kind; a function in a type becomes a method.
    pub kind: SymbolKind,
    /// Its own name; with the type in front if the language writes it there (`Type::method` outside
    /// the class).
    pub name: String,
    /// The separator between the scope's name and its own.
    pub joint: &'static str,
    /// Offset of the end of its signature.
    pub header_end: usize,
    /// The node with the members, if it has any.
    pub members: Option<Node<'tree>>,
    /// True if this only declares a symbol that is defined elsewhere.
    pub is_prototype: bool,
}

/// The scope of a node.
#[derive(Clone, Default)]
pub(super) struct NodeScope {
    /// The names around it, joined.
    pub path: String,
    /// The separator between this scope's name and the one around it.
    pub joint: &'static str,
    /// True for a type: its functions are methods.
    pub is_type: bool,
    /// True if its methods belong to the class and not to its instances (Ruby).
    pub is_singleton: bool,
}

/// Returns the meaning of `node` in that language.
pub(super) fn meaning<'tree>(
    language: Language,
    node: Node<'tree>,
    source: &str,
    scope: &NodeScope,
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

/// True if the node belongs to the one after it: an attribute or a decorator that is its sibling.
pub(super) fn is_attribute(node: Node<'_>) -> bool {
    matches!(node.kind(), "attribute_item" | "decorator" | "attribute_declaration")
}

/// Returns the start of the declaration proper, behind attributes, annotations and decorators.
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

/// Builds a symbol in a language whose grammar has a field `name` and a field `body`.
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
