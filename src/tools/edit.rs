//! An edit of a file: the text before and after it, and the edit as a diff.
//!
//! The shapes are those of Claude Code's Edit, MultiEdit, Write and NotebookEdit. An edit whose texts are missing, cut or do
//! not fit together keeps its diff, as far as there is one.

use serde_json::Value;

use super::payload::{ToolPayload, field, number};
use crate::symbols::{Language, language_of};

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileEdit {
    /// The file as the project knows it.
    pub path: String,
    /// True for a file of the project.
    pub is_owned: bool,
    /// True if the file did not exist before.
    pub creates: bool,
    /// Changed lines with their signs, bounded.
    pub diff: String,
    /// Both texts, until [`super::ToolEvent::release_texts`].
    pub change: Option<FileChange>,
}

/// A file before and after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path as the tool has it.
    pub path: String,
    /// The text before; none if there was no such file.
    pub before: Option<String>,
    /// The text after.
    pub after: String,
    /// The language of both, if it is one that we parse.
    pub language: Option<Language>,
}

/// Maximum length of a stored diff, in bytes. Enough for any edit made by hand.
const DIFF_BYTES: usize = 6 * 1024;

/// Path of the edited file, as the tool has it.
pub(super) fn edited_path(payload: &ToolPayload) -> Option<&str> {
    let names = ["file_path", "filePath", "notebook_path"];
    [&payload.input, &payload.response]
        .into_iter()
        .map(|from| field(from, &names))
        .find(|path| !path.is_empty())
}

/// Renders the edit as changed lines with their signs.
pub(super) fn diff(payload: &ToolPayload) -> String {
    let (input, response) = (&payload.input, &payload.response);
    let mut out = String::new();
    for hunk in list(response, "structuredPatch") {
        let lines = list(hunk, "lines");
        for line in lines.iter().filter_map(Value::as_str).filter(|line| line.starts_with(['+', '-'])) {
            push_line(&mut out, "", line);
        }
    }
    if !out.is_empty() {
        return out;
    }
    for edit in list(input, "edits").iter().chain(std::iter::once(input)) {
        let old = field(edit, &["old_string"]);
        let new = field(edit, &["new_string", "content", "new_source"]);
        old.lines().for_each(|line| push_line(&mut out, "-", line));
        new.lines().for_each(|line| push_line(&mut out, "+", line));
    }
    out
}

fn push_line(out: &mut String, sign: &str, line: &str) {
    if out.len() < DIFF_BYTES {
        out.push_str(sign);
        out.push_str(crate::text::head(line, 400));
        out.push('\n');
    }
}

/// Returns the file before and after the tool's edit. A notebook's text is its code cells in the notebook's language.
pub fn file_change(tool_name: &str, payload: &ToolPayload) -> Option<FileChange> {
    let response = &payload.response;
    let path = edited_path(payload)?.to_owned();
    let before = text(response, &["originalFile", "originalFileContents", "original_file"]);
    let after = match tool_name {
        "Edit" | "MultiEdit" => edited(before?, payload)?,
        // An update without its old text would look like a new file.
        "Write" if before.is_none() && field(response, &["type"]) != "create" => return None,
        "Write" => text(response, &["content"]).or_else(|| text(&payload.input, &["content"]))?.to_owned(),
        "NotebookEdit" => before.and(text(response, &["updated_file"]))?.to_owned(),
        _ => return None,
    };
    if is_cut(&after) || before.is_some_and(is_cut) {
        return None;
    }
    let language = language_of(&path);
    let change = FileChange { path, before: before.map(str::to_owned), after, language };
    if change.path.ends_with(".ipynb") { notebook_change(change) } else { Some(change) }
}

/// The text under the first of these names that has one, even if it is empty.
fn text<'v>(value: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| value.get(name)?.as_str())
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// True if the hook cut something out of the text: `[claude-mem: 1234 bytes cut]`.
fn is_cut(text: &str) -> bool {
    text.match_indices("[claude-mem: ").any(|(at, opening)| {
        let rest = text[at + opening.len()..].trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.starts_with(" bytes cut]")
    })
}

