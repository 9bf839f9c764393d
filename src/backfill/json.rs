//! Records of which every field may be missing or of another type.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::Millis;
use crate::protocol::text_of;

/// A JSON object with its values as text.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads an object; none if the text is anything else.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The object of a value; an empty one if it is anything else.
    pub fn of(value: Option<&'a RawValue>) -> Self {
        value.and_then(|value| Self::parse(value.get())).unwrap_or_default()
    }

    /// The value of a field, unless that is null.
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    /// The text of a field.
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(text_of)
    }

    /// The object in a field.
    pub fn object(&self, key: &str) -> Self {
        Self::of(self.get(key))
    }

    /// The elements of the list in a field.
    pub fn list(&self, key: &str) -> Vec<&'a RawValue> {
        elements(self.get(key))
    }

    /// True if the field is this text.
    pub fn is(&self, key: &str, text: &str) -> bool {
        self.get(key).is_some_and(|value| text_of(value).as_deref() == Some(text))
    }

    /// True if the field is `true`.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.get() == "true")
    }

    /// The number in a field.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }

    /// The time in a field: a text, or milliseconds.
    pub fn time(&self, key: &str) -> Option<Millis> {
        let text = self.text(key)?;
        super::millis(&text).or_else(|| text.parse::<f64>().ok().map(|millis| millis as Millis))
    }
}

/// The elements of a list; none if the value is anything else.
pub fn elements(value: Option<&RawValue>) -> Vec<&RawValue> {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// The text of a message's content: a string, or the text blocks of a list.
pub fn content_text(content: Option<&RawValue>) -> String {
    if let Some(text) = content.and_then(text_of) {
        return text;
    }
    let text = |block: &&RawValue| text_of(block).or_else(|| Object::of(Some(block)).text("text"));
    let blocks = elements(content);
    blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Adds a member to the inside of an object.
pub fn push_member(members: &mut String, name: &str, json: &str) {
    if !members.is_empty() {
        members.push(',');
    }
    members.push_str(&quoted(name));
    members.push(':');
    members.push_str(json);
}

/// Writes Windows paths with slashes, as everything behind the hook expects them: in strings that begin with a drive.
pub fn with_slashes(json: &str) -> Cow<'_, str> {
    const DRIVE: &str = ":\\\\";
    if !json.contains(DRIVE) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(DRIVE) {
        let (before, path) = rest.split_at(at);
        let bytes = before.as_bytes();
        let begins_string = bytes.len() >= 2
            && bytes[bytes.len() - 1].is_ascii_alphabetic()
            && bytes[bytes.len() - 2] == b'"';
        let end = if begins_string { path.find(['"', ' ']).unwrap_or(path.len()) } else { DRIVE.len() };
        out.push_str(before);
        let taken = &path[..end];
        out.push_str(&if begins_string {
            Cow::Owned(taken.replace("\\\\", "/"))
        } else {
            Cow::Borrowed(taken)
        });
        rest = &path[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HistoryFields)
    }
}

struct HistoryFields;

impl<'de> Visitor<'de> for HistoryFields {
    type Value = Object<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            fields.push((key, map.next_value()?));
        }
        Ok(Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_counts_as_absent() {
        let record =
            Object::parse(r#"{"cwd":7,"message":"text","list":{"a":1},"flag":"true","t":null}"#).unwrap();
        assert_eq!(record.text("cwd").as_deref(), Some("7"));
        assert!(record.object("message").get("content").is_none());
        assert!(record.list("list").is_empty() && !record.flag("flag") && record.get("t").is_none());
        assert!(Object::parse("[1]").is_none() && Object::parse("{\"a\":").is_none());
    }

    #[test]
    fn windows_paths_get_slashes_and_other_backslashes_stay() {
        let json = r#"{"file_path":"D:\\w\\src\\a.go","text":"a C:\\b \n \\d"}"#;
        assert_eq!(with_slashes(json), r#"{"file_path":"D:/w/src/a.go","text":"a C:\\b \n \\d"}"#);
    }

    #[test]
    fn content_is_a_string_or_blocks() {
        let text = |json: &str| content_text(Some(serde_json::from_str(json).unwrap()));
        assert_eq!(text(r#""a""#), "a");
        assert_eq!(text(r#"[{"type":"text","text":"a"},{"type":"image"},"b"]"#), "a\nb");
        assert_eq!(text(r#"{"x":1}"#), "");
    }
}
