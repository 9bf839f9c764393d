//! The memory as Markdown, for people: projects, their learnings, and the notes of their sessions.

use std::io::Write;

use rusqlite::Connection;

use crate::api::{LearningRow, ObservationRow, SessionRow};
use crate::cli::output::style::harmless;
use crate::clock;
use crate::store::browse;
use crate::store::sessions::sessions_with_notes;

/// Writes the memory of one project, or of all. Returns the number of notes.
pub fn write(database: &Connection, project: Option<&str>, out: &mut impl Write) -> anyhow::Result<u64> {
    let state = database.unchecked_transaction()?;
    let sessions = sessions_with_notes(&state, project)?;
    let mut count = 0;
    for of_project in sessions.chunk_by(|one, other| one.project == other.project) {
        let name = &of_project[0].project;
        writeln!(out, "# {}\n", line(name))?;
        write_learnings(&browse::learnings(&state, Some(name), clock::now())?, out)?;
        for session in of_project {
            let notes = browse::notes_of_session(&state, &session.id)?;
            write_session(session, &notes, out)?;
            count += notes.len() as u64;
        }
    }
    out.flush()?;
    Ok(count)
}

fn write_learnings(learnings: &[LearningRow], out: &mut impl Write) -> anyhow::Result<()> {
    if learnings.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Learnings\n")?;
    for learning in learnings {
        writeln!(out, "- {} ({})", line(&learning.content), learning.category)?;
    }
    writeln!(out)?;
    Ok(())
}

fn write_session(session: &SessionRow, notes: &[ObservationRow], out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "## {}\n", line(session.heading()))?;
    let branch =
        session.branch.as_ref().map(|branch| format!(", branch {}", line(branch))).unwrap_or_default();
    writeln!(out, "{}{branch}, session {}\n", clock::local_time(session.started_at), line(&session.id))?;
    for note in notes {
        write_note(note, out)?;
    }
    Ok(())
}

fn write_note(note: &ObservationRow, out: &mut impl Write) -> anyhow::Result<()> {
    let title = note.title.as_deref().unwrap_or("Untitled");
    writeln!(
        out,
        "### {}\n\n*{}, {}, #{}*\n",
        line(title),
        note.kind,
        clock::local_time(note.created_at),
        note.id
    )?;
    for body in [&note.summary, &note.detail].into_iter().flatten().filter(|body| !body.trim().is_empty()) {
        writeln!(out, "{}\n", escaped(body.trim()))?;
    }
    for fact in &note.facts {
        writeln!(out, "- {}", line(fact))?;
    }
    if !note.facts.is_empty() {
        writeln!(out)?;
    }
    if !note.files_modified.is_empty() {
        let files: Vec<String> = note.files_modified.iter().map(|file| format!("`{}`", line(file))).collect();
        writeln!(out, "Changed: {}\n", files.join(", "))?;
    }
    Ok(())
}

/// A text on one line.
fn line(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A text in which nothing is HTML; code between backticks stays as it is.
fn escaped(text: &str) -> String {
    let parts = harmless(text);
    let escape =
        |(at, part): (usize, &str)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() };
    parts.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_memory_becomes_html() {
        assert_eq!(escaped("<img src=x> `a < b` \u{1b}[2J"), "\\<img src=x> `a < b` \u{fffd}[2J");
        assert_eq!(line("# one\n# two"), "# one # two");
    }

    #[test]
    fn a_note_has_its_title_text_facts_and_files() {
        let note = ObservationRow {
            id: 7,
            kind: "bugfix".into(),
            title: Some("Bound the queue".into()),
            summary: Some("Retries filled the disk.".into()),
            facts: vec!["64 jobs".into()],
            files_modified: vec!["src/queue.rs".into()],
            ..ObservationRow::default()
        };
        let mut out = Vec::new();
        write_note(&note, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (head, rest) = text.split_once("#7*").unwrap();
        assert!(head.starts_with("### Bound the queue\n\n*bugfix, "), "{head}");
        assert_eq!(rest, "\n\nRetries filled the disk.\n\n- 64 jobs\n\nChanged: `src/queue.rs`\n\n");
    }
}
