//! JavaScript and TypeScript: `Class.method`, `object.method`, `Namespace.function`.
//!
//! A function that is assigned to a name in its definition (`const f = () => …`, `exports.f = …`, a
//! field) is a symbol, because that is a common style here.

use tree_sitter::Node;

use super::{Item, Meaning, NodeScope, named, text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match node.kind() {
        "function_declaration" | "generator_function_declaration" | "function_signature" => {
            named(SymbolKind::Function, node, source, ".")
        }
        "class_declaration" | "abstract_class_declaration" => named(SymbolKind::Class, node, source, "."),
        "interface_declaration" => with_plain_members(SymbolKind::Interface, node, source),
        "enum_declaration" => with_plain_members(SymbolKind::Enum, node, source),
        "type_alias_declaration" => named(SymbolKind::Type, node, source, "."),
        "method_definition" | "abstract_method_signature" | "method_signature" => method(node, source),
        "public_field_definition" | "field_definition" => {
            let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("property"));
            bound(name, node.child_by_field_name("value"), source)
        }
        "variable_declarator" => variable(node, source),
        "pair" => bound(node.child_by_field_name("key"), node.child_by_field_name("value"), source),
        "assignment_expression" => {
            bound(node.child_by_field_name("left"), node.child_by_field_name("right"), source)
        }
        "internal_module" | "module" => namespace(node, source),
        "export_statement" => export(node),
        "lexical_declaration" | "variable_declaration" if node.named_child_count() > 1 => {
            Meaning::Through(node)
        }
        "lexical_declaration" | "variable_declaration" | "expression_statement" | "ambient_declaration" => {
            Meaning::Wrapper
        }
        _ => Meaning::Nothing,
    }
}

/// Handles `export` of a named item, or of an anonymous function, class or object as the default.
fn export<'tree>(node: Node<'tree>) -> Meaning<'tree> {
    let Some(value) = node.child_by_field_name("value") else { return Meaning::Wrapper };
    match value_meaning("default".to_owned(), value) {
        Meaning::Nothing => Meaning::Wrapper,
        meaning => meaning,
    }
}

fn namespace<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match (node.child_by_field_name("name"), node.child_by_field_name("body")) {
        (Some(name), Some(body)) => {
            let path = unquoted(text(name, source)).to_owned();
            Meaning::Scope(NodeScope { path, joint: ".", ..NodeScope::default() }, body)
        }
        _ => Meaning::Nothing,
    }
}

/// Handles interfaces and enums, whose members are not symbols of their own.
fn with_plain_members<'tree>(kind: SymbolKind, node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match named(kind, node, source, ".") {
        Meaning::Symbol(item) => Meaning::Symbol(Item { members: None, ..item }),
        other => other,
    }
}

fn method<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match named(SymbolKind::Method, node, source, ".") {
        Meaning::Symbol(item) => Meaning::Symbol(Item { name: unquoted(&item.name).to_owned(), ..item }),
        other => other,
    }
}

/// Handles a variable with a function or an object; or a component in a wrapper of its framework:
/// `const Row = memo(function …)`.
fn variable<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let (Some(name), Some(value)) = (node.child_by_field_name("name"), node.child_by_field_name("value"))
    else {
        return Meaning::Nothing;
    };
    if name.kind() != "identifier" {
        return Meaning::Nothing;
    }
    let written = text(name, source);
    let is_component = written.starts_with(|first: char| first.is_ascii_uppercase());
    let wrapped = if value.kind() == "call_expression" && is_component {
        value.child_by_field_name("arguments").and_then(|arguments| arguments.named_child(0))
    } else {
        None
    };
    match wrapped.filter(|argument| is_function(*argument)) {
        Some(function) => value_meaning(written.to_owned(), function),
        None => value_meaning(written.to_owned(), value),
    }
}

/// Handles a value that is assigned to a name.
fn bound<'tree>(name: Option<Node<'tree>>, value: Option<Node<'tree>>, source: &str) -> Meaning<'tree> {
    let (Some(name), Some(value)) = (name, value) else { return Meaning::Nothing };
    value_meaning(public_name(text(name, source)), value)
}

/// `slug` of `module.exports.slug`, `Legacy.greet` of `Legacy.prototype.greet`.
fn public_name(written: &str) -> String {
    let exported = written.strip_prefix("module.").unwrap_or(written);
    let exported = exported.strip_prefix("exports.").unwrap_or(exported);
    unquoted(exported).replace(".prototype.", ".")
}

fn value_meaning<'tree>(name: String, value: Node<'tree>) -> Meaning<'tree> {
    let value = unwrapped(value);
    let body = value.child_by_field_name("body");
    let header_end = body.map_or(value.end_byte(), |body| body.start_byte());
    let (kind, members) = match value.kind() {
        _ if is_function(value) && name.contains('.') => (SymbolKind::Method, None),
        _ if is_function(value) => (SymbolKind::Function, None),
        "class" => (SymbolKind::Class, body),
        "object" if name == "exports" => return Meaning::Through(value),
        "object" => {
            let scope = NodeScope { path: name, joint: ".", is_type: true, ..NodeScope::default() };
            return Meaning::Scope(scope, value);
        }
        _ => return Meaning::Nothing,
    };
    Meaning::Symbol(Item { kind, name, joint: ".", header_end, members, is_prototype: false })
}

/// Returns the value without parentheses and type assertions.
fn unwrapped(mut value: Node<'_>) -> Node<'_> {
    while matches!(value.kind(), "parenthesized_expression" | "as_expression" | "satisfies_expression") {
        match value.named_child(0) {
            Some(inner) => value = inner,
            None => break,
        }
    }
    value
}

fn is_function(node: Node<'_>) -> bool {
    matches!(node.kind(), "arrow_function" | "function_expression" | "generator_function")
}

fn unquoted(name: &str) -> &str {
    name.trim_matches(['"', '\'', '`'])
}
