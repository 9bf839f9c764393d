//! Text of any origin as part of one line.

/// The text on one line, blanks folded, control characters gone, markup at its start disarmed, at most `limit`
/// characters; what is cut is marked.
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
    let line = line.trim_start_matches(['#', '-', '*', '>', '`', '|', ' ']);
    match line.char_indices().nth(limit) {
        None => line.to_owned(),
        Some((end, _)) => {
            let cut = &line[..end];
            let whole_words = cut.rfind(' ').filter(|at| *at > end / 2).unwrap_or(end);
            format!("{}…", &cut[..whole_words])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_bounded_line() {
        assert_eq!(one_line("a\n\tb\u{0}c  d", 50), "a b c d");
        assert_eq!(one_line("## - heading", 50), "heading");
        assert_eq!(one_line("several words that are too long", 16), "several words…");
        assert_eq!(one_line(&"記".repeat(30), 10), format!("{}…", "記".repeat(10)));
    }
}
