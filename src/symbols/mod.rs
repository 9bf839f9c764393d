//! Which functions and types a file has, and what an edit did to them.
//!
//! Pure functions from text to lists: no files, no database. A file that does not parse, is too large or is of another
//! language gives nothing rather than something wrong. What is declared inside a function is part of that function.

mod compare;
mod grammars;
mod language;
mod outline;
mod parse;
mod payload;
#[cfg(test)]
mod tests;
mod window;

use std::ops::Range;

pub use crate::model::CodeChange as Change;
pub use compare::compare;
pub use language::{Language, language_of};
use outline::Found;
pub use payload::{FileChange, file_change};
use tree_sitter::Tree;
use window::{Edit, Windows};

/// Larger files are generated, and nobody reads a list of their functions.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// A function, a type, or something else that has a name and a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The name with the names around it, as the language writes them: `Cache::get`, `Queue.Push`, `Csv#call`.
    pub qualified_name: String,
    /// Where its own name begins in that.
    name_at: usize,
    /// What it is.
    pub kind: SymbolKind,
    /// Its declaration without the body, on one line, at most 160 characters.
    pub signature: String,
    /// The first line, attributes and decorators included, from 1.
    pub line_start: u32,
    /// The last line.
    pub line_end: u32,
    /// Changes with the code, but not with blanks, with where it stands, with its name, or with its members.
    pub body_hash: u64,
}

impl Symbol {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.qualified_name.get(self.name_at..).unwrap_or(&self.qualified_name)
    }

    /// The names around it; empty at the top of the file.
    pub fn scope(&self) -> &str {
        let scope = self.qualified_name.get(..self.name_at).unwrap_or_default();
        ["::", ".", "#"].iter().find_map(|joint| scope.strip_suffix(joint)).unwrap_or(scope)
    }
}

/// What a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words say it")]
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
    /// The word for it, as stored.
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

/// A symbol that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolChange {
    /// As it is now, or as it was if it is gone.
    pub symbol: Symbol,
    /// What happened.
    pub change: Change,
    /// Its qualified name before, if that was another one.
    pub renamed_from: Option<String>,
}

/// All symbols of a file, in its order. Nothing if it does not parse or is larger than [`MAX_SOURCE_BYTES`].
pub fn symbols(language: Language, source: &str) -> Option<Vec<Symbol>> {
    let tree = parse::parse(language, source, &[], None)?;
    if !parse::is_sound(language, &tree) {
        return None;
    }
    Some(outlined(language, &tree, source))
}

fn outlined(language: Language, tree: &Tree, source: &str) -> Vec<Symbol> {
    let found = outline::outline(language, tree.root_node(), source);
    found.into_iter().map(|found| found.symbol).collect()
}

/// What happened to a file's symbols: as [`compare()`] of the [`symbols`] of both texts, but in a fraction of the time
/// when a large file changed in one place. A file that was not there before has only new symbols.
pub fn changes(language: Language, before: Option<&str>, after: &str) -> Option<Vec<SymbolChange>> {
    let Some(before) = before else { return Some(compare(&[], &symbols(language, after)?)) };
    if before.len().max(after.len()) > MAX_SOURCE_BYTES {
        return None;
    }
    let edit = Edit::between(before, after);
    changes_in_parts(language, before, after, edit).or_else(|| changes_in_all(language, before, after, edit))
}

fn changes_in_parts(language: Language, before: &str, after: &str, edit: Edit) -> Option<Vec<SymbolChange>> {
    let windows = window::windows(language, before, after, edit)?;
    match changes_in_windows(language, before, after, &windows)? {
        Ok(changes) => Some(changes),
        Err(Cut::Type(start)) => {
            let wider = window::widened(language, before, edit, &windows, start)?;
            changes_in_windows(language, before, after, &wider)?.ok()
        }
        Err(Cut::Elsewhere) => None,
    }
}

/// Why a change that is seen in windows cannot be believed.
enum Cut {
    /// The own text of a type is what its members leave over: with members cut out, too much. Where it begins.
    Type(usize),
    /// It depends on more of the file than that.
    Elsewhere,
}

