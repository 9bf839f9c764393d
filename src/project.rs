//! Finds the project of a directory. Reads `.git` files without running git, and trusts a link only
//! if its target confirms it.

mod address;

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::config::CaptureSettings;
use crate::paths::open_plain;

/// A project is a repository, not a folder: all clones, worktrees and subdirectories of one
/// repository are one project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    /// The project key: `git:` and the address of the origin remote, else `path:` and the main
    /// worktree, else `path:` and the directory itself. [`crate::store::projects`] maps it to the
    /// displayed name.
    pub key: String,
    /// Its preferred name: the main worktree's folder name, or the user's alias.
    pub name: String,
    /// True if `name` is the user's alias, which another project may share on purpose.
    pub is_alias: bool,
    /// The main worktree; the directory itself outside git.
    pub path: PathBuf,
    /// The root of this worktree; the same as `path` in the main one.
    pub root: PathBuf,
    /// The branch that is checked out in this worktree.
    pub branch: Option<String>,
    /// True inside a git repository.
    pub is_repository: bool,
}

/// File at a project's root that disables recording.
pub const OFF_FILE: &str = ".claude-mem-off";

/// File at a project's root that disables context, but not recording.
pub const NO_CONTEXT_FILE: &str = ".claude-mem-no-context";

impl Project {
    /// Returns the project of `cwd`, which need not exist any more.
    pub fn of(cwd: &Path, capture: &CaptureSettings) -> Self {
        let start = existing_ancestor(cwd);
        let found = start.as_deref().and_then(find_repository);
        let is_repository = found.is_some();
        let (key, path, root, branch) = match found {
            Some(repository) => {
                let branch = branch_of(&repository.git_dir);
                let key = address::key(&repository.common, &repository.main);
                (key, repository.main, repository.root, branch)
            }
            None => {
                let here = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
                (address::path_key(&here), here.clone(), here, None)
            }
        };
        let alias = alias(&key, &path, capture);
        let is_alias = alias.is_some();
        let name = alias.map_or_else(|| folder_of(&path), str::to_owned);
        Self { key, name, is_alias, path, root, branch, is_repository }
    }

    /// True if the user excluded this project from recording.
    pub fn is_excluded(&self, capture: &CaptureSettings, user_home: Option<&Path>) -> bool {
        self.is_named(&capture.exclude_projects, OFF_FILE, user_home)
    }

    /// True if the user disabled context in this project.
    pub fn is_without_context(&self, patterns: &[String], user_home: Option<&Path>) -> bool {
        self.is_named(patterns, NO_CONTEXT_FILE, user_home)
    }

    /// True if a pattern matches this project, or it has that file at its root.
    fn is_named(&self, patterns: &[String], file: &str, user_home: Option<&Path>) -> bool {
        let mut patterns = patterns.iter().filter_map(|pattern| exclusion(pattern, user_home));
        patterns.any(|pattern| self.matches(&pattern))
            || self.root.join(file).exists()
            || self.path.join(file).exists()
    }

    /// True if the pattern matches the project or a directory above it.
    fn matches(&self, pattern: &glob::Pattern) -> bool {
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let mut places = self.path.ancestors().chain(self.root.ancestors());
        places.any(|place| pattern.matches_path_with(place, options))
    }
}

/// Returns the root of the worktree that a directory of the project at `path` lies in, spelled as in `cwd`.
pub fn worktree_root(cwd: &Path, path: &Path) -> Option<PathBuf> {
    let start = existing_ancestor(cwd)?;
    let root = find_repository(&start).filter(|repository| repository.main == path)?.root;
    let depth = start.strip_prefix(&root).ok()?.components().count();
    // A symbolic link above the root stays in the paths that the client sends.
    let spelled =
        cwd.ancestors().nth(depth).filter(|place| fs::canonicalize(place).is_ok_and(|it| it == root));
    Some(spelled.map_or_else(|| root.clone(), Path::to_owned))
}

fn exclusion(pattern: &str, user_home: Option<&Path>) -> Option<glob::Pattern> {
    let expanded = match (pattern.strip_prefix("~/"), user_home) {
        (Some(rest), Some(home)) => format!("{}/{rest}", glob::Pattern::escape(&home.to_string_lossy())),
        _ => pattern.to_owned(),
    };
    glob::Pattern::new(expanded.trim_end_matches('/')).ok()
}

/// Returns the folder's name, without a bare repository's suffix.
fn folder_of(path: &Path) -> String {
    let folder = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    folder.strip_suffix(".git").filter(|stem| !stem.is_empty()).unwrap_or(&folder).to_owned()
}