/// The text after an edit: by the patch, which includes the user's own changes, else by the strings.
fn edited(before: &str, payload: &ToolPayload) -> Option<String> {
    let (input, response) = (&payload.input, &payload.response);
    let is_set = |name: &str| response.get(name).and_then(Value::as_bool).unwrap_or_default();
    let by_strings = || {
        let old = text(response, &["oldString"]).or_else(|| text(input, &["old_string"]))?;
        let new = text(response, &["newString"]).or_else(|| text(input, &["new_string"]))?;
        replaced(before, old, new, is_set("replaceAll"))
    };
    match patched(before, list(response, "structuredPatch")) {
        None if !is_set("userModified") => by_strings(),
        patched => patched,
    }
}

/// The text with the hunks applied, if every line that they mention is in its place.
fn patched(before: &str, hunks: &[Value]) -> Option<String> {
    if hunks.is_empty() {
        return None;
    }
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let mut after = String::with_capacity(before.len());
    let mut at = 0;
    for hunk in hunks {
        let start = usize::try_from(number(hunk, "oldStart")?).ok()?.saturating_sub(1);
        old.get(at..start)?.iter().for_each(|line| after.push_str(line));
        at = start;
        for line in list(hunk, "lines") {
            match line.as_str()?.split_at_checked(1) {
                Some(("+", added)) => {
                    after.push_str(added);
                    after.push('\n');
                }
                Some(("\\", _)) => {}
                Some((sign @ ("-" | " "), text)) => {
                    let there = old.get(at)?;
                    if there.trim_end_matches(['\r', '\n']) != text.trim_end_matches('\r') {
                        return None;
                    }
                    if sign == " " {
                        after.push_str(there);
                    }
                    at += 1;
                }
                _ => return None,
            }
        }
    }
    old.get(at..)?.iter().for_each(|line| after.push_str(line));
    Some(after)
}

fn replaced(before: &str, old: &str, new: &str, all: bool) -> Option<String> {
    match (old.is_empty(), all) {
        (true, _) => before.is_empty().then(|| new.to_owned()),
        _ if !before.contains(old) => None,
        (_, true) => Some(before.replace(old, new)),
        (_, false) => Some(before.replacen(old, new, 1)),
    }
}

fn notebook_change(change: FileChange) -> Option<FileChange> {
    let (language, after) = notebook_source(&change.after)?;
    let before = match change.before {
        // A notebook that also changed its language cannot be compared.
        Some(before) => Some(notebook_source(&before).filter(|(known, _)| *known == language)?.1),
        None => None,
    };
    Some(FileChange { before, after, language: Some(language), ..change })
}

