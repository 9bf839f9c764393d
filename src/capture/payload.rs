//! The stored form of a tool's input and response: JSON still, without private text, without binary, and bounded.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memmem;
use serde_json::value::RawValue;

use super::json::{Token, cut_after, cut_before, tokens};
use crate::privacy::tags::{PrivateTags, may_hold_tag};
use crate::protocol::decode_string;

/// Deeper JSON is kept as text: no reader downstream needs it, and some would refuse it.
const MAX_DEPTH: usize = 100;

/// One member of the payload that is to be kept.
pub type Part<'a> = (&'a str, Cow<'a, str>);

/// A part whose value is JSON as it came in.
pub fn raw_part<'a>(name: &'a str, value: Option<&'a RawValue>) -> Option<Part<'a>> {
    value.map(|value| (name, Cow::Borrowed(value.get())))
}

/// A part whose value is a text of ours.
pub fn text_part<'a>(name: &'a str, text: Option<&str>) -> Option<Part<'a>> {
    text.map(|text| (name, Cow::Owned(quote(text))))
}

/// The parts as one JSON object of at most about `limit` bytes.
pub fn build<'a>(parts: impl IntoIterator<Item = Option<Part<'a>>>, limit: usize) -> String {
    let mut json = String::from("{");
    for (name, value) in parts.into_iter().flatten() {
        if json.len() > 1 {
            json.push(',');
        }
        let _ = write!(json, "\"{name}\":");
        json.push_str(&value);
    }
    json.push('}');
    let (clean, depth) = clean(&json);
    if depth > MAX_DEPTH {
        return as_text(&clean, limit);
    }
    if clean.len() > limit { cut_strings(&clean, limit) } else { clean }
}

/// Any bytes as a JSON object with one text, for input that is not JSON.
pub fn build_from_bytes(bytes: &[u8], limit: usize) -> String {
    let head = &bytes[..bytes.len().min(limit * 2)];
    let text = String::from_utf8_lossy(head);
    let mut json = String::from("{\"text\":");
    json.push_str(&quote(&without_private_escapes(&text)));
    json.push('}');
    let (clean, _) = clean(&json);
    if clean.len() > limit { cut_strings(&clean, limit) } else { clean }
}

/// In a text that is broken JSON a tag may be escaped; it is as private as any.
fn without_private_escapes(text: &str) -> Cow<'_, str> {
    if !has_escaped_ascii(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.replace("\\u003c", "<").replace("\\u003C", "<").replace("\\u003e", ">").replace("\\u003E", ">"),
    )
}

/// Nobody escapes letters and brackets but to hide a tag, or because an encoder escapes `<` everywhere.
fn has_escaped_ascii(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, b"\\u00").any(|at| matches!(bytes.get(at + 4), Some(b'2'..=b'7')))
}

/// Removes private passages and binary; also says how deep the value is.
fn clean(json: &str) -> (String, usize) {
    let mut out = String::with_capacity(json.len());
    let mut tags = PrivateTags::default();
    let (mut copied, mut depth, mut deepest, mut key) = (0, 0usize, 0, "");
    for (start, token) in tokens(json) {
        let (end, replacement) = match token {
            Token::Open => {
                depth += 1;
                deepest = deepest.max(depth);
                continue;
            }
            Token::Close => {
                depth = depth.saturating_sub(1);
                continue;
            }
            Token::Scalar(raw) => (start + raw.len(), tags.is_open().then(|| "null".to_owned())),
            Token::String { raw, is_key } => {
                let replacement = clean_string(raw, key, &mut tags);
                key = if is_key { raw } else { "" };
                (start + raw.len(), replacement)
            }
        };
        if let Some(replacement) = replacement {
            out.push_str(&json[copied..start]);
            out.push_str(&replacement);
            copied = end;
        }
    }
    out.push_str(&json[copied..]);
    (out, deepest)
}

/// The replacement of this string (with quotes), if it cannot stay as it is.
fn clean_string(raw: &str, key: &str, tags: &mut PrivateTags) -> Option<String> {
    let content = &raw[1..raw.len().saturating_sub(1).max(1)];
    if !tags.is_open()
        && let Some(note) = binary_note(content, key)
    {
        return Some(quote(&note));
    }
    // Half surrogate pairs are repaired here, once, for all readers downstream.
    let escaped = memmem::find(content.as_bytes(), b"\\u").is_some()
        && (has_escaped_ascii(content.as_bytes()) || has_surrogate(content.as_bytes()));
    if !tags.is_open() && !escaped && !may_hold_tag(content) {
        return None;
    }
    let text = decode_string(raw);
    Some(quote(&tags.strip(&text)))
}

fn has_surrogate(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, b"\\u")
        .any(|at| bytes.get(at + 2).is_some_and(|digit| digit.eq_ignore_ascii_case(&b'd')))
}

