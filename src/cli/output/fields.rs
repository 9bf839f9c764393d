//! Labelled fields, aligned as in `systemctl status`.

use super::style::{Style, Tone};
use super::wrap::{hanging, shown, width};

/// Fields with their labels.
#[derive(Debug, Default)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Adds a field. An empty label continues the field before; an empty text adds nothing.
    pub fn add(&mut self, label: &'static str, text: impl Into<String>) -> &mut Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.push((label, text));
        }
        self
    }

    /// Prints them.
    pub fn print(&self, style: Style) {
        out!("{}", self.text(width(), style));
    }

    fn text(&self, width: Option<usize>, style: Style) -> String {
        let widest = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
        let mut text = String::new();
        for (label, value) in &self.0 {
            let colon = if label.is_empty() { " " } else { ":" };
            let head = format!("  {label:>widest$}{colon} ");
            let head = style.tone(Tone::Faint, &head);
            let below = " ".repeat(shown(&head));
            for (at, line) in value.lines().enumerate() {
                text += &hanging(if at == 0 { &head } else { &below }, line, width);
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_aligned_and_texts_hang_below_themselves() {
        let mut fields = Fields::default();
        fields.add("Project", "harborline").add("Note", "").add("By", "rules that read it all once more");
        let text = fields.text(Some(34), Style::of_stdout());
        assert_eq!(text, "  Project: harborline\n       By: rules that read it all\n           once more\n");
        let mut fields = Fields::default();
        fields.add("Changed", "a.rs\nb.rs");
        assert_eq!(fields.text(None, Style::of_stdout()), "  Changed: a.rs\n           b.rs\n");
    }
}
