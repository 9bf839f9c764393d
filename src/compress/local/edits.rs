//! What an edit did: lines added and removed, functions touched, and the replaced text where that is short.

use super::definitions::Language;
use super::patch::{Hunk, add_touched, counts, rename, swap, touched};
use super::payload::{Payload, field};
use super::place::Place;
use super::text::counted;

/// One change of one file, or several taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    /// Seen from the project's root.
    pub path: String,
    /// What happened to the file.
    pub how: How,
    /// Lines added and removed, where that is known.
    pub lines: Option<(usize, usize)>,
    /// Functions and types that it touched.
    pub touched: Vec<Touched>,
    /// Replaced lines and their replacements, where an edit was no more than that (either may be empty).
    pub swaps: Vec<(String, String)>,
    /// The one name that was replaced by another, and how often.
    pub rename: Option<(String, String, usize)>,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    Created,
    Changed,
    /// Written as a whole by a shell command: new or not, that is not known.
    Written,
    Deleted,
    MovedFrom(String),
}

/// A function or type that an edit touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Touched {
    pub name: String,
    pub how: Touch,
}

/// How it was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    New,
    Changed,
    Removed,
}

/// How many replaced lines of one file are told.
const MOST_SWAPS: usize = 2;

impl Edit {
    /// An edit of which nothing but the file is known.
    pub fn bare(path: String, how: How) -> Self {
        Self { path, how, lines: None, touched: Vec::new(), swaps: Vec::new(), rename: None }
    }

    /// From the payload of Edit, Write, MultiEdit or NotebookEdit.
    pub fn read(payload: &Payload, place: &Place<'_>) -> Option<Self> {
        let (input, response) = (&payload.input, &payload.response);
        let names = ["file_path", "notebook_path", "filePath", "path"];
        let path =
            [input, response].into_iter().map(|from| field(from, &names)).find(|path| !path.is_empty())?;
        let relative = place.relative(path);
        let language = Language::of(&relative);
        let original = field(response, &["originalFile", "originalFileContents"]);
        let hunks = Hunk::all(input, response, original);
        let created = field(response, &["type"]) == "create";
        let mut edit = Self::bare(relative, if created { How::Created } else { How::Changed });
        if hunks.is_empty() && !created && field(response, &["type"]) == "update" {
            // An old client does not say what changed; counting all lines as new would be a lie.
            return Some(edit);
        }
        edit.lines = Some(counts(&hunks));
        edit.touched = touched(&hunks, language);
        if !created {
            edit.swaps.extend(swap(&hunks));
            edit.rename = rename(&hunks);
        }
        Some(edit)
    }

    /// A file that a shell command wrote, or appended to, with the content if that is known.
    pub fn written(path: String, appended: bool, content: Option<&str>) -> Self {
        let mut edit = Self::bare(path, if appended { How::Changed } else { How::Written });
        if let Some(content) = content {
            let hunks = [Hunk::added(content)];
            edit.lines = Some(counts(&hunks));
            edit.touched = touched(&hunks, Language::of(&edit.path));
        }
        edit
    }

    /// Takes a later edit of the same file into this one.
    pub fn absorb(&mut self, later: &Self) {
        self.lines = match (self.lines, later.lines) {
            (Some((added, removed)), Some((more_added, more_removed))) if self.how == How::Created => {
                Some(((added + more_added).saturating_sub(more_removed), removed))
            }
            (Some((added, removed)), Some((more_added, more_removed))) => {
                Some((added + more_added, removed + more_removed))
            }
            (first, second) => first.or(second),
        };
        self.how = match (&self.how, &later.how) {
            (_, How::Deleted) => How::Deleted,
            (first, How::Changed) => first.clone(),
            (How::Created, _) => How::Created,
            (_, second) => second.clone(),
        };
        for touched in &later.touched {
            add_touched(&mut self.touched, &touched.name, touched.how);
        }
        let room = MOST_SWAPS.saturating_sub(self.swaps.len());
        self.swaps.extend(later.swaps.iter().take(room).cloned());
        self.rename = match (self.rename.take(), &later.rename) {
            (Some((from, to, count)), Some((same_from, same_to, more)))
                if (&from, &to) == (same_from, same_to) =>
            {
                Some((from, to, count + more))
            }
            _ => None,
        };
    }

