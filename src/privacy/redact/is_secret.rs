//! Decides by its form and by the name in front of it whether a value is a secret or ordinary code.
//!
//! A secret that is missed leaks; code that is taken for one loses a word. Where both are possible, the name decides.

use serde::Deserialize;

use super::letters;
use super::value::Name;

/// Confidence that a value behind a name is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Trust {
    /// Every value counts: this is a file of secrets.
    Any,
    /// The name marks literal values as secrets.
    #[default]
    Strong,
    /// The value is a secret if it is not an English word.
    Header,
    /// Only a value that looks random is a secret.
    Weak,
}

/// Returns true if a quoted value is a secret.
pub(super) fn is_secret_literal(value: &str, name: &Name<'_>, trust: Trust) -> bool {
    if is_no_value(value) || is_place(value) || is_constant_name(value) || name.ends_with(value) {
        return false;
    }
    // The quote did not open a value, it closed the string that the name is in: `["password:", 1]`
    if value.trim_start().starts_with([',', ':', ']', '}']) {
        return false;
    }
    let words = value.split_whitespace().count();
    if words > 1 {
        let is_password = words == 2 && trust == Trust::Strong && has_digit(value);
        return trust == Trust::Any || is_password || (trust == Trust::Strong && name.is_passphrase());
    }
    match trust {
        Trust::Any => !is_plain_setting(value),
        Trust::Strong => value.chars().nth(2).is_some(),
        Trust::Header => is_no_english_word(value),
        Trust::Weak => looks_random(value),
    }
}

/// Returns true if the value of `A_VARIABLE=` is a secret.
pub(super) fn is_secret_variable(value: &str, name: &Name<'_>, trust: Trust) -> bool {
    if is_no_value(value) || is_call(value) || value.starts_with(['(', '[', '|', '&']) {
        return false;
    }
    match trust {
        Trust::Any => !is_plain_setting(value),
        Trust::Strong => value.chars().nth(2).is_some() && !is_place(value),
        Trust::Header | Trust::Weak if is_number(value) || is_place(value) => false,
        // `GITHUB_TOKEN=…`: in a shell or a .env file that is a secret, whatever it is made of.
        Trust::Header | Trust::Weak if contains_ignoring_case(name.word, "token") => value.len() >= 6,
        Trust::Header | Trust::Weak => {
            has_digit(value) && value.len() >= 8 && !is_words(value)
                || value.len() >= 32
                || value.len() >= 16 && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    }
}

/// Returns true if an unquoted value, which may be code, is a secret.
pub(super) fn is_secret_word(value: &str, name: &Name<'_>, trust: Trust, ends_line: bool) -> bool {
    let value = value.trim_end_matches([')', '}', ']']);
    if is_no_value(value) || is_call(value) || is_place(value) || is_constant_name(value) {
        return false;
    }
    if value.starts_with(|first| "([{<&*!|$:=>?.-+#".contains(first)) {
        return false;
    }
    match trust {
        Trust::Any => !is_plain_setting(value),
        Trust::Header => is_no_english_word(value),
        Trust::Weak => looks_random(value),
        Trust::Strong if value.starts_with(|first: char| first.is_ascii_digit()) && is_number(value) => {
            value.len() >= 6 && name.begins_line && ends_line
        }
        Trust::Strong if is_path_of_names(value) => looks_random(value) && !names_a_secret(value),
        Trust::Strong if is_identifier(value) => is_password_word(value, name, ends_line),
        Trust::Strong if is_words(value) && !has_digit(value) => {
            name.begins_line && ends_line && contains_ignoring_case(name.word, "pass")
        }
        Trust::Strong => value.len() >= 4 && value.bytes().any(|byte| byte.is_ascii_alphanumeric()),
    }
}

/// A bare word that could also be a variable or a type.
fn is_password_word(value: &str, name: &Name<'_>, ends_line: bool) -> bool {
    if value.len() < 6 || names_a_secret(value) && !looks_random(value) {
        return false;
    }
    if has_digit(value) {
        return if value.contains('_') { !is_words(value) } else { !is_type_with_size(value) };
    }
    let plain = value.bytes().all(|byte| byte.is_ascii_lowercase());
    let has_case = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    letters::are_random(value) || name.begins_line && ends_line && (plain || has_case && name.assigned)
}

/// `password2`, `self.token`, `ed25519.PrivateKey`: code that handles secrets.
fn names_a_secret(value: &str) -> bool {
    ["pass", "token", "secret", "key"].iter().any(|word| contains_ignoring_case(value, word))
}

/// Nothing, a reference to where the value is, a placeholder, a mask, or a word of a programming language.
fn is_no_value(value: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 44] = [
        "true", "false", "null", "none", "nil", "undefined", "yes", "no", "on", "off", "string", "str", "text", "number",
        "integer", "int", "float", "double", "boolean", "bool", "object", "array", "any", "bytes", "byte", "char",
        "void", "unknown", "never", "required", "optional", "hidden", "default", "empty", "self", "this", "await",
        "new", "async", "function", "lambda", "return", "typeof", "secretstr",
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
        || value.starts_with("arn:")
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
    let head = &value.as_bytes()[..bracket];
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
    }) && !value.split(|letter: char| !letter.is_ascii_alphanumeric()).any(letters::are_random)
}

/// Returns true for a setting too short or too plain to be a secret: `1`, `8080`, `0.25`, `production`, `us-east-1`.
fn is_plain_setting(value: &str) -> bool {
    let parts = || value.split(|letter: char| !letter.is_ascii_alphanumeric());
    let letters = |part: &str| part.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
    value.chars().nth(3).is_none()
        || is_number(value) && (value.len() <= 6 || value.contains('.'))
        || is_words(value) && value.is_ascii() && parts().all(|part| letters::form_word(&letters(part)))
}

fn looks_random(value: &str) -> bool {
    value.len() >= 16
        && (has_digit(value) || letters::are_random(value))
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
        && (!letters.all(|byte| byte.is_ascii_lowercase()) || letters::are_random(value))
        && !value.starts_with(['-', '+', '(', '"'])
}

fn has_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
}

pub(super) fn contains_ignoring_case(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}
