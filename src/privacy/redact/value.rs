//! Reads the value behind a secret-looking name and judges it: `password = "hunter2"` is a secret, `password: String`
//! and `password = read()` are code. Knows nothing of rules and patterns.

use std::ops::Range;

use serde::Deserialize;

/// How much the name in front says about the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Trust {
    /// Every value counts: this is a file of secrets.
    Any,
    /// The name says that a literal value is a secret.
    #[default]
    Strong,
    /// The value is a secret if it is not an English word.
    Header,
    /// Only a value that looks random is a secret.
    Weak,
}

/// The secret at `value_at`, without quotes, behind what was `found`. `None`: no value, or ordinary code.
pub(super) fn secret_after(
    text: &str,
    found: Range<usize>,
    value_at: usize,
    trust: Trust,
) -> Option<Range<usize>> {
    let name = Name::at(text, found.start, value_at);
    let value = Value::read(text, value_at, name.is_variable)?;
    let judged =
        &text[value.range.start..text.floor_char_boundary(value.range.end.min(value.range.start + JUDGED))];
    let is_secret = if value.quoted {
        is_secret_literal(judged, &name, if value.wrapped { Trust::Weak } else { trust })
    } else if name.is_variable {
        is_secret_variable(judged, trust)
    } else {
        is_secret_word(judged, &name, trust, ends_line(text, value.range.end))
    };
    is_secret.then_some(value.range)
}

/// Where the value begins that is assigned to the name that ends at `at`: behind `=`, `:`, `": "`, `:=`, `=>`, `==`,
/// `"] =`, or a type and `=`.
pub(super) fn assigned_after(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let unescaped = rest.trim_start_matches('\\');
    let unquoted =
        unescaped.strip_prefix(['"', '\'', '`']).or((unescaped.len() == rest.len()).then_some(rest))?;
    let separator = unquoted.strip_prefix(']').unwrap_or(unquoted).trim_start_matches(BLANKS);
    let after = typed(separator).or_else(|| {
        let equals = separator.strip_prefix([':', '?', '+']).unwrap_or(separator);
        let value = equals.trim_start_matches('=');
        match equals.len() - value.len() {
            0 => separator.strip_prefix(':').filter(|value| !value.starts_with(':')),
            1..=3 => Some(value.strip_prefix('>').unwrap_or(value)),
            _ => None,
        }
    })?;
    Some(text.len() - after.trim_start_matches(BLANKS).len())
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Behind `: &'static str =`.
fn typed(separator: &str) -> Option<&str> {
    let kind = separator.strip_prefix(':')?.trim_start_matches(BLANKS);
    let kind = kind.strip_prefix('&').unwrap_or(kind);
    let kind = kind.strip_prefix("'static ").unwrap_or(kind);
    let behind =
        kind.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_<>".contains(letter));
    let value = behind.trim_start_matches(BLANKS).strip_prefix('=')?;
    (behind.len() < kind.len() && behind.starts_with(BLANKS)).then_some(value)
}

/// As much of a value as the judgement needs: it must not read a long text again at every name in it.
const JUDGED: usize = 256;

/// The longest value whose closing quote is looked for.
const MOST_BYTES: usize = 4096;

/// The name in front of a value.
struct Name<'t> {
    word: &'t str,
    /// `DB_PASSWORD=…`, as in a shell or a .env file: whatever follows is a literal.
    is_variable: bool,
    /// Nothing else stands before it on its line.
    begins_line: bool,
    /// `=` right behind it.
    assigned: bool,
}