    /// The names of what it touched, at most so many.
    pub fn names(&self, most: usize) -> Vec<String> {
        let mut names: Vec<String> = self.touched.iter().map(|touched| touched.name.clone()).collect();
        if names.len() > most {
            names.truncate(most);
            names.push("…".to_owned());
        }
        names
    }

    /// `+3 -1`, `new, 12 lines`, `deleted`.
    pub fn size(&self) -> String {
        match (&self.how, self.lines) {
            (How::Created, Some((added, _))) => format!("new, {}", counted(added, "line")),
            (How::Created, None) => "new".to_owned(),
            (How::Deleted, _) => "deleted".to_owned(),
            (How::MovedFrom(from), _) => format!("moved from {from}"),
            (How::Changed, Some((added, removed))) => format!("+{added} -{removed}"),
            (How::Written, Some((added, _))) => format!("written, {}", counted(added, "line")),
            (How::Written, None) => "written".to_owned(),
            (How::Changed, None) => "changed".to_owned(),
        }
    }

    /// A statement that stands on its own.
    pub fn statement(&self) -> String {
        let list = |how: Touch| {
            let names: Vec<&str> = self
                .touched
                .iter()
                .filter(|touched| touched.how == how)
                .map(|touched| touched.name.as_str())
                .collect();
            if names.len() > 6 {
                format!("{} and {} more", names[..6].join(", "), names.len() - 6)
            } else {
                names.join(", ")
            }
        };
        let (new, changed, removed) = (list(Touch::New), list(Touch::Changed), list(Touch::Removed));
        let mut parts = Vec::new();
        for (verb, names) in [("changes", changed), ("adds", new), ("removes", removed)] {
            if !names.is_empty() {
                let whole = matches!(self.how, How::Created | How::Written);
                let verb = if whole && verb == "adds" { "defines" } else { verb };
                parts.push(format!("{verb} {names}"));
            }
        }
        // Among many lines, single ones say little; a rename says it all.
        let rename = self.rename.as_ref().filter(|(_, _, count)| *count >= 2);
        parts.extend(rename.map(|(from, to, _)| format!("{from} renamed to {to}")));
        let few = self.lines.is_some_and(|(added, removed)| added + removed <= 6) && rename.is_none();
        parts.extend(self.swaps.iter().filter(|_| few).map(|(old, new)| {
            match (old.is_empty(), new.is_empty()) {
                (true, _) => format!("new line `{new}`"),
                (_, true) => format!("line `{old}` removed"),
                _ => format!("`{old}` became `{new}`"),
            }
        }));
        let told = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
        format!("{} ({}){told}", self.path, self.size())
    }
}

