//! Routine events, settled without a model. Pure rules over one event and the files that the session has seen; the reason is
//! stored with the row.
//!
//! A command is routine only if every part of it is known to read. A command that may have written is never skipped.

pub use super::seen_files::SeenFiles;
use crate::config::Verbosity;
use crate::tools::{Action, Command, FileRead, ToolEvent, reads_only};

/// The classification of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The provider gets it.
    Keep,
    /// The row ends as skipped, for this reason.
    Routine(&'static str),
}

/// Classifies one event. Called once for each event of a session, in order: it also records the files that were read.
pub fn classify(event: &ToolEvent, verbosity: Verbosity, seen: &mut SeenFiles) -> Verdict {
    match &event.action {
        Action::Nothing => Verdict::Routine("client bookkeeping or an empty event"),
        Action::Tasks(_) => Verdict::Routine("task list"),
        Action::TaskOutput(output) if !output.is_finished => Verdict::Routine("poll of a running task"),
        Action::Agent(report) if report.text.is_empty() => Verdict::Routine("subagent launch"),
        Action::Command(command) => classify_command(command, verbosity),
        Action::Failed { error, interrupted } => classify_failure(event, error, *interrupted, verbosity),
        Action::Read(read) => classify_read(read, verbosity, seen),
        Action::Edit(edit) => {
            seen.note_edit(edit);
            Verdict::Keep
        }
        Action::Listing if verbosity != Verbosity::Verbose => Verdict::Routine("listing"),
        Action::Search { is_empty: true, .. } => Verdict::Routine("search without a match"),
        Action::Search { .. } if verbosity == Verbosity::Minimal => Verdict::Routine("search"),
        _ => Verdict::Keep,
    }
}

fn classify_command(command: &Command, verbosity: Verbosity) -> Verdict {
    if !reads_only(&command.parsed) {
        return Verdict::Keep;
    }
    let has_message =
        command.output.lines().any(|line| !line.trim().is_empty() && !line.starts_with("Exit code "));
    match verbosity {
        Verbosity::Verbose if command.failed => Verdict::Keep,
        _ if !has_message => Verdict::Routine("read-only command without output"),
        _ if is_clean_status(&command.output) => Verdict::Routine("clean status"),
        Verbosity::Verbose => Verdict::Keep,
        Verbosity::Normal if command.failed || !shows_only_state(command) => Verdict::Keep,
        Verbosity::Normal => Verdict::Routine("listing or repository state"),
        Verbosity::Minimal => Verdict::Routine("read-only command"),
    }
}

/// A tool's own conditions are corrected at once; any other failure is worth keeping.
fn classify_failure(event: &ToolEvent, error: &str, interrupted: bool, verbosity: Verbosity) -> Verdict {
    match event.tool.as_str() {
        _ if verbosity == Verbosity::Verbose => Verdict::Keep,
        _ if interrupted => Verdict::Routine("stopped by the user"),
        "Read" | "NotebookRead" | "Glob" | "Grep" | "LS" => Verdict::Routine("file or match not found"),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Verdict::Routine("edit rejected by the client"),
        _ if error.contains("<tool_use_error>") => Verdict::Routine("call rejected by the client"),
        _ => Verdict::Keep,
    }
}

fn classify_read(read: &FileRead, verbosity: Verbosity, seen: &mut SeenFiles) -> Verdict {
    if seen.note_read(read) {
        return Verdict::Routine("file read before, unchanged");
    }
    let is_empty = read.content.as_deref().is_some_and(|text| text.trim().is_empty());
    match verbosity {
        _ if is_empty => Verdict::Routine("empty file"),
        Verbosity::Minimal => Verdict::Routine("read"),
        _ => Verdict::Keep,
    }
}

fn is_clean_status(output: &str) -> bool {
    ["nothing to commit, working tree clean", "nothing to commit (", "Already up to date"]
        .iter()
        .any(|text| output.contains(text))
}

