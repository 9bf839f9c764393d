//! Reads the value behind the name of a secret, with its quotes and escapes. Independent of rules and patterns; `judge`
//! decides if the value is a secret.

use std::ops::Range;

use super::is_secret::{self, Trust};
use super::names::ends_with_letters;

/// Returns the secret at `value_at`, without quotes. `None`: no value, or ordinary code.
pub(super) fn secret_after(
    text: &str,
    name: Range<usize>,
    value_at: usize,
    trust: Trust,
) -> Option<Range<usize>> {
    let name = Name::at(text, name, value_at)?;
    let value = FoundValue::read(text, value_at, name.is_variable)?;
    let judged =
        &text[value.range.start..text.floor_char_boundary(value.range.end.min(value.range.start + JUDGED))];
    let is_secret = match value.kind {
        ValueKind::Literal => is_secret::is_secret_literal(judged, &name, trust),
        ValueKind::Argument => is_secret::is_secret_literal(judged, &name, Trust::Weak),
        ValueKind::Bare if name.is_variable => is_secret::is_secret_variable(judged, &name, trust),
        ValueKind::Bare => is_secret::is_secret_word(judged, &name, trust, ends_line(text, value.range.end)),
    };
    is_secret.then(|| match value.closed {
        true => value.range,
        false => value.range.start..value.range.end + bare(&text[value.range.end..], name.is_variable),
    })
}

/// Most bytes of a value that `judge` reads, so that a long text is not read again at every name.
const JUDGED: usize = 128;

/// The longest value whose closing quote is looked for.
const MOST_BYTES: usize = 4096;

/// The name in front of a value.
pub(super) struct Name<'t> {
    pub(super) word: &'t str,
    /// `DB_PASSWORD=…`, as in a shell or a .env file: whatever follows is a literal.
    is_variable: bool,
    /// Nothing else stands before it on its line.
    pub(super) begins_line: bool,
    /// `=` right behind it.
    pub(super) assigned: bool,
}

impl<'t> Name<'t> {
    fn at(text: &'t str, name: Range<usize>, value_at: usize) -> Option<Self> {
        let (before, word, separator) = (&text[..name.start], &text[name.clone()], &text[name.end..value_at]);
        // `arn:aws:secretsmanager:…:secret:name`
        if separator == ":" && before.ends_with(':') {
            return None;
        }
        Some(Self {
            word,
            is_variable: separator == "=" && !word.bytes().any(|byte| byte.is_ascii_lowercase()),
            begins_line: !separator.starts_with(['\\', '"', '\'']) && begins_line(before),
            assigned: separator == "=",
        })
    }

    /// `access_token = "access-token"`, `TRAFFIC_SECRET: "secret"`: a label.
    pub(super) fn ends_with(&self, value: &str) -> bool {
        value.len() <= 2 * self.word.len() && {
            let letters: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            ends_with_letters(self.word, &letters)
        }
    }

    pub(super) fn is_passphrase(&self) -> bool {
        ["phrase", "mnemonic"].iter().any(|word| is_secret::contains_ignoring_case(self.word, word))
    }
}

fn begins_line(before: &str) -> bool {
    let line = before.trim_end_matches([' ', '\t', '-', '+']);
    let line = line.strip_suffix("export").unwrap_or(line);
    line.is_empty() || line.ends_with(['\n', '\r', '"']) || line.ends_with("\\n")
}

fn ends_line(text: &str, at: usize) -> bool {
    let rest = text[at..].trim_start_matches([' ', '\t']);
    let unescaped = rest.trim_start_matches('\\');
    let escaped_break = unescaped.len() < rest.len() && unescaped.starts_with(['n', 'r']);
    rest.is_empty() || escaped_break || unescaped.starts_with(['\n', '\r', '"', '#'])
}

/// A value as it stands in the text.
struct FoundValue {
    /// Without its quotes.
    range: Range<usize>,
    kind: ValueKind,
    /// A quote ends it. Otherwise it may go on: only as much was read as the judgement needs.
    closed: bool,
}

