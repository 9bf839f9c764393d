//! C#: `Outer.Inner.Method`. The namespace is omitted because the file path implies it.

use tree_sitter::Node;

use super::{Item, Meaning, field_text, named, text};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let kind = match node.kind() {
        "class_declaration" => SymbolKind::Class,
        "record_declaration" if has_token(node, "struct") => SymbolKind::Struct,
        "record_declaration" => SymbolKind::Class,
        "struct_declaration" => SymbolKind::Struct,
        "interface_declaration" => SymbolKind::Interface,
        "enum_declaration" => SymbolKind::Enum,
        "delegate_declaration" => SymbolKind::Type,
        "method_declaration" | "constructor_declaration" => SymbolKind::Method,
        // Only occurs outside of functions: a program without a class around it.
        "local_function_statement" => SymbolKind::Function,
        "destructor_declaration" => return member(node, source, |name| format!("~{name}")),
        "property_declaration" if is_computed(node) => return member(node, source, |name| name.to_owned()),
        "indexer_declaration" if is_computed(node) => return member(node, source, |_| "this[]".to_owned()),
        "operator_declaration" => {
            let sign = field_text(node, "operator", source).unwrap_or_default();
            return member(node, source, |_| format!("operator {sign}"));
        }
        "conversion_operator_declaration" => {
            let target = field_text(node, "type", source).unwrap_or_default();
            return member(node, source, |_| format!("operator {target}"));
        }
        "namespace_declaration" => {
            return node.child_by_field_name("body").map_or(Meaning::Nothing, Meaning::Through);
        }
        "file_scoped_namespace_declaration"
        | "global_statement"
        | "preproc_if"
        | "preproc_else"
        | "preproc_elif" => {
            return Meaning::Through(node);
        }
        _ => return Meaning::Nothing,
    };
    named(kind, node, source, ".")
}

/// Handles a member without a name, or with a name that is incomplete.
fn member<'tree>(node: Node<'tree>, source: &str, rename: impl Fn(&str) -> String) -> Meaning<'tree> {
    let written = node.child_by_field_name("name").map_or("", |name| text(name, source));
    let body = ["body", "value", "accessors"].into_iter().find_map(|field| node.child_by_field_name(field));
    Meaning::Symbol(Item {
        kind: SymbolKind::Method,
        name: rename(written),
        joint: ".",
        header_end: body.map_or(node.end_byte(), |body| body.start_byte()),
        members: None,
        is_prototype: false,
    })
}

/// True if a property has code, and is not just a field with `get` and `set`.
fn is_computed(node: Node<'_>) -> bool {
    if let Some(value) = node.child_by_field_name("value") {
        return value.kind() == "arrow_expression_clause";
    }
    let Some(accessors) = node.child_by_field_name("accessors") else { return false };
    let mut cursor = accessors.walk();
    accessors.named_children(&mut cursor).any(|accessor| accessor.child_by_field_name("body").is_some())
}

fn has_token(node: Node<'_>, kind: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == kind)
}
