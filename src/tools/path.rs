//! Paths as a reader of the project knows them. Never looks at the disk.

use crate::text::{clean, shorten};

/// Maximum length of a path that is kept whole.
const PATH_COLUMNS: usize = 160;

/// The directories that paths of an event are relative to.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathBase<'a> {
    /// The project's root.
    pub root: Option<&'a str>,
    /// The root of the worktree that the client works in, if it is known.
    pub worktree: Option<&'a str>,
    /// The client's working directory.
    pub cwd: Option<&'a str>,
}

impl PathBase<'_> {
    /// Returns the path relative to the root of its worktree, or unchanged if it lies outside the project.
    pub fn relative(&self, path: &str) -> String {
        let cleaned = clean(path.trim());
        let absolute = self.absolute(&cleaned);
        let mut roots = [self.worktree, self.root, self.cwd].into_iter().flatten();
        let seen = roots.find_map(|root| below(&absolute, root)).unwrap_or(&absolute);
        shorten(without_worktree(seen), PATH_COLUMNS)
    }

    /// True for a file of the project; false for scratch files and for files elsewhere.
    pub fn owns(&self, path: &str) -> bool {
        let relative = self.relative(path);
        let is_elsewhere = relative.starts_with(['/', '~']) || relative.as_bytes().get(1) == Some(&b':');
        !is_elsewhere && !relative.contains("scratchpad/")
    }

    fn absolute(&self, path: &str) -> String {
        let is_absolute = path.starts_with(['/', '~']) || path.as_bytes().get(1) == Some(&b':');
        match self.cwd.or(self.root) {
            Some(cwd) if !is_absolute => resolved(&format!("{cwd}/{path}")),
            _ => resolved(path),
        }
    }
}

fn below<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    let root = root.trim_end_matches('/');
    let rest = path.strip_prefix(root).filter(|_| !root.is_empty())?.strip_prefix('/')?;
    (!rest.is_empty()).then_some(rest)
}

/// Strips the worktree in front of a path: a file of a worktree is the same file of the project.
fn without_worktree(path: &str) -> &str {
    let folders = [".claude/worktrees/", ".worktrees/"];
    let inside =
        folders.iter().find_map(|folder| path.strip_prefix(folder)).and_then(|rest| rest.split_once('/'));
    inside.map_or(path, |(_, rest)| rest)
}

/// Removes `.`, `..` and doubled slashes.
fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(path)
}

/// The file's extension in lower case.
pub(crate) fn extension(path: &str) -> String {
    let name = file_name(path);
    name.rsplit_once('.')
        .filter(|(stem, _)| !stem.is_empty())
        .map_or_else(String::new, |(_, end)| end.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_projects_root() {
        let place = PathBase {
            root: Some("/home/dev/project"),
            cwd: Some("/home/dev/project/sub"),
            ..PathBase::default()
        };
        assert_eq!(place.relative("/home/dev/project/src/a.rs"), "src/a.rs");
        assert_eq!(place.relative("b.rs"), "sub/b.rs");
        assert_eq!(place.relative("./../c.rs"), "c.rs");
        assert_eq!(place.relative("/home/dev/project/.claude/worktrees/wt1/src/a.rs"), "src/a.rs");
        assert_eq!(place.relative("/home/dev/project-two/a.rs"), "/home/dev/project-two/a.rs");
        assert_eq!(place.relative("/etc/hosts"), "/etc/hosts");
        assert!(place.owns("src/a.rs") && !place.owns("/tmp/x"));
        let (root, worktree) = (Some("/srv/main"), Some("/srv/worktree"));
        let elsewhere = PathBase { root, worktree, cwd: Some("/srv/worktree/src") };
        assert_eq!(elsewhere.relative("/srv/worktree/src/a.rs"), "src/a.rs");
        assert_eq!(elsewhere.relative("a.rs"), "src/a.rs");
        assert_eq!(elsewhere.relative("/srv/main/b.rs"), "b.rs");
        let inside = PathBase { worktree: Some("/srv/main/trees/one"), ..elsewhere };
        assert_eq!(inside.relative("/srv/main/trees/one/src/a.rs"), "src/a.rs");
        assert_eq!(PathBase::default().relative("/a/b.rs"), "/a/b.rs");
    }
}
