//! The stored JSON of a tool event, read so tolerantly that it never fails. Independent of any tool.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::text::{each, pattern};

/// The stored parts of one tool use. A missing part is null.
#[derive(Debug, Default)]
pub struct ToolPayload {
    /// The tool's input.
    pub input: Value,
    /// The tool's response.
    pub response: Value,
    /// The error, if it failed.
    pub error: Option<String>,
    /// True if the user stopped it.
    pub interrupted: bool,
}

impl ToolPayload {
    /// Reads all parts that are present.
    pub fn read(json: &str) -> Self {
        match parse(json) {
            Some(Value::Object(fields)) => Self::from_fields(fields),
            Some(Value::Null) => Self::default(),
            Some(other) => Self { response: other, ..Self::default() },
            None => salvage(json),
        }
    }

    fn from_fields(mut fields: Map<String, Value>) -> Self {
        let error = fields.remove("error").map(|error| text_of(&error)).filter(|error| !error.is_empty());
        Self {
            input: fields.remove("tool_input").map(unwrapped).unwrap_or_default(),
            response: fields.remove("tool_response").map(unwrapped).unwrap_or_default(),
            error,
            interrupted: fields.get("is_interrupt").and_then(Value::as_bool).unwrap_or_default(),
        }
    }
}

/// The text under the first of these names that has one; empty if none.
pub fn field<'v>(value: &'v Value, names: &[&str]) -> &'v str {
    names
        .iter()
        .filter_map(|name| value.get(name)?.as_str())
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// The number under this name.
pub fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

/// The text of a value: content blocks, a `text`, a `result`, or its JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<String> = blocks.iter().map(text_of).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        Value::Object(_) => {
            for name in ["text", "result", "content", "message", "error", "stdout"] {
                match value.get(name) {
                    Some(inner @ (Value::String(_) | Value::Array(_))) => return text_of(inner),
                    _ => continue,
                }
            }
            value.to_string()
        }
        other => other.to_string(),
    }
}

/// Parses an object that was stored as text.
fn unwrapped(value: Value) -> Value {
    match &value {
        Value::String(text) if text.starts_with('{') => match serde_json::from_str(text) {
            Ok(object @ Value::Object(_)) => object,
            _ => value,
        },
        _ => value,
    }
}

fn parse(json: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(json) {
        return Some(value);
    }
    // Half a surrogate pair, which JavaScript writes and other parsers reject.
    let repaired = without_lone_surrogates(json)?;
    serde_json::from_str(&repaired).ok()
}

/// Replaces `\ud83d` without its other half by `\ufffd`; `None` if there is none.
fn without_lone_surrogates(json: &str) -> Option<String> {
    static UNIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)\\u(?P<pair>d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\u(?P<lone>d[89a-f][0-9a-f]{2})|\\.",
        )
    });
    let mut is_repaired = false;
    let repaired = UNIT.as_ref()?.replace_all(json, |found: &Captures<'_>| {
        is_repaired |= found.name("lone").is_some();
        if found.name("lone").is_some() { r"\ufffd".to_owned() } else { found[0].to_owned() }
    });
    let repaired = repaired.into_owned();
    is_repaired.then_some(repaired)
}

/// The names to look for in text that is no longer JSON, and the part that each belongs to.
const SALVAGED_INPUT: &str = "file_path|notebook_path|command|description|pattern|url|query|prompt|old_string|new_string|subagent_type";
const SALVAGED_RESPONSE: &str = "filePath|stdout|stderr|content|result";

fn salvage(text: &str) -> ToolPayload {
    let collect = |names: &'static str| -> Map<String, Value> {
        each(names).filter_map(|name| Some((name.to_owned(), text_after(text, name)?.into()))).collect()
    };
    let (input, response) = (collect(SALVAGED_INPUT), collect(SALVAGED_RESPONSE));
    let error = text_after(text, "error").filter(|error| !error.is_empty());
    if input.is_empty() && response.is_empty() && error.is_none() {
        return ToolPayload { response: text.into(), ..ToolPayload::default() };
    }
    ToolPayload { input: input.into(), response: response.into(), error, interrupted: false }
}

/// The string behind `"name":`, up to its end or the end of the text.
fn text_after(text: &str, name: &str) -> Option<String> {
    static TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r#"^\s*"((?s:\\.|[^"\\])*)"#));
    let marker = format!("\"{name}\":");
    let found = TEXT.as_ref()?.captures(&text[text.find(&marker)? + marker.len()..])?;
    parse(&format!("\"{}\"", &found[1]))?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_payload_is_taken_apart() {
        let payload = ToolPayload::read(r#"{"tool_input":{"command":"ls"},"tool_response":{"stdout":"a"}}"#);
        assert_eq!(field(&payload.input, &["command"]), "ls");
        assert_eq!(field(&payload.response, &["stderr", "stdout"]), "a");
    }

    #[test]
    fn half_a_surrogate_pair_does_not_cost_the_event() {
        let json =
            r#"{"tool_input":{"command":"echo \\ud83d"},"tool_response":{"stdout":"a\ud83d b😀 \udc00"}}"#;
        let payload = ToolPayload::read(json);
        assert_eq!(field(&payload.input, &["command"]), "echo \\ud83d");
        assert_eq!(field(&payload.response, &["stdout"]), "a\u{fffd} b😀 \u{fffd}");
    }

    #[test]
    fn what_is_cut_off_is_salvaged() {
        let payload = ToolPayload::read(
            r#"{"tool_input":{"command":"cargo \"test\""},"tool_response":{"stdout":"line\nli"#,
        );
        assert_eq!(field(&payload.input, &["command"]), "cargo \"test\"");
        assert_eq!(field(&payload.response, &["stdout"]), "line\nli");
    }

    #[test]
    fn anything_else_is_taken_as_it_is() {
        assert_eq!(ToolPayload::read("not json").response, Value::from("not json"));
        assert_eq!(ToolPayload::read("[1,2]").response, serde_json::json!([1, 2]));
        assert_eq!(ToolPayload::read("null").response, Value::Null);
        let inner = ToolPayload::read(r#"{"tool_input":"{\"command\":\"ls\"}","error":{"message":"gone"}}"#);
        assert_eq!((field(&inner.input, &["command"]), inner.error.as_deref()), ("ls", Some("gone")));
    }

    #[test]
    fn content_blocks_are_read_as_text() {
        let blocks = serde_json::json!([{"type":"text","text":"one"},{"type":"image"},"two"]);
        assert_eq!(text_of(&blocks), "one\n{\"type\":\"image\"}\ntwo");
    }
}
