//! Ruby: `Module::Class`, `Class#method`, and `Class.method` for methods of the class itself.

use tree_sitter::Node;

use super::{Item, Meaning, NodeScope, field_text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str, scope: &NodeScope) -> Meaning<'tree> {
    match node.kind() {
        "module" => container(SymbolKind::Module, node, source),
        "class" => container(SymbolKind::Class, node, source),
        "singleton_class" => match node.child_by_field_name("body") {
            Some(body) => {
                Meaning::Scope(NodeScope { is_type: true, is_singleton: true, ..NodeScope::default() }, body)
            }
            None => Meaning::Nothing,
        },
        "method" if scope.is_singleton => method(node, source, "."),
        "method" => method(node, source, "#"),
        "singleton_method" => method(node, source, "."),
        // `private def …` and similar.
        "call" => match node.child_by_field_name("arguments") {
            Some(arguments) if node.child_by_field_name("receiver").is_none() => Meaning::Through(arguments),
            _ => Meaning::Nothing,
        },
        _ => Meaning::Nothing,
    }
}

fn container<'tree>(kind: SymbolKind, node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let end = node.child_by_field_name("superclass").or_else(|| node.child_by_field_name("name"));
    symbol(kind, node, source, "::", end)
}

fn method<'tree>(node: Node<'tree>, source: &str, joint: &'static str) -> Meaning<'tree> {
    let end = node.child_by_field_name("parameters").or_else(|| node.child_by_field_name("name"));
    symbol(SymbolKind::Function, node, source, joint, end)
}

fn symbol<'tree>(
    kind: SymbolKind,
    node: Node<'tree>,
    source: &str,
    joint: &'static str,
    header: Option<Node<'tree>>,
) -> Meaning<'tree> {
    let Some(name) = field_text(node, "name", source) else { return Meaning::Nothing };
    Meaning::Symbol(Item {
        kind,
        name,
        joint,
        header_end: header.map_or(node.end_byte(), |header| header.end_byte()),
        members: node.child_by_field_name("body").filter(|_| kind.has_members()),
        is_prototype: false,
    })
}
