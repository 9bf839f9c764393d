//! The layer `function_map`: the code that the last sessions changed, grouped by file.

use super::Request;
use super::line::one_line;
use super::page::Line;
use crate::model::Millis;
use crate::store::context::CodeChange;

/// What became of something over several changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    New,
    Modified,
    Deleted,
}

impl Became {
    fn of(word: &str) -> Option<Self> {
        match word {
            "new" => Some(Self::New),
            "modified" => Some(Self::Modified),
            "deleted" => Some(Self::Deleted),
            _ => None,
        }
    }

    /// One change after another; nothing if they undo each other.
    fn then(self, later: Self) -> Option<Self> {
        match (self, later) {
            (Self::New, Self::Deleted) => None,
            (Self::New, _) => Some(Self::New),
            (Self::Deleted, Self::New) => Some(Self::Modified),
            (_, later) => Some(later),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::New => "[NEW]",
            Self::Modified => "[MODIFIED]",
            Self::Deleted => "[DELETED]",
        }
    }
}

/// One file's changes.
struct File<'a> {
    path: &'a str,
    last: Millis,
    changed: Vec<(Became, &'a CodeChange)>,
}

/// A signature longer than this is cut.
const SIGNATURE: usize = 140;

/// One line for each function or type, under its file; the files that were changed last come first.
pub fn lines(request: &Request<'_>, changes: &[CodeChange]) -> impl Iterator<Item = Line> {
    let mut files: Vec<File<'_>> = Vec::new();
    for change in changes {
        match files.iter_mut().find(|file| file.path == change.file_path) {
            Some(file) => file.note(change),
            None => {
                let mut file = File { path: &change.file_path, last: 0, changed: Vec::new() };
                file.note(change);
                files.push(file);
            }
        }
    }
    files.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.path.cmp(b.path)));
    files.into_iter().flat_map(|file| file.lines(request))
}

impl<'a> File<'a> {
    fn note(&mut self, change: &'a CodeChange) {
        let Some(later) = Became::of(&change.change_type) else { return };
        self.last = self.last.max(change.snapshot_at);
        let known = self.changed.iter().position(|(_, known)| known.qualified_name == change.qualified_name);
        match known {
            None => self.changed.push((later, change)),
            Some(at) => match self.changed[at].0.then(later) {
                Some(became) => self.changed[at] = (became, change),
                None => drop(self.changed.remove(at)),
            },
        }
    }

    fn lines(mut self, request: &Request<'_>) -> Vec<Line> {
        self.changed.sort_by_key(|(_, change)| {
            (change.line_start.unwrap_or(i64::MAX), change.qualified_name.clone())
        });
        let path = one_line(request.relative(self.path), 120);
        let line = |(became, change): (Became, &CodeChange)| {
            let declared = change.signature.as_deref().map(|signature| one_line(signature, SIGNATURE));
            let declared = declared.filter(|signature| !signature.is_empty());
            // A method's signature does not say whose it is.
            let owner = owner(&change.qualified_name).map(|owner| format!("{owner}: ")).unwrap_or_default();
            let told = declared
                .map_or_else(|| change.qualified_name.clone(), |declared| format!("{owner}{declared}"));
            Line {
                group: Some(path.clone()),
                text: format!("{} {}", one_line(&told, SIGNATURE + 60), became.word()),
                shows: None,
            }
        };
        self.changed.into_iter().map(line).collect()
    }
}

fn owner(qualified: &str) -> Option<&str> {
    let at = qualified.rfind("::").or_else(|| qualified.rfind(['.', '#']))?;
    Some(&qualified[..at]).filter(|owner| !owner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Became::*;

    #[test]
    fn changes_add_up_to_what_they_come_to() {
        assert_eq!(New.then(Modified), Some(New));
        assert_eq!(New.then(Deleted), None);
        assert_eq!(Modified.then(Deleted), Some(Deleted));
        assert_eq!(Deleted.then(New), Some(Modified));
    }
}
