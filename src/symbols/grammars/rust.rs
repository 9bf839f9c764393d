//! Rust: `module::Type::method`, and `<Type as Trait>::method` in the implementation of a trait.

use tree_sitter::Node;

use super::{Meaning, NodeScope, field_text, named, text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let kind = match node.kind() {
        "function_item" | "function_signature_item" => SymbolKind::Function,
        "struct_item" => SymbolKind::Struct,
        "enum_item" => SymbolKind::Enum,
        "union_item" => SymbolKind::Union,
        "trait_item" => SymbolKind::Trait,
        "type_item" => SymbolKind::Type,
        "macro_definition" => return macro_rules(node, source),
        "impl_item" => return implementation(node, source),
        "mod_item" => return module(node, source),
        "foreign_mod_item" => {
            return node.child_by_field_name("body").map_or(Meaning::Nothing, Meaning::Through);
        }
        _ => return Meaning::Nothing,
    };
    named(kind, node, source, "::")
}

fn module<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match (field_text(node, "name", source), node.child_by_field_name("body")) {
        (Some(path), Some(body)) => {
            Meaning::Scope(NodeScope { path, joint: "::", ..NodeScope::default() }, body)
        }
        _ => Meaning::Nothing,
    }
}

fn implementation<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let (Some(target), Some(body)) = (node.child_by_field_name("type"), node.child_by_field_name("body"))
    else {
        return Meaning::Nothing;
    };
    let target = type_name(target, source);
    let path = match node.child_by_field_name("trait") {
        Some(of) => format!("<{target} as {}>", type_name(of, source)),
        None => target.to_owned(),
    };
    Meaning::Scope(NodeScope { path, joint: "::", is_type: true, ..NodeScope::default() }, body)
}

/// Returns the type without its parameters.
fn type_name<'source>(node: Node<'_>, source: &'source str) -> &'source str {
    let inner = if node.kind() == "generic_type" { node.child_by_field_name("type") } else { None };
    text(inner.unwrap_or(node), source)
}

fn macro_rules<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let name = node.child_by_field_name("name");
    match named(SymbolKind::Macro, node, source, "::") {
        Meaning::Symbol(mut item) => {
            item.header_end = name.map_or(item.header_end, |name| name.end_byte());
            Meaning::Symbol(item)
        }
        other => other,
    }
}
