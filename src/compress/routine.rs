//! Which events are routine, and settled without a model. Pure rules over one event and what the session has seen;
//! the reason is stored with the event, so that a user can see why nothing was made of it.

use serde_json::Value;

use super::local::events::is_bookkeeping;
use super::local::payload::{Payload, field, number};
use super::local::programs::{Purpose, purpose};
use super::local::shell::{Simple, split};
use super::turn::TurnEvent;

pub use super::seen_files::SeenFiles;
use crate::config::Verbosity;

/// Whether an event is worth compressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the provider.
    Keep,
    /// It is settled as skipped, for this reason.
    Routine(&'static str),
}

/// Judges one event. To be called once for each event of a session, in order, since it also learns what was read.
pub fn judge(event: &TurnEvent, verbosity: Verbosity, seen: &mut SeenFiles) -> Verdict {
    let name = event.tool_name.as_deref().unwrap_or_default();
    if is_bookkeeping(name) {
        return Verdict::Routine("bookkeeping");
    }
    let payload = Payload::read(&event.payload);
    let failed = event.failed || payload.error.is_some();
    if failed {
        return failure(name, &payload, verbosity);
    }
    match name {
        "Read" | "NotebookRead" => read(&payload, verbosity, seen),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
            seen.note_edit(&payload);
            Verdict::Keep
        }
        "Bash" | "PowerShell" => command(&payload, verbosity),
        "Glob" | "LS" => listing(verbosity),
        "Grep" => search(&payload, verbosity),
        "Agent" | "Task" if field(&payload.response, &["status"]) == "async_launched" => {
            Verdict::Routine("a subagent that only started")
        }
        _ if is_empty(&payload.input) && is_empty(&payload.response) => Verdict::Routine("nothing in it"),
        _ => Verdict::Keep,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A failure is news, unless it is one of a tool's own conditions: those are corrected at once.
fn failure(name: &str, payload: &Payload, verbosity: Verbosity) -> Verdict {
    if verbosity == Verbosity::Verbose {
        return Verdict::Keep;
    }
    let error = payload.error.as_deref().unwrap_or_default();
    let said =
        error.lines().skip_while(|line| line.starts_with("Exit code ")).any(|line| !line.trim().is_empty());
    match name {
        _ if payload.interrupted => Verdict::Routine("stopped by the user"),
        "Read" | "Glob" | "Grep" | "LS" => Verdict::Routine("a look at what is not there"),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
            Verdict::Routine("an edit that the client refused")
        }
        "Bash" | "PowerShell" if command_purpose(payload) <= Purpose::Look && !said => {
            Verdict::Routine("a look that found nothing")
        }
        _ if error.contains("<tool_use_error>") => Verdict::Routine("a call that the client refused"),
        _ => Verdict::Keep,
    }
}

fn read(payload: &Payload, verbosity: Verbosity, seen: &mut SeenFiles) -> Verdict {
    if seen.note_read(payload) {
        return Verdict::Routine("read before, unchanged");
    }
    let empty = payload
        .response
        .pointer("/file/content")
        .and_then(Value::as_str)
        .is_some_and(|text| text.trim().is_empty());
    match verbosity {
        _ if empty => Verdict::Routine("an empty file"),
        Verbosity::Minimal => Verdict::Routine("a read"),
        _ => Verdict::Keep,
    }
}

fn listing(verbosity: Verbosity) -> Verdict {
    if verbosity == Verbosity::Verbose { Verdict::Keep } else { Verdict::Routine("a listing") }
}

fn search(payload: &Payload, verbosity: Verbosity) -> Verdict {
    let response = &payload.response;
    let counts = ["numFiles", "numLines", "numMatches"].map(|name| number(response, name).unwrap_or(0));
    let none = field(response, &["content"]).is_empty()
        && counts.iter().all(|count| *count == 0)
        && response.get("filenames").and_then(Value::as_array).is_some_and(Vec::is_empty);
    match verbosity {
        _ if none => Verdict::Routine("a search without a match"),
        Verbosity::Minimal => Verdict::Routine("a search"),
        _ => Verdict::Keep,
    }
}

fn command_purpose(payload: &Payload) -> Purpose {
    let parts = split(field(&payload.input, &["command"]));
    parts.iter().map(purpose).max().unwrap_or(Purpose::Nothing)
}

fn command(payload: &Payload, verbosity: Verbosity) -> Verdict {
    let line = field(&payload.input, &["command"]);
    if line.is_empty() {
        return Verdict::Keep;
    }
    let parts = split(line);
    let most = parts.iter().map(purpose).max().unwrap_or(Purpose::Nothing);
    let output = [field(&payload.response, &["stdout"]), field(&payload.response, &["stderr"])];
    let silent = output.iter().all(|text| text.trim().is_empty());
    let programs: Vec<&str> =
        parts.iter().filter_map(|part| part.words.first()).map(String::as_str).collect();
    let lists = programs
        .iter()
        .all(|program| matches!(*program, "ls" | "pwd" | "cd" | "tree" | "find" | "fd" | "ll" | "dir"));
    match (most, verbosity) {
        (Purpose::Nothing, _) => Verdict::Routine("a command that does nothing lasting"),
        (Purpose::Look, _) if silent || is_clean_status(output[0]) => Verdict::Routine("an empty status"),
        (Purpose::Look, Verbosity::Verbose) => Verdict::Keep,
        (Purpose::Look, _) if lists => Verdict::Routine("a listing"),
        (Purpose::Look, Verbosity::Normal) if !is_state(&parts) => Verdict::Keep,
        (Purpose::Look, Verbosity::Normal) => Verdict::Routine("the repository's state"),
        (Purpose::Look, Verbosity::Minimal) => Verdict::Routine("a look around"),
        (Purpose::Format, Verbosity::Minimal | Verbosity::Normal) => Verdict::Routine("formatting"),
        (Purpose::Files, Verbosity::Minimal | Verbosity::Normal) if only_prepares(&programs) => {
            Verdict::Routine("a folder made ready")
        }
        _ => Verdict::Keep,
    }
}