/// Edits of the same file taken together, in the order of first appearance.
pub(super) fn merged<'e>(edits: impl IntoIterator<Item = &'e Edit>) -> Vec<Edit> {
    let mut merged: Vec<Edit> = Vec::new();
    for edit in edits {
        if let How::MovedFrom(from) = &edit.how {
            merged.retain(|known| known.path != *from);
        }
        match merged.iter_mut().find(|known| known.path == edit.path) {
            Some(known) => known.absorb(edit),
            None => merged.push(edit.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(input: Value, response: Value) -> Edit {
        let payload = Payload { input, response, ..Payload::default() };
        Edit::read(&payload, &Place { root: Some("/p"), cwd: None }).unwrap()
    }

    fn names(edit: &Edit) -> Vec<(&str, Touch)> {
        edit.touched.iter().map(|touched| (touched.name.as_str(), touched.how)).collect()
    }

    #[test]
    fn the_patch_tells_lines_function_and_the_replaced_text() {
        let edit = read(
            json!({"file_path": "/p/app.py"}),
            json!({"filePath": "/p/app.py", "structuredPatch": [{"oldStart": 1, "lines":
                [" def greet(n):", "-    return \"Helo, \" + n", "+    return \"Hello, \" + n"]}]}),
        );
        assert_eq!((edit.path.as_str(), edit.lines), ("app.py", Some((1, 1))));
        assert_eq!(names(&edit), [("greet", Touch::Changed)]);
        assert_eq!(
            edit.statement(),
            "app.py (+1 -1): changes greet; `return \"Helo, \" + n` became `return \"Hello, \" + n`"
        );
    }

    #[test]
    fn the_old_file_tells_the_function_that_the_hunk_does_not_show() {
        let original = "impl Client {\n    fn upload(&self) {\n        one();\n        two();\n        three();\n        four();\n        five();\n    }\n}\n";
        let patch = json!([{"oldStart": 4, "lines": ["         two();", "         three();", "-        four();", "+        fourth();", "         five();"]}]);
        let edit = read(
            json!({"file_path": "/p/c.rs"}),
            json!({"originalFile": original, "structuredPatch": patch}),
        );
        assert_eq!(names(&edit), [("Client::upload", Touch::Changed)]);
        let cut = format!("[claude-mem: 9 bytes cut]\n{original}");
        let edit =
            read(json!({"file_path": "/p/c.rs"}), json!({"originalFile": cut, "structuredPatch": patch}));
        assert_eq!(names(&edit), []);
    }

    #[test]
    fn new_removed_and_re_signed_functions_are_told_apart() {
        let edit = read(
            json!({"file_path": "/p/a.ts"}),
            json!({"structuredPatch": [{"oldStart": 1, "lines": [
                "-function gone() {", "-  return 1;", "-}",
                "-export function kept(a: number) {", "+export function kept(a: number, b: number) {", "   return a;", " }",
                "+function fresh() {", "+  return 2;", "+}"]}]}),
        );
        assert_eq!(names(&edit), [("gone", Touch::Removed), ("kept", Touch::Changed), ("fresh", Touch::New)]);
    }

    #[test]
    fn without_a_patch_the_strings_are_compared() {
        let original = "def a():\n    x = 1\n    y = 2\n    return x\n";
        let edit = read(
            json!({"file_path": "/p/a.py", "old_string": "    y = 2\n    return x", "new_string": "    y = 3\n    return x"}),
            json!({"originalFile": original}),
        );
        assert_eq!((edit.lines, names(&edit)), (Some((1, 1)), vec![("a", Touch::Changed)]));
        let many = read(
            json!({"file_path": "/p/a.py", "edits": [{"old_string": "a", "new_string": "b"}, {"new_string": "c"}]}),
            json!("ok"),
        );
        assert_eq!(many.lines, Some((2, 1)));
    }

    #[test]
    fn a_new_file_is_counted_and_an_old_client_that_says_nothing_is_not_guessed() {
        let created = read(
            json!({"file_path": "/p/t.py", "content": "def t():\n    pass\n"}),
            json!({"type": "create"}),
        );
        assert_eq!((created.how.clone(), created.size()), (How::Created, "new, 2 lines".to_owned()));
        assert_eq!(created.statement(), "t.py (new, 2 lines): defines t");
        let updated = read(
            json!({"file_path": "/p/t.py", "content": "x"}),
            json!({"type": "update", "structuredPatch": []}),
        );
        assert_eq!(updated.statement(), "t.py (changed)");
    }

    #[test]
    fn a_rename_is_recognised_across_edits() {
        let edit = |path: &str| {
            read(
                json!({"file_path": path, "old_string": "let a = load_user(1);\nload_user(2)", "new_string": "let a = fetch_user(1);\nfetch_user(2)"}),
                json!(null),
            )
        };
        assert_eq!(edit("/p/a.rs").rename, Some(("load_user".into(), "fetch_user".into(), 2)));
        let all = merged(&[edit("/p/a.rs"), edit("/p/a.rs"), edit("/p/b.rs")]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].rename.as_ref().map(|rename| rename.2), Some(4));
        let mixed = read(
            json!({"file_path": "/p/a.rs", "old_string": "a_b(1)", "new_string": "c_d(2)"}),
            json!(null),
        );
        assert_eq!(mixed.rename, None);
    }

    #[test]
    fn edits_of_one_file_become_one_change() {
        let created =
            read(json!({"file_path": "/p/t.py", "content": "a\nb\nc\n"}), json!({"type": "create"}));
        let changed =
            read(json!({"file_path": "/p/t.py", "old_string": "a", "new_string": "x\ny"}), json!(null));
        let all = merged(&[created, changed]);
        assert_eq!((all.len(), all[0].size()), (1, "new, 4 lines".to_owned()));
    }
}
