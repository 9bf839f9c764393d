//! Compares the anchors of a note with a working tree: does its code stand as the note left it?
//!
//! Pure, except for [`WorkingTree`], which reads files. A file is known by git's blob id, by the bodies of its functions and types,
//! and by the lines that the turn added and removed; the id alone would call every note about a busy file stale.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::model::Standing;
use crate::store::memory::anchors::Anchor;
use crate::store::memory::traces::{Hash, line_hash};
use crate::symbols::{self, MAX_SOURCE_BYTES};

/// A share of a note's added lines up to which its code counts as gone, and one up to which it counts as changed.
const GONE: f64 = 0.2;
const CHANGED: f64 = 0.6;
/// The share of removed lines from which on a removal counts as reversed.
const BACK: f64 = 0.8;
/// The share of its functions and types that must stand for a note to hold.
const STANDING: f64 = 0.5;

/// The present state of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileState {
    /// git's blob id.
    pub blob: String,
    lines: HashSet<Hash>,
    /// Names and body hashes; none if the file is not parsed.
    symbols: Option<Vec<(String, String)>>,
}

impl FileState {
    /// Reads the state of a text.
    pub fn of(path: &str, text: &str) -> Self {
        let language = symbols::language_of(path).filter(|_| text.len() <= MAX_SOURCE_BYTES);
        // Every symbol of a file that did not exist before is new.
        let symbols = language.and_then(|language| symbols::changes(language, None, text)).map(|found| {
            found
                .into_iter()
                .map(|change| (change.symbol.qualified_name, format!("{:016x}", change.symbol.body_hash)))
                .collect()
        });
        Self { blob: blob_id(text.as_bytes()), lines: text.lines().filter_map(line_hash).collect(), symbols }
    }
}

/// The id that git gives to this content.
pub fn blob_id(content: &[u8]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(format!("blob {}\0", content.len()).as_bytes());
    context.update(content);
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares the anchors of a note with the files that `file` finds.
pub fn standing(anchors: &[Anchor], file: impl Fn(&str) -> Option<Arc<FileState>>) -> Standing {
    let mut tally = Tally::default();
    let files: Vec<&Anchor> = anchors.iter().filter(|anchor| anchor.symbol.is_empty()).collect();
    for anchor in &files {
        let state = file(&anchor.file_path);
        let symbols =
            anchors.iter().filter(|other| !other.symbol.is_empty() && other.file_path == anchor.file_path);
        tally.add(anchor, symbols, state.as_deref());
    }
    tally.standing()
}

/// Evidence of all files together.
#[derive(Debug, Default)]
struct Tally {
    files: usize,
    missing: usize,
    /// Files with another blob id, or whose id was unknown.
    differ: usize,
    added: usize,
    left: usize,
    removed: usize,
    back: usize,
    symbols: usize,
    /// Symbols with the same body, under any name.
    same: usize,
    /// Symbols that are there in some form.
    there: usize,
}

impl Tally {
    fn add<'a>(
        &mut self,
        anchor: &Anchor,
        symbols: impl Iterator<Item = &'a Anchor>,
        state: Option<&FileState>,
    ) {
        self.files += 1;
        self.added += anchor.added.len();
        self.removed += anchor.removed.len();
        let Some(state) = state else {
            self.missing += 1;
            self.symbols += symbols.filter(|symbol| !symbol.hash.is_empty()).count();
            return;
        };
        let is_same = !anchor.hash.is_empty() && anchor.hash == state.blob;
        self.differ += usize::from(!is_same);
        let has = |hash: &&Hash| state.lines.contains(*hash);
        self.left += if is_same { anchor.added.len() } else { anchor.added.iter().filter(has).count() };
        self.back += if is_same { 0 } else { anchor.removed.iter().filter(has).count() };
        let Some(present) = &state.symbols else { return };
        for symbol in symbols {
            self.symbols += 1;
            let is_named = present.iter().any(|(name, _)| *name == symbol.symbol);
            let (same, there) = if symbol.hash.is_empty() {
                (!is_named, !is_named)
            } else {
                // A body under another name was renamed.
                let is_there = present.iter().any(|(_, hash)| *hash == symbol.hash);
                (is_there, is_there || is_named)
            };
            self.same += usize::from(same || is_same);
            self.there += usize::from(there || is_same);
        }
    }

    fn standing(&self) -> Standing {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        if self.files == 0 || (self.missing == 0 && self.differ == 0) {
            return Standing::Holds;
        }
        let stands = self.symbols == 0 || share(self.same, self.symbols) >= STANDING;
        if self.added > 0 {
            let left = share(self.left, self.added);
            // Functions that stand although their lines do not were reformatted.
            let is_rewritten = self.symbols > 0 && stands;
            return match left {
                _ if left <= GONE && !is_rewritten => Standing::Gone,
                _ if left <= CHANGED || !stands => Standing::Changed,
                _ => Standing::Holds,
            };
        }
        if self.removed > 0 {
            let is_reversed = share(self.back, self.removed) >= BACK;
            return if is_reversed { Standing::Gone } else { Standing::Holds };
        }
        match self.missing == self.files || (self.symbols > 0 && self.there == 0) {
            true => Standing::Gone,
            false if self.symbols > 0 && stands && self.missing == 0 => Standing::Holds,
            false => Standing::Changed,
        }
    }
}

