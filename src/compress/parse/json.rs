//! Finds JSON in text and reads as much of it as possible. Independent of observations.
//!
//! Stricter readers refuse a whole answer for one missing bracket. This one accepts the usual mistakes of models (a trailing
//! comma, a raw line break or quote in a string, single quotes, a missing bracket) and cut-off answers, and keeps every part
//! that is there. Valid JSON is read like by any other reader.

mod string;

use serde_json::{Map, Number, Value};

/// Maximum nesting. Deeper values are dropped, so that no recursion over the values overflows the stack.
pub(super) const MOST_DEEP: usize = 24;

/// Maximum number of items kept of one list or object.
const MOST_ITEMS: usize = 1000;

/// A list or an object found in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    pub(super) value: Value,
    /// The offset of its first byte.
    pub(super) start: usize,
    /// True if its end was found.
    pub(super) complete: bool,
}

/// All outermost lists and objects in the text.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(['{', '[']).map(|at| from + at) {
        let mut reader = JsonReader { text, at: start, frames: Vec::new(), buried: 0 };
        let (value, complete) = reader.read();
        from = reader.at.max(start + 1);
        if complete || !is_empty(&value) {
            blocks.push(Block { value, start, complete });
        }
        if blocks.len() >= MOST_ITEMS {
            break;
        }
    }
    blocks
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    }
}

/// A list or object that is not closed yet.
enum OpenValue {
    Array(Vec<Value>),
    Object(Map<String, Value>, Option<String>),
}

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
    frames: Vec<OpenValue>,
    /// Number of open brackets beyond [`MOST_DEEP`].
    buried: usize,
}

/// The next token: nothing that belongs to the value, a part of it, or its end.
enum ScanStep {
    Stop,
    Continue,
    Done(Value),
}

impl JsonReader<'_> {
    /// The value, and true if it was complete. Afterwards `at` is behind it, or where reading stopped.
    fn read(&mut self) -> (Value, bool) {
        loop {
            match self.step() {
                ScanStep::Continue => {}
                ScanStep::Done(value) => return (value, true),
                ScanStep::Stop => return (self.fold(), false),
            }
        }
    }

    fn step(&mut self) -> ScanStep {
        self.skip_blank();
        let Some(byte) = self.peek() else { return ScanStep::Stop };
        match byte {
            b'{' | b'[' => {
                self.at += 1;
                self.open(byte)
            }
            b'}' | b']' => self.close(byte),
            b'"' | b'\'' => {
                self.at += 1;
                let is_key =
                    self.buried > 0 || matches!(self.frames.last(), Some(OpenValue::Object(_, None)));
                let is_listed = matches!(self.frames.last(), Some(OpenValue::Array(_)));
                let (length, string, closed) = string::read(&self.text[self.at..], byte, is_key, is_listed);
                self.at += length;
                self.put_string(string, closed)
            }
            b',' => {
                self.at += 1;
                ScanStep::Continue
            }
            b':' if self.buried > 0 => {
                self.at += 1;
                ScanStep::Continue
            }
            _ => self.word(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start().len();
            if !self.text[self.at..].starts_with("//") {
                return;
            }
            self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
        }
    }

    fn open(&mut self, bracket: u8) -> ScanStep {
        if matches!(self.frames.last(), Some(OpenValue::Object(_, None))) {
            self.at -= 1;
            return ScanStep::Stop;
        }
        if self.buried > 0 || self.frames.len() >= MOST_DEEP {
            self.buried += 1;
        } else if bracket == b'{' {
            self.frames.push(OpenValue::Object(Map::new(), None));
        } else {
            self.frames.push(OpenValue::Array(Vec::new()));
        }
        ScanStep::Continue
    }

    /// Closes the innermost list or object with that bracket, and everything left open inside it.
    fn close(&mut self, bracket: u8) -> ScanStep {
        if self.buried > 0 {
            self.at += 1;
            self.buried -= 1;
            return if self.buried == 0 { self.put(Value::Null) } else { ScanStep::Continue };
        }
        let is_mine = |frame: &OpenValue| matches!(frame, OpenValue::Object(..)) == (bracket == b'}');
        let Some(depth) = self.frames.iter().rposition(is_mine) else { return ScanStep::Stop };
        self.at += 1;
        self.close_to(depth).map_or(ScanStep::Continue, ScanStep::Done)
    }

    /// Adds a value to its parent. Returns the outermost value, which has none.
    fn put(&mut self, value: Value) -> ScanStep {
        match self.frames.last_mut() {
            None => return ScanStep::Done(value),
            Some(_) if self.buried > 0 => {}
            Some(OpenValue::Array(items)) if items.len() < MOST_ITEMS => items.push(value),
            Some(OpenValue::Object(fields, key)) => {
                let key = key.take().filter(|_| fields.len() < MOST_ITEMS);
                fields.extend(key.map(|key| (key, value)));
            }
            Some(OpenValue::Array(_)) => {}
        }
        ScanStep::Continue
    }

    fn put_string(&mut self, string: String, closed: bool) -> ScanStep {
        match self.frames.last_mut() {
            _ if self.buried > 0 => ScanStep::Continue,
            Some(OpenValue::Object(_, None)) => {
                self.skip_blank();
                if self.peek() != Some(b':') {
                    return ScanStep::Stop;
                }
                self.at += 1;
                if let Some(OpenValue::Object(_, key)) = self.frames.last_mut() {
                    *key = Some(string);
                }
                ScanStep::Continue
            }
            // Half a file name is worse than none; half a sentence is useful.
            Some(OpenValue::Array(_)) if !closed => ScanStep::Stop,
            _ => self.put(Value::String(string)),
        }
    }

    /// A number, `true`, `false`, `null`, or a name without quotes.
    fn word(&mut self) -> ScanStep {
        let is_part =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '+' | '.');
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())];
        if word.is_empty() {
            return ScanStep::Stop;
        }
        let value = match word {
            _ if self.buried > 0 => Value::Null,
            _ if matches!(self.frames.last(), Some(OpenValue::Object(_, None))) => {
                if !rest[word.len()..].trim_start().starts_with(':') {
                    return ScanStep::Stop;
                }
                self.at += word.len();
                return self.put_string(word.to_owned(), true);
            }
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" | "undefined" => Value::Null,
            _ => match word.parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => return ScanStep::Stop,
            },
        };
        self.at += word.len();
        self.put(value)
    }

    /// The value as read so far, with every bracket closed.
    fn fold(&mut self) -> Value {
        self.buried = 0;
        self.close_to(0).unwrap_or_default()
    }

    /// Closes all but the outer `depth` lists and objects. Returns the value if that closed the last one.
    fn close_to(&mut self, depth: usize) -> Option<Value> {
        while self.frames.len() > depth {
            let value = self.frames.pop().map(OpenValue::into_value)?;
            if let ScanStep::Done(value) = self.put(value) {
                return Some(value);
            }
        }
        None
    }
}

impl OpenValue {
    fn into_value(self) -> Value {
        match self {
            Self::Array(items) => Value::Array(items),
            Self::Object(fields, _) => Value::Object(fields),
        }
    }
}
