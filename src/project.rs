//! Which project a directory belongs to. Reads `.git` files; starts no git, and believes a link only if the other end
//! confirms it.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::config::Capture;
use crate::paths::open_plain;

/// The repository, not the folder: all worktrees and sub-directories of one repository are one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The main worktree's folder name, or what the user calls it.
    pub name: String,
    /// The main worktree; the directory itself outside git.
    pub path: PathBuf,
    /// Where this worktree begins: the same as `path` in the main one.
    pub root: PathBuf,
    /// The branch that is checked out in this worktree.
    pub branch: Option<String>,
    /// Whether it is a git repository at all.
    pub is_repository: bool,
}

/// A file of this name at a project's root says: never record here.
pub const OFF_FILE: &str = ".claude-mem-off";

/// A file of this name at a project's root says: record, but give no context.
pub const NO_CONTEXT_FILE: &str = ".claude-mem-no-context";

impl Project {
    /// The project that `cwd` belongs to. Works for directories that are gone, too.
    pub fn of(cwd: &Path, capture: &Capture) -> Self {
        let start = existing_ancestor(cwd);
        let found = start.as_deref().and_then(find_repository);
        let is_repository = found.is_some();
        let (path, root, branch) = match found {
            Some(repository) => {
                let branch = branch_of(&repository.git_dir);
                (repository.main, repository.root, branch)
            }
            None => {
                let here = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
                (here.clone(), here, None)
            }
        };
        let name = name_of(&path, capture);
        Self { name, path, root, branch, is_repository }
    }

    /// Whether the user wants nothing recorded here.
    pub fn is_excluded(&self, capture: &Capture, user_home: Option<&Path>) -> bool {
        self.is_named(&capture.exclude_projects, OFF_FILE, user_home)
    }

    /// Whether the user wants no session here to be given a context.
    pub fn is_without_context(&self, patterns: &[String], user_home: Option<&Path>) -> bool {
        self.is_named(patterns, NO_CONTEXT_FILE, user_home)
    }

    /// Whether a pattern names this project, or a file at its root.
    fn is_named(&self, patterns: &[String], file: &str, user_home: Option<&Path>) -> bool {
        let mut patterns = patterns.iter().filter_map(|pattern| exclusion(pattern, user_home));
        patterns.any(|pattern| self.matches(&pattern))
            || self.root.join(file).exists()
            || self.path.join(file).exists()
    }

    /// A pattern also excludes everything below what it names.
    fn matches(&self, pattern: &glob::Pattern) -> bool {
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let mut places = self.path.ancestors().chain(self.root.ancestors());
        places.any(|place| pattern.matches_path_with(place, options))
    }
}

fn exclusion(pattern: &str, user_home: Option<&Path>) -> Option<glob::Pattern> {
    let expanded = match (pattern.strip_prefix("~/"), user_home) {
        (Some(rest), Some(home)) => format!("{}/{rest}", glob::Pattern::escape(&home.to_string_lossy())),
        _ => pattern.to_owned(),
    };
    glob::Pattern::new(expanded.trim_end_matches('/')).ok()
}

fn name_of(path: &Path, capture: &Capture) -> String {
    let folder = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let folder = folder.strip_suffix(".git").filter(|stem| !stem.is_empty()).unwrap_or(&folder);
    let aliases = &capture.project_aliases;
    let alias = aliases.get(&*path.to_string_lossy()).or_else(|| aliases.get(folder));
    alias.map_or_else(|| folder.to_owned(), Clone::clone)
}

struct Repository {
    main: PathBuf,
    root: PathBuf,
    git_dir: PathBuf,
}

/// The nearest directory at or above `cwd` that is there, without symbolic links.
fn existing_ancestor(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().filter(|place| place.is_absolute()).find_map(|place| fs::canonicalize(place).ok())
}

fn find_repository(start: &Path) -> Option<Repository> {
    start.ancestors().find_map(repository_at)
}

