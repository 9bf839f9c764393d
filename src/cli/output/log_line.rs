//! Formats one log event as one line of text: its message, and those fields that the message does
//! not contain.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::style::harmless;

/// Formats the fields of an event, including its message.
#[derive(Debug, Clone, Copy)]
pub struct OneLine;

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = LogLine::default();
        fields.record(&mut line);
        let mut whole = line.message;
        for (name, value) in line.fields {
            // A bare number may be in a message by chance.
            let is_repeated = value.contains(char::is_alphabetic) && whole.contains(&value);
            if !is_repeated {
                write!(whole, " {name}={value}")?;
            }
        }
        writer.write_str(&on_one_line(&whole))
    }
}

/// Keeps a text on one line and removes control characters, because it may contain an endpoint's
/// response.
fn on_one_line(text: &str) -> String {
    harmless(&text.trim().replace(['\n', '\r', '\t'], " "))
}

#[derive(Default)]
struct LogLine {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            name => self.fields.push((name, value.trim_matches('"').to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(event: impl FnOnce()) -> String {
        let paper = Paper::default();
        let writer = paper.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .fmt_fields(OneLine);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), event);
        let bytes = paper.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn fields_already_in_the_message_are_not_repeated() {
        let error = io::Error::other("no space left");
        let path = std::path::Path::new("/data/spool/1.json");
        let line = written(|| tracing::warn!(%error, ?path, kept = true, "it cannot be read: {error}"));
        assert_eq!(line, " WARN it cannot be read: no space left path=/data/spool/1.json kept=true\n");
        let line = written(|| tracing::info!(path = "/b/1.db", bytes = 1, "backup made: /b/1.db"));
        assert_eq!(line, " INFO backup made: /b/1.db bytes=1\n");
        assert_eq!(written(|| tracing::info!("stopped")), " INFO stopped\n");
    }

    #[test]
    fn control_characters_in_foreign_text_are_removed() {
        let line = written(|| tracing::error!(reason = "a\nb\u{1b}[2J", "degraded: {}", "a\nb\u{1b}[2J"));
        assert_eq!(line, "ERROR degraded: a b\u{fffd}[2J\n");
    }
}
