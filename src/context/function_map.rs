//! The layer `function_map`: the code that the last sessions of this branch changed, by file and name.

use super::ContextRequest;
use super::page::Line;
use super::repo_state::is_topic;
use crate::model::Millis;
use crate::project::without_worktree;
use crate::store::context::{CodeChange, ContextMemory};
use crate::text::line::one_line;

/// The sum of several changes.
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
struct ChangedFile<'a> {
    path: &'a str,
    last: Millis,
    changed: Vec<(Became, &'a CodeChange)>,
}

/// Most names of a file's line.
const MOST_NAMES: usize = 5;
const NAME: usize = 60;

/// Files with a line of their own.
const MOST_DETAILED: usize = 2;

/// Files that were changed most lately, for one line.
const MOST_FILES: usize = 20;
/// A session counts for this much of the one after it.
const FADING: f64 = 0.93;

/// One line with the files that the latest sessions changed most, by name; with folders where two have one name.
pub fn most_changed(memories: &[ContextMemory]) -> Option<Line> {
    let mut sessions: Vec<&str> = Vec::new();
    let mut counted: Vec<(&str, f64, usize)> = Vec::new();
    for memory in memories {
        let rank = sessions.iter().position(|known| *known == memory.session_id).unwrap_or_else(|| {
            sessions.push(&memory.session_id);
            sessions.len() - 1
        });
        for path in memory.files_modified.iter().map(|path| without_worktree(path)) {
            let weight = FADING.powi(i32::try_from(rank).unwrap_or(i32::MAX));
            match counted.iter_mut().find(|(known, ..)| *known == path) {
                // Once for each session.
                Some((_, _, last)) if *last == rank => {}
                Some((_, sum, last)) => (*sum, *last) = (*sum + weight, rank),
                None => counted.push((path, weight, rank)),
            }
        }
    }
    counted.retain(|(path, ..)| !path.starts_with(['/', '~']) && !path.starts_with(".."));
    counted.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    counted.truncate(MOST_FILES);
    let names: Vec<String> = counted
        .iter()
        .map(|(path, ..)| {
            let is_own = |name: &str| {
                let has = |other: &str| other.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
                !counted.iter().any(|(other, ..)| other != path && (*other == name || has(other)))
            };
            let ends = path.rmatch_indices('/').map(|(at, _)| &path[at + 1..]);
            one_line(ends.into_iter().find(|name| is_own(name)).unwrap_or(path), 80)
        })
        .filter(|name| !name.is_empty())
        .collect();
    (!names.is_empty()).then(|| Line {
        text: format!("Files changed most: {}", names.join(", ")),
        why: "changed by the latest sessions, the most often and the latest first".into(),
        ..Line::default()
    })
}

/// Returns one line for each of the files that were changed last, on a branch with a topic of its own: on any other one the
/// next session has little to do with them.
pub fn lines(request: &ContextRequest<'_>, changes: &[CodeChange]) -> impl Iterator<Item = Line> {
    let has_topic = request.repo_state.branch.as_deref().is_some_and(is_topic);
    let mut files: Vec<ChangedFile<'_>> = Vec::new();
    for change in changes {
        let path = without_worktree(request.relative(&change.file_path));
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.note(change),
            None => {
                let mut file = ChangedFile { path, last: 0, changed: Vec::new() };
                file.note(change);
                files.push(file);
            }
        }
    }
    files.retain(|file| !file.changed.is_empty());
    let rank = |file: &ChangedFile<'_>| (file.last, file.changed.len());
    files.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.path.cmp(b.path)));
    files.into_iter().take(if has_topic { MOST_DETAILED } else { 0 }).map(ChangedFile::line)
}

impl<'a> ChangedFile<'a> {
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

    /// `src/a.rs: one [NEW], two and three [MODIFIED] and 4 more`
    fn line(mut self) -> Line {
        self.changed.sort_by_key(|(became, change)| {
            (*became as u8, change.line_start.unwrap_or(i64::MAX), change.qualified_name.clone())
        });
        let shown = &self.changed[..self.changed.len().min(MOST_NAMES)];
        let names: Vec<String> = shown
            .iter()
            .enumerate()
            .map(|(at, (became, change))| {
                let name = one_line(&change.qualified_name, NAME);
                let is_last = shown.get(at + 1).is_none_or(|(next, _)| next != became);
                if is_last { format!("{name} {}", became.word()) } else { name }
            })
            .collect();
        let rest = self.changed.len() - shown.len();
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let text = format!("{}: {}{rest}", one_line(self.path, 120), names.join(", "));
        Line { text, why: "changed on this branch by a recent session".into(), ..Line::default() }
    }
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