fn changes_in_windows(
    language: Language,
    before: &str,
    after: &str,
    windows: &Windows,
) -> Option<Result<Vec<SymbolChange>, Cut>> {
    let partly = |source: &str, parts: &[Range<usize>]| {
        let tree =
            parse::parse(language, source, parts, None).filter(|tree| !tree.root_node().has_error())?;
        Some(outline::outline(language, tree.root_node(), source))
    };
    let (old, new) = (partly(before, &windows.before)?, partly(after, &windows.after)?);
    let plain = |found: &[Found]| found.iter().map(|one| one.symbol.clone()).collect::<Vec<_>>();
    let changes = compare(&plain(&old), &plain(&new));
    let change_of = |one: &Found| {
        let name = &one.symbol.qualified_name;
        let is_of = |change: &&SymbolChange| {
            change.symbol.qualified_name == *name || change.renamed_from.as_ref() == Some(name)
        };
        changes.iter().find(is_of)
    };
    let is_cut = |one: &Found, parts: &[Range<usize>]| {
        let lies_in = |part: &Range<usize>| part.start <= one.bytes.start && one.bytes.end <= part.end;
        let has_gaps = || one.bytes.start < windows.start || !parts.iter().any(lies_in);
        one.symbol.kind.has_members() && change_of(one).is_some() && has_gaps()
    };
    // Whether a prototype counts, and whether a type has only another name, depends on what is called so elsewhere.
    let is_in_doubt = |one: &Found, source: &str, parts: &[Range<usize>]| {
        let has_other_name =
            |change: &SymbolChange| change.change != Change::Modified || change.renamed_from.is_some();
        let depends = |change: &SymbolChange| {
            one.is_prototype || (one.symbol.kind.has_members() && has_other_name(change))
        };
        change_of(one).is_some_and(depends) && is_named_outside(one.symbol.name(), source, parts)
    };
    let in_doubt = old.iter().any(|one| is_in_doubt(one, before, &windows.before))
        || new.iter().any(|one| is_in_doubt(one, after, &windows.after));
    if in_doubt {
        return Some(Err(Cut::Elsewhere));
    }
    // The outermost comes first.
    if let Some(cut) = old.iter().find(|one| is_cut(one, &windows.before)) {
        return Some(Err(Cut::Type(cut.bytes.start)));
    }
    if new.iter().any(|one| is_cut(one, &windows.after)) {
        return Some(Err(Cut::Elsewhere));
    }
    Some(Ok(changes))
}

/// Whether the text has that name outside of the parts.
fn is_named_outside(name: &str, source: &str, parts: &[Range<usize>]) -> bool {
    let found = memchr::memmem::find_iter(source.as_bytes(), name);
    let is_outside = |at: &usize| !parts.iter().any(|part| part.contains(at));
    let is_part_of_word = |at: &usize| {
        let (head, tail) = (&source[..*at], &source[*at + name.len()..]);
        head.ends_with(outline::is_word) || tail.starts_with(outline::is_word)
    };
    found.into_iter().any(|at| is_outside(&at) && !is_part_of_word(&at))
}

fn changes_in_all(language: Language, before: &str, after: &str, edit: Edit) -> Option<Vec<SymbolChange>> {
    let is_sound = |tree: &Tree| parse::is_sound(language, tree);
    // The text after comes first: if the edit broke it, the text before need not be read.
    let mut new_tree = parse::parse(language, after, &[], None).filter(is_sound)?;
    let new = outlined(language, &new_tree, after);
    parse::note_edit(&mut new_tree, after, before, edit.reversed());
    let old_tree = parse::parse(language, before, &[], Some(&new_tree)).filter(is_sound)?;
    // An edit that leaves the file broken is half of something. What it did is seen with the next one, or not at all.
    if new_tree.root_node().has_error() && !old_tree.root_node().has_error() {
        return None;
    }
    Some(compare(&outlined(language, &old_tree, before), &new))
}
