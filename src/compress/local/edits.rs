//! What an edit did: lines added and removed, functions touched, and the replaced text where that is short.

use serde_json::Value;

use super::definitions::{Language, definition, enclosing, indent_of};
use super::payload::{Payload, field};
use super::place::Place;
use super::text::{counted, one_line, shorten};

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
    /// The replaced line and its replacement, where that is all (either may be empty).
    pub swap: Option<(String, String)>,
    /// The one name that was replaced by another, and how often.
    pub rename: Option<(String, String, usize)>,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    Created,
    Changed,
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

/// How many functions of one file are told.
const MOST_TOUCHED: usize = 24;
/// How many lines of a patch are looked at.
const MOST_PATCH_LINES: usize = 4_000;
/// The longest line that is quoted.
const SWAP_COLUMNS: usize = 90;

impl Edit {
    /// An edit of which nothing but the file is known.
    pub fn bare(path: String, how: How) -> Self {
        Self { path, how, lines: None, touched: Vec::new(), swap: None, rename: None }
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
        edit.swap = if created { None } else { swap(&hunks) };
        edit.rename = if created { None } else { rename(&hunks) };
        Some(edit)
    }

    /// A file that a shell command wrote.
    pub fn written(path: String, content: Option<&str>) -> Self {
        let mut edit = Self::bare(path, How::Changed);
        if let Some(content) = content {
            let hunks = [Hunk::added(content)];
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
        self.swap = None;
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
                let verb = if self.how == How::Created && verb == "adds" { "defines" } else { verb };
                parts.push(format!("{verb} {names}"));
            }
        }
        if let Some((old, new)) = &self.swap {
            parts.push(match (old.is_empty(), new.is_empty()) {
                (true, _) => format!("new line `{new}`"),
                (_, true) => format!("line `{old}` removed"),
                _ => format!("`{old}` became `{new}`"),
            });
        }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Kept,
    Added,
    Removed,
}

/// Some changed lines and what is around them.
struct Hunk<'a> {
    /// The old file up to here, where it is known.
    before: &'a str,
    lines: Vec<(Mark, &'a str)>,
}

impl<'a> Hunk<'a> {
    fn all(input: &'a Value, response: &'a Value, original: &'a str) -> Vec<Self> {
        if let Some(patch) =
            response.get("structuredPatch").and_then(Value::as_array).filter(|patch| !patch.is_empty())
        {
            return patch.iter().filter_map(|hunk| Self::from_patch(hunk, original)).collect();
        }
        if let Some(edits) = input.get("edits").and_then(Value::as_array) {
            return edits.iter().map(|edit| Self::from_strings(edit, original)).collect();
        }
        if input.get("old_string").is_some() || input.get("new_string").is_some() {
            return vec![Self::from_strings(input, original)];
        }
        match field(input, &["content", "new_source"]) {
            "" => Vec::new(),
            _ if field(response, &["type"]) == "update" => Vec::new(),
            content => vec![Self::added(content)],
        }
    }

    fn from_patch(hunk: &'a Value, original: &'a str) -> Option<Self> {
        let lines: Vec<(Mark, &str)> = hunk
            .get("lines")?
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .take(MOST_PATCH_LINES)
            .filter_map(|line| match line.as_bytes().first() {
                Some(b'+') => Some((Mark::Added, &line[1..])),
                Some(b'-') => Some((Mark::Removed, &line[1..])),
                Some(b' ') => Some((Mark::Kept, &line[1..])),
                _ => None,
            })
            .collect();
        let start =
            hunk.get("oldStart").and_then(Value::as_u64).and_then(|start| usize::try_from(start).ok());
        let before = start.map_or("", |start| text_before(original, start, &lines));
        Some(Self { before, lines })
    }

    fn from_strings(edit: &'a Value, original: &'a str) -> Self {
        let (old, new) = (field(edit, &["old_string"]), field(edit, &["new_string"]));
        let before = original.find(old).filter(|_| !old.is_empty()).map_or("", |at| &original[..at]);
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let same_head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
        let shorter = old.len().min(new.len()) - same_head;
        let same_tail = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(shorter)
            .take_while(|(one, other)| one == other)
            .count();
        let kept = old[..same_head].iter().map(|line| (Mark::Kept, *line));
        let removed = old[same_head..old.len() - same_tail].iter().map(|line| (Mark::Removed, *line));
        let added = new[same_head..new.len() - same_tail].iter().map(|line| (Mark::Added, *line));
        Self { before, lines: kept.chain(removed).chain(added).take(MOST_PATCH_LINES).collect() }
    }

    fn added(content: &'a str) -> Self {
        Self {
            before: "",
            lines: content.lines().take(MOST_PATCH_LINES).map(|line| (Mark::Added, line)).collect(),
        }
    }

    /// The lines above one of the hunk, nearest first, as they were (or are) on its side of the change.
    fn above(&self, at: usize, mark: Mark) -> impl Iterator<Item = &'a str> + '_ {
        let other = if mark == Mark::Added { Mark::Removed } else { Mark::Added };
        let inside =
            self.lines[..at].iter().rev().filter(move |(mark, _)| *mark != other).map(|(_, line)| *line);
        inside.chain(self.before.trim_end_matches('\n').rsplit('\n'))
    }
}