fn repository_at(place: &Path) -> Option<Repository> {
    let dot_git = place.join(".git");
    match fs::metadata(&dot_git) {
        Ok(meta) if meta.is_dir() && is_git_dir(&dot_git) => {
            Some(Repository { main: place.to_owned(), root: place.to_owned(), git_dir: dot_git })
        }
        Ok(meta) if meta.is_file() => linked_repository(place, &dot_git),
        _ if is_git_dir(place) => Some(bare_repository(place)),
        _ => None,
    }
}

/// `place` is a bare repository, or the `.git` directory of an ordinary one.
fn bare_repository(place: &Path) -> Repository {
    let main = main_worktree(place);
    Repository { root: main.clone(), main, git_dir: place.to_owned() }
}

fn is_git_dir(place: &Path) -> bool {
    place.join("HEAD").is_file() && place.join("objects").is_dir()
}

/// `place` has a `.git` file: a linked worktree or a submodule.
fn linked_repository(place: &Path, dot_git: &Path) -> Option<Repository> {
    let own = |git_dir| Some(Repository { main: place.to_owned(), root: place.to_owned(), git_dir });
    let pointer = read_line(dot_git)?;
    let git_dir = resolve(place, pointer.strip_prefix("gitdir:")?.trim());
    if !git_dir.join("HEAD").is_file() {
        return own(git_dir);
    }
    let Some(common) = read_line(&git_dir.join("commondir")) else {
        return own(git_dir);
    };
    // A repository from a stranger can point anywhere; only the other end can say that it belongs there.
    let confirmed = read_line(&git_dir.join("gitdir"))
        .is_some_and(|back| fs::canonicalize(resolve(&git_dir, &back)).ok().as_deref() == Some(dot_git));
    if !confirmed {
        return own(git_dir);
    }
    let main = main_worktree(&resolve(&git_dir, &common));
    Some(Repository { main, root: place.to_owned(), git_dir })
}

/// The main worktree of the repository whose shared directory this is.
fn main_worktree(common: &Path) -> PathBuf {
    let common = fs::canonicalize(common).unwrap_or_else(|_| common.to_owned());
    if common.file_name().is_some_and(|name| name == ".git") {
        return common.parent().map_or_else(|| common.clone(), Path::to_owned);
    }
    // A submodule's directory lies inside its superproject's and names its worktree.
    let worktree = read_small(&common.join("config")).and_then(|config| configured_worktree(&config));
    match worktree {
        Some(worktree) => {
            let worktree = resolve(&common, &worktree);
            fs::canonicalize(&worktree).unwrap_or(worktree)
        }
        None => common,
    }
}

fn configured_worktree(config: &str) -> Option<String> {
    config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "worktree").then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn branch_of(git_dir: &Path) -> Option<String> {
    let head = read_line(&git_dir.join("HEAD"))?;
    head.strip_prefix("ref: refs/heads/").map(str::to_owned)
}

fn resolve(base: &Path, relative: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in base.join(relative).components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

fn read_line(path: &Path) -> Option<String> {
    read_small(path).and_then(|text| text.lines().next().map(|line| line.trim_end().to_owned()))
}

/// The beginning of a file: git's own are short, a stranger's may be anything.
fn read_small(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(64 * 1024).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether two paths may be the same file, however much of each was told: the shorter one is the end of the longer.
pub fn is_same_file(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() >= other.len() { (one, other) } else { (other, one) };
    let short = short.trim_start_matches("./");
    !short.is_empty()
        && long
            .strip_suffix(short)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || short.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_by_their_ends() {
        assert!(is_same_file("/w/src/a.rs", "src/a.rs"));
        assert!(is_same_file("a.rs", "/w/src/a.rs"));
        assert!(is_same_file("./src/a.rs", "src/a.rs") && is_same_file("a.rs", "./a.rs"));
        assert!(!is_same_file("/w/src/ba.rs", "a.rs"));
        assert!(!is_same_file("", "a.rs"));
    }
}
