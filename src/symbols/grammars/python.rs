//! Python: `Class.method`, `Outer.Inner`.

use tree_sitter::Node;

use super::{Meaning, named};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    match node.kind() {
        "function_definition" => named(SymbolKind::Function, node, source, "."),
        "class_definition" => named(SymbolKind::Class, node, source, "."),
        "decorated_definition" => Meaning::Wrapper,
        // Definitions may depend on a condition: a version, an import that failed.
        "if_statement" | "elif_clause" | "else_clause" | "try_statement" | "except_clause"
        | "finally_clause" | "with_statement" | "block" => Meaning::Through(node),
        _ => Meaning::Nothing,
    }
}
