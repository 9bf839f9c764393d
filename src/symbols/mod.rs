//! The functions and types of a file, and the effect of an edit on them.
//!
//! Pure functions from text to lists: no files, no database. A file that does not parse, is too
//! large or is in another language gives no result rather than a wrong one. Declarations inside a
//! function are part of that function.

mod compare;
mod grammars;
mod language;
mod outline;
mod parse;
#[cfg(test)]
mod tests;

pub use crate::model::ChangeKind as Change;
pub use compare::compare;
pub use language::{Language, language_of};

/// Maximum source size. Larger files are generated, and a list of their functions is useless.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// A function, a type, or another item with a name and a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The name with the names around it, in the syntax of the language: `Cache::get`,
    /// `Queue.Push`, `Csv#call`.
    pub qualified_name: String,
    /// Offset of its own name in the qualified name.
    name_at: usize,
    /// The kind.
    pub kind: SymbolKind,
    /// Its declaration without the body, on one line, at most 160 characters.
    pub signature: String,
    /// The first line, including attributes and decorators, from 1.
    pub line_start: u32,
    /// The last line.
    pub line_end: u32,
    /// Hash of the code without whitespace, position, name and members.
    pub body_hash: u64,
}

impl Symbol {
    /// Returns its own name.
    pub fn name(&self) -> &str {
        self.qualified_name.get(self.name_at..).unwrap_or(&self.qualified_name)
    }

    /// Returns the names around it; empty at the top level of the file.
    pub fn scope(&self) -> &str {
        let scope = self.qualified_name.get(..self.name_at).unwrap_or_default();
        ["::", ".", "#"].iter().find_map(|joint| scope.strip_suffix(joint)).unwrap_or(scope)
    }
}

/// The kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum SymbolKind {
    Function,
    Method,
    Class,
    Struct,
    Enum,
    Union,
    Trait,
    Interface,
    Module,
    Type,
    Macro,
}

impl SymbolKind {
    /// Returns the stored name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
            Self::Struct => "struct",
            Self::Enum => "enum",
            Self::Union => "union",
            Self::Trait => "trait",
            Self::Interface => "interface",
            Self::Module => "module",
            Self::Type => "type",
            Self::Macro => "macro",
        }
    }

    fn has_members(self) -> bool {
        !matches!(self, Self::Function | Self::Method | Self::Type | Self::Macro)
    }
}

/// A changed symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolChange {
    /// The current symbol, or the previous one if it was deleted.
    pub symbol: Symbol,
    /// The kind of change.
    pub change: Change,
    /// The previous qualified name, if it was different.
    pub renamed_from: Option<String>,
}

/// Compares a file's symbols before and after an edit. A new file has only new symbols.
///
/// An edit that breaks a sound file is half of a change: the next edit shows all of it.
pub fn changes(language: Language, before: Option<&str>, after: &str) -> Option<Vec<SymbolChange>> {
    let new_tree = parse::parse(language, after).filter(|tree| parse::is_sound(language, tree))?;
    let new = outline::outline(language, new_tree.root_node(), after);
    let Some(before) = before else { return Some(compare(&[], &new)) };
    let old_tree = parse::parse(language, before).filter(|tree| parse::is_sound(language, tree))?;
    if new_tree.root_node().has_error() && !old_tree.root_node().has_error() {
        return None;
    }
    Some(compare(&outline::outline(language, old_tree.root_node(), before), &new))
}
