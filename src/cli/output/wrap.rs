//! Line wrapping: whole lines in a pipe, for programs; on a terminal, wrapped with a hanging
//! indent.

use std::io::IsTerminal;

/// Minimum columns to the right of a head; with fewer, the text goes on the next line.
const MIN_TEXT_COLUMNS: usize = 20;
/// Indent of such text.
const NARROW_INDENT: usize = 4;

/// Returns the terminal's width; none in a pipe, which has no limit.
pub fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    Some(columns(stdout))
}

/// Returns the columns of a terminal; 80 if it does not report them.
pub fn columns(terminal: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Prints a text after its head.
pub fn print(head: &str, text: &str) {
    outln!("{}", hanging(head, text, width()));
}

/// Prints a table row or, if that is too wide, its head with the rest as wrapped text.
pub fn print_row(wide: &str, head: &str, text: &str) {
    match width() {
        Some(width) if shown(wide) > width => outln!("{}", hanging(head, text, Some(width))),
        _ => outln!("{}", wide.trim_end()),
    }
}

/// True if a table of that many columns fits.
pub fn fits(columns: usize) -> bool {
    width().is_none_or(|width| width >= columns)
}

/// "1 session", "2 sessions".
pub fn counted(count: impl Into<i64>, one: &str, many: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a text after its head, wrapped with a hanging indent if there is a width.
pub fn hanging(head: &str, text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{head}{text}") };
    let head_columns = shown(head);
    let is_beside = head_columns + MIN_TEXT_COLUMNS <= width;
    let indent = if is_beside { head_columns } else { NARROW_INDENT.min(width / 4) };
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        wrap(paragraph, width.saturating_sub(indent).max(1), &mut lines);
    }
    let mut whole = head.to_owned();
    if !is_beside {
        whole = format!("{}\n{}", head.trim_end(), " ".repeat(indent));
    }
    whole.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
    whole.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Breaks at spaces only, so that a long path stays in one piece and can be copied.
fn wrap(text: &str, width: usize, lines: &mut Vec<String>) {
    if shown(text) <= width {
        return lines.push(text.to_owned());
    }
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && shown(&line) + 1 + shown(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
}

/// Returns the display width of a text: colour codes count as 0, East Asian characters as 2.
pub fn shown(text: &str) -> usize {
    let mut columns = 0;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                let _ = characters.find(|c| c.is_ascii_alphabetic());
            }
            '\u{1100}'..='\u{115f}'
            | '\u{2e80}'..='\u{a4cf}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff00}'..='\u{ff60}'
            | '\u{1f300}'..='\u{1faff}'
            | '\u{20000}'..='\u{3fffd}' => columns += 2,
            _ => columns += 1,
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_whole_lines() {
        let text = "word ".repeat(100);
        assert_eq!(hanging("head  ", &text, None), format!("head  {text}"));
    }

    #[test]
    fn wrapped_text_hangs_or_moves_below_its_head_if_narrow() {
        assert_eq!(
            hanging("queue  ", "one two three four five six", Some(27)),
            "queue  one two three four\n       five six"
        );
        assert_eq!(
            hanging("ok     data directory  ", "/home/someone/.claude-mem, yours alone", Some(40)),
            "ok     data directory\n    /home/someone/.claude-mem, yours\n    alone"
        );
        assert_eq!(hanging("", "a\n\nb", Some(40)), "a\n\nb");
    }

    #[test]
    fn long_words_are_not_broken() {
        let path = "/a/very/long/path/that/somebody/wants/to/copy";
        let printed = hanging("a  ", &format!("is in {path}."), Some(30));
        assert!(printed.lines().any(|line| line.trim() == format!("{path}.")), "{printed}");
    }

    #[test]
    fn colours_have_no_width_and_wide_characters_two_columns() {
        assert_eq!(shown("\u{1b}[1;33mgreeting\u{1b}[0m"), 8);
        assert_eq!(shown("記憶"), 4);
        assert_eq!(counted(1, "session", "sessions"), "1 session");
        assert_eq!(counted(0, "session", "sessions"), "0 sessions");
    }
}
