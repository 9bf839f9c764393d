//! Reads one JSON string, even with quotes inside that the model did not escape.

/// Reads the text after the opening quote. Returns the bytes read, the text, and true if the closing quote was found.
pub(super) fn read(rest: &str, quote: u8, is_key: bool, is_listed: bool) -> (usize, String, bool) {
    let quote = char::from(quote);
    let mut string = String::new();
    let mut at = 0;
    loop {
        let plain = rest[at..].find([quote, '\\']).unwrap_or(rest.len() - at);
        string.push_str(&rest[at..at + plain]);
        at += plain;
        let behind = match rest[at..].chars().next() {
            None => return (at, string, false),
            Some('\\') => {
                let (length, letter) = escape(&rest[at..]);
                string.extend(letter);
                at += length;
                continue;
            }
            Some(_) => &rest[at + 1..],
        };
        at += 1;
        if is_key || closes(behind, is_listed) {
            return (at, string, true);
        }
        string.push(quote);
    }
}

/// True if a quote in front of this text ends its string. In valid JSON it always does; other text follows a quote that the
/// model did not escape.
fn closes(behind: &str, is_listed: bool) -> bool {
    let next = behind.trim_start();
    let Some(rest) = next.strip_prefix(',') else {
        let new_line = behind[..behind.len() - next.len()].contains('\n');
        return next.is_empty() || next.starts_with(['}', ']']) || new_line && next.starts_with(['"', '\'']);
    };
    let next = rest.trim_start();
    let word =
        next.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_-.+".contains(letter));
    let is_word = word.len() < next.len();
    next.is_empty()
        || next.starts_with(['"', '\'', '}', ']', '{', '[', ',', '/'])
        || is_word
            && (is_listed && word.trim_start().starts_with([',', ']']) || word.trim_start().starts_with(':'))
}

/// The escape that begins here: its length and its character.
fn escape(text: &str) -> (usize, Option<char>) {
    let Some(letter) = text.chars().nth(1) else { return (1, None) };
    let plain = match letter {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '"' | '\\' | '/' | '\'' => letter,
        'u' => return unicode(text),
        // Not an escape: `\d` of a regular expression, `C:\Users`. Keep the backslash.
        _ => return (1, Some('\\')),
    };
    (2, Some(plain))
}

fn unicode(text: &str) -> (usize, Option<char>) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else { return (2, None) };
    let units = [Some(first), unit(6)];
    match char::decode_utf16(units.into_iter().flatten()).next() {
        Some(Ok(letter)) => (6 * letter.len_utf16(), Some(letter)),
        _ => (6, Some(char::REPLACEMENT_CHARACTER)),
    }
}
