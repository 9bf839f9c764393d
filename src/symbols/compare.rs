//! Compares two lists of symbols.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use super::{Change, Symbol, SymbolChange};

/// Returns new, modified and deleted symbols, in file order.
///
/// A symbol that only moved within the file is no change. One with another name or scope but
/// otherwise the same code is one modification with its old name; so is one that kept its
/// parameters and changed its body. The members of a renamed type do not count as changed.
pub fn compare(before: &[Symbol], after: &[Symbol]) -> Vec<SymbolChange> {
    let mut matching = Matching::new(before, after);
    matching.pair_same(|symbol| Some((&symbol.qualified_name, symbol.body_hash)));
    matching.pair_same(|symbol| Some((&symbol.qualified_name, &symbol.signature)));
    matching.pair_same(|symbol| Some(&symbol.qualified_name));
    if matching.is_complete() {
        return matching.changes();
    }
    matching.pair_renamed_types();
    // The text of a type without its members is too short to identify it.
    matching.pair_same(|symbol| (!symbol.kind.has_members()).then_some(symbol.body_hash));
    matching.pair_same_shapes();
    matching.changes()
}

struct Matching<'list> {
    before: &'list [Symbol],
    after: &'list [Symbol],
    /// For each symbol after the edit, its index before.
    origin: Vec<Option<usize>>,
    /// For each symbol before the edit, true if it is an origin.
    taken: Vec<bool>,
    /// True if a symbol's new name results from the type around it.
    follows_type: Vec<bool>,
}

impl<'list> Matching<'list> {
    fn new(before: &'list [Symbol], after: &'list [Symbol]) -> Self {
        Self {
            before,
            after,
            origin: vec![None; after.len()],
            taken: vec![false; before.len()],
            follows_type: vec![false; after.len()],
        }
    }

    /// True if one of the sides has nothing left to pair.
    fn is_complete(&self) -> bool {
        self.taken.iter().all(|taken| *taken) || self.origin.iter().all(Option::is_some)
    }

    fn left_before(&self) -> Vec<(usize, &'list Symbol)> {
        self.before.iter().enumerate().filter(|(index, _)| !self.taken[*index]).collect()
    }

    fn left_after(&self) -> Vec<(usize, &'list Symbol)> {
        self.after.iter().enumerate().filter(|(index, _)| self.origin[*index].is_none()).collect()
    }

