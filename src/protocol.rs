//! The JSON that Claude Code sends on a hook's stdin, and the JSON it accepts on stdout.
//!
//! Everything is optional and nothing is trusted: unknown fields are skipped, a field of the wrong
//! type counts as absent or as its text, the last of repeated fields counts. Tool inputs and
//! outputs are not parsed here.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The known fields of a hook's input; tool values as raw JSON text.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the client's own names")]
pub struct HookInput<'a> {
    pub session_id: Option<String>,
    pub cwd: Option<String>,
    pub prompt_id: Option<String>,
    pub hook_event_name: Option<String>,
    pub transcript_path: Option<String>,
    pub agent_id: Option<String>,
    pub agent_type: Option<String>,
    pub source: Option<String>,
    pub reason: Option<String>,
    pub trigger: Option<String>,
    pub prompt: Option<String>,
    pub tool_name: Option<String>,
    pub tool_use_id: Option<String>,
    pub tool_input: Option<&'a RawValue>,
    pub tool_response: Option<&'a RawValue>,
    pub error: Option<&'a RawValue>,
    pub is_interrupt: Option<&'a RawValue>,
    pub duration_ms: Option<&'a RawValue>,
    pub custom_instructions: Option<&'a RawValue>,
    pub last_assistant_message: Option<&'a RawValue>,
}

/// The input is not one JSON object.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON object: {0}")]
pub struct Malformed(String);

impl<'a> HookInput<'a> {
    /// Parses as much as possible. Of a truncated text, the fields before the break are kept.
    pub fn parse(text: &'a str) -> (Self, Result<(), Malformed>) {
        let mut input = Self::default();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let outcome = InputFields(&mut input)
            .deserialize(&mut deserializer)
            .and_then(|()| deserializer.end())
            .map_err(|error| Malformed(error.to_string()));
        (input, outcome)
    }

    fn take(&mut self, key: &str, value: &'a RawValue) {
        match key {
            "session_id" => self.session_id = text_of(value),
            "cwd" => self.cwd = text_of(value),
            "prompt_id" => self.prompt_id = text_of(value),
            "hook_event_name" => self.hook_event_name = text_of(value),
            "transcript_path" => self.transcript_path = text_of(value),
            "agent_id" => self.agent_id = text_of(value),
            "agent_type" => self.agent_type = text_of(value),
            "source" => self.source = text_of(value),
            "reason" => self.reason = text_of(value),
            "trigger" => self.trigger = text_of(value),
            "prompt" => self.prompt = text_of(value),
            "tool_name" => self.tool_name = text_of(value),
            "tool_use_id" => self.tool_use_id = text_of(value),
            "tool_input" => self.tool_input = Some(value),
            "tool_response" => self.tool_response = Some(value),
            "error" => self.error = Some(value),
            "is_interrupt" => self.is_interrupt = Some(value),
            "duration_ms" => self.duration_ms = Some(value),
            "custom_instructions" => self.custom_instructions = Some(value),
            "last_assistant_message" => self.last_assistant_message = Some(value),
            _ => {}
        }
    }
}

/// Returns the text of a JSON value: a string's content, a number as written; none for null,
/// containers and empty strings.
pub fn text_of(value: &RawValue) -> Option<String> {
    let json = value.get();
    let text = match json.as_bytes().first()? {
        b'"' => decode_string(json),
        b'n' | b'{' | b'[' => return None,
        _ => json.to_owned(),
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the content of a JSON string. A lone surrogate, which the client does send, becomes
/// U+FFFD.
pub fn decode_string(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| String::new(), |Lossy(text)| text.into_owned())
}

/// A string with possible lone surrogates: serde_json rejects them as text, but passes them as
/// bytes.
struct Lossy<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Lossy<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LossyVisitor)
    }
}

struct LossyVisitor;

impl<'de> Visitor<'de> for LossyVisitor {
    type Value = Lossy<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Lossy(String::from_utf8_lossy(bytes)))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Lossy(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
    }
}

/// Fills a [`HookInput`] field by field, so that fields before an error are kept.
struct InputFields<'i, 'a>(&'i mut HookInput<'a>);

impl<'de> DeserializeSeed<'de> for InputFields<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for InputFields<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a hook's JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Lossy(key)) = map.next_key()? {
            self.0.take(&key, map.next_value()?);
        }
        Ok(())
    }
}

/// The hook's output: context for the model, a message for the user.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput<'a> {
    /// For the model, as Copilot CLI takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<Cow<'a, str>>,
    /// For the model.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub hook_specific_output: Option<HookSpecificOutput<'a>>,
    /// For the user; shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_message: Option<Cow<'a, str>>,
}

/// Context for one event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookSpecificOutput<'a> {
    /// Name of the event.
    pub hook_event_name: Cow<'a, str>,
    /// The text for the model: at most [`MAX_CONTEXT_UNITS`].
    pub additional_context: Cow<'a, str>,
}

/// Maximum context from one hook in UTF-16 code units; the client replaces a longer one with a file
/// path.
pub const MAX_CONTEXT_UNITS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_read_and_unknown_ones_skipped() {
        let text =
            r#"{"session_id":"s","new_thing":{"a":[1]},"tool_name":"Bash","tool_input":{"command":"ls"}}"#;
        let (input, outcome) = HookInput::parse(text);
        assert!(outcome.is_ok());
        assert_eq!(input.session_id.as_deref(), Some("s"));
        assert_eq!(input.tool_input.unwrap().get(), r#"{"command":"ls"}"#);
    }

    #[test]
    fn wrong_types_and_repeated_fields_are_accepted() {
        let (input, outcome) =
            HookInput::parse(r#"{"session_id":7,"cwd":null,"prompt":["x"],"tool_name":"A","tool_name":"B"}"#);
        assert!(outcome.is_ok());
        assert_eq!(input.session_id.as_deref(), Some("7"));
        assert_eq!((input.cwd, input.prompt), (None, None));
        assert_eq!(input.tool_name.as_deref(), Some("B"));
    }

    #[test]
    fn truncated_input_keeps_its_leading_fields() {
        let (input, outcome) =
            HookInput::parse(r#"{"session_id":"s","cwd":"/w","tool_response":{"stdout":"abc"#);
        assert!(outcome.is_err());
        assert_eq!((input.session_id.as_deref(), input.cwd.as_deref()), (Some("s"), Some("/w")));
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        let (input, outcome) = HookInput::parse(r#"{"prompt":"a\ud800b","\ud800":1}"#);
        assert!(outcome.is_ok());
        assert!(input.prompt.unwrap().starts_with('a'));
    }

    #[test]
    fn deep_nesting_is_parsed() {
        let deep =
            format!(r#"{{"session_id":"s","tool_response":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let (input, outcome) = HookInput::parse(&deep);
        assert!(outcome.is_ok());
        assert_eq!(input.tool_response.unwrap().get().len(), 200_000);
    }
}
