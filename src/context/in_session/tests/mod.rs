//! Triggers, on real databases.

mod edit;
mod failure;
mod prompt;

use super::*;
use crate::config::Config;
use crate::context::tests::{History, NOW, PATH, Seen, rich};
use crate::store::log::{LogEntry, log};

fn snippet_for(history: &History, session: &str, trigger: &Trigger) -> RecallText {
    let (session, config) = (SessionId(session.into()), Config::default());
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &session,
        settings: &config.search,
        now: NOW,
        budget: 300,
        code: CodeCheck::default(),
    };
    build(&history.database, &request, trigger, &Shown::default()).unwrap()
}

/// A history in which the words of one matter are rare.
fn crowded() -> History {
    let history = rich();
    for number in 0..60 {
        let title = format!("Unrelated matter number {number} of the invoices");
        history.observe("a", Seen { kind: "change", title: &title, summary: "Nothing.", files: &[] });
    }
    history
}

fn prompt(text: &str) -> Trigger {
    Trigger::Prompt { text: text.into() }
}

fn edit(path: &str, removed: &[&str], added: &[&str]) -> Trigger {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    Trigger::FileEdit { path: path.into(), added: lines(added), removed: lines(removed) }
}

/// Logs the memories that a session was shown, as its hook does.
fn note(history: &History, session: &str, event_type: &'static str, data: Value) {
    let session = Some(SessionId(session.into()));
    log(&history.database, &LogEntry { event_type, session, data, ..LogEntry::default() }, NOW).unwrap();
}
