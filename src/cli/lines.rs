//! Lines that fit: whole in a pipe, where programs read them; wrapped on a terminal, with what continues a text under it.

use std::io::IsTerminal;

/// Below so many columns beside its head a text stands under it.
const LEAST: usize = 20;
/// How far in it stands then.
const STEP: usize = 4;

/// How many columns there are; none in a pipe, which has no end.
fn room() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    Some(columns(stdout))
}

/// The columns of a terminal; where it does not tell, as many as people expect.
pub fn columns(terminal: impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// A text after its head.
pub fn print(head: &str, text: &str) {
    say!("{}", hanging(head, text, room()));
}

/// A row of a table, or where that is too wide its head with the rest as a text.
pub fn print_row(wide: &str, head: &str, text: &str) {
    match room() {
        Some(room) if shown(wide) > room => say!("{}", hanging(head, text, Some(room))),
        _ => say!("{}", wide.trim_end()),
    }
}

/// Whether a table of so many columns fits.
pub fn fits(columns: usize) -> bool {
    room().is_none_or(|room| room >= columns)
}

/// "1 session", "2 sessions".
pub fn counted(count: impl Into<i64>, one: &str, many: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { many })
}

fn hanging(head: &str, text: &str, room: Option<usize>) -> String {
    let Some(room) = room else { return format!("{head}{text}") };
    let beside = shown(head);
    let is_beside = beside + LEAST <= room;
    let indent = if is_beside { beside } else { STEP.min(room / 4) };
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        wrap(paragraph, room.saturating_sub(indent).max(1), &mut lines);
    }
    let mut whole = head.to_owned();
    if !is_beside {
        whole = format!("{}\n{}", head.trim_end(), " ".repeat(indent));
    }
    whole.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
    whole.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Breaks at spaces only: a path that is too long stays in one piece, and can be copied.
fn wrap(text: &str, room: usize, lines: &mut Vec<String>) {
    if shown(text) <= room {
        return lines.push(text.to_owned());
    }
    let mut line = String::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !line.is_empty() && shown(&line) + 1 + shown(word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
}

/// The columns that a text takes. Colours take none, characters of East Asia take two.
fn shown(text: &str) -> usize {
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
    fn a_text_continues_under_itself_and_where_there_is_little_room_under_its_head() {
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
    fn what_has_no_spaces_stays_in_one_piece() {
        let path = "/a/very/long/path/that/somebody/wants/to/copy";
        let told = hanging("a  ", &format!("is in {path}."), Some(30));
        assert!(told.lines().any(|line| line.trim() == format!("{path}.")), "{told}");
    }

    #[test]
    fn colours_take_no_room_and_wide_characters_two_columns() {
        assert_eq!(shown("\u{1b}[1;33mgreeting\u{1b}[0m"), 8);
        assert_eq!(shown("記憶"), 4);
        assert_eq!(counted(1, "session", "sessions"), "1 session");
        assert_eq!(counted(0, "session", "sessions"), "0 sessions");
    }
}
