//! Tools of all agents by the names and shapes that Claude Code's hooks have.

use serde_json::{Value, json};

/// The name as hooks have it. A model may write a broken one; what is behind the break is no name.
pub fn tool_name(name: &str) -> String {
    let is_name = |letter: char| letter.is_alphanumeric() || "_-.:/".contains(letter);
    let name = &name[..name.find(|letter| !is_name(letter)).unwrap_or(name.len())];
    if name == "Task" { "Agent".into() } else { name.into() }
}

/// Rebuilds a response of which the history has only the text.
pub fn rebuilt_response(tool: &str, input: &str, text: &str) -> String {
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let response = match tool {
        "Bash" => json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false}),
        "Read" => {
            let (content, start) = without_numbers(text);
            let lines = content.lines().count();
            json!({"type": "text", "file": {"filePath": input["file_path"], "content": content, "numLines": lines,
                   "startLine": start, "totalLines": start + lines}})
        }
        "Grep" | "Glob" => {
            let is_file =
                |line: &&str| !line.is_empty() && !line.starts_with("Found ") && !line.starts_with("No ");
            let files: Vec<&str> = text.lines().filter(is_file).collect();
            match input["output_mode"].as_str() {
                Some(mode @ ("content" | "count")) => {
                    json!({"mode": mode, "numFiles": files.len().min(1), "filenames": [], "content": files.join("\n"),
                           "numLines": files.len()})
                }
                _ => json!({"mode": "files_with_matches", "numFiles": files.len(), "filenames": files}),
            }
        }
        "Edit" => json!({"filePath": input["file_path"], "oldString": input["old_string"],
                         "newString": input["new_string"], "structuredPatch": []}),
        "Write" => json!({"type": "create", "filePath": input["file_path"], "content": input["content"],
                          "structuredPatch": []}),
        _ => text.into(),
    };
    response.to_string()
}

/// A file's text without the numbers in front of its lines, and the first number.
fn without_numbers(text: &str) -> (String, usize) {
    let body = text.split("\n\n<system-reminder>").next().unwrap_or_default();
    let numbered = |line: &str| {
        let (number, rest) = line.split_once(['→', '\t'])?;
        Some((number.trim().parse::<usize>().ok()?, rest.to_owned()))
    };
    let lines: Option<Vec<(usize, String)>> = body.split('\n').map(numbered).collect();
    match lines {
        Some(lines) if !lines.is_empty() => {
            let start = lines[0].0;
            (lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n"), start)
        }
        _ => (body.to_owned(), 1),
    }
}

/// Another agent's tool and its input, as Claude Code would have called it.
pub fn translated(name: &str, input: &Value) -> (String, Value) {
    let first = |names: &[&str]| names.iter().map(|name| &input[*name]).find(|value| !value.is_null());
    let text = |names: &[&str]| first(names).cloned().unwrap_or_default();
    let file = || text(&["file_path", "filePath", "path", "absolute_path"]);
    match name {
        "bash" | "shell" | "exec_command" | "run_shell_command" | "local_shell" | "container.exec"
        | "powershell" => {
            ("Bash".into(), json!({"command": command_of(&text(&["command", "cmd", "script"]))}))
        }
        "read" | "read_file" | "view" => ("Read".into(), json!({"file_path": file()})),
        "edit" | "replace" | "str_replace" | "str_replace_editor" | "multiedit" => {
            let (old, new) = (
                text(&["old_string", "oldString", "old_str"]),
                text(&["new_string", "newString", "new_str"]),
            );
            ("Edit".into(), json!({"file_path": file(), "old_string": old, "new_string": new}))
        }
        "write" | "write_file" | "create" => {
            ("Write".into(), json!({"file_path": file(), "content": text(&["content", "file_text"])}))
        }
        "grep" | "search_file_content" | "rg" | "grep_search" => {
            ("Grep".into(), json!({"pattern": text(&["pattern", "query"]), "output_mode": "content"}))
        }
        "glob" | "list" | "list_directory" | "ls" => {
            ("Glob".into(), json!({"pattern": text(&["pattern", "path", "dir_path"])}))
        }
        "webfetch" | "web_fetch" => ("WebFetch".into(), json!({"url": text(&["url", "prompt"])})),
        "websearch" | "web_search" | "google_web_search" => {
            ("WebSearch".into(), json!({"query": text(&["query"])}))
        }
        other => (tool_name(other), input.clone()),
    }
}

/// The command line of a shell tool: a text, or words of which the last may be a script.
fn command_of(command: &Value) -> String {
    match command {
        Value::String(line) => line.clone(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => (*script).to_owned(),
                words => words.join(" "),
            }
        }
        _ => String::new(),
    }
}

/// A file in a patch as Codex writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchedFile {
    /// The tool that makes the same change.
    pub tool: &'static str,
    /// The file.
    pub path: String,
    old: String,
    new: String,
}

impl PatchedFile {
    /// The input of that tool.
    pub fn input(&self) -> Value {
        match self.tool {
            "Write" => json!({"file_path": self.path, "content": self.new}),
            _ => json!({"file_path": self.path, "old_string": self.old, "new_string": self.new}),
        }
    }
}

/// The files that a patch of the form `*** Begin Patch` changes.
pub fn patched_files(patch: &str) -> Vec<PatchedFile> {
    let mut files: Vec<PatchedFile> = Vec::new();
    for line in patch.lines() {
        let heading = |word: &str| line.strip_prefix("*** ")?.strip_prefix(word)?.strip_prefix(" File: ");
        let begun = [("Add", "Write"), ("Update", "Edit"), ("Delete", "Edit")];
        if let Some((path, tool)) = begun.iter().find_map(|(word, tool)| Some((heading(word)?, *tool))) {
            files.push(PatchedFile { tool, path: path.trim().to_owned(), ..PatchedFile::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        let push = |text: &mut String, line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        match line.split_at_checked(1) {
            Some(("+", added)) => push(&mut file.new, added),
            Some(("-", removed)) => push(&mut file.old, removed),
            Some((" ", same)) => {
                push(&mut file.old, same);
                push(&mut file.new, same);
            }
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_garbled_tool_name_ends_where_it_breaks() {
        assert_eq!(tool_name("Task\" >\n<parameter name=\"x\">"), "Agent");
        assert_eq!(tool_name("mcp__plugin_a-b__tool"), "mcp__plugin_a-b__tool");
    }

    #[test]
    fn a_patch_is_the_edits_of_its_files() {
        let patch = "*** Begin Patch\n*** Add File: a.rs\n+one\n*** Update File: b/c.rs\n@@ fn x\n same\n-old\n+new\n*** End Patch";
        let files = patched_files(patch);
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].tool, files[0].input()["content"].as_str()), ("Write", Some("one\n")));
        assert_eq!(files[1].input()["old_string"], "same\nold\n");
        assert_eq!(files[1].input()["new_string"], "same\nnew\n");
    }

    #[test]
    fn shells_of_other_agents_run_bash() {
        let (name, input) = translated("shell", &json!({"command": ["bash", "-lc", "cargo test"]}));
        assert_eq!((name.as_str(), &input["command"]), ("Bash", &json!("cargo test")));
        let (name, input) =
            translated("edit", &json!({"filePath": "/a", "oldString": "x", "newString": "y"}));
        assert_eq!((name.as_str(), &input["old_string"]), ("Edit", &json!("x")));
    }
}
