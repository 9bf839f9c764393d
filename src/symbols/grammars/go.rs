//! Go: `Type.Method`, for pointer and value receivers alike.

use tree_sitter::Node;

use super::{Item, Meaning, field_text, named, text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match node.kind() {
        "function_declaration" => named(SymbolKind::Function, node, source, "."),
        "method_declaration" => method(node, source),
        "type_declaration" if node.named_child_count() == 1 => Meaning::Wrapper,
        "type_declaration" => Meaning::Through(node),
        "type_spec" | "type_alias" => type_spec(node, source),
        _ => Meaning::Nothing,
    }
}

fn method<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let receiver = node.child_by_field_name("receiver").and_then(|list| list.named_child(0));
    let target = receiver.and_then(|receiver| receiver.child_by_field_name("type"));
    match (named(SymbolKind::Method, node, source, "."), target) {
        (Meaning::Symbol(item), Some(target)) => {
            let name = format!("{}.{}", base_type(target, source), item.name);
            Meaning::Symbol(Item { name, ..item })
        }
        (meaning, _) => meaning,
    }
}

/// `Queue` of `*Queue[T]`.
fn base_type<'source>(node: Node<'_>, source: &'source str) -> &'source str {
    let written = text(node, source).trim_start_matches(['*', '(', ' ']);
    written.split(['[', ')']).next().unwrap_or(written).trim()
}

fn type_spec<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let (Some(name), Some(definition)) = (field_text(node, "name", source), node.child_by_field_name("type"))
    else {
        return Meaning::Nothing;
    };
    let kind = match definition.kind() {
        "struct_type" => SymbolKind::Struct,
        "interface_type" => SymbolKind::Interface,
        _ => SymbolKind::Type,
    };
    let header_end = match kind {
        SymbolKind::Type => node.end_byte(),
        _ => opening_brace(definition).unwrap_or(node.end_byte()),
    };
    Meaning::Symbol(Item { kind, name, joint: ".", header_end, members: None, is_prototype: false })
}

fn opening_brace(definition: Node<'_>) -> Option<usize> {
    let mut cursor = definition.walk();
    let mut children = definition.children(&mut cursor);
    children
        .find(|child| matches!(child.kind(), "{" | "field_declaration_list"))
        .map(|brace| brace.start_byte())
}
