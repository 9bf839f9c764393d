//! A disk that loses its power: computes the files that may exist afterwards from the recorded operations.
//!
//! A write is safe once its file was synced after it, a name once its directory was. Of everything else any part may
//! survive: none, all, some, or part of a write, cut between two sectors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;

/// A recorded operation, or a mark of the test.
#[derive(Debug, Clone)]
pub enum Step {
    Opened { path: PathBuf, inode: u64 },
    Wrote { inode: u64, at: usize, bytes: Vec<u8> },
    Cut { inode: u64, length: usize },
    SyncBegan { inode: u64, path: PathBuf, is_directory: bool },
    SyncEnded,
    Renamed { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf },
    MadeDirectory { path: PathBuf },
    Marked(String),
}

/// A seeded random generator.
pub struct Chance(pub u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// The fate of unsynced operations.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Nothing,
    Everything,
    /// All up to some step survive.
    Beginning,
    /// Each write survives or not, whole or torn.
    Anything,
}

#[derive(Debug, Clone, Default)]
struct Content {
    safe: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Debug, Clone)]
enum Naming {
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Directory(PathBuf),
}

impl Naming {
    fn directory(&self) -> &Path {
        let (Self::Link(path, _) | Self::Rename(_, path) | Self::Remove(path) | Self::Directory(path)) = self;
        path.parent().unwrap()
    }
}

#[derive(Debug, Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, usize>,
    directories: Vec<PathBuf>,
}

impl Names {
    fn apply(&mut self, naming: &Naming) {
        match naming {
            Naming::Link(path, content) => drop(self.files.insert(path.clone(), *content)),
            Naming::Remove(path) => drop(self.files.remove(path)),
            Naming::Directory(path) => self.directories.push(path.clone()),
            Naming::Rename(from, to) => {
                if let Some(content) = self.files.remove(from) {
                    self.files.insert(to.clone(), content);
                }
            }
        }
    }
}

/// The state of the disk after some steps.
#[derive(Debug, Default)]
pub struct Disk {
    contents: Vec<Content>,
    /// The names as programs see them.
    present: Names,
    safe: Names,
    pending: Vec<Naming>,
    inodes: BTreeMap<u64, usize>,
}

impl Disk {
    /// Applies one more step.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Opened { path, inode } => self.opened(path, *inode),
            Step::Wrote { inode, at, bytes } => self.change(*inode, Change::Write(*at, bytes.clone())),
            Step::Cut { inode, length } => self.change(*inode, Change::Length(*length)),
            Step::SyncBegan { path, is_directory: true, .. } => self.sync_directory(path),
            Step::SyncBegan { inode, .. } => {
                let Some(content) = self.inodes.get(inode) else { return };
                let content = &mut self.contents[*content];
                for change in std::mem::take(&mut content.pending) {
                    apply(&mut content.safe, &change);
                }
            }
            Step::Renamed { from, to } => self.name(Naming::Rename(from.clone(), to.clone())),
            Step::Removed { path } => self.name(Naming::Remove(path.clone())),
            Step::MadeDirectory { path } => self.name(Naming::Directory(path.clone())),
            Step::SyncEnded | Step::Marked(_) => {}
        }
    }

    fn opened(&mut self, path: &Path, inode: u64) {
        let known = self.present.files.get(path);
        if known.is_some() && known == self.inodes.get(&inode) {
            return;
        }
        self.contents.push(Content::default());
        self.inodes.insert(inode, self.contents.len() - 1);
        self.name(Naming::Link(path.to_owned(), self.contents.len() - 1));
    }

    fn change(&mut self, inode: u64, change: Change) {
        if let Some(content) = self.inodes.get(&inode) {
            self.contents[*content].pending.push(change);
        }
    }

    fn name(&mut self, naming: Naming) {
        self.present.apply(&naming);
        self.pending.push(naming);
    }

    fn sync_directory(&mut self, directory: &Path) {
        let (synced, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|naming: &Naming| naming.directory() == directory);
        self.pending = pending;
        synced.iter().for_each(|naming: &Naming| self.safe.apply(naming));
    }

    /// A possible state after the power returns: files by path.
    pub fn files_after_power_loss(&self, root: &Path, chance: &mut Chance) -> BTreeMap<PathBuf, Vec<u8>> {
        const FATES: [Fate; 5] =
            [Fate::Nothing, Fate::Everything, Fate::Beginning, Fate::Anything, Fate::Anything];
        let fate = FATES[chance.below(FATES.len())];
        let mut names = self.safe.clone();
        // File systems with a journal keep the order of changes to names, regardless of the files' contents.
        let kept = match FATES[chance.below(FATES.len())] {
            Fate::Nothing => 0,
            Fate::Everything => self.pending.len(),
            Fate::Beginning | Fate::Anything => chance.below(self.pending.len() + 1),
        };
        self.pending[..kept].iter().for_each(|naming| names.apply(naming));
        let is_there = |path: &Path| {
            let mut above = path.ancestors().skip(1).take_while(|above| *above != root);
            above.all(|above| names.directories.iter().any(|directory| directory == above))
        };
        let files = names.files.iter().filter(|(path, _)| is_there(path));
        files.map(|(path, content)| (path.clone(), self.contents[*content].surviving(fate, chance))).collect()
    }
}

impl Content {
    fn surviving(&self, fate: Fate, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = self.safe.clone();
        let beginning = chance.below(self.pending.len() + 1);
        for (number, change) in self.pending.iter().enumerate() {
            match fate {
                Fate::Nothing => {}
                Fate::Everything => apply(&mut bytes, change),
                Fate::Beginning if number < beginning => apply(&mut bytes, change),
                Fate::Beginning if number == beginning => tear(&mut bytes, change, chance),
                Fate::Beginning => {}
                Fate::Anything => match chance.below(4) {
                    0 => {}
                    1 => tear(&mut bytes, change, chance),
                    _ => apply(&mut bytes, change),
                },
            }
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, written) => {
            let end = at + written.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*at..end].copy_from_slice(written);
        }
        Change::Length(length) => bytes.resize(*length, 0),
    }
}

/// Writes only some sectors, or only the first part.
fn tear(bytes: &mut Vec<u8>, change: &Change, chance: &mut Chance) {
    let Change::Write(at, written) = change else { return };
    let (mut from, from_the_beginning) = (0, chance.below(2) == 0);
    while from < written.len() {
        let to = ((at + from) / SECTOR * SECTOR + SECTOR - at).min(written.len());
        if chance.below(3) > 0 {
            apply(bytes, &Change::Write(at + from, written[from..to].to_vec()));
        } else if from_the_beginning {
            return;
        }
        from = to;
    }
}