impl<'t> Name<'t> {
    fn at(text: &'t str, found: usize, value_at: usize) -> Self {
        const LONGEST: usize = 64;
        let bytes = text.as_bytes();
        let before = bytes[..found].iter().rev().take(LONGEST).take_while(|byte| is_name(**byte)).count();
        let mut start = found - before;
        // The letter of an escaped line break is not part of the name.
        if start > 0 && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b'r' | b't') {
            start += 1;
        }
        let length = bytes[start..value_at].iter().take_while(|byte| is_name(**byte)).count();
        let word = &text[start..start + length];
        let separator = &text[start + length..value_at];
        Self {
            word,
            is_variable: separator == "=" && !word.bytes().any(|byte| byte.is_ascii_lowercase()),
            begins_line: !separator.starts_with(['\\', '"', '\'']) && begins_line(&text[..start]),
            assigned: separator == "=",
        }
    }

    /// `access_token = "access-token"`, `TRAFFIC_SECRET: "secret"`: a label.
    fn ends_with(&self, value: &str) -> bool {
        let letters = |text: &'t str| text.bytes().rev().filter(u8::is_ascii_alphanumeric);
        let mut name = letters(self.word);
        let value = value.bytes().rev().filter(u8::is_ascii_alphanumeric);
        value.into_iter().all(|byte| name.next().is_some_and(|other| other.eq_ignore_ascii_case(&byte)))
    }

    fn is_passphrase(&self) -> bool {
        ["phrase", "mnemonic"].iter().any(|word| contains_ignoring_case(self.word, word))
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
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
struct Value {
    /// Without its quotes.
    range: Range<usize>,
    quoted: bool,
    /// The literal is an argument: `env("NAME")`.
    wrapped: bool,
}

impl Value {
    fn read(text: &str, from: usize, is_variable: bool) -> Option<Self> {
        if let Some(range) = quoted(text, from) {
            return Some(Self { range, quoted: true, wrapped: false });
        }
        let range = from..from + bare(&text.as_bytes()[from..], is_variable);
        let word = &text[range.clone()];
        let literal = || quoted(text, range.end).map(|range| (range, word));
        // b"…", r"…", f"…" are literals too; String::from("…") holds one.
        if matches!(word, "b" | "r" | "f" | "u" | "rb" | "br" | "c" | "@" | "L") {
            return literal().map(|(range, _)| Self { range, quoted: true, wrapped: false });
        }
        if word.ends_with('(')
            && let Some((range, call)) = literal()
        {
            let constructs = ["from(", "new(", "Some(", "Ok(", "Secret(", "SecretStr("];
            let wrapped = !constructs.iter().any(|constructor| call.ends_with(constructor));
            return Some(Self { range, quoted: true, wrapped });
        }
        (!range.is_empty()).then_some(Self { range, quoted: false, wrapped: false })
    }
}

/// The inside of the quotes that open at `from`, in JSON at any depth: `"…"`, `\"…\"`, `\\\"…\\\"`.
fn quoted(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let depth = bytes[from..].iter().take(16).take_while(|byte| **byte == b'\\').count();
    let quote = *bytes.get(from + depth).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let start = from + depth + 1;
    let mut backslashes = 0;
    for (offset, byte) in bytes[start..].iter().take(MOST_BYTES).enumerate() {
        match *byte {
            b'\\' => backslashes += 1,
            // An escaped quote inside has more backslashes than the one that closes.
            byte if byte == quote && (backslashes < depth || backslashes % (2 * (depth + 1)) == depth) => {
                return Some(start..start + offset - backslashes.min(depth));
            }
            b'\n' => return Some(start..start + bare(&bytes[start..], false)),
            _ => backslashes = 0,
        }
    }
    let cut = bytes.len() - start < MOST_BYTES && quote == b'"';
    Some(start..if cut { bytes.len() } else { start + bare(&bytes[start..], false) })
}

/// How long the word is that begins here: up to white space, a quote, an escaped line break, and what separates
/// arguments or parameters unless it is a shell variable's.
fn bare(bytes: &[u8], is_variable: bool) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0..=b' ' | b'"' | b'\'' | b'`' | 0x7f => break,
            b',' | b';' | b'&' if !is_variable => break,
            b'\\' => {
                let run = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
                if bytes
                    .get(at + run)
                    .is_none_or(|byte| matches!(byte, b'n' | b'r' | b't' | b'"' | b'\'' | b'`' | b'u'))
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

fn is_secret_literal(value: &str, name: &Name<'_>, trust: Trust) -> bool {
    if is_no_value(value) || is_place(value) || is_constant_name(value) || name.ends_with(value) {
        return false;
    }
    let words = value.split_whitespace().count();
    if words > 1 {
        let is_password = words == 2 && trust == Trust::Strong && has_digit(value);
        return trust == Trust::Any || is_password || (trust == Trust::Strong && name.is_passphrase());
    }
    match trust {
        Trust::Any => true,
        Trust::Strong => value.chars().nth(2).is_some(),
        Trust::Header => is_no_english_word(value),
        Trust::Weak => looks_random(value),
    }
}

fn is_secret_variable(value: &str, trust: Trust) -> bool {
    if is_no_value(value) || is_call(value) || value.starts_with(['(', '[', '|', '&']) {
        return false;
    }
    match trust {
        Trust::Any => !(is_number(value) && value.len() <= 5),
        Trust::Strong => value.chars().nth(2).is_some() && !is_place(value),
        Trust::Header | Trust::Weak => {
            !is_number(value)
                && !is_place(value)
                && (has_digit(value) && value.len() >= 8 && !is_words(value) || value.len() >= 32)
        }
    }
}

fn is_secret_word(value: &str, name: &Name<'_>, trust: Trust, ends_line: bool) -> bool {
    let value = value.trim_end_matches([')', '}', ']']);
    if is_no_value(value) || is_call(value) || is_place(value) || is_constant_name(value) {
        return false;
    }
    if value
        .starts_with(['(', '[', '{', '<', '&', '*', '!', '|', '$', ':', '=', '>', '?', '.', '-', '+', '#'])
    {
        return false;
    }
    match trust {
        Trust::Any => true,
        Trust::Header => is_no_english_word(value),
        Trust::Weak => looks_random(value),
        Trust::Strong if value.starts_with(|first: char| first.is_ascii_digit()) && is_number(value) => {
            value.len() >= 6 && name.begins_line && ends_line
        }
        Trust::Strong if is_path_of_names(value) => {
            looks_random(value) && value.bytes().any(|byte| byte.is_ascii_uppercase())
        }
        Trust::Strong if is_identifier(value) => is_password_word(value, name, ends_line),
        Trust::Strong if is_words(value) && !has_digit(value) => {
            name.begins_line && ends_line && contains_ignoring_case(name.word, "pass")
        }
        Trust::Strong => value.len() >= 4 && value.bytes().any(|byte| byte.is_ascii_alphanumeric()),
    }
}

/// A bare word that could also be a variable or a type.
fn is_password_word(value: &str, name: &Name<'_>, ends_line: bool) -> bool {
    let names_itself =
        ["pass", "token", "secret", "key"].iter().any(|word| contains_ignoring_case(value, word));
    if value.len() < 6 || names_itself && !looks_random(value) {
        return false;
    }
    if has_digit(value) {
        return if value.contains('_') { !is_words(value) } else { !is_type_with_size(value) };
    }
    let plain = value.bytes().all(|byte| byte.is_ascii_lowercase());
    let has_case = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.begins_line && ends_line && (plain || has_case && name.assigned)
}

/// Nothing, a reference to where the value is, a placeholder, a mask, or a word of a programming language.
fn is_no_value(value: &str) -> bool {
    const WORDS: [&str; 44] = [
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "yes",
        "no",
        "on",
        "off",
        "string",
        "str",
        "text",
        "number",
        "integer",
        "int",
        "float",
        "double",
        "boolean",
        "bool",
        "object",
        "array",
        "any",
        "bytes",
        "byte",
        "char",
        "void",
        "unknown",
        "never",
        "required",
        "optional",
        "hidden",
        "default",
        "empty",
        "self",
        "this",
        "await",
        "new",
        "async",
        "function",
        "lambda",
        "return",
        "typeof",
        "secretstr",
    ];
    let word = value.trim_end_matches([';', ',', '!', '?', ')']);
    if word.is_empty() || WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)) {
        return true;
    }
    if value.trim_matches(['[', ']', '<', '>', '*', '(', ')']).eq_ignore_ascii_case("redacted") {
        return true;
    }
    let mut bytes = value.bytes();
    let first = bytes.next().unwrap_or_default();
    let second = bytes.next().unwrap_or_default();
    match first {
        b'<' | b'{' => true,
        b'$' => second.is_ascii_alphabetic() || matches!(second, b'{' | b'(' | b'_'),
        b'%' | b'#' => second.is_ascii_alphabetic() && value.len() == 2 || matches!(second, b'(' | b'{'),
        b'*' | b'x' | b'X' | b'.' | b'-' | b'_' | b'?' => value.bytes().all(|byte| byte == first),
        _ => value.chars().all(|letter| matches!(letter, '•' | '…' | '●')),
    }
}

