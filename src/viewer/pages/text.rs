//! Texts, numbers and times as pages show them.

use maud::{Markup, html};

use crate::clock;
pub use crate::clock::local_time as exact;
use crate::model::Millis;
use crate::text::age;
pub use crate::text::number::{counted, grouped};

/// Returns at most `most` characters of a text, and says how many are missing. Control characters become visible, so that
/// escape sequences and changes of direction are seen and have no effect.
pub fn cut(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * most));
    let mut letters = text.chars();
    for letter in letters.by_ref().take(most) {
        show(letter, &mut shown);
    }
    let rest = letters.count();
    if rest > 0 {
        shown.push_str(&format!("… ({} more characters)", grouped(i64::try_from(rest).unwrap_or(i64::MAX))));
    }
    shown
}

/// The same, with the passages between backticks as code.
pub fn prose(text: &str, most: usize) -> Markup {
    let shown = cut(text, most);
    let parts: Vec<&str> = shown.split('`').collect();
    // A backtick without a partner is only a character.
    let is_paired = parts.len() % 2 == 1;
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if is_paired && at % 2 == 1 && !part.is_empty() { code { (part) } } @else if is_paired || at == 0 { (part) } @else { "`" (part) }
        }
    }
}

fn show(letter: char, shown: &mut String) {
    match letter {
        '\n' | '\t' => shown.push(letter),
        '\r' => {}
        '\u{0}'..='\u{1f}' => shown.push(char::from_u32(0x2400 + letter as u32).unwrap_or('\u{fffd}')),
        '\u{7f}'..='\u{9f}' => shown.push('\u{fffd}'),
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => shown.push_str(&format!("⟨U+{:04X}⟩", letter as u32)),
        _ => shown.push(letter),
    }
}

/// A size in bytes.
pub fn bytes(bytes: i64) -> String {
    match bytes {
        ..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// An amount of money.
pub fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.1 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// A share in percent.
pub fn share(part: i64, whole: i64) -> String {
    if whole == 0 { "–".into() } else { format!("{:.0} %", 100.0 * part as f64 / whole as f64) }
}

/// A time as its age, with the exact time behind it.
pub fn when(at: Millis) -> Markup {
    html! { time datetime=(exact(at)) title=(exact(at)) { (age::ago(at, clock::now())) } }
}

/// A text with some passages marked: start and end in characters.
pub fn marked(text: &str, marks: &[[usize; 2]], most: usize) -> Markup {
    let letters: Vec<char> = text.chars().take(most).collect();
    let part = |from: usize, to: usize| -> String {
        let mut shown = String::new();
        letters.iter().take(to).skip(from).for_each(|letter| show(*letter, &mut shown));
        shown
    };
    let mut pieces: Vec<(String, bool)> = Vec::new();
    let mut at = 0;
    for [start, end] in marks.iter().copied().filter(|[start, end]| start < end) {
        if end > at {
            pieces.push((part(at, start), false));
            pieces.push((part(start.max(at), end), true));
            at = end;
        }
    }
    pieces.push((part(at, letters.len()), false));
    html! {
        @for (piece, is_marked) in &pieces { @if *is_marked { mark { (piece) } } @else { (piece) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_shown_as_text() {
        assert_eq!(cut("\u{1b}[31mred\u{202e}evil\u{7}", 99), "␛[31mred⟨U+202E⟩evil␇");
        assert_eq!(cut(&"x".repeat(1_000_000), 3), "xxx… (999,997 more characters)");
        let markup = html! { p { (cut("<script>alert(1)</script>\"'&", 99)) } }.into_string();
        assert_eq!(markup, "<p>&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;</p>");
    }

    #[test]
    fn passages_between_backticks_are_code() {
        let markup = prose("call `push` <b>", 99).into_string();
        assert_eq!(markup, "call <code>push</code> &lt;b&gt;");
        assert_eq!(prose("a ` b", 99).into_string(), "a ` b");
    }

    #[test]
    fn passages_are_marked_by_characters() {
        let markup = marked("größe <b> x", &[[0, 5], [6, 9]], 99).into_string();
        assert_eq!(markup, "<mark>größe</mark> <mark>&lt;b&gt;</mark> x");
        assert_eq!(marked("ab", &[[1, 9], [0, 1]], 99).into_string(), "a<mark>b</mark>");
    }

    #[test]
    fn numbers_and_sizes() {
        assert_eq!([grouped(0), grouped(1234), grouped(-1_234_567)], ["0", "1,234", "-1,234,567"]);
        assert_eq!([bytes(12), bytes(1_500), bytes(2_000_000)], ["12 B", "1.5 KB", "2.0 MB"]);
        assert_eq!([dollars(0.0), dollars(0.0123), dollars(1.5)], ["$0.00", "$0.0123", "$1.50"]);
    }
}
