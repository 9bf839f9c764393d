//! A prompt taken apart into the sentences that a person wrote in it. What was pasted (code, logs, quotes, tables) is
//! not what the person says.

/// Longer prompts hold something that was pasted; people write before and behind it.
const WHOLE: usize = 6_000;
const ENDS: usize = 2_000;
const MOST: usize = 60;

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Its words.
    pub text: String,
    /// Whether it asks.
    pub asks: bool,
}

/// The sentences of a prompt, in order.
pub(super) fn sentences(prompt: &str) -> Vec<Sentence> {
    let prompt = prompt.trim();
    // The client's own prompts, commands to it, and commands to the shell.
    if prompt.starts_with(['<', '/', '!', '{', '[']) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if prompt.len() > WHOLE {
        read(&prompt[..prompt.floor_char_boundary(ENDS)], &mut found);
        read(&prompt[prompt.ceil_char_boundary(prompt.len() - ENDS)..], &mut found);
    } else {
        read(prompt, &mut found);
    }
    found.truncate(MOST);
    found
}

fn read(text: &str, found: &mut Vec<Sentence>) {
    let mut in_code = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code && is_prose(line) {
            split(without_bullet(trimmed), found);
        }
    }
}

/// Whether a line is something that a person would say.
fn is_prose(line: &str) -> bool {
    let trimmed = line.trim();
    let indented = line.starts_with('\t') || line.starts_with("    ");
    let is_code = trimmed.ends_with(['{', '}', ';', '\\'])
        || ["=>", "==", "!=", "->", "::", "();", "</", "//", "/*"]
            .iter()
            .any(|sign| outside_code(trimmed).contains(sign))
        || trimmed.starts_with(['>', '|', '#', '@', '$', '+', '}', '"', '\'', '<']);
    !trimmed.is_empty() && !indented && !is_code
}

/// The line without what stands in backquotes.
fn outside_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn without_bullet(line: &str) -> &str {
    let number = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered = (number.len() < line.len())
        .then(|| number.strip_prefix(". ").or_else(|| number.strip_prefix(") ")))
        .flatten();
    let bullet = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet));
    numbered.or(bullet).unwrap_or(line).trim()
}

fn split(line: &str, found: &mut Vec<Sentence>) {
    let mut text = String::new();
    let mut in_code = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        in_code ^= char == '`';
        let blank_follows = chars.peek().is_none_or(|next| next.is_whitespace());
        let ends = !in_code
            && match char {
                '。' | '！' | '？' | '；' => true,
                // A name, a number or an abbreviation goes on.
                '.' => blank_follows && !is_abbreviation(&text),
                '!' | '?' | ';' => blank_follows,
                _ => false,
            };
        if ends {
            push(&mut text, matches!(char, '?' | '？'), found);
        } else {
            text.push(char);
        }
    }
    push(&mut text, false, found);
}

fn is_abbreviation(text: &str) -> bool {
    let last = text.rsplit(' ').next().unwrap_or_default().to_lowercase();
    matches!(last.as_str(), "e.g" | "i.e" | "etc" | "vs" | "z.b" | "d.h" | "bzw" | "usw" | "incl" | "approx")
}

fn push(text: &mut String, asks: bool, found: &mut Vec<Sentence>) {
    let sentence = std::mem::take(text);
    let sentence = sentence.trim();
    if !sentence.is_empty() {
        found.push(Sentence { text: sentence.to_owned(), asks });
    }
}
