//! The end of a turn, from its marker and the client's transcript: closing message and rejected
//! calls.
//!
//! Newer clients send the closing message with the marker. The transcript is read for older ones,
//! and for calls that the user rejected, which trigger no hook. Best effort: it is often written
//! late.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compress::turn::{Turn, is_client_text};
use crate::paths::open_plain;
use crate::privacy::tags::PrivateTags;
use crate::tools::refusal;

/// Number of bytes read from the end of a transcript.
const TAIL: u64 = 512 << 10;

/// Data about the end of a turn, besides its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnEnd {
    /// Closing messages.
    pub closings: Vec<String>,
    /// The user's messages when rejecting calls.
    pub refusals: Vec<String>,
    /// True if the client is about to compact, and the turn continues.
    pub is_compaction: bool,
}

impl TurnEnd {
    /// Takes the data from a turn that was assembled before.
    pub fn of(turn: &Turn) -> Self {
        Self { closings: turn.closings.clone(), refusals: turn.refusals.clone(), is_compaction: false }
    }
}

/// Parses a marker's payload, and reads the transcript that it refers to.
pub async fn read_marker(payload: Option<&str>) -> TurnEnd {
    let Some(payload) = payload.and_then(|payload| serde_json::from_str::<Value>(payload).ok()) else {
        return TurnEnd::default();
    };
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let event = text("event").unwrap_or_default();
    let sent = message_sent_in(&payload);
    let path = text("transcript_path").map(PathBuf::from);
    let tail = match path {
        Some(path) => tokio::task::spawn_blocking(move || read_turn(&path)).await.ok().flatten(),
        None => None,
    };
    let tail = tail.unwrap_or_default();
    // After an API failure, the error text is in this place.
    let closing = sent.or_else(|| tail.message.filter(|_| event != "StopFailure"));
    TurnEnd {
        closings: closing.into_iter().collect(),
        refusals: tail.refusals,
        is_compaction: event == "PreCompact",
    }
}

/// Returns the closing message that the client sent with a marker.
pub fn sent_message(payload: &str) -> Option<String> {
    message_sent_in(&serde_json::from_str(payload).ok()?)
}

fn message_sent_in(payload: &Value) -> Option<String> {
    let is_failure = payload.get("event").and_then(Value::as_str) == Some("StopFailure");
    let message = payload.get("last_assistant_message").and_then(Value::as_str)?;
    (!is_failure && !message.trim().is_empty()).then(|| message.to_owned())
}

#[derive(Debug, Default)]
struct TurnTail {
    message: Option<String>,
    refusals: Vec<String>,
}

/// Reads the last turn of a transcript, backwards from its end to the prompt.
fn read_turn(path: &Path) -> Option<TurnTail> {
    if !path.is_absolute() || path.extension().is_none_or(|extension| extension != "jsonl") {
        return None;
    }
    let text = read_tail(path).ok()?;
    let mut tail = TurnTail::default();
    for line in text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["isSidechain"] == true || line["isMeta"] == true {
            continue;
        }
        match line["type"].as_str() {
            Some("assistant") if tail.message.is_none() => tail.message = message_in(&line),
            // Copilot CLI.
            Some("assistant.message") if tail.message.is_none() => {
                tail.message =
                    line["data"]["content"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            }
            Some("user.message") => break,
            Some("user") if is_prompt(&line) => break,
            Some("user") => tail.refusals.extend(refusals_in(&line)),
            _ => {}
        }
    }
    tail.refusals.reverse();
    let public = |text: String| PrivateTags::default().strip(&text).into_owned();
    tail.message = tail.message.map(public).filter(|text| !text.trim().is_empty());
    tail.refusals = tail.refusals.into_iter().map(public).filter(|words| !words.trim().is_empty()).collect();
    Some(tail)
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = open_plain(path)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn message_in(line: &Value) -> Option<String> {
    let parts = line["message"]["content"].as_array()?.iter().filter_map(|part| part["text"].as_str());
    let text = parts.collect::<Vec<_>>().join("\n");
    (!text.trim().is_empty()).then_some(text)
}

fn is_prompt(line: &Value) -> bool {
    match &line["message"]["content"] {
        Value::String(text) => !is_client_text(text),
        Value::Array(parts) => {
            !parts.iter().any(|part| part["type"] == "tool_result")
                && parts.iter().any(|part| part["type"] == "text")
        }
        _ => false,
    }
}

fn refusals_in(line: &Value) -> Vec<String> {
    let parts = line["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |part: &Value| match &part["content"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => blocks.iter().find_map(|block| block["text"].as_str().map(str::to_owned)),
        _ => None,
    };
    let refused = parts.iter().filter(|part| part["is_error"] == true).filter_map(text);
    refused.filter_map(|error| refusal(&error)).filter(|words| !words.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(lines: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("t.jsonl");
        std::fs::write(&path, lines.join("\n")).unwrap();
        (scratch, path)
    }

    #[test]
    fn the_last_message_is_found_without_its_private_part() {
        let (_scratch, path) = transcript(&[
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"first"}]}}"#,
            r#"{"type":"user","message":{"content":"go on"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"last <private>key</private>word"}]}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#,
            "cut {",
        ]);
        assert_eq!(read_turn(&path).unwrap().message.as_deref(), Some("last word"));
        assert!(read_turn(Path::new("/etc/passwd")).is_none());
    }

    #[test]
    fn an_interrupted_turn_has_no_message_of_the_turn_before() {
        let (_scratch, path) = transcript(&[
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"of the turn before"}]}}"#,
            r#"{"type":"user","message":{"content":"next"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#,
        ]);
        assert_eq!(read_turn(&path).unwrap().message, None);
    }

    #[test]
    fn refused_calls_of_the_turn_are_found() {
        let refused = r#"{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,"content":"The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse a view <private>x</private>"}]}}"#;
        let (_scratch, path) =
            transcript(&[refused, r#"{"type":"user","message":{"content":"next"}}"#, refused]);
        assert_eq!(read_turn(&path).unwrap().refusals, ["use a view "]);
    }
}
