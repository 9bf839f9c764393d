//! Text for observations: one line, limited in length, without control sequences.

use std::borrow::Cow;

use regex::Regex;

/// Marks the end of a shortened text.
const ELLIPSIS: char = '…';

/// Removes terminal control sequences and control characters. Keeps newlines; a carriage return
/// becomes one.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let harmless = |byte: u8| (byte >= 0x20 && byte != 0x7f && byte < 0x80) || byte == b'\n' || byte == b'\t';
    if text.bytes().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(char),
            _ if char.is_control() || reorders(char) => {}
            _ => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// True for characters that make a terminal or an editor reorder the text.
fn reorders(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Skips the rest of an escape sequence: `[…letter`, `]…BEL`, or one character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            // Sequences are short; a malformed one must not swallow the text after it.
            for _ in 0..32 {
                match chars.peek() {
                    Some(char) if char.is_ascii_digit() || " ;:?<=>!\"'/".contains(*char) => chars.next(),
                    Some(char) if char.is_ascii() && !char.is_control() => {
                        chars.next();
                        return;
                    }
                    _ => return,
                };
            }
        }
        Some(']') => {
            for _ in 0..512 {
                match chars.next() {
                    None | Some('\u{7}' | '\n') => return,
                    Some('\u{1b}') => {
                        chars.next_if_eq(&'\\');
                        return;
                    }
                    Some(_) => {}
                }
            }
        }
        _ => {}
    }
}

/// The word without its usual English endings: "adding", "added" and "adds" are one.
pub(crate) fn without_ending(word: &str) -> &str {
    let bare = ["ing", "ed", "es", "s"].iter().find_map(|end| word.strip_suffix(end));
    bare.filter(|bare| bare.len() > 2).unwrap_or(word).trim_end_matches('e')
}

/// Joins everything on one line and collapses whitespace.
pub(crate) fn one_line(text: &str) -> String {
    let cleaned = clean(text);
    let mut out = String::with_capacity(cleaned.len().min(4096));
    for word in cleaned.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Shortens a text to at most `max` columns on one line, between words if possible. Wide characters
/// count twice, as they do in tokens.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    let line = one_line(head(text, max.saturating_mul(8).saturating_add(256)));
    let short = cut_to(&line, max);
    // Closing the code span may have taken one more column.
    if width(&short) > max && max > 1 { cut_to(&line, max - 1) } else { short }
}

fn cut_to(line: &str, max: usize) -> String {
    let Some(cut) = cut_at(line, max) else { return line.to_owned() };
    let kept = &line[..cut];
    let word_end = kept.rfind(' ').filter(|end| *end >= cut / 2);
    let kept = word_end.map_or(kept, |end| &kept[..end]);
    let mut short = kept.trim_end_matches([' ', ',', ';', ':', '.', '-', '(']).to_owned();
    if short.matches('`').count() % 2 == 1 {
        close_code(&mut short);
    }
    short.push(ELLIPSIS);
    short
}

/// Closes a code span that was cut, or drops its mark if nothing is inside.
fn close_code(text: &mut String) {
    if text.ends_with('`') {
        text.pop();
        text.truncate(text.trim_end().len());
    } else {
        text.push('`');
    }
}

/// Returns the byte at which `max - 1` columns end, if the text is wider than `max`.
fn cut_at(line: &str, max: usize) -> Option<usize> {
    let mut columns = 0;
    let mut cut = 0;
    for (at, char) in line.char_indices() {
        if columns < max {
            cut = at;
        }
        columns += columns_of(char);
        if columns > max {
            return Some(cut);
        }
    }
    None
}

fn columns_of(char: char) -> usize {
    if char >= '\u{1100}' && !('\u{2000}'..='\u{206f}').contains(&char) { 2 } else { 1 }
}

/// Returns the width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns at most the first `bytes` of a text, ending between characters.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns at most the last `bytes` of a text, starting between characters.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// Returns the start and the end of a long output: first errors are at the start, results at the
/// end.
pub(crate) fn ends(text: &str) -> Cow<'_, str> {
    const EACH: usize = 24 * 1024;
    if text.len() <= 2 * EACH {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}\n{}", head(text, EACH), tail(text, EACH)))
}

/// Capitalises the first letter, unless the text starts with code, a path or a name with its own
/// case.
pub(crate) fn capitalised(text: &str) -> String {
    let first_word = text.split_whitespace().next().unwrap_or_default();
    let plain = first_word.chars().all(|char| char.is_lowercase() || ",;:'’-".contains(char));
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if plain => first.to_uppercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

/// Compiles a pattern with ASCII word boundaries and word characters: the Unicode ones make
/// automata of megabytes.
pub(crate) fn pattern(text: &str) -> Option<Regex> {
    Regex::new(&text.replace(r"\b", r"(?-u:\b)").replace(r"\w", "[0-9A-Za-z_]")).ok()
}

/// Splits a list that is written as one text: `a|b c|d`.
pub(crate) fn each(list: &'static str) -> std::str::Split<'static, char> {
    list.split('|')
}

/// True for a word of such a list.
pub(crate) fn is_one_of(word: &str, list: &'static str) -> bool {
    each(list).any(|known| known == word)
}

/// Appends `item` unless the list contains it or is full.
pub(crate) fn push_new(list: &mut Vec<String>, item: &str, most: usize) {
    if !item.is_empty() && list.len() < most && !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}

/// `a`, `a and b`, `a, b and c`; beyond `most`: `a, b and 3 more`.
pub(crate) fn listed(items: &[String], most: usize) -> String {
    let shown = if items.len() > most { most.max(1) } else { items.len() };
    let rest = items.len() - shown.min(items.len());
    let mut parts: Vec<String> = items[..shown.min(items.len())].to_vec();
    if rest > 0 {
        parts.push(format!("{rest} more"));
    }
    match parts.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_removed_and_text_is_kept() {
        assert_eq!(
            clean("héllo 😀 \u{1b}[31mred\u{1b}[0m \0nul \u{fffd}bad"),
            "héllo 😀 red nul \u{fffd}bad"
        );
        assert_eq!(clean("\u{1b}]0;title\u{7}a\r\nb\rc\u{202e}d"), "a\nb\ncd");
        assert_eq!(clean("\u{1b}[38;5;1"), "");
    }

    #[test]
    fn texts_are_cut_between_words_and_characters() {
        assert_eq!(shorten("one two  three\nfour", 40), "one two three four");
        assert_eq!(shorten("one two three four", 12), "one two…");
        assert_eq!(shorten("修复登录页面的错误并添加测试", 11), "修复登录页…");
        assert_eq!(shorten("use `some long code here` now", 16), "use `some long`…");
        assert_eq!(shorten("Größenänderungsbehandlung", 9), "Größenän…");
        assert_eq!(shorten("anything", 0), "…");
    }

    #[test]
    fn lists_read_like_a_sentence() {
        let items = ["a", "b", "c", "d"].map(String::from);
        assert_eq!(listed(&items[..1], 3), "a");
        assert_eq!(listed(&items[..2], 3), "a and b");
        assert_eq!(listed(&items, 2), "a, b and 2 more");
        assert_eq!(listed(&[], 2), "");
    }

    #[test]
    fn only_plain_words_are_capitalised() {
        assert_eq!(capitalised("fix the login"), "Fix the login");
        assert_eq!(capitalised("src/app.py is read"), "src/app.py is read");
        assert_eq!(capitalised("behebe den Fehler"), "Behebe den Fehler");
    }
}
