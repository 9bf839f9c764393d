//! The assistant's closing words, for clients that do not send them with the end of a turn.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::paths::open_plain;

/// The end of a transcript that is looked at.
const TAIL: u64 = 512 << 10;

/// The text of the last assistant message in a transcript, if it can be had. Best effort: it is often written late.
pub fn last_assistant_message(path: &Path) -> Option<String> {
    if !path.is_absolute() || path.extension().is_none_or(|extension| extension != "jsonl") {
        return None;
    }
    let tail = read_tail(path).ok()?;
    tail.lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| text_of(&line))
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = open_plain(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn text_of(line: &Value) -> Option<String> {
    if line["type"] != "assistant" {
        return None;
    }
    let parts = line["message"]["content"].as_array()?.iter().filter_map(|part| part["text"].as_str());
    let text = parts.collect::<Vec<_>>().join("\n");
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_found_among_other_lines() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("t.jsonl");
        let lines = [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"first"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"last"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#,
            r#"{"type":"user"}"#,
            "cut {",
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        assert_eq!(last_assistant_message(&path).as_deref(), Some("last"));
        assert_eq!(last_assistant_message(Path::new("/etc/passwd")), None);
    }
}
