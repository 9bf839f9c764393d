//! Reads `<observation>` and `<summary>` blocks. Only the known tags are markup; any other `<` is text (`Vec<u8>`, `a < b`),
//! which is why an XML reader does not fit.

use serde_json::{Map, Value};

use super::fields::plain;

/// Maximum number of tags that are read.
const MOST_TAGS: usize = 2_000;

/// Fields of an observation or a summary.
const FIELDS: [&str; 31] = [
    "type",
    "kind",
    "category",
    "title",
    "subtitle",
    "summary",
    "narrative",
    "detail",
    "details",
    "text",
    "facts",
    "concepts",
    "tags",
    "filesread",
    "filesmodified",
    "filesedited",
    "fileschanged",
    "files",
    "functionschanged",
    "functions",
    "request",
    "investigated",
    "learned",
    "learnings",
    "completed",
    "nextsteps",
    "notes",
    "keydecisions",
    "decisions",
    "description",
    "explanation",
];

/// Tags of list items.
const ITEMS: [&str; 11] =
    ["learning", "fact", "concept", "tag", "file", "path", "function", "item", "li", "decision", "step"];

/// Other known tags.
const OTHERS: [&str; 9] = [
    "observation",
    "observations",
    "skip",
    "skipsummary",
    "skipobservations",
    "skipobservation",
    "noobservations",
    "noobservation",
    "nosummary",
];

/// One tag in the text.
#[derive(Debug, Clone)]
struct AnswerTag {
    /// Its plain name.
    name: String,
    start: usize,
    end: usize,
    /// `</name>`
    closes: bool,
    /// `<name/>`
    is_empty: bool,
}

impl AnswerTag {
    fn opens(&self, name: &str) -> bool {
        !self.closes && self.name == name
    }

    fn opens_field(&self) -> bool {
        !self.closes && FIELDS.contains(&self.name.as_str())
    }

    fn ends_observation(&self) -> bool {
        self.name == "observation" || self.closes && self.name == "observations"
    }

    fn is_item(&self) -> bool {
        ITEMS.contains(&self.name.as_str())
    }
}

/// The tags of a text.
pub(super) struct Tags<'t> {
    text: &'t str,
    tags: Vec<AnswerTag>,
}

