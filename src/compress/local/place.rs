//! Paths: how they are told to a reader, and what kind of file they name. Never looks at the disk.

use super::text::{clean, each, shorten};

/// The longest path that is told in full.
const PATH_COLUMNS: usize = 160;

/// Where the turn happened.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::compress) struct Place<'a> {
    /// The project's root.
    pub root: Option<&'a str>,
    /// Where the client stood.
    pub cwd: Option<&'a str>,
}

impl Place<'_> {
    /// The path as seen from the project's root, or as it is if it lies elsewhere.
    pub fn relative(&self, path: &str) -> String {
        let cleaned = clean(path.trim());
        let absolute = self.absolute(&cleaned);
        let seen = [self.root, self.cwd].into_iter().flatten().find_map(|root| below(&absolute, root));
        let seen = seen.unwrap_or(&absolute);
        shorten(without_worktree(seen), PATH_COLUMNS)
    }

    /// Whether the path lies in the project (or nothing is known about where that is).
    pub fn owns(&self, path: &str) -> bool {
        !self.relative(path).starts_with(['/', '~'])
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

/// A file in one of the client's worktrees is the same file of the project.
fn without_worktree(path: &str) -> &str {
    let inside = path.strip_prefix(".claude/worktrees/").and_then(|rest| rest.split_once('/'));
    inside.map_or(path, |(_, rest)| rest)
}

/// Without `.`, `..` and doubled slashes.
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
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(path)
}

/// The file's name without what comes after its first dot.
pub(super) fn stem(path: &str) -> &str {
    let name = file_name(path);
    match name.char_indices().find(|(at, char)| *char == '.' && *at > 0) {
        Some((dot, _)) => &name[..dot],
        None => name,
    }
}

/// What comes after the last dot of the file's name, in lower case.
pub(super) fn extension(path: &str) -> String {
    let name = file_name(path);
    name.rsplit_once('.')
        .filter(|(stem, _)| !stem.is_empty())
        .map_or_else(String::new, |(_, end)| end.to_lowercase())
}

/// What kind of file a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Source,
    Test,
    Document,
    Settings,
}

/// Judges by the name alone.
pub(super) fn kind_of(path: &str) -> FileKind {
    let lower = path.to_lowercase();
    let name = file_name(&lower);
    let extension = extension(&lower);
    if is_test(&lower, name) {
        return FileKind::Test;
    }
    match extension.as_str() {
        "md" | "mdx" | "rst" | "txt" | "adoc" | "tex" => FileKind::Document,
        "toml" | "yaml" | "yml" | "json" | "jsonc" | "ini" | "cfg" | "conf" | "lock" | "env"
        | "properties" | "xml" | "plist" | "service" => FileKind::Settings,
        "" if name.starts_with('.') || name == "dockerfile" || name == "makefile" => FileKind::Settings,
        "" if matches!(name, "readme" | "license" | "changelog") => FileKind::Document,
        _ => FileKind::Source,
    }
}

fn is_test(lower: &str, name: &str) -> bool {
    let in_folder = ["tests/", "test/", "spec/", "__tests__/", "e2e/"]
        .iter()
        .any(|folder| lower.starts_with(folder) || lower.contains(&format!("/{folder}")));
    let source =
        !matches!(extension(name).as_str(), "md" | "json" | "toml" | "yaml" | "yml" | "txt" | "snap" | "");
    let stem = stem(name);
    (in_folder && source)
        || name.starts_with("test_")
        || ["_test", "_spec", "-test", "tests"]
            .iter()
            .any(|end| stem.ends_with(end) && stem != "tests" && source)
        || [".test.", ".spec."].iter().any(|middle| name.contains(middle))
}

/// What a file is about, so that `app.py`, `test_app.py` and `app.test.ts` are about the same.
pub(super) fn subject(path: &str) -> String {
    let lower = stem(path).to_lowercase();
    let without = ["test_", "test-"].iter().find_map(|start| lower.strip_prefix(start)).unwrap_or(&lower);
    let ends = ["_test", "_tests", "_spec", "-test", "-spec", "tests", "test"];
    let without = ends.iter().find_map(|end| without.strip_suffix(end)).unwrap_or(without);
    if without.is_empty() { lower } else { without.to_owned() }
}

/// Whether a name says too little to be told, or found, by itself.
pub(super) fn is_generic_stem(stem: &str) -> bool {
    const GENERIC: &str = "mod|lib|main|index|__init__|init|readme|license|changelog|package|package-lock|cargo|\
        tsconfig|conftest|setup|makefile|dockerfile|utils|util|types|test|tests";
    each(GENERIC).any(|name| name == stem.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_the_projects_root() {
        let place = Place { root: Some("/home/dev/project"), cwd: Some("/home/dev/project/sub") };
        assert_eq!(place.relative("/home/dev/project/src/a.rs"), "src/a.rs");
        assert_eq!(place.relative("b.rs"), "sub/b.rs");
        assert_eq!(place.relative("./../c.rs"), "c.rs");
        assert_eq!(place.relative("/home/dev/project/.claude/worktrees/wt1/src/a.rs"), "src/a.rs");
        assert_eq!(place.relative("/home/dev/project-two/a.rs"), "/home/dev/project-two/a.rs");
        assert_eq!(place.relative("/etc/hosts"), "/etc/hosts");
        assert!(place.owns("src/a.rs") && !place.owns("/tmp/x"));
        let elsewhere = Place { root: Some("/srv/main"), cwd: Some("/srv/worktree") };
        assert_eq!(elsewhere.relative("/srv/worktree/src/a.rs"), "src/a.rs");
        assert_eq!(Place::default().relative("/a/b.rs"), "/a/b.rs");
    }

    #[test]
    fn the_kind_of_a_file_follows_from_its_name() {
        for test in ["tests/it/a.rs", "test_app.py", "src/app.test.ts", "pkg/app_test.go", "src/AppTests.cs"]
        {
            assert_eq!(kind_of(test), FileKind::Test, "{test}");
        }
        for source in ["src/app.py", "src/latest.rs", "contest.go", "index.html"] {
            assert_eq!(kind_of(source), FileKind::Source, "{source}");
        }
        assert_eq!(kind_of("README.md"), FileKind::Document);
        assert_eq!(kind_of(".github/workflows/ci.yml"), FileKind::Settings);
        assert_eq!(kind_of("tests/data.json"), FileKind::Settings);
    }

    #[test]
    fn a_test_is_about_what_it_tests() {
        for path in ["app.py", "tests/test_app.py", "app.test.ts", "app_test.go", "AppTest.java"] {
            assert_eq!(subject(path), "app", "{path}");
        }
        assert_eq!(subject("test.py"), "test");
    }
}
