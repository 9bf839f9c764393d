//! Java: `Outer.Inner.method`. The package is omitted because the file path implies it.

use tree_sitter::Node;

use super::{Meaning, named};
use crate::symbols::SymbolKind;

pub(super) fn meaning<'tree>(node: Node<'tree>, source: &str) -> Meaning<'tree> {
    let kind = match node.kind() {
        "class_declaration" | "record_declaration" => SymbolKind::Class,
        "interface_declaration" | "annotation_type_declaration" => SymbolKind::Interface,
        "enum_declaration" => SymbolKind::Enum,
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => {
            SymbolKind::Method
        }
        "enum_body_declarations" => return Meaning::Through(node),
        _ => return Meaning::Nothing,
    };
    named(kind, node, source, ".")
}
