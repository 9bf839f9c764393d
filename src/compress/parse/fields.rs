//! Fields of a model's answer: found under the names that models use, cleaned, and bounded.

use serde_json::{Map, Value};

/// Maximum lengths of fields, in characters.
pub(super) const TITLE: usize = 200;
pub(super) const SUMMARY: usize = 2_000;
pub(super) const DETAIL: usize = 8_000;

/// The bounds of a list, and its separator if it came as one text.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    items: usize,
    characters: usize,
    /// True if a comma separates items, as for words and paths but not for sentences.
    by_comma: bool,
}

pub(super) const SENTENCES: List = List { items: 30, characters: 600, by_comma: false };
pub(super) const WORDS: List = List { items: 20, characters: 80, by_comma: true };
pub(super) const PATHS: List = List { items: 60, characters: 400, by_comma: true };
pub(super) const FUNCTIONS: List = List { items: 60, characters: 300, by_comma: false };

/// A name without separators and in lower case: `filesRead`, `files_read` and `Files read` are one.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The first field that exists under one of these plain names.
pub(super) fn get<'v>(object: &'v Map<String, Value>, names: &[&str]) -> Option<&'v Value> {
    names.iter().find_map(|name| object.iter().find(|(key, _)| plain(key) == *name).map(|(_, value)| value))
}

/// The first of these fields with a text.
pub(super) fn text_of(object: &Map<String, Value>, names: &[&str], most: usize) -> Option<String> {
    names.iter().find_map(|name| text(get(object, &[name])?, most))
}

/// The first of these fields that is not empty.
pub(super) fn list_of(object: &Map<String, Value>, names: &[&str], list: List) -> Vec<String> {
    let lists = names.iter().filter_map(|name| get(object, &[name]).map(|value| items(value, list)));
    lists.into_iter().find(|items| !items.is_empty()).unwrap_or_default()
}

/// A value as text of at most `most` characters.
pub(super) fn text(value: &Value, most: usize) -> Option<String> {
    match value {
        Value::String(text) => paragraph(text, most),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let lines: Vec<_> = items.iter().filter_map(|item| text(item, most)).collect();
            paragraph(&lines.join("\n"), most)
        }
        Value::Object(object) => {
            match get(object, &["text", "value", "path", "file", "name", "fact", "content"])? {
                Value::String(text) => paragraph(text, most),
                _ => None,
            }
        }
        Value::Null | Value::Bool(_) => None,
    }
}

fn items(value: &Value, list: List) -> Vec<String> {
    let mut found = Vec::new();
    match value {
        Value::Array(items) => items.iter().for_each(|item| match item {
            Value::Array(_) => {}
            _ => found.extend(text(item, list.characters).and_then(|text| line(&text, list.characters))),
        }),
        Value::String(text) if text.trim_start().starts_with('[') => {
            if let Some(block) = super::json::blocks(text).into_iter().next() {
                return items(&block.value, list);
            }
        }
        Value::String(text) => {
            let separators: &[char] = if list.by_comma { &['\n', ','] } else { &['\n'] };
            found.extend(
                text.split(separators).filter_map(|item| line(without_bullet(item), list.characters)),
            );
        }
        other => found.extend(text(other, list.characters)),
    }
    let mut kept: Vec<String> = Vec::new();
    for item in found {
        if kept.len() < list.items && !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// `- item`, `* item`, `3. item`.
fn without_bullet(item: &str) -> &str {
    let item = item.trim();
    let number = item.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered = (number.len() < item.len())
        .then(|| number.strip_prefix(". ").or(number.strip_prefix(") ")))
        .flatten();
    let bullet = ["- ", "* ", "• "].iter().find_map(|bullet| item.strip_prefix(bullet));
    numbered.or(bullet).unwrap_or(item)
}

/// One line of text without control characters, at most `most` characters. `None` if it has no content.
pub(super) fn line(text: &str, most: usize) -> Option<String> {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() > 4 * most {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|letter| !letter.is_control()));
    }
    unless_empty(bounded(line.trim(), most))
}

/// Text of several lines without control characters, at most `most` characters. `None` if it has no content.
fn paragraph(text: &str, most: usize) -> Option<String> {
    let kept = |letter: &char| matches!(letter, '\n' | '\t') || !letter.is_control();
    let clean: String = text.trim().chars().filter(kept).take(most + 1).collect();
    unless_empty(bounded(clean.trim(), most))
}

fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Drops "none" and the like, which models write into empty fields.
fn unless_empty(text: String) -> Option<String> {
    let nothing = ["", "-", "null", "none", "n/a", "undefined"];
    (!nothing.iter().any(|word| text.trim_end_matches('.').eq_ignore_ascii_case(word))).then_some(text)
}
