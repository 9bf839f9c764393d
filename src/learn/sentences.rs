//! Splits a prompt into the sentences that a person wrote in it. Pasted text (plans, code, logs, quotes, tables) and
//! text that the client made are left out.

/// Longer prompts contain pasted text; people write before and behind it. In bytes.
const WHOLE: usize = 6_000;
const ENDS: usize = 2_000;
/// Maximum sentences of a prompt.
const MOST: usize = 60;
/// Lines of at least this many characters may go on in the next line.
const WRAPPED_FROM: usize = 60;

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Its words, without the closing mark.
    pub text: String,
    /// True for a question.
    pub asks: bool,
    /// True for the first of its line.
    pub opens: bool,
}

/// Openings of prompts that the client, a skill or a script wrote.
const NOT_BY_USER: [&str; 8] = [
    "Base directory for this skill:",
    "Caveat: The messages below",
    "This session is being continued",
    "Operation stopped by hook",
    "Stop hook feedback",
    "You are a ",
    "You are an ",
    "Your task is to",
];

/// Returns the sentences of a prompt, in order.
pub(super) fn sentences(prompt: &str) -> Vec<Sentence> {
    let prompt = prompt.trim();
    // Tags of the client, commands to it, commands to the shell, JSON, "[Request interrupted".
    if prompt.starts_with(['<', '/', '!', '{', '['])
        || NOT_BY_USER.iter().any(|opening| prompt.starts_with(opening))
    {
        return Vec::new();
    }
    let prompt = before_plan(prompt);
    // Headings make a document of it: a plan, a specification, a report.
    if prompt.lines().any(is_heading) {
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

fn before_plan(prompt: &str) -> &str {
    const PLAN: &str = "implement the following plan";
    prompt.to_ascii_lowercase().find(PLAN).map_or(prompt, |at| &prompt[..at])
}

fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - text.len())) && text.starts_with(' ')
}

fn read(text: &str, found: &mut Vec<Sentence>) {
    let mut open = QuotedPassage::default();
    let mut lines: Vec<String> = Vec::new();
    let mut may_go_on = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if open.contains(trimmed) || !is_prose(line) {
            may_go_on = false;
            continue;
        }
        match lines.last_mut().filter(|_| may_go_on && trimmed.starts_with(char::is_lowercase)) {
            Some(last) => *last = format!("{last} {trimmed}"),
            None => lines.push(without_bullet(trimmed).to_owned()),
        }
        may_go_on = trimmed.chars().count() >= WRAPPED_FROM && !trimmed.ends_with(['.', '!', '?', ':']);
    }
    lines.iter().for_each(|line| split(line, found));
}

/// A passage that the user did not write: a code fence, or an element such as `<system-reminder>`.
#[derive(Default)]
struct QuotedPassage(Option<String>);

impl QuotedPassage {
    /// True for lines of the passage, its first and last included.
    fn contains(&mut self, line: &str) -> bool {
        if let Some(end) = &self.0 {
            if line.contains(end.as_str()) {
                self.0 = None;
            }
            return true;
        }
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark)) {
            self.0 = Some(mark.to_owned());
            return true;
        }
        let name: String = line
            .strip_prefix('<')
            .unwrap_or_default()
            .chars()
            .take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char))
            .collect();
        let end = format!("</{name}>");
        if !name.is_empty() && !line.contains(&end) {
            self.0 = Some(end);
        }
        !name.is_empty()
    }
}

/// Openings of lines that programs print.
const LOG_WORDS: [&str; 11] =
    ["error", "warning", "warn", "info", "debug", "trace", "fatal", "hint", "messages", "stderr", "stdout"];

/// True for a line that a person would write as prose.
fn is_prose(line: &str) -> bool {
    let trimmed = line.trim();
    let indented = line.starts_with('\t') || line.starts_with("    ");
    let outside_code = trimmed.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let is_code = trimmed.ends_with(['{', '}', ';', '\\'])
        || ["=>", "==", "!=", "->", "::", "();", "</", "//", "/*", "--- ", "+++ "]
            .iter()
            .any(|sign| outside_code.contains(sign))
        || trimmed.starts_with(['>', '|', '#', '@', '$', '+', '}', '"', '\'', '<', '“', '「', '『'])
        || trimmed.starts_with(|char: char| {
            matches!(char, '\u{2190}'..='\u{2bff}') && char != '•' && char != '–' && char != '—'
        });
    !trimmed.is_empty() && !indented && !is_code && !is_log(trimmed)
}

/// True for `12:03:44 …`, `[info] …`, `main.go:12: …`, `Error: …`.
fn is_log(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let word = first.trim_matches(|char: char| !char.is_ascii_alphanumeric()).to_ascii_lowercase();
    let has_digit = first.contains(|char: char| char.is_ascii_digit());
    (first.contains(':') && has_digit)
        || (first.ends_with([':', ']']) && LOG_WORDS.contains(&word.as_str()))
        || (first.starts_with('[') && first.ends_with(']'))
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
    let first = found.len();
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
            push(&mut text, matches!(char, '?' | '？'), first, found);
        } else {
            text.push(if char == '’' { '\'' } else { char });
        }
    }
    push(&mut text, false, first, found);
}

fn is_abbreviation(text: &str) -> bool {
    let last = text.rsplit(' ').next().unwrap_or_default().to_lowercase();
    matches!(last.as_str(), "e.g" | "i.e" | "etc" | "vs" | "z.b" | "d.h" | "bzw" | "usw" | "incl" | "approx")
}

fn push(text: &mut String, asks: bool, first: usize, found: &mut Vec<Sentence>) {
    let sentence = std::mem::take(text).replace("**", "");
    let sentence = sentence.trim();
    if !sentence.is_empty() {
        found.push(Sentence { text: sentence.to_owned(), asks, opens: found.len() == first });
    }
}