/// The original file up to line `start` (from 1), if the hunk really lies there: a long file may have been cut.
fn text_before<'a>(original: &'a str, start: usize, lines: &[(Mark, &str)]) -> &'a str {
    let offset = match start.saturating_sub(1) {
        0 => 0,
        skipped => memchr::memchr_iter(b'\n', original.as_bytes())
            .nth(skipped - 1)
            .map_or(original.len(), |at| at + 1),
    };
    let first_old = lines.iter().find(|(mark, _)| *mark != Mark::Added).map(|(_, line)| *line);
    let there = original[offset..].split('\n').next();
    if first_old.is_some() && first_old == there { &original[..offset] } else { "" }
}

fn counts(hunks: &[Hunk<'_>]) -> (usize, usize) {
    let count =
        |wanted: Mark| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|(mark, _)| *mark == wanted).count();
    (count(Mark::Added), count(Mark::Removed))
}

fn touched(hunks: &[Hunk<'_>], language: Language) -> Vec<Touched> {
    let mut touched = Vec::new();
    if language == Language::None {
        return touched;
    }
    for hunk in hunks {
        for (at, (mark, line)) in hunk.lines.iter().enumerate() {
            let trimmed = line.trim();
            if *mark == Mark::Kept
                || trimmed.trim_matches(['{', '}', '(', ')', '[', ']', ',', ';']).is_empty()
            {
                continue;
            }
            let around = || enclosing(indent_of(line), hunk.above(at, *mark), language);
            match definition(line, language) {
                Some(own) => {
                    let how = if *mark == Mark::Added { Touch::New } else { Touch::Removed };
                    let outer = around().filter(|outer| outer.container && !own.name.contains(&outer.name));
                    let separator = if language == Language::Rust { "::" } else { "." };
                    let name = outer
                        .map_or(own.name.clone(), |outer| format!("{}{separator}{}", outer.name, own.name));
                    add_touched(&mut touched, &name, how);
                }
                None => {
                    if let Some(outer) = around() {
                        add_touched(&mut touched, &outer.name, Touch::Changed);
                    }
                }
            }
        }
    }
    touched
}

/// Removed and added is changed; what is new stays new.
fn add_touched(touched: &mut Vec<Touched>, name: &str, how: Touch) {
    if let Some(known) = touched.iter_mut().find(|known| known.name == name) {
        known.how = match (known.how, how) {
            (Touch::New, Touch::Changed | Touch::New) => Touch::New,
            (Touch::Changed, Touch::Removed) | (Touch::Removed, Touch::Changed | Touch::Removed) => {
                Touch::Removed
            }
            _ => Touch::Changed,
        };
    } else if touched.len() < MOST_TOUCHED {
        touched.push(Touched { name: name.to_owned(), how });
    }
}

/// The one line that was replaced, added or removed, if that is all.
fn swap(hunks: &[Hunk<'_>]) -> Option<(String, String)> {
    let [hunk] = hunks else { return None };
    let of = |wanted: Mark| -> Vec<&str> {
        hunk.lines
            .iter()
            .filter(|(mark, line)| *mark == wanted && !line.trim().is_empty())
            .map(|(_, line)| *line)
            .collect()
    };
    let quoted = |line: &str| shorten(&one_line(line).replace('`', "'"), SWAP_COLUMNS);
    match (of(Mark::Removed).as_slice(), of(Mark::Added).as_slice()) {
        ([old], [new]) => Some((quoted(old), quoted(new))),
        ([], [new]) => Some((String::new(), quoted(new))),
        ([old], []) => Some((quoted(old), String::new())),
        _ => None,
    }
}

/// The name that was replaced by another everywhere in the patch, if nothing else changed.
fn rename(hunks: &[Hunk<'_>]) -> Option<(String, String, usize)> {
    let mut found: Option<(&str, &str, usize)> = None;
    for hunk in hunks {
        let of =
            |wanted: Mark| hunk.lines.iter().filter(move |(mark, _)| *mark == wanted).map(|(_, line)| *line);
        if of(Mark::Removed).count() != of(Mark::Added).count() {
            return None;
        }
        for (old, new) in of(Mark::Removed).zip(of(Mark::Added)) {
            let (old, new): (Vec<&str>, Vec<&str>) = (tokens(old), tokens(new));
            if old.len() != new.len() {
                return None;
            }
            for (from, to) in old.into_iter().zip(new).filter(|(from, to)| from != to) {
                let is_word = |token: &str| {
                    token.len() > 1 && token.starts_with(|first: char| first.is_alphabetic() || first == '_')
                };
                found = match found {
                    None if is_word(from) && is_word(to) => Some((from, to, 1)),
                    Some((known, known_to, count)) if (known, known_to) == (from, to) => {
                        Some((from, to, count + 1))
                    }
                    _ => return None,
                };
            }
        }
    }
    found.map(|(from, to, count)| (shorten(from, 60), shorten(to, 60), count))
}

/// Words and single characters of a line.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        let end = if is_word(first) {
            rest.find(|char: char| !is_word(char)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
