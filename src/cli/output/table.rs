//! Tables: aligned columns, one of which gives way. A terminal gets a heading and nothing wider than itself; a pipe gets every
//! cell in full.

use super::style::{Style, Tone, harmless};
use super::wrap::{hanging, shown, width};

/// Spaces between two columns.
const GAP: &str = "  ";
/// With less room than this for the flexible column, rows are printed as paragraphs.
const MIN_FLEXIBLE: usize = 24;

/// A table.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Tone)>>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    heading: &'static str,
    is_right: bool,
    is_flexible: bool,
}

impl Column {
    /// A column of texts.
    pub const fn text(heading: &'static str) -> Self {
        Self { heading, is_right: false, is_flexible: false }
    }

    /// A column of numbers, aligned on the right.
    pub const fn number(heading: &'static str) -> Self {
        Self { heading, is_right: true, is_flexible: false }
    }

    /// The column that is cut if the terminal is too narrow.
    pub const fn flexible(heading: &'static str) -> Self {
        Self { heading, is_right: false, is_flexible: true }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [(&str, Tone); N]) {
        let cell = |(text, tone): (&str, Tone)| (harmless(&text.replace(['\n', '\t'], " ")), tone);
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    /// Prints it.
    pub fn print(&self, style: Style) {
        out!("{}", self.text(width(), style));
    }

    fn text(&self, width: Option<usize>, style: Style) -> String {
        let widths = self.widths(width.is_some());
        let fixed: usize = self
            .columns
            .iter()
            .zip(&widths)
            .filter(|(column, _)| !column.is_flexible)
            .map(|(_, width)| width)
            .sum();
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        let room = width.map(|width| width.saturating_sub(fixed + gaps));
        let has_flexible = self.columns.iter().any(|column| column.is_flexible);
        let needed = self
            .columns
            .iter()
            .zip(&widths)
            .find(|(column, _)| column.is_flexible)
            .map_or(0, |(_, width)| *width);
        let mut text = String::new();
        if room.is_some_and(|room| room < needed.min(MIN_FLEXIBLE))
            || !has_flexible && width.is_some_and(|width| fixed + gaps > width)
        {
            self.rows.iter().for_each(|row| text += &self.paragraph(row, width, style));
            return text;
        }
        if room.is_some() {
            let headings: Vec<_> =
                self.columns.iter().map(|column| (column.heading.to_owned(), Tone::Faint)).collect();
            text += &self.line(&headings, &widths, room, style);
        }
        self.rows.iter().for_each(|row| text += &self.line(row, &widths, room, style));
        text
    }

    fn widths(&self, has_headings: bool) -> Vec<usize> {
        let width = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| shown(&row[at].0)).max().unwrap_or_default();
            if has_headings { cells.max(shown(column.heading)) } else { cells }
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    fn line(&self, cells: &[(String, Tone)], widths: &[usize], room: Option<usize>, style: Style) -> String {
        let mut parts = Vec::new();
        for ((column, (cell, tone)), width) in self.columns.iter().zip(cells).zip(widths) {
            let width = room.filter(|_| column.is_flexible).map_or(*width, |room| room.min(*width));
            let cell = cut(cell, width);
            let blank = " ".repeat(width.saturating_sub(shown(&cell)));
            let cell = style.tone(*tone, &cell);
            parts.push(if column.is_right { blank + &cell } else { cell + &blank });
        }
        format!("{}\n", parts.join(GAP).trim_end())
    }

    /// The flexible cell, and the others below it.
    fn paragraph(&self, cells: &[(String, Tone)], width: Option<usize>, style: Style) -> String {
        let is_head = |at: usize| self.columns[at].is_flexible;
        let head = (0..cells.len()).find(|at| is_head(*at)).unwrap_or_default();
        let rest = cells.iter().enumerate().filter(|(at, (cell, _))| *at != head && !cell.is_empty());
        let rest: Vec<String> = rest.map(|(_, (cell, _))| cell.clone()).collect();
        let (text, tone) = &cells[head];
        let above = hanging("", text, width)
            .lines()
            .map(|line| style.tone(*tone, line))
            .collect::<Vec<_>>()
            .join("\n");
        let below = hanging("  ", &rest.join(", "), width);
        let below = below.lines().map(|line| style.faint(line)).collect::<Vec<_>>().join("\n");
        format!("{above}\n{below}\n")
    }
}

/// Returns at most this many columns of a text.
fn cut(text: &str, columns: usize) -> String {
    if shown(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        if shown(&kept) + shown(letter.encode_utf8(&mut [0; 4])) + 1 > columns {
            break;
        }
        kept.push(letter);
    }
    kept.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&[Column::text("WHEN"), Column::flexible("TITLE"), Column::number("PROMPTS")]);
        table.row([
            ("09:12", Tone::Faint),
            ("Bound the upload queue at 64 jobs", Tone::Strong),
            ("12", Tone::Plain),
        ]);
        table.row([("10:40", Tone::Faint), ("記憶\u{1b}[2J", Tone::Strong), ("3", Tone::Plain)]);
        table
    }

    #[test]
    fn a_pipe_gets_whole_cells_and_no_heading() {
        let plain = table().text(None, Style::of_stdout());
        let (blank, odd) = (" ".repeat(28), char::REPLACEMENT_CHARACTER);
        assert_eq!(
            plain,
            format!("09:12  Bound the upload queue at 64 jobs  12\n10:40  記憶{odd}[2J{blank}3\n")
        );
    }

    #[test]
    fn a_terminal_cuts_only_the_flexible_column() {
        let text = table().text(Some(40), Style::of_stdout());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            ["WHEN   TITLE                     PROMPTS", "09:12  Bound the upload queue…        12"]
        );
        assert!(text.lines().all(|line| shown(line) <= 40), "{text}");
    }

    #[test]
    fn a_narrow_terminal_gets_paragraphs() {
        let text = table().text(Some(24), Style::of_stdout());
        assert!(text.starts_with("Bound the upload queue\nat 64 jobs\n  09:12, 12\n"), "{text}");
    }
}