/// Returns the user's alias for a project, given by its key, its path or its folder's name.
pub fn alias<'a>(key: &str, path: &Path, capture: &'a CaptureSettings) -> Option<&'a str> {
    let aliases = &capture.project_aliases;
    if aliases.is_empty() {
        return None;
    }
    let by_path = || aliases.get(&*path.to_string_lossy());
    aliases.get(key).or_else(by_path).or_else(|| aliases.get(&folder_of(path))).map(String::as_str)
}

struct Repository {
    main: PathBuf,
    root: PathBuf,
    /// The git directory of this worktree.
    git_dir: PathBuf,
    /// The git directory that all worktrees share, with the configuration.
    common: PathBuf,
}

impl Repository {
    /// A repository with one git directory.
    fn single(place: &Path, git_dir: PathBuf) -> Self {
        Self { main: place.to_owned(), root: place.to_owned(), common: git_dir.clone(), git_dir }
    }
}

/// Returns the nearest existing directory at or above `cwd`, without symbolic links.
fn existing_ancestor(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().filter(|place| place.is_absolute()).find_map(|place| fs::canonicalize(place).ok())
}

fn find_repository(start: &Path) -> Option<Repository> {
    start.ancestors().find_map(repository_at)
}

fn repository_at(place: &Path) -> Option<Repository> {
    let dot_git = place.join(".git");
    match fs::metadata(&dot_git) {
        Ok(meta) if meta.is_dir() && is_git_dir(&dot_git) => Some(Repository::single(place, dot_git)),
        Ok(meta) if meta.is_file() => linked_repository(place, &dot_git),
        _ if is_git_dir(place) => Some(bare_repository(place)),
        _ => None,
    }
}

/// `place` is a bare repository, or the `.git` directory of an ordinary one.
fn bare_repository(place: &Path) -> Repository {
    Repository::single(&main_worktree(place), place.to_owned())
}

fn is_git_dir(place: &Path) -> bool {
    place.join("HEAD").is_file() && place.join("objects").is_dir()
}

/// `place` has a `.git` file, as in a linked worktree or a submodule.
fn linked_repository(place: &Path, dot_git: &Path) -> Option<Repository> {
    let own = |git_dir| Some(Repository::single(place, git_dir));
    let pointer = read_line(dot_git)?;
    let git_dir = resolve(place, pointer.strip_prefix("gitdir:")?.trim());
    if !git_dir.join("HEAD").is_file() {
        return own(git_dir);
    }
    let Some(common) = read_line(&git_dir.join("commondir")) else {
        return own(git_dir);
    };
    // A cloned repository can point anywhere; only the target can confirm the link.
    let confirmed = read_line(&git_dir.join("gitdir"))
        .is_some_and(|back| fs::canonicalize(resolve(&git_dir, &back)).ok().as_deref() == Some(dot_git));
    if !confirmed {
        return own(git_dir);
    }
    let common = resolve(&git_dir, &common);
    Some(Repository { main: main_worktree(&common), root: place.to_owned(), git_dir, common })
}

/// Returns the main worktree of the repository with that shared directory.
fn main_worktree(common: &Path) -> PathBuf {
    let common = fs::canonicalize(common).unwrap_or_else(|_| common.to_owned());
    if common.file_name().is_some_and(|name| name == ".git") {
        return common.parent().map_or_else(|| common.clone(), Path::to_owned);
    }
    // A submodule's directory is inside its superproject's and names its worktree.
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

/// Reads the start of a file: git's own files are short, but others may have any size.
fn read_small(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(64 * 1024).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the path relative to a worktree inside the project, if it is in one.
pub fn without_worktree(path: &str) -> &str {
    for folder in WORKTREES {
        if let Some((before, rest)) = path.split_once(folder)
            && (before.is_empty() || before.ends_with('/'))
        {
            return rest.split_once('/').map_or(path, |(_, inside)| inside);
        }
    }
    path
}

/// Worktree folders inside a project, as created by the client and others.
const WORKTREES: [&str; 2] = [".claude/worktrees/", ".worktrees/"];

/// True if two paths may be the same file, of which either may be partial: the shorter one is a
/// suffix of the longer.
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
    fn paths_match_by_their_suffixes() {
        assert!(is_same_file("/w/src/a.rs", "src/a.rs"));
        assert!(is_same_file("a.rs", "/w/src/a.rs"));
        assert!(is_same_file("./src/a.rs", "src/a.rs") && is_same_file("a.rs", "./a.rs"));
        assert!(!is_same_file("/w/src/ba.rs", "a.rs"));
        assert!(!is_same_file("", "a.rs"));
    }
}