fn is_clean_status(output: &str) -> bool {
    ["nothing to commit, working tree clean", "nothing to commit (", "Already up to date"]
        .iter()
        .any(|text| output.contains(text))
}

/// Only what git knows about itself: the work that it shows was seen when it was done.
fn is_state(parts: &[Simple]) -> bool {
    parts.iter().filter(|part| !part.piped).all(|part| {
        part.words.first().is_some_and(|program| matches!(program.as_str(), "git" | "cd" | "echo" | "pwd"))
    })
}

fn only_prepares(programs: &[&str]) -> bool {
    programs
        .iter()
        .all(|program| matches!(*program, "mkdir" | "touch" | "chmod" | "cd" | "ls" | "echo" | "true"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(tool: &str, input: Value, response: Value) -> TurnEvent {
        let payload = json!({"tool_input": input, "tool_response": response}).to_string();
        TurnEvent { tool_name: Some(tool.to_owned()), payload, ..TurnEvent::default() }
    }

    fn failed(tool: &str, input: Value, error: &str) -> TurnEvent {
        let payload = json!({"tool_input": input, "error": error, "is_interrupt": false}).to_string();
        TurnEvent { tool_name: Some(tool.to_owned()), payload, failed: true, ..TurnEvent::default() }
    }

    fn bash(command: &str, stdout: &str) -> TurnEvent {
        event("Bash", json!({"command": command}), json!({"stdout": stdout, "stderr": ""}))
    }

    fn reading(path: &str, start: usize, content: &str) -> TurnEvent {
        event(
            "Read",
            json!({"file_path": path}),
            json!({"type": "text", "file": {"filePath": path, "content": content, "startLine": start}}),
        )
    }

    fn judged(event: &TurnEvent, verbosity: Verbosity) -> Verdict {
        judge(event, verbosity, &mut SeenFiles::default())
    }

    fn is_routine(event: &TurnEvent) -> [bool; 3] {
        [Verbosity::Minimal, Verbosity::Normal, Verbosity::Verbose]
            .map(|verbosity| judged(event, verbosity) != Verdict::Keep)
    }

    #[test]
    fn verbosity_decides_what_is_routine() {
        for (event, expected) in [
            (event("TodoWrite", json!({}), json!({})), [true, true, true]),
            (bash("git status", "nothing to commit, working tree clean"), [true, true, true]),
            (bash("cd /x && pwd", "/x"), [true, true, true]),
            (bash("ls -la", "a\nb"), [true, true, false]),
            (bash("git diff --stat", " a.rs | 2 +-"), [true, true, false]),
            (event("Glob", json!({"pattern": "*"}), json!({"filenames": ["a"]})), [true, true, false]),
            (bash("cargo fmt", ""), [true, true, false]),
            (bash("mkdir -p zz", ""), [true, true, false]),
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
    fn what_was_read_before_is_routine_until_it_changes() {
        let mut seen = SeenFiles::default();
        let mut judge = |event: &TurnEvent| judge(event, Verbosity::Verbose, &mut seen);
        let again = Verdict::Routine("read before, unchanged");
        assert_eq!(judge(&reading("/a", 1, "one\ntwo\nthree\n")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 1, "one\ntwo\nthree\n")), again);
        assert_eq!(judge(&reading("/a", 2, "two\nthree")), again);
        assert_eq!(judge(&reading("/a", 2, "two\nfour")), Verdict::Keep);
        assert_eq!(judge(&reading("/b", 2, "two\nthree")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 9_000, "late")), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 8_999, "\nlate")), Verdict::Keep);
    }

    #[test]
    fn reading_ones_own_edit_back_is_routine_and_another_edit_is_not() {
        let mut seen = SeenFiles::default();
        let mut judge = |event: &TurnEvent| judge(event, Verbosity::Normal, &mut seen);
        let edit = event(
            "Edit",
            json!({"file_path": "/a", "old_string": "Helo", "new_string": "Hello"}),
            json!({"originalFile": "x = 'Helo'\n"}),
        );
        assert_eq!(judge(&edit), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 1, "x = 'Hello'\n")), Verdict::Routine("read before, unchanged"));
        let blind =
            event("Edit", json!({"file_path": "/a", "old_string": "x", "new_string": "y"}), json!({}));
        assert_eq!(judge(&blind), Verdict::Keep);
        assert_eq!(judge(&reading("/a", 1, "x = 'Hello'\n")), Verdict::Keep);
        let write = event("Write", json!({"file_path": "/w", "content": "new"}), json!({"type": "create"}));
        assert_eq!(judge(&write), Verdict::Keep);
        assert_eq!(judge(&reading("/w", 1, "new")), Verdict::Routine("read before, unchanged"));
    }

    #[test]
    fn anything_can_be_judged() {
        for payload in ["", "null", "[]", "3", "{\"tool_input\":3}", "{\"tool_input\":{\"command\":", "\u{0}"]
        {
            for tool in [None, Some("Bash"), Some("Read"), Some("Edit"), Some("Odd")] {
                let event = TurnEvent {
                    tool_name: tool.map(str::to_owned),
                    payload: payload.to_owned(),
                    ..TurnEvent::default()
                };
                judged(&event, Verbosity::Normal);
            }
        }
    }
}