/// A file or a web address, which other rules look into.
fn is_place(value: &str) -> bool {
    let looks_random = || {
        has_digit(value) && value.bytes().any(|byte| byte.is_ascii_uppercase()) || value.contains(['+', '='])
    };
    value.starts_with("http://")
        || value.starts_with("https://")
        || ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start)) && !looks_random()
}

/// `OPENAI_API_KEY`: where to find the value.
fn is_constant_name(value: &str) -> bool {
    value.contains('_')
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && value.bytes().filter(u8::is_ascii_digit).count() <= 3
}

/// `get_token(…)`, `os.environ[…]`, `Option<String>`, `vec![…]`.
fn is_call(value: &str) -> bool {
    let Some(bracket) = value.find(['(', '[', '{', '<']) else { return false };
    let head = value[..bracket].as_bytes();
    head.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && head
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'!' | b'?'))
}

/// `4096`, `1324u32`, `0xC000006B_u32`, `3i32`, `1.5`.
fn is_number(value: &str) -> bool {
    let hexadecimal =
        value.strip_prefix("0x").map(|rest| rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    let decimal = || value.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
    let suffix = hexadecimal.unwrap_or_else(decimal).trim_start_matches('_');
    suffix.is_empty()
        || is_type_with_size(suffix)
        || suffix.len() <= 3 && suffix.bytes().all(|byte| b"uUlLfF".contains(&byte))
}

fn is_identifier(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !value.starts_with(|letter: char| letter.is_ascii_digit())
}

/// `settings.api_key`, `crate::Secret`, `process.env.KEY!`.
fn is_path_of_names(value: &str) -> bool {
    let value = value.trim_end_matches(['!', '?', ':']);
    value.contains(['.', ':'])
        && value.split(['.', ':']).all(|part| is_identifier(part.trim_end_matches(['!', '?'])))
}

fn is_type_with_size(value: &str) -> bool {
    const TYPES: [&str; 9] = ["u", "i", "f", "int", "uint", "float", "bytes", "str", "utf"];
    let letters = value.trim_end_matches("_t").trim_end_matches(|letter: char| letter.is_ascii_digit());
    TYPES.iter().any(|known| letters.eq_ignore_ascii_case(known))
}

/// Words and numbers joined by separators, as people write names: `parse_token_v2`, `my-secret`, `api.v1.users`.
fn is_words(value: &str) -> bool {
    value.split(|letter: char| !letter.is_ascii_alphanumeric()).all(|part| {
        let digits = part.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn looks_random(value: &str) -> bool {
    value.len() >= 16
        && has_digit(value)
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./+=~:%|".contains(&byte))
        && !is_words(value)
        && !is_place(value)
        && !is_uuid(value)
}

/// An id, not a secret, unless its name says otherwise.
fn is_uuid(value: &str) -> bool {
    let mut groups = value
        .split('-')
        .map(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(group.len()));
    [8, 4, 4, 4, 12].into_iter().all(|length| groups.next() == Some(Some(length))) && groups.next().is_none()
}

fn is_no_english_word(value: &str) -> bool {
    let tail = value.strip_prefix(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(value);
    let mut letters = tail.bytes().filter(|byte| !matches!(byte, b'-' | b'_' | b'.' | b','));
    value.len() >= 8
        && !letters.all(|byte| byte.is_ascii_lowercase())
        && !value.starts_with(['-', '+', '(', '"'])
}

fn has_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
}

fn contains_ignoring_case(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}