    fn pair_same<Key: Hash + Eq>(&mut self, key: impl Fn(&'list Symbol) -> Option<Key>) {
        self.pair(&key, &key);
    }

    /// Pairs remaining symbols with the same key, in order. Returns the symbols after the edit that
    /// got an origin.
    fn pair<Key: Hash + Eq>(
        &mut self,
        key_before: impl Fn(&'list Symbol) -> Option<Key>,
        key_after: impl Fn(&'list Symbol) -> Option<Key>,
    ) -> Vec<usize> {
        let mut candidates: HashMap<Key, VecDeque<usize>> = HashMap::new();
        for (index, symbol) in self.left_before() {
            if let Some(key) = key_before(symbol) {
                candidates.entry(key).or_default().push_back(index);
            }
        }
        let mut paired = Vec::new();
        for (index, symbol) in self.left_after() {
            let found = key_after(symbol).and_then(|key| candidates.get_mut(&key)?.pop_front());
            if let Some(origin) = found {
                self.take(origin, index);
                paired.push(index);
            }
        }
        paired
    }

    fn take(&mut self, origin: usize, after: usize) {
        self.origin[after] = Some(origin);
        self.taken[origin] = true;
    }

    /// Pairs renamed types, and with them their members.
    fn pair_renamed_types(&mut self) {
        for (index, new) in self.left_after() {
            if !new.kind.has_members() || self.origin[index].is_some() {
                continue;
            }
            let mut left = self.left_before().into_iter();
            let old = left.find(|(_, old)| old.kind == new.kind && self.is_renamed(old, new));
            let Some((origin, old)) = old else { continue };
            self.take(origin, index);
            self.pair_members(old, new);
        }
    }

    fn is_renamed(&self, old: &Symbol, new: &Symbol) -> bool {
        let old_members = members(self.before, old);
        let new_members = members(self.after, new);
        let shared = old_members.intersection(&new_members).count();
        let same_text = old.body_hash == new.body_hash;
        match old_members.len().max(new_members.len()) {
            0 => same_text,
            most => shared > 0 && (same_text || 2 * shared >= most),
        }
    }

    fn pair_members(&mut self, old: &Symbol, new: &Symbol) {
        let name_now = |symbol: &Symbol| {
            let scope = renamed_scope(symbol.scope(), old, new)?;
            // A constructor has the name of its type.
            Some((scope, if symbol.name() == old.name() { new.name() } else { symbol.name() }.to_owned()))
        };
        let name = |symbol: &Symbol| Some((symbol.scope().to_owned(), symbol.name().to_owned()));
        let same_code = self.pair(
            |symbol| Some((name_now(symbol)?, symbol.body_hash)),
            |symbol| Some((name(symbol)?, symbol.body_hash)),
        );
        let other_code = self.pair(name_now, name);
        for index in same_code.into_iter().chain(other_code) {
            self.follows_type[index] = true;
        }
    }

    /// Pairs symbols with the same scope and the same declaration except for the name, if the pair
    /// is unambiguous.
    fn pair_same_shapes(&mut self) {
        let mut uses: HashMap<(&str, String), (usize, usize)> = HashMap::new();
        for (_, symbol) in self.left_before() {
            uses.entry((symbol.scope(), shape(symbol))).or_default().0 += 1;
        }
        for (_, symbol) in self.left_after() {
            uses.entry((symbol.scope(), shape(symbol))).or_default().1 += 1;
        }
        self.pair_same(|symbol| {
            let key = (symbol.scope(), shape(symbol));
            let is_unambiguous = has_parameters(&key.1) && uses.get(&key) == Some(&(1, 1));
            is_unambiguous.then_some(key)
        });
    }

    fn changes(self) -> Vec<SymbolChange> {
        let mut changes: Vec<_> =
            self.left_before().into_iter().map(|(_, gone)| changed(gone, Change::Deleted, None)).collect();
        for (index, symbol) in self.after.iter().enumerate() {
            let Some(origin) = self.origin[index].map(|origin| &self.before[origin]) else {
                changes.push(changed(symbol, Change::New, None));
                continue;
            };
            let is_renamed = origin.qualified_name != symbol.qualified_name && !self.follows_type[index];
            if is_renamed || origin.body_hash != symbol.body_hash {
                let old_name = is_renamed.then(|| origin.qualified_name.clone());
                changes.push(changed(symbol, Change::Modified, old_name));
            }
        }
        changes.sort_by_key(|change| change.symbol.line_start);
        changes
    }
}

fn changed(symbol: &Symbol, change: Change, renamed_from: Option<String>) -> SymbolChange {
    SymbolChange { symbol: symbol.clone(), change, renamed_from }
}

/// Returns the members of a type: names and code. A constructor's name is ignored, because it is
/// the type's.
fn members<'list>(symbols: &'list [Symbol], owner: &Symbol) -> HashSet<(&'list str, u64)> {
    let inside = symbols.iter().filter(|symbol| symbol.scope() == owner.qualified_name);
    inside
        .map(|symbol| (if symbol.name() == owner.name() { "" } else { symbol.name() }, symbol.body_hash))
        .collect()
}

/// Returns the scope after `old` was renamed to `new`, if that affects it.
fn renamed_scope(scope: &str, old: &Symbol, new: &Symbol) -> Option<String> {
    if let Some(rest) = scope.strip_prefix(&old.qualified_name)
        && (rest.is_empty() || rest.starts_with([':', '.', '#']))
    {
        return Some(format!("{}{rest}", new.qualified_name));
    }
    // `<Type as Trait>`
    let renamed = replace_word(scope, old.name(), new.name());
    (scope.contains('<') && renamed != scope).then_some(renamed)
}

/// Returns the declaration with a placeholder for the name.
fn shape(symbol: &Symbol) -> String {
    replace_word(&symbol.signature, symbol.name(), "_")
}

/// True if a declaration has parameters that distinguish it.
fn has_parameters(shape: &str) -> bool {
    let inside =
        shape.split_once('(').map_or("", |(_, rest)| rest.rsplit_once(')').map_or(rest, |(list, _)| list));
    let words = inside.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.into_iter().any(|word| !matches!(word, "" | "self" | "cls" | "mut" | "this" | "void"))
}

fn replace_word(text: &str, word: &str, with: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = (!word.is_empty()).then(|| rest.find(word)).flatten() {
        let (head, tail) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !head.ends_with(is_part) && !tail.starts_with(is_part);
        replaced.push_str(head);
        replaced.push_str(if alone { with } else { word });
        rest = tail;
    }
    replaced + rest
}