/// Maximum number of files remembered; beyond it all are read again.
const MOST_REMEMBERED: usize = 2_000;

/// File states by path, for all working trees. A file is read again when its time or size changes.
#[derive(Debug, Default)]
pub struct FileStates(Mutex<KnownFiles>);

/// Each with the time and size at which it was read.
type KnownFiles = HashMap<PathBuf, (SystemTime, u64, Arc<FileState>)>;

impl FileStates {
    fn of(&self, path: &Path) -> Option<Arc<FileState>> {
        let stamp = stamp(path)?;
        if let Some(state) = self.cached(path, stamp) {
            return Some(state);
        }
        if stamp.1 > MAX_SOURCE_BYTES as u64 {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let mut state = FileState::of(&path.to_string_lossy(), &String::from_utf8_lossy(&bytes));
        state.blob = blob_id(&bytes);
        let state = Arc::new(state);
        let mut known = self.known();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(path.to_owned(), (stamp.0, stamp.1, state.clone()));
        Some(state)
    }

    fn cached(&self, path: &Path, stamp: (SystemTime, u64)) -> Option<Arc<FileState>> {
        let known = self.known();
        known.get(path).filter(|known| (known.0, known.1) == stamp).map(|known| known.2.clone())
    }

    fn known(&self) -> MutexGuard<'_, KnownFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time and size of a file; none if there is none.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((meta.modified().ok()?, meta.len()))
}

/// A working tree that notes are compared with.
#[derive(Debug, Clone)]
pub struct WorkingTree {
    root: PathBuf,
    /// Files that were renamed, from the old path to the new one.
    renames: Arc<HashMap<String, String>>,
    states: Arc<FileStates>,
}

/// Maximum renames of one file that are followed.
const MOST_RENAMES: usize = 8;

impl WorkingTree {
    /// The tree below `root`.
    pub fn new(root: &Path, renames: Arc<HashMap<String, String>>, states: Arc<FileStates>) -> Self {
        Self { root: root.to_owned(), renames, states }
    }

    /// Compares the anchors of a note with the tree. A large file, which is not read, counts as unchanged.
    pub fn standing(&self, anchors: &[Anchor]) -> Standing {
        let anchors: Vec<Anchor> =
            anchors.iter().filter(|anchor| !self.is_large(&anchor.file_path)).cloned().collect();
        standing(&anchors, |path| self.file(path))
    }

    fn is_large(&self, path: &str) -> bool {
        std::fs::metadata(self.root.join(path)).is_ok_and(|meta| meta.len() > MAX_SOURCE_BYTES as u64)
    }

    /// True if a comparison of these anchors has to read a file.
    pub fn has_unread(&self, anchors: &[Anchor]) -> bool {
        let is_unread = |place: PathBuf| -> Option<bool> {
            let stamp = stamp(&place)?;
            Some(stamp.1 <= MAX_SOURCE_BYTES as u64 && self.states.cached(&place, stamp).is_none())
        };
        anchors.iter().any(|anchor| self.places(&anchor.file_path).find_map(is_unread).unwrap_or_default())
    }

    /// The state of a file under its present name.
    fn file(&self, path: &str) -> Option<Arc<FileState>> {
        self.places(path).find_map(|place| self.states.of(&place))
    }

    /// The places of a file in the tree: under its name, and under those that it got later.
    fn places<'a>(&'a self, path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        let names = std::iter::successors(Some(path), |path| self.renames.get(*path).map(String::as_str));
        let is_inside =
            |path: &&str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        names.take(MOST_RENAMES).filter(is_inside).map(|path| self.root.join(path))
    }