fn quote(text: &str) -> String {
    // Writing a str as JSON cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

/// A run of base64 at least this long in an ordinary text is not meant for reading.
const BASE64_RUN: usize = 1024;

/// The note that replaces a string which is binary.
fn binary_note(content: &str, key: &str) -> Option<String> {
    let named = match key {
        "\"base64\"" => 16,
        "\"data\"" | "\"blob\"" => 64,
        _ => BASE64_RUN,
    };
    let body =
        content.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")).map(|(_, body)| body);
    let (body, least) = body.map_or((content, named), |body| (body, 64));
    if body.len() >= least && is_base64(body) {
        return Some(format!("[claude-mem: {}, {} bytes, not kept]", kind_of(body), body.len() / 4 * 3));
    }
    if content.len() >= 256 && is_mostly_unreadable(content) {
        return Some(format!("[claude-mem: binary, {} bytes, not kept]", content.len()));
    }
    None
}

/// Line breaks inside (as escapes) are allowed, as encoders write them: never after fewer than 60 digits.
fn is_base64(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte);
    let mut lines =
        text.trim_end_matches("\\n").split("\\n").map(|line| line.trim_end_matches("\\r")).peekable();
    while let Some(line) = lines.next() {
        if !line.as_bytes().iter().all(is_digit) || (line.len() < 60 && lines.peek().is_some()) {
            return false;
        }
    }
    true
}

fn kind_of(base64: &str) -> &'static str {
    const BEGINNINGS: [(&str, &str); 7] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
        ("JVBERi0", "application/pdf"),
        ("UEsDB", "application/zip"),
        ("H4sI", "application/gzip"),
    ];
    BEGINNINGS.iter().find(|(start, _)| base64.starts_with(start)).map_or("base64 data", |(_, kind)| kind)
}

/// More than a tenth of it are bytes that were not text.
fn is_mostly_unreadable(content: &str) -> bool {
    let replaced = memmem::find_iter(content.as_bytes(), "\u{fffd}".as_bytes()).count();
    let nul = memmem::find_iter(content.as_bytes(), b"\\u0000").count();
    (replaced * 3 + nul * 6) * 10 > content.len()
}

/// Cuts the middle out of the longest strings until the whole fits.
fn cut_strings(json: &str, limit: usize) -> String {
    let lengths: Vec<usize> = values(json).map(|(_, raw)| raw.len()).collect();
    let fixed = json.len() - lengths.iter().sum::<usize>();
    let Some(cap) = limit.checked_sub(fixed).and_then(|room| longest_that_fits(lengths, room)) else {
        return as_text(json, limit);
    };
    let mut out = String::with_capacity(limit);
    let mut copied = 0;
    for (start, raw) in values(json).filter(|(_, raw)| raw.len() > cap) {
        out.push_str(&json[copied..start]);
        out.push('"');
        push_cut(&mut out, &raw[1..raw.len() - 1], cap - 2);
        out.push('"');
        copied = start + raw.len();
    }
    out.push_str(&json[copied..]);
    out
}

fn values(json: &str) -> impl Iterator<Item = (usize, &str)> {
    tokens(json).filter_map(|(start, token)| match token {
        Token::String { raw, is_key: false } => Some((start, raw)),
        _ => None,
    })
}

/// The length to which strings must be cut so that all of them take at most `room`.
fn longest_that_fits(mut lengths: Vec<usize>, room: usize) -> Option<usize> {
    lengths.sort_unstable();
    let (mut left, mut count) = (room, lengths.len());
    for length in lengths {
        let share = left / count.max(1);
        if length > share {
            // Below this a cut string would be little more than its marker.
            return (share >= 128).then_some(share);
        }
        left -= length;
        count -= 1;
    }
    None
}

/// Head and tail of an escaped text with a marker between, `room` bytes in all.
fn push_cut(out: &mut String, content: &str, room: usize) {
    let half = room.saturating_sub(48) / 2;
    let head = cut_before(content, half);
    let tail = cut_after(content, content.len() - half);
    out.push_str(&content[..head]);
    let _ = write!(out, "[claude-mem: {} bytes cut]", tail - head);
    out.push_str(&content[tail..]);
}

/// For JSON that is large by its structure, or too deep: its text, cut.
fn as_text(json: &str, limit: usize) -> String {
    let half = limit.saturating_sub(64) / 4;
    let mut out = String::from("{\"text\":\"");
    if json.len() <= half * 2 {
        out.push_str(inside(&quote(json)));
    } else {
        let (head, tail) = (floor(json, half), ceil(json, json.len() - half));
        out.push_str(inside(&quote(&json[..head])));
        let _ = write!(out, "[claude-mem: {} bytes cut]", tail - head);
        out.push_str(inside(&quote(&json[tail..])));
    }
    out.push_str("\"}");
    out
}