enum ValueKind {
    /// In quotes.
    Literal,
    /// In quotes, and an argument: `env("NAME")`.
    Argument,
    /// A word that may be code.
    Bare,
}

impl FoundValue {
    fn read(text: &str, from: usize, is_variable: bool) -> Option<Self> {
        if let Some((range, closed)) = quoted(text, from) {
            return Some(Self { range, kind: ValueKind::Literal, closed });
        }
        let range = from..from + bare(head(text, from), is_variable);
        let word = &text[range.clone()];
        // b"…", r"…", f"…" are literals too; String::from("…") holds one.
        let is_prefix = matches!(word, "b" | "r" | "f" | "u" | "rb" | "br" | "c" | "@" | "L");
        let literal = (is_prefix || word.ends_with('(')).then(|| quoted(text, range.end)).flatten();
        let kind = match literal {
            None => ValueKind::Bare,
            Some(_) if is_prefix || is_constructor(word) => ValueKind::Literal,
            Some(_) => ValueKind::Argument,
        };
        let (range, closed) = literal.unwrap_or((range, false));
        (!range.is_empty()).then_some(Self { range, kind, closed })
    }
}

fn is_constructor(call: &str) -> bool {
    ["from(", "new(", "Some(", "Ok(", "Secret(", "SecretStr("].iter().any(|known| call.ends_with(known))
}

/// The inside of the quotes that open at `from`, in JSON at any depth: `"…"`, `\"…\"`, `\\\"…\\\"`. The flag is
/// true if a quote closes it.
fn quoted(text: &str, from: usize) -> Option<(Range<usize>, bool)> {
    let bytes = text.as_bytes();
    let escapes = bytes[from..].iter().take(16).take_while(|byte| **byte == b'\\').count();
    let quote = *bytes.get(from + escapes).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let start = from + escapes + 1;
    let mut backslashes = 0_usize;
    for (offset, byte) in bytes[start..].iter().take(MOST_BYTES).enumerate() {
        match *byte {
            b'\\' => backslashes += 1,
            // A quote at depth n has 2^n - 1 backslashes of its own; those in front of them are escaped ones. One
            // that is deeper belongs to the value, any other ends it.
            byte if byte == quote && backslashes.trailing_ones() <= escapes.trailing_ones() => {
                let own = (1 << backslashes.trailing_ones()) - 1;
                return Some((start..start + offset - own, true));
            }
            b'\n' => break,
            // The string ends in which this quote stands: what follows is of another.
            b'"' if quote != b'"' && ends_json_string(&bytes[start + offset + 1..]) => break,
            _ => backslashes = 0,
        }
    }
    let rest = &bytes[start..];
    let is_cut = quote == b'"' && rest.len() < MOST_BYTES && !rest.contains(&b'\n');
    Some(if is_cut {
        (start..bytes.len(), true)
    } else {
        (start..start + bare(head(text, start), false), false)
    })
}

fn ends_json_string(behind: &[u8]) -> bool {
    let blanks = behind.iter().take(JUDGED).take_while(|byte| byte.is_ascii_whitespace()).count();
    behind.get(blanks).is_none_or(|next| matches!(next, b',' | b':' | b']' | b'}'))
}

fn head(text: &str, from: usize) -> &str {
    &text[from..text.floor_char_boundary(from.saturating_add(JUDGED))]
}

/// Returns the length of the word at the start: up to white space, a quote, an escaped line break, and the separators of
/// arguments and parameters unless it is a shell variable's.
fn bare(text: &str, is_variable: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0..=b' ' | b'"' | b'\'' | b'`' | 0x7f => break,
            b',' | b';' | b'&' if !is_variable => break,
            b'\\' => {
                let run = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
                let escaped = bytes.get(at + run);
                if escaped.is_none_or(|byte| matches!(byte, b'n' | b'r' | b't' | b'"' | b'\'' | b'`' | b'u'))
                {
                    break;
                }
                at += run;
            }
            _ => at += 1,
        }
    }
    at
}