/// True for listings and for git's own state: the work that it shows was seen when it was done.
fn shows_only_state(command: &Command) -> bool {
    use crate::tools::shell::Join;
    let mut sources = command.parsed.commands.iter().filter(|part| part.join != Join::Pipe);
    sources.all(|part| {
        let program = part.words.first().map(String::as_str).unwrap_or_default();
        matches!(
            program,
            "git" | "cd" | "echo" | "pwd" | "ls" | "ll" | "tree" | "find" | "fd" | "dir" | "which"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::RawEvent;

    fn parsed(tool: &str, payload: &str, failed: bool) -> ToolEvent {
        let tool_name = Some(tool.to_owned());
        let raw = RawEvent { tool_name, payload: payload.to_owned(), failed, ..RawEvent::default() };
        ToolEvent::parse(&raw, None)
    }

    fn event(tool: &str, input: Value, response: Value) -> ToolEvent {
        parsed(tool, &json!({"tool_input": input, "tool_response": response}).to_string(), false)
    }

    fn failed(tool: &str, input: Value, error: &str) -> ToolEvent {
        parsed(tool, &json!({"tool_input": input, "error": error, "is_interrupt": false}).to_string(), true)
    }

    fn bash(command: &str, stdout: &str) -> ToolEvent {
        event("Bash", json!({"command": command}), json!({"stdout": stdout, "stderr": ""}))
    }

    fn reading(path: &str, start: usize, content: &str) -> ToolEvent {
        event(
            "Read",
            json!({"file_path": path}),
            json!({"type": "text", "file": {"filePath": path, "content": content, "startLine": start}}),
        )
    }

    fn judged(event: &ToolEvent, verbosity: Verbosity) -> Verdict {
        classify(event, verbosity, &mut SeenFiles::default())
    }

    fn is_routine(event: &ToolEvent) -> [bool; 3] {
        [Verbosity::Minimal, Verbosity::Normal, Verbosity::Verbose]
            .map(|verbosity| judged(event, verbosity) != Verdict::Keep)
    }

    #[test]
    fn verbosity_decides_what_is_routine() {
        for (event, expected) in [
            (event("TodoWrite", json!({}), json!({})), [true, true, true]),
            (bash("git status", "nothing to commit, working tree clean"), [true, true, true]),
            (bash("cd /x && pwd", "/x"), [true, true, false]),
            (bash("ls -la", "a\nb"), [true, true, false]),
            (bash("git diff --stat", " a.rs | 2 +-"), [true, true, false]),
            (event("Glob", json!({"pattern": "*"}), json!({"filenames": ["a"]})), [true, true, false]),
            (bash("cargo fmt", ""), [false, false, false]),
            (bash("mkdir -p zz", ""), [false, false, false]),
            (bash("grep -l a . | xargs sed -i s/a/b/", ""), [false, false, false]),
            (bash("source env.sh", ""), [false, false, false]),
            (bash("cat config.toml", "a = 1"), [true, false, false]),
            (
                event("Grep", json!({"pattern": "x"}), json!({"filenames": ["a"], "numFiles": 1})),
                [true, false, false],
            ),
            (
                event("Grep", json!({"pattern": "x"}), json!({"filenames": [], "numFiles": 0})),
                [true, true, true],
            ),
            (reading("/a", 1, "text"), [true, false, false]),
            (bash("cargo test", "ok"), [false, false, false]),
            (bash("python3 x.py", ""), [false, false, false]),
            (bash("cat > a.py <<EOF\nx\nEOF", ""), [false, false, false]),
            (bash("git commit -m x", ""), [false, false, false]),
            (event("Edit", json!({"file_path": "/a"}), json!({})), [false, false, false]),
            (event("WebFetch", json!({"url": "x"}), json!({"result": "y"})), [false, false, false]),
            (event("mcp__a__b", json!({"q": 1}), json!("x")), [false, false, false]),
        ] {
            assert_eq!(is_routine(&event), expected, "{event:?}");
        }
    }

    #[test]
    fn failures_are_kept_unless_they_are_the_tools_own() {
        for (event, expected) in [
            (failed("Bash", json!({"command": "cargo test"}), "Exit code 101\nerror"), false),
            (failed("Bash", json!({"command": "./x.sh"}), "Exit code 3"), false),
            (failed("Bash", json!({"command": "grep x y"}), "Exit code 1"), true),
            (failed("Read", json!({"file_path": "/nope"}), "File does not exist."), true),
            (failed("Edit", json!({"file_path": "/a"}), "String to replace not found"), true),
            (failed("mcp__tiny__search", json!({}), "Connection closed"), false),
        ] {
            assert_eq!(judged(&event, Verbosity::Normal) != Verdict::Keep, expected, "{event:?}");
            assert_eq!(judged(&event, Verbosity::Verbose), Verdict::Keep);
        }
    }

    #[test]
    fn reading_a_file_again_is_routine_until_it_changes() {
        let mut seen = SeenFiles::default();
        let mut judge = |event: &ToolEvent| classify(event, Verbosity::Verbose, &mut seen);
        let again = Verdict::Routine("file read before, unchanged");
        assert_eq!(judge(&reading("/a", 1, "one\ntwo\nthree\n")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 1, "one\ntwo\nthree\n")), again);
        assert_eq!(judge(&reading("/a", 2, "two\nthree")), again);
        assert_eq!(judge(&reading("/a", 2, "two\nfour")), Verdict::Keep);
        assert_eq!(judge(&reading("/b", 2, "two\nthree")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 9_000, "late")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 8_999, "\nlate")), Verdict::Keep);
    }

    #[test]
    fn reading_back_an_own_edit_is_routine_and_another_edit_is_not() {
        let mut seen = SeenFiles::default();
        let mut judge = |event: &ToolEvent| classify(event, Verbosity::Normal, &mut seen);
        let edit = event(
            "Edit",
            json!({"file_path": "/a", "old_string": "Helo", "new_string": "Hello"}),
            json!({"originalFile": "x = 'Helo'\n"}),
        );
        assert_eq!(judge(&edit), Verdict::Keep);
        assert_eq!(
            judge(&reading("/a", 1, "x = 'Hello'\n")),
            Verdict::Routine("file read before, unchanged")
        );
        let blind =
            event("Edit", json!({"file_path": "/a", "old_string": "x", "new_string": "y"}), json!({}));
        assert_eq!(judge(&blind), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 1, "x = 'Hello'\n")), Verdict::Keep);
        let write = event("Write", json!({"file_path": "/w", "content": "new"}), json!({"type": "create"}));
        assert_eq!(judge(&write), Verdict::Keep);
        assert_eq!(judge(&reading("/w", 1, "new")), Verdict::Routine("file read before, unchanged"));
    }

    #[test]
    fn any_payload_is_classified() {
        for payload in ["", "null", "[]", "3", "{\"tool_input\":3}", "{\"tool_input\":{\"command\":", "\u{0}"]
        {
            for tool in
                ["", "Bash", "Read", "Edit", "TodoWrite", "TaskOutput", "Agent", "AskUserQuestion", "Odd"]
            {
                judged(&parsed(tool, payload, false), Verbosity::Normal);
            }
        }
    }
}