fn inside(quoted: &str) -> &str {
    &quoted[1..quoted.len() - 1]
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

fn ceil(text: &str, at: usize) -> usize {
    text.ceil_char_boundary(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(json: &str, limit: usize) -> serde_json::Value {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let text = build([raw_part("v", Some(raw))], limit);
        assert!(text.len() <= limit.max(json.len() + 16), "{} bytes", text.len());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn ordinary_json_is_kept_as_it_is() {
        let json = r#"{"stdout":"a\u0000b\u001b[31m","n":[1,2.5,true,null]}"#;
        assert_eq!(built(json, 10_000)["v"], serde_json::from_str::<serde_json::Value>(json).unwrap());
    }

    #[test]
    fn private_passages_go_wherever_they_are() {
        let json = r#"{"a":"x <private>s1","s2":"s3","pin":1234,"b":["s4","s5</PRIVATE> y"],"c":"z"}"#;
        let text = built(json, 10_000).to_string();
        for secret in ["s1", "s2", "s3", "s4", "s5", "1234"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains(" y") && text.contains("\"c\":\"z\""), "{text}");
    }

    #[test]
    fn an_escaped_tag_is_a_tag() {
        let text = built(r#"{"a":"x \u003cprivate>secret\u003c\/private> y"}"#, 10_000).to_string();
        assert!(!text.contains("secret") && text.contains("x  y"), "{text}");
    }

    #[test]
    fn images_become_a_note_of_kind_and_size() {
        let json = r#"{"file":{"base64":"iVBORw0KGgoAAAANSUhEUgAAABQAAAAU","type":"image/png"}}"#;
        assert_eq!(built(json, 10_000)["v"]["file"]["base64"], "[claude-mem: image/png, 24 bytes, not kept]");
        let long = format!(r#"{{"text":"data:image/jpeg;base64,{}"}}"#, "/9j/4AAQ".repeat(200));
        assert_eq!(built(&long, 10_000)["v"]["text"], "[claude-mem: image/jpeg, 1200 bytes, not kept]");
    }

    #[test]
    fn a_text_without_blanks_in_another_script_is_not_binary() {
        let json = format!(r#"{{"text":"{}"}}"#, "記憶".repeat(2000));
        assert_eq!(built(&json, 100_000)["v"]["text"], "記憶".repeat(2000));
    }

    #[test]
    fn short_lines_of_letters_and_digits_are_not_binary() {
        let json = format!(r#"{{"stdout":"{}"}}"#, "0123456789abcde\\n".repeat(2000));
        assert_eq!(built(&json, 100_000)["v"]["stdout"], "0123456789abcde\n".repeat(2000));
    }

    #[test]
    fn output_that_was_not_text_becomes_a_note() {
        let json = format!(r#"{{"stdout":"{}"}}"#, "\u{fffd}\\u0000x".repeat(100));
        assert!(built(&json, 100_000)["v"]["stdout"].as_str().unwrap().starts_with("[claude-mem: binary"));
    }

    #[test]
    fn a_large_value_loses_the_middle_of_its_longest_string() {
        let json = format!(r#"{{"short":"kept whole","long":"begin {} end"}}"#, "x y ".repeat(50_000));
        let value = built(&json, 20_000);
        assert_eq!(value["v"]["short"], "kept whole");
        let long = value["v"]["long"].as_str().unwrap();
        assert!(long.starts_with("begin ") && long.ends_with(" end") && long.contains(" bytes cut]"));
        assert!(value.to_string().len() > 15_000, "cut too much: {}", value.to_string().len());
    }

    #[test]
    fn json_that_is_large_by_structure_is_kept_as_cut_text() {
        let json = format!("[{}1]", "1,".repeat(100_000));
        let value = built(&json, 20_000);
        assert!(value["text"].as_str().unwrap().contains(" bytes cut]"));
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        assert!(built(&deep, 20_000)["text"].as_str().unwrap().starts_with("{\"v\":[[["));
    }

    #[test]
    fn half_a_surrogate_pair_is_mended() {
        let value = built(r#"{"a":"x\ud800y","b":"\ud83d\ude00"}"#, 10_000);
        assert_eq!(value["v"]["b"], "😀");
        assert!(value["v"]["a"].as_str().unwrap().starts_with('x'));
    }

    #[test]
    fn bytes_that_are_no_json_are_kept_as_text_without_what_is_private() {
        let text = build_from_bytes(b"{\"a\":\"\xff <private>secret</private> b", 10_000);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["text"], "{\"a\":\"\u{fffd}  b");
        assert!(!build_from_bytes(b"x \\u003cprivate\\u003esecret", 10_000).contains("secret"));
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_in_valid_json_goes_out_within_the_limit(
            strings in proptest::collection::vec(".{0,400}", 0..40),
            limit in 4096usize..8192,
        ) {
            let json = serde_json::to_string(&strings).unwrap();
            let raw: &RawValue = serde_json::from_str(&json).unwrap();
            let text = build([raw_part("v", Some(raw))], limit);
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
            assert!(text.len() <= limit, "{} of {limit}", text.len());
        }

        #[test]
        fn any_bytes_become_valid_json_within_the_limit(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..9000)) {
            let text = build_from_bytes(&bytes, 4096);
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
            assert!(text.len() <= 4096, "{}", text.len());
        }
    }
}
