//! C and C++: `namespace::Class::method`, inside the class or outside of it.

use tree_sitter::Node;

use super::{Item, Meaning, NodeScope, field_text, named, text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str, scope: &NodeScope) -> Meaning<'tree> {
    match node.kind() {
        "function_definition" => function(node, source, scope),
        "declaration" | "field_declaration" => declaration(node, source, scope),
        "type_definition" => type_definition(node, source),
        "struct_specifier" => specifier(SymbolKind::Struct, node, source),
        "class_specifier" => specifier(SymbolKind::Class, node, source),
        "union_specifier" => specifier(SymbolKind::Union, node, source),
        "enum_specifier" => specifier(SymbolKind::Enum, node, source),
        "alias_declaration" | "concept_definition" => named(SymbolKind::Type, node, source, "::"),
        "preproc_function_def" => macro_function(node, source),
        "namespace_definition" => namespace(node, source),
        "template_declaration" => Meaning::Wrapper,
        "linkage_specification" => match node.child_by_field_name("body") {
            Some(body) if body.kind() == "declaration_list" => Meaning::Through(body),
            _ => Meaning::Wrapper,
        },
        "preproc_if" | "preproc_ifdef" | "preproc_else" | "preproc_elif" | "preproc_elifdef" => {
            Meaning::Through(node)
        }
        _ => Meaning::Nothing,
    }
}

fn namespace<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match (field_text(node, "name", source), node.child_by_field_name("body")) {
        (Some(path), Some(body)) => {
            Meaning::Scope(NodeScope { path, joint: "::", ..NodeScope::default() }, body)
        }
        (None, Some(body)) => Meaning::Through(body),
        _ => Meaning::Nothing,
    }
}

fn function<'tree>(node: Node<'tree>, source: &str, scope: &NodeScope) -> Meaning<'tree> {
    let body = node.child_by_field_name("body");
    let header_end = body.map_or(node.end_byte(), |body| body.start_byte());
    match node.child_by_field_name("declarator").and_then(function_name) {
        Some(name) => function_symbol(name, source, scope, header_end, false),
        None => Meaning::Nothing,
    }
}

/// Handles a prototype, or a variable or field with an inline type definition.
fn declaration<'tree>(node: Node<'tree>, source: &str, scope: &NodeScope) -> Meaning<'tree> {
    if let Some(name) = node.child_by_field_name("declarator").and_then(function_name) {
        return function_symbol(name, source, scope, node.end_byte(), true);
    }
    let defines = node.child_by_field_name("type").is_some_and(|of| of.child_by_field_name("body").is_some());
    if defines { Meaning::Wrapper } else { Meaning::Nothing }
}

fn function_symbol<'tree>(
    name: Node<'tree>,
    source: &str,
    scope: &NodeScope,
    header_end: usize,
    is_prototype: bool,
) -> Meaning<'tree> {
    let name = without_arguments(text(name, source));
    // Artefacts of a macro with an unbalanced brace.
    if matches!(name.as_str(), "if" | "for" | "while" | "switch" | "return" | "sizeof") {
        return Meaning::Nothing;
    }
    let kind = if name.contains("::") { SymbolKind::Method } else { SymbolKind::Function };
    // In a class a prototype is part of the interface; the definition elsewhere does not replace
    // it.
    let is_prototype = is_prototype && !scope.is_type;
    Meaning::Symbol(Item { kind, name, joint: "::", header_end, members: None, is_prototype })
}

/// Returns the name in a declarator, if it declares a function and not a variable or a function
/// pointer.
fn function_name(declarator: Node<'_>) -> Option<Node<'_>> {
    let mut node = declarator;
    let mut is_function = false;
    loop {
        match node.kind() {
            "identifier"
            | "field_identifier"
            | "qualified_identifier"
            | "destructor_name"
            | "operator_name"
            | "template_function" => return is_function.then_some(node),
            "operator_cast" => return Some(node),
            "function_declarator" => is_function = true,
            "pointer_declarator"
            | "reference_declarator"
            | "parenthesized_declarator"
            | "array_declarator"
            | "attributed_declarator" => is_function = false,
            _ => return None,
        }
        let last = u32::try_from(node.named_child_count()).ok()?.checked_sub(1)?;
        node = match node.child_by_field_name("declarator") {
            Some(inner) => inner,
            None if node.kind() == "attributed_declarator" => node.named_child(0)?,
            None => node.named_child(last)?,
        };
    }
}

/// `Vector::length` of `Vector<T, N>::length`; an operator keeps its sign.
fn without_arguments(name: &str) -> String {
    let (head, operator) = match name.find("operator") {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    // `operator bool` of `operator bool() const`, but all of `operator()`.
    let is_cast = operator.as_bytes().get("operator ".len()).is_some_and(u8::is_ascii_alphabetic);
    let operator = if is_cast { operator.split('(').next().unwrap_or(operator) } else { operator };
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(name.len());
    for character in head.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 && !character.is_whitespace() => plain.push(character),
            _ => {}
        }
    }
    plain + operator
}

fn specifier<'tree>(kind: SymbolKind, node: Node<'tree>, source: &str) -> Meaning<'tree> {
    // Without a body it only refers to a type.
    if node.child_by_field_name("body").is_none() {
        return Meaning::Nothing;
    }
    match named(kind, node, source, "::") {
        Meaning::Symbol(item) => Meaning::Symbol(Item { name: without_arguments(&item.name), ..item }),
        other => other,
    }
}

/// Handles `typedef`: a type with its own name keeps that name, otherwise the new one counts.
fn type_definition<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let Some(definition) = node.child_by_field_name("type") else { return Meaning::Nothing };
    let body = definition.child_by_field_name("body");
    if body.is_some() && definition.child_by_field_name("name").is_some() {
        return Meaning::Wrapper;
    }
    let Some(name) = node.child_by_field_name("declarator").and_then(type_name) else {
        return Meaning::Nothing;
    };
    let kind = match (definition.kind(), body) {
        ("struct_specifier" | "class_specifier", Some(_)) => SymbolKind::Struct,
        ("union_specifier", Some(_)) => SymbolKind::Union,
        ("enum_specifier", Some(_)) => SymbolKind::Enum,
        _ => SymbolKind::Type,
    };
    Meaning::Symbol(Item {
        kind,
        name: text(name, source).to_owned(),
        joint: "::",
        header_end: body.map_or(node.end_byte(), |body| body.start_byte()),
        members: None,
        is_prototype: false,
    })
}

fn type_name(declarator: Node<'_>) -> Option<Node<'_>> {
    let mut node = declarator;
    while !matches!(node.kind(), "type_identifier" | "identifier" | "primitive_type") {
        let last = u32::try_from(node.named_child_count()).ok()?.checked_sub(1)?;
        node = node.child_by_field_name("declarator").or_else(|| node.named_child(last))?;
    }
    Some(node)
}

fn macro_function<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match named(SymbolKind::Macro, node, source, "::") {
        Meaning::Symbol(item) => {
            let value = node.child_by_field_name("value");
            let header_end = value.map_or(item.header_end, |value| value.start_byte());
            Meaning::Symbol(Item { header_end, ..item })
        }
        other => other,
    }
}