    /// The anchors of the same files and symbols as they are now, for a note that the user confirmed. A file that is gone has none
    /// any more, unless it may have been renamed (`is_complete` is false): then its anchors stay as they are.
    pub fn taken_again(&self, anchors: &[Anchor], is_complete: bool) -> Vec<Anchor> {
        let mut taken = Vec::new();
        for anchor in anchors {
            let Some(state) = self.file(&anchor.file_path) else {
                taken.extend((!is_complete).then(|| anchor.clone()));
                continue;
            };
            if anchor.symbol.is_empty() {
                taken.push(Anchor {
                    hash: state.blob.clone(),
                    added: anchor.added.iter().filter(|hash| state.lines.contains(hash)).copied().collect(),
                    removed: Vec::new(),
                    ..anchor.clone()
                });
                continue;
            }
            let named = |(name, _): &&(String, String)| *name == anchor.symbol;
            let found = state.symbols.as_ref().and_then(|symbols| symbols.iter().find(named));
            taken.extend(found.map(|(_, hash)| Anchor { hash: hash.clone(), ..anchor.clone() }));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn retry_upload(count: u32) {\n    upload_with_retry(count, RETRY_DELAY);\n}\n\nfn close_connection() {\n    connection.shutdown_both();\n}\n";

    fn anchors(path: &str, text: &str, names: &[&str]) -> Vec<Anchor> {
        let state = FileState::of(path, text);
        let file = Anchor {
            file_path: path.into(),
            hash: state.blob.clone(),
            added: text.lines().filter_map(line_hash).collect(),
            ..Anchor::default()
        };
        let symbol = |name: &&str| Anchor {
            file_path: path.into(),
            symbol: (*name).to_owned(),
            hash: state.symbols.as_ref().unwrap().iter().find(|(known, _)| known == name).unwrap().1.clone(),
            ..Anchor::default()
        };
        std::iter::once(file).chain(names.iter().map(symbol)).collect()
    }

    fn against(anchors: &[Anchor], text: Option<&str>) -> Standing {
        standing(anchors, |path| text.map(|text| Arc::new(FileState::of(path, text))))
    }

    #[test]
    fn a_blob_id_is_git_s() {
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn a_note_stands_as_long_as_its_code_does() {
        let note = anchors("src/net.rs", CODE, &["retry_upload"]);
        let more = format!(
            "// A new header comment about this file.\n{CODE}\nfn another_new_function() {{ do_other_things(); }}\n"
        );
        let renamed = CODE.replace("retry_upload(count", "send_again(count");
        let changed =
            CODE.replace("upload_with_retry(count, RETRY_DELAY)", "upload_once_without_retry(count)");
        let other = "fn something_else_entirely() {\n    nothing_of_the_old_code_is_left();\n}\n";
        let cases = [
            ("unchanged", Some(CODE), Standing::Holds),
            ("other code around it", Some(more.as_str()), Standing::Holds),
            ("a renamed function", Some(renamed.as_str()), Standing::Holds),
            ("another body", Some(changed.as_str()), Standing::Changed),
            ("replaced", Some(other), Standing::Gone),
            ("deleted", None, Standing::Gone),
        ];
        for (case, text, expected) in cases {
            assert_eq!(against(&note, text), expected, "{case}");
        }
    }

    #[test]
    fn a_removal_stands_until_the_lines_are_back() {
        let removed: Vec<Hash> = ["repositoryUrl: repoUrl,"].into_iter().filter_map(line_hash).collect();
        let note = [Anchor { file_path: "engine.ts".into(), removed, ..Anchor::default() }];
        assert_eq!(against(&note, Some("evaluate({ path: repoPath });\n")), Standing::Holds);
        assert_eq!(against(&note, Some("evaluate({\n  repositoryUrl: repoUrl,\n});\n")), Standing::Gone);
        assert_eq!(against(&[], None), Standing::Holds, "a note about no code");
    }

    #[test]
    fn a_renamed_file_is_followed_and_a_confirmed_note_gets_new_anchors() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("new.rs"), CODE).unwrap();
        let note = anchors("old.rs", CODE, &["retry_upload"]);
        let tree = |renames: &[(&str, &str)]| {
            let renames = renames.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
            WorkingTree::new(scratch.path(), Arc::new(renames), Arc::default())
        };
        assert_eq!(tree(&[]).standing(&note), Standing::Gone);
        let followed = tree(&[("old.rs", "middle.rs"), ("middle.rs", "new.rs")]);
        assert!(followed.has_unread(&note) && !tree(&[]).has_unread(&note));
        assert_eq!(followed.standing(&note), Standing::Holds);
        assert!(!followed.has_unread(&note), "it was read");
        assert_eq!(
            tree(&[("old.rs", "a.rs"), ("a.rs", "old.rs")]).standing(&note),
            Standing::Gone,
            "a circle"
        );
        assert_eq!(tree(&[("old.rs", "../new.rs")]).standing(&note), Standing::Gone, "outside");
        std::fs::write(
            scratch.path().join("new.rs"),
            CODE.replace("upload_with_retry", "upload_once_more_please"),
        )
        .unwrap();
        assert_ne!(followed.standing(&note), Standing::Holds);
        assert_eq!(followed.standing(&followed.taken_again(&note, true)), Standing::Holds);
        assert_eq!(tree(&[]).taken_again(&note, true), []);
        assert_eq!(tree(&[]).taken_again(&note, false), note, "it may have been renamed");
    }
}
