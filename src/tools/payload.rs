//! The stored JSON of a tool event, read so tolerantly that it never fails. Independent of any tool.

use serde_json::{Map, Value};

/// The stored parts of one tool use. A missing part is null.
#[derive(Debug, Default)]
pub struct Payload {
    /// The tool's input.
    pub input: Value,
    /// The tool's response.
    pub response: Value,
    /// The error, if it failed.
    pub error: Option<String>,
    /// True if the user stopped it.
    pub interrupted: bool,
}

impl Payload {
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
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let mut repaired = false;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (unit_at(rest), rest.get(6..).and_then(unit_at)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                repaired = true;
                continue;
            }
            _ => rest.chars().take(2).map(char::len_utf8).sum(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    repaired.then_some(out)
}

/// The UTF-16 unit that `\uXXXX` at the beginning stands for.
fn unit_at(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The names to look for in text that is no longer JSON, and the part that each belongs to.
const SALVAGED_INPUT: [&str; 11] = [
    "file_path",
    "notebook_path",
    "command",
    "description",
    "pattern",
    "url",
    "query",
    "prompt",
    "old_string",
    "new_string",
    "subagent_type",
];
const SALVAGED_RESPONSE: [&str; 5] = ["filePath", "stdout", "stderr", "content", "result"];

fn salvage(text: &str) -> Payload {
    let collect = |names: &[&str]| -> Map<String, Value> {
        let found =
            names.iter().filter_map(|name| Some(((*name).to_owned(), text_after(text, name)?.into())));
        found.collect()
    };
    let (input, response) = (collect(&SALVAGED_INPUT), collect(&SALVAGED_RESPONSE));
    let error = text_after(text, "error").filter(|error| !error.is_empty());
    if input.is_empty() && response.is_empty() && error.is_none() {
        return Payload { response: text.into(), ..Payload::default() };
    }
    Payload { input: input.into(), response: response.into(), error, interrupted: false }
}

/// The string behind `"name":`, up to its end or the end of the text.
fn text_after(text: &str, name: &str) -> Option<String> {
    let marker = format!("\"{name}\":");
    let after = text[text.find(&marker)? + marker.len()..].trim_start().strip_prefix('"')?;
    let mut out = String::new();
    let mut chars = after.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r' | 'b' | 'f') => out.push(' '),
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => out.push(other),
                None => break,
            },
            _ => out.push(char),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_payload_is_taken_apart() {
        let payload = Payload::read(r#"{"tool_input":{"command":"ls"},"tool_response":{"stdout":"a"}}"#);
        assert_eq!(field(&payload.input, &["command"]), "ls");
        assert_eq!(field(&payload.response, &["stderr", "stdout"]), "a");
    }

    #[test]
    fn half_a_surrogate_pair_does_not_cost_the_event() {
        let json =
            r#"{"tool_input":{"command":"echo \\ud83d"},"tool_response":{"stdout":"a\ud83d b😀 \udc00"}}"#;
        let payload = Payload::read(json);
        assert_eq!(field(&payload.input, &["command"]), "echo \\ud83d");
        assert_eq!(field(&payload.response, &["stdout"]), "a\u{fffd} b😀 \u{fffd}");
    }

    #[test]
    fn what_is_cut_off_is_salvaged() {
        let payload = Payload::read(
            r#"{"tool_input":{"command":"cargo \"test\""},"tool_response":{"stdout":"line\nli"#,
        );
        assert_eq!(field(&payload.input, &["command"]), "cargo \"test\"");
        assert_eq!(field(&payload.response, &["stdout"]), "line\nli");
    }

    #[test]
    fn anything_else_is_taken_as_it_is() {
        assert_eq!(Payload::read("not json").response, Value::from("not json"));
        assert_eq!(Payload::read("[1,2]").response, serde_json::json!([1, 2]));
        assert_eq!(Payload::read("null").response, Value::Null);
        let inner = Payload::read(r#"{"tool_input":"{\"command\":\"ls\"}","error":{"message":"gone"}}"#);
        assert_eq!((field(&inner.input, &["command"]), inner.error.as_deref()), ("ls", Some("gone")));
    }

    #[test]
    fn content_blocks_are_read_as_text() {
        let blocks = serde_json::json!([{"type":"text","text":"one"},{"type":"image"},"two"]);
        assert_eq!(text_of(&blocks), "one\n{\"type\":\"image\"}\ntwo");
    }
}
