//! Finds where a private key ends: at its END line, or, in text that was cut, where the key material stops.

/// The longest key that is looked through for its END line: a 16,384 bit RSA key has 12 KiB.
const MOST_BYTES: usize = 32 << 10;

/// A line of a key is not shorter, but for the last.
const LINE: usize = 16;

/// Returns the end of the key whose BEGIN line ends at `from`; `None` if no key material follows.
pub(super) fn end(text: &str, from: usize) -> Option<usize> {
    let cut = end_of_material(text, from)?;
    let window = &text[from..text.floor_char_boundary(from.saturating_add(MOST_BYTES))];
    Some(end_line(window).map_or(cut, |end| (from + end).max(cut)))
}

/// Returns the end of this key's END line.
fn end_line(window: &str) -> Option<usize> {
    let window = &window[..window.find("BEGIN ").unwrap_or(window.len())];
    // Brackets are not of a key: the END line behind them is of another, in another part of a JSON document.
    let window = &window[..window.find(['{', '}', '[', ']']).unwrap_or(window.len())];
    let name_starts = window.find("END ").filter(|at| window[..*at].trim_end().ends_with("--"))?;
    let rest = &window[name_starts..];
    let line = &rest[..rest.find(['\n', '\\', '"']).unwrap_or(rest.len())];
    let key = line.find("KEY")?;
    let closing = line[key..].rfind("--").map_or("KEY".len(), |dashes| dashes + "--".len());
    Some(name_starts + key + closing)
}

/// Returns the end of the last line of certain key material: long runs of base64 with nothing but line breaks, quotes and the
/// marks of a diff between them.
fn end_of_material(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut end = None;
    let mut at = after_headers(text, from);
    loop {
        let start = after_breaks(bytes, at);
        let length = bytes[start..].iter().take_while(|byte| is_base64(**byte)).count();
        if is_json_key(&text[start + length..]) {
            return end;
        }
        let is_last =
            start > at && length > 0 && bytes.get(start + length).is_none_or(|next| is_break(*next));
        match end {
            _ if length >= LINE => end = Some(start + length),
            // The last line may be short. A word of the text that follows costs less than a piece of a key.
            Some(_) if is_last => return Some(start + length),
            _ => return end,
        }
        at = start + length;
    }
}

/// Skips `Proc-Type: 4,ENCRYPTED` and similar headers.
fn after_headers(text: &str, from: usize) -> usize {
    const NAMES: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];
    const LONGEST: usize = 200;
    let mut at = from;
    loop {
        let start = after_breaks(text.as_bytes(), at);
        let line = &text[start..text.floor_char_boundary(start + LONGEST)];
        if !NAMES.iter().any(|name| line.starts_with(name)) {
            return at;
        }
        at = start + line.find(['\n', '\\', '"']).unwrap_or(line.len());
    }
}

fn is_json_key(behind: &str) -> bool {
    let unescaped = behind.trim_start_matches('\\');
    unescaped.strip_prefix('"').is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// Skips line breaks, plain or escaped, and quotes of string literals.
fn after_breaks(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while bytes.get(at).is_some_and(|byte| is_break(*byte)) {
        let escaped = bytes[at] == b'\\' && matches!(bytes.get(at + 1), Some(b'n' | b'r' | b't'));
        at += if escaped { 2 } else { 1 };
    }
    at
}

fn is_break(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'"' | b'\'' | b',' | b'>' | b'|' | b'#' | b'*')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