impl<'t> Tags<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let mut tags = Vec::new();
        let mut from = 0;
        while let Some(start) = text[from..].find('<').map(|at| from + at)
            && tags.len() < MOST_TAGS
        {
            from = start + 1;
            if let Some(tag) = tag_at(text, start) {
                from = tag.end;
                tags.push(tag);
            }
        }
        let is_all = tags.len() < MOST_TAGS;
        Self { text: if is_all { text } else { &text[..from] }, tags }
    }

    /// The fields of each `<observation>`, and where it begins. One that is not closed ends where the next begins.
    pub(super) fn observations(&self) -> Vec<(usize, Map<String, Value>)> {
        let mut found = Vec::new();
        let mut rest = self.tags.as_slice();
        while let Some(open) = rest.iter().position(|tag| tag.opens("observation")) {
            let start = rest[open].start;
            rest = &rest[open + 1..];
            let length = rest.iter().position(AnswerTag::ends_observation).unwrap_or(rest.len());
            let end = rest.get(length).map_or(self.text.len(), |tag| tag.start);
            let object = self.fields(&rest[..length], end);
            if !object.is_empty() {
                found.push((start, object));
            }
            rest = &rest[length..];
        }
        found
    }

    /// The fields of a summary, whether or not they are within `<summary>`, and where it begins.
    pub(super) fn summary(&self) -> Option<(usize, Map<String, Value>)> {
        let first = self.tags.iter().position(AnswerTag::opens_field)?;
        let object = self.fields(&self.tags[first..], self.text.len());
        (!object.is_empty()).then(|| (self.tags[first].start, object))
    }

    /// The contents of `<learning>` tags.
    pub(super) fn learnings(&self) -> Vec<String> {
        let opens = self.tags.iter().enumerate().filter(|(_, tag)| tag.opens("learning"));
        let text = |(at, tag): (usize, &AnswerTag)| {
            let close = self.tags[at + 1..].iter().find(|other| other.closes && other.name == "learning")?;
            Some(unescaped(&self.text[tag.end..close.start]))
        };
        opens.filter_map(text).collect()
    }

    /// The reason given in a skip tag, if the model used one.
    pub(super) fn skip(&self, names: &[&str]) -> Option<Option<String>> {
        let tag = self.tags.iter().find(|tag| !tag.closes && names.contains(&tag.name.as_str()))?;
        let attributes = &self.text[tag.start..tag.end];
        let attribute = attributes.split_once("reason").and_then(|(_, rest)| {
            let value = rest.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            value[1..].split(quote).next().map(str::to_owned)
        });
        let inside = || {
            let rest = &self.text[tag.end..];
            (!tag.is_empty).then(|| rest[..rest.find('<').unwrap_or(rest.len())].to_owned())
        };
        let reason = attribute.or_else(inside).map(|reason| unescaped(&reason));
        Some(reason.and_then(|reason| super::fields::text(&Value::from(reason), super::fields::SUMMARY)))
    }

    /// The fields that these tags open, in a text that ends at `end`.
    fn fields(&self, tags: &[AnswerTag], end: usize) -> Map<String, Value> {
        let mut object = Map::new();
        let mut at = 0;
        while let Some(tag) = tags.get(at) {
            at += 1;
            if tag.closes || tag.is_empty || !(tag.opens_field() || tag.is_item()) {
                continue;
            }
            let rest = &tags[at..];
            let close = rest.iter().position(|other| other.closes && other.name == tag.name);
            // A summary that holds other fields is the text around them.
            if tag.name == "summary"
                && rest[..close.unwrap_or(rest.len())].first().is_some_and(AnswerTag::opens_field)
            {
                continue;
            }
            let length = close.or_else(|| rest.iter().position(AnswerTag::opens_field)).unwrap_or(rest.len());
            let inside_end = rest.get(length).map_or(end, |tag| tag.start);
            put(&mut object, &tag.name, self.content(&rest[..length], tag.end, inside_end));
            at += length;
        }
        object
    }

    /// The content between two tags: a list if there are items, text otherwise.
    fn content(&self, tags: &[AnswerTag], start: usize, end: usize) -> Value {
        let items = tags.iter().enumerate().filter(|(_, tag)| tag.is_item() && !tag.closes);
        let list: Vec<Value> = items
            .filter_map(|(at, tag)| {
                let next = tags[at + 1..].iter().find(|next| next.is_item());
                // Half a file name is worse than none.
                let is_cut = next.is_none() && end == self.text.len();
                let item = &self.text[tag.end..next.map_or(end, |next| next.start)];
                (!is_cut).then(|| Value::from(unescaped(item)))
            })
            .collect();
        if list.is_empty() { Value::from(unescaped(&self.text[start..end])) } else { Value::Array(list) }
    }
}

/// Joins a field that occurs several times into a list.
fn put(object: &mut Map<String, Value>, name: &str, value: Value) {
    match object.get_mut(name) {
        None => {
            object.insert(name.to_owned(), value);
        }
        Some(Value::Array(items)) => items.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn tag_at(text: &str, start: usize) -> Option<AnswerTag> {
    const LONGEST_NAME: usize = 24;
    const LONGEST_TAG: usize = 1_000;
    let rest = &text[start + 1..];
    let closes = rest.starts_with('/');
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = rest.bytes().take(LONGEST_NAME).take_while(|byte| is_name(byte)).count();
    let name = plain(&rest[..length]);
    let name = name.as_str();
    if !(FIELDS.contains(&name) || ITEMS.contains(&name) || OTHERS.contains(&name)) {
        return None;
    }
    let attributes = &rest[length..rest.floor_char_boundary(LONGEST_TAG)];
    if !attributes.starts_with(|next: char| next.is_whitespace() || matches!(next, '>' | '/')) {
        return None;
    }
    let close = attributes.find('>')?;
    let end = text.len() - rest.len() + length + close + 1;
    Some(AnswerTag {
        name: name.to_owned(),
        start,
        end,
        closes,
        is_empty: attributes[..close].ends_with('/'),
    })
}

/// The text with its entities resolved, and without a CDATA wrapper.
fn unescaped(text: &str) -> String {
    let trimmed = text.trim();
    let cdata = trimmed.strip_prefix("<![CDATA[").map(|inner| inner.strip_suffix("]]>").unwrap_or(inner));
    if let Some(inner) = cdata {
        return inner.to_owned();
    }
    let mut plain = String::new();
    let mut rest = trimmed;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let (length, letter) = entity(&rest[at..]).unwrap_or((1, '&'));
        plain.push(letter);
        rest = &rest[at + length..];
    }
    plain + rest
}

/// The entity that begins here: its length and its character.
fn entity(text: &str) -> Option<(usize, char)> {
    const LONGEST: usize = 10;
    let end = text.bytes().take(LONGEST).position(|byte| byte == b';')?;
    let name = &text[1..end];
    let letter = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((end + 1, letter))
}
