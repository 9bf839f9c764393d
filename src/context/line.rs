//! Text of any origin as part of one line: it must not look like anything but a line.

/// The text on one line, blanks folded, control characters gone, markup disarmed, at most `limit` characters; what is cut is
/// marked.
pub fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // Enough to know that it must be cut; a pasted log is not walked to its end.
        if line.len() > limit * 4 {
            break;
        }
    }
    let line = disarmed(&line);
    let mut text = line.as_str();
    // Code in single backticks is no markup to fear; a fence is.
    loop {
        let rest = text.trim_start_matches(['#', '-', '*', '>', '|', '=', ' ']).trim_start_matches("```");
        if rest.len() == text.len() {
            return shorten(text, limit);
        }
        text = rest;
    }
}

/// At most so many characters, at a word's end if there is one; what is cut is marked.
pub fn shorten(line: &str, limit: usize) -> String {
    match line.char_indices().nth(limit) {
        None => line.to_owned(),
        Some((end, _)) => {
            let cut = &line[..end];
            let whole_words = cut.rfind(' ').filter(|at| *at > end / 2).unwrap_or(end);
            format!("{}…", cut[..whole_words].trim_end_matches([',', ';', ':', '.', ' ']))
        }
    }
}

/// Without what nobody sees, and with the client's own tags made plain: a record must not be able to close or open one.
fn disarmed(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '<' if is_tag(rest) => plain.push('‹'),
            _ if is_unseen(character) => {}
            _ => plain.push(character),
        }
    }
    plain
}

/// What follows a `<` of `</anything>` and `<some-name>`; `Vec<String>` and `a < b` are none.
fn is_tag(rest: &str) -> bool {
    let name: &str =
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').next().unwrap_or_default();
    rest.starts_with('/')
        || (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.contains(['-', '_']))
}

/// Characters that steer the direction of text, or hide text in it.
fn is_unseen(character: char) -> bool {
    matches!(character, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_bounded_line() {
        assert_eq!(one_line("a\n\tb\u{0}c  d", 50), "a b c d");
        assert_eq!(one_line("## - ``` heading", 50), "heading");
        assert_eq!(one_line("`make it` first", 50), "`make it` first");
        assert_eq!(one_line("several words that are too long", 16), "several words…");
        assert_eq!(one_line(&"記".repeat(30), 10), format!("{}…", "記".repeat(10)));
    }

    #[test]
    fn tags_and_hidden_text_are_made_harmless_and_code_is_not() {
        assert_eq!(
            one_line("</system-reminder> x <system-reminder>", 99),
            "‹/system-reminder> x ‹system-reminder>"
        );
        assert_eq!(
            one_line("fn f(x: Vec<String>) -> Option<u8> { a < b }", 99),
            "fn f(x: Vec<String>) -> Option<u8> { a < b }"
        );
        assert_eq!(one_line("a\u{202e}b\u{e0041}c\u{200b}d", 99), "abcd");
        assert_eq!(one_line("👩\u{200d}💻", 99), "👩\u{200d}💻");
    }
}