/// The code cells of a notebook as one file, and its language; Python if it does not say.
fn notebook_source(json: &str) -> Option<(Language, String)> {
    let notebook: Value = serde_json::from_str(json).ok()?;
    notebook.get("cells")?;
    let named = ["/metadata/language_info/name", "/metadata/kernelspec/language"]
        .iter()
        .find_map(|place| notebook.pointer(place)?.as_str());
    let language = named.map_or(Some(Language::Python), Language::named)?;
    let comment = if matches!(language, Language::Python | Language::Ruby) { "# " } else { "// " };
    let mut source = String::new();
    for cell in list(&notebook, "cells").iter().filter(|cell| field(cell, &["cell_type"]) == "code") {
        let lines = list(cell, "source").iter().filter_map(Value::as_str);
        let text = text(cell, &["source"]).map_or_else(|| lines.collect(), str::to_owned);
        // `%%bash` makes the whole cell something else.
        let is_foreign = text.trim_start().starts_with("%%");
        for line in text.lines() {
            // Commands to the notebook are not code: `%time`, `!ls`, `?print`.
            if is_foreign || line.trim_start().starts_with(['%', '!', '?']) {
                source.push_str(comment);
            }
            source.push_str(line);
            source.push('\n');
        }
        source.push('\n');
    }
    Some((language, source))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn file_change(tool_name: &str, json: &str) -> Option<FileChange> {
        super::file_change(tool_name, &ToolPayload::read(json))
    }

    /// A payload that a client sent.
    fn sent(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hooks/PostToolUse");
        fs::read_to_string(folder.join(name)).unwrap()
    }

    fn edit(response: Value) -> Option<FileChange> {
        file_change("Edit", &json!({ "tool_input": {}, "tool_response": response }).to_string())
    }

    #[test]
    fn an_edit_has_the_old_text_and_the_new_one() {
        let change = file_change("Edit", &sent("Edit.json")).unwrap();
        assert_eq!(change.path, "/home/dev/project/app.py");
        assert_eq!(change.before.unwrap(), "def greet(n):\n    return \"Helo, \" + n\n");
        assert_eq!(change.after, "def greet(n):\n    return \"Hello, \" + n\n");
    }

    #[test]
    fn a_written_file_is_new_or_has_an_old_text() {
        let created = file_change("Write", &sent("Write-create.json")).unwrap();
        assert_eq!((created.before, created.after.lines().count()), (None, 4));
        let updated = file_change("Write", &sent("Write-update.json")).unwrap();
        assert!(updated.before.unwrap().contains("greet('x')") && updated.after.contains("greet('y')"));
    }

    #[test]
    fn the_patch_counts_more_than_the_strings() {
        let response = json!({
            "filePath": "a.rs", "originalFile": "one\ntwo\nthree\nfour\nfive", "userModified": true,
            "oldString": "two", "newString": "2",
            "structuredPatch": [
                { "oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 3, "lines": [" one", "-two", "+zwei", "+drei"] },
                { "oldStart": 5, "oldLines": 1, "newStart": 6, "newLines": 1,
                  "lines": ["-five", "\\ No newline at end of file", "+fünf"] },
            ],
        });
        assert_eq!(edit(response).unwrap().after, "one\nzwei\ndrei\nthree\nfour\nfünf\n");
    }

    #[test]
    fn the_strings_are_used_if_the_patch_does_not_fit() {
        // Some clients show tabs as blanks in the patch.
        let mut response = json!({
            "filePath": "a.go", "originalFile": "\tx := 1\n\ty := 1\n", "oldString": "1", "newString": "2", "replaceAll": true,
            "structuredPatch": [{ "oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-    x := 1", "+    x := 2"] }],
        });
        assert_eq!(edit(response.clone()).unwrap().after, "\tx := 2\n\ty := 2\n");
        response["replaceAll"] = json!(false);
        assert_eq!(edit(response.clone()).unwrap().after, "\tx := 2\n\ty := 1\n");
        // The user's changes before accepting are only in the patch.
        response["userModified"] = json!(true);
        assert_eq!(edit(response), None);
    }

    #[test]
    fn windows_line_ends_do_not_keep_a_patch_from_fitting() {
        let response = json!({
            "filePath": "a.c", "originalFile": "a\r\nb\r\nc\r\n",
            "structuredPatch": [{ "oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" a", "-b", "+B", " c"] }],
        });
        assert_eq!(edit(response).unwrap().after, "a\r\nB\nc\r\n");
    }

    #[test]
    fn what_the_hook_cut_is_not_guessed_at() {
        for (before, after) in
            [("a [claude-mem: 12 bytes cut] b", "b"), ("a", "b [claude-mem: 9999 bytes cut]")]
        {
            let response =
                json!({ "type": "update", "filePath": "a.rs", "originalFile": before, "content": after });
            let payload = json!({ "tool_input": {}, "tool_response": response }).to_string();
            assert_eq!(file_change("Write", &payload), None);
        }
        assert!(!is_cut("[claude-mem: some bytes cut]") && !is_cut("[claude-mem: 12"));
    }

    #[test]
    fn missing_or_malformed_fields_give_no_edit() {
        for (tool, payload) in [
            ("Edit", json!({ "tool_input": { "file_path": "a.rs" }, "tool_response": "done" })),
            ("Edit", json!({ "tool_input": { "file_path": "a.rs" } })),
            ("Edit", json!({ "tool_response": { "filePath": "a.rs", "originalFile": null } })),
            (
                "Edit",
                json!({ "tool_response": { "filePath": "a.rs", "originalFile": "x", "oldString": "y", "newString": "z" } }),
            ),
            (
                "Write",
                json!({ "tool_response": { "type": "update", "filePath": "a.rs", "originalFile": null, "content": "x" } }),
            ),
            ("Write", json!({ "tool_response": { "type": "create", "content": "x" } })),
            ("Bash", json!({ "tool_response": { "filePath": "a.rs", "originalFile": "x", "content": "y" } })),
            ("Edit", json!([])),
        ] {
            assert_eq!(file_change(tool, &payload.to_string()), None, "{tool} {payload}");
        }
        assert_eq!(file_change("Edit", "{\"tool_response\":"), None);
    }

    fn notebook(language: &str, cells: Value) -> String {
        json!({ "cells": cells, "metadata": { "language_info": { "name": language } }, "nbformat": 4 })
            .to_string()
    }

    #[test]
    fn a_notebook_is_its_python_cells() {
        let before = notebook(
            "python",
            json!([
                { "cell_type": "markdown", "source": ["# Title\n"] },
                { "cell_type": "code", "source": ["%matplotlib inline\n", "import os\n", "!ls"] },
                { "cell_type": "code", "source": "%%bash\nls -l" },
                { "cell_type": "code", "source": "def f():\n    return 1" },
            ]),
        );
        let after = before.replace("return 1", "return 2");
        let response = json!({
            "new_source": "def f():\n    return 2", "cell_id": "c3", "cell_type": "code", "language": "python",
            "edit_mode": "replace", "notebook_path": "/work/a.ipynb", "original_file": before, "updated_file": after,
        });
        let payload =
            json!({ "tool_input": { "notebook_path": "/work/a.ipynb" }, "tool_response": response })
                .to_string();
        let change = file_change("NotebookEdit", &payload).unwrap();
        assert_eq!(
            change.before.unwrap(),
            "# %matplotlib inline\nimport os\n# !ls\n\n# %%bash\n# ls -l\n\ndef f():\n    return 1\n\n"
        );
        assert!(change.after.ends_with("return 2\n\n"));
    }

    #[test]
    fn a_notebook_is_read_in_its_own_language() {
        let before =
            notebook("typescript", json!([{ "cell_type": "code", "source": "!ls\nfunction f() {}" }]));
        let after = before.replace("{}", "{ return 1; }");
        let response = json!({ "notebook_path": "a.ipynb", "original_file": before, "updated_file": after });
        let payload = json!({ "tool_input": {}, "tool_response": response }).to_string();
        let change = file_change("NotebookEdit", &payload).unwrap();
        assert_eq!(change.language, Some(Language::TypeScript));
        assert_eq!(change.after, "// !ls\nfunction f() { return 1; }\n\n");
    }

    #[test]
    fn a_notebook_without_text_or_in_another_language_is_skipped() {
        let other = notebook("julia", json!([{ "cell_type": "code", "source": "f(x) = x" }]));
        for (original, updated) in
            [(Some(other.as_str()), Some(other.as_str())), (None, None), (Some("{"), Some("{"))]
        {
            let response =
                json!({ "notebook_path": "a.ipynb", "original_file": original, "updated_file": updated });
            let payload = json!({ "tool_input": {}, "tool_response": response }).to_string();
            assert_eq!(file_change("NotebookEdit", &payload), None);
        }
    }

    proptest! {
        #[test]
        fn no_payload_is_too_strange(
            original in "(?s).{0,40}|([a-c]{0,3}\n){0,6}",
            start in 0_usize..9,
            lines in proptest::collection::vec("(?s)[-+ \\\\]?[a-c]{0,3}|.{0,4}", 0..6),
        ) {
            let patch = json!([{ "oldStart": start, "lines": lines }]);
            let _ = edit(json!({ "filePath": "a", "originalFile": original, "structuredPatch": patch }));
            let _ = file_change("Edit", &original);
        }
    }
}
