//! Notes with their sources, for people to grade.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::notes::Note;
use crate::project::Project;
use crate::{Options, drawn};

/// Maximum length of a prompt in the sample, in characters.
const PROMPT_CHARS: usize = 3_000;

/// Writes turns that got a note, with the evidence, to `sample-SEED.md`. The draw depends on the turn only, so that two
/// versions of the program are graded on the same turns as far as both have a note.
pub fn write(
    database: &Connection,
    notes: &[Note],
    projects: &[Project],
    options: &Options,
    folder: &Path,
) -> Result<PathBuf> {
    let mut turns: Vec<(&str, i64)> =
        notes.iter().map(|note| (note.session.as_str(), note.prompt_number)).collect();
    turns.sort_unstable();
    turns.dedup();
    let turns = drawn(turns, options.sample, options.seed, |(session, number)| format!("{session}:{number}"));
    let mut text = format!("# {} turns with a note, seed {}\n", turns.len(), options.seed);
    for (index, (session, number)) in turns.into_iter().enumerate() {
        let project: String =
            database.query_row("SELECT project FROM sessions WHERE id = ?1", [session], |row| row.get(0))?;
        writeln!(text, "\n## {}. {project}, session {session}, prompt {number}", index + 1)?;
        let of_turn = notes.iter().filter(|note| note.session == session && note.prompt_number == number);
        of_turn.for_each(|note| list(&mut text, "Note", note.text.lines().map(ToOwned::to_owned)));
        let later = notes.iter().filter(|note| note.session == session && note.prompt_number > number);
        let end = later.map(|note| note.prompt_number).min().unwrap_or(i64::MAX);
        Evidence { database, projects, session, number, end }.write(&mut text)?;
    }
    let file = folder.join(format!("sample-{}.md", options.seed));
    fs::write(&file, text)?;
    Ok(file)
}

struct Evidence<'a> {
    database: &'a Connection,
    projects: &'a [Project],
    session: &'a str,
    number: i64,
    /// The prompt of the next note: those before it ("commit", notifications) continue this turn.
    end: i64,
}

impl Evidence<'_> {
    fn write(&self, text: &mut String) -> Result<()> {
        let sql = "SELECT prompt FROM user_prompts
                   WHERE session_id = ?1 AND prompt_number >= ?2 AND prompt_number < ?3 ORDER BY prompt_number";
        let mut statement = self.database.prepare(sql)?;
        let turn = params![self.session, self.number, self.end];
        for prompt in statement.query_map(turn, |row| row.get::<_, String>(0))? {
            let prompt = prompt?;
            quote(text, "Prompt", &prompt[..end_of(&prompt, PROMPT_CHARS)]);
        }
        let stops = self.payloads("kind = 'summarize'")?;
        let closings = stops.iter().filter_map(|payload| payload["last_assistant_message"].as_str());
        closings.for_each(|closing| quote(text, "Closing message", closing));
        let commands = self.payloads("tool_name IN ('Bash', 'PowerShell')")?;
        let command =
            |payload: &Value| payload["tool_input"]["command"].as_str().unwrap_or_default().to_owned();
        list(text, "Commits", commands.iter().map(command).filter(|line| line.contains("git commit")));
        let edits =
            self.payloads("tool_name IN ('Edit', 'MultiEdit', 'Write', 'NotebookEdit') AND NOT failed")?;
        let mut files: Vec<String> = edits.iter().filter_map(edited_file).collect();
        files.sort();
        files.dedup();
        list(text, "Edited files", files.into_iter());
        let failed = self.payloads("tool_name IN ('Bash', 'PowerShell') AND failed")?;
        let failure = |payload: &Value| {
            let error = payload["error"].as_str().unwrap_or_default();
            format!("{}\n{}", command(payload), &error[..end_of(error, 300)])
        };
        list(text, "Failing commands", failed.iter().map(failure));
        list(text, "Questions answered", self.answers()?.into_iter());
        Ok(())
    }

    /// The payloads of the turn's rows that fulfil the condition.
    fn payloads(&self, condition: &str) -> Result<Vec<Value>> {
        let sql = format!(
            "SELECT coalesce(payload, '{{}}') FROM pending_queue
             WHERE session_id = ?1 AND prompt_number >= ?2 AND prompt_number < ?3 AND {condition} ORDER BY id"
        );
        let mut statement = self.database.prepare(&sql)?;
        let rows = statement
            .query_map(params![self.session, self.number, self.end], |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
    }

    fn answers(&self) -> Result<Vec<String>> {
        let sql = "SELECT max(prompt_number) FROM user_prompts WHERE session_id = ?1 AND created_at <= ?2";
        let mut found = Vec::new();
        let all = self.projects.iter().flat_map(|project| &project.answers);
        for (session, at, text) in all.filter(|(session, ..)| session == self.session) {
            let number: Option<i64> = self.database.query_row(sql, params![session, at], |row| row.get(0))?;
            found.extend((number == Some(self.number)).then(|| text.clone()));
        }
        Ok(found)
    }
}

fn edited_file(payload: &Value) -> Option<String> {
    let input = &payload["tool_input"];
    input["file_path"].as_str().or(input["notebook_path"].as_str()).map(ToOwned::to_owned)
}

fn end_of(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end)
}

fn quote(text: &mut String, label: &str, quoted: &str) {
    let _ = writeln!(text, "\n**{label}**\n");
    quoted.lines().for_each(|line| {
        let _ = writeln!(text, "> {line}");
    });
}

fn list(text: &mut String, label: &str, entries: impl Iterator<Item = String>) {
    for (index, entry) in entries.enumerate() {
        if index == 0 {
            let _ = writeln!(text, "\n**{label}**\n");
        }
        let _ = writeln!(text, "- {}", entry.trim().replace('\n', "\n  "));
    }
}

/// Writes all active learnings to `learnings.md`.
pub fn write_learnings(database: &Connection, folder: &Path) -> Result<PathBuf> {
    let sql = "SELECT coalesce(project, '(everywhere)'), category, content, confidence, times_seen
               FROM learnings WHERE is_active = 1 ORDER BY 1, confidence DESC, id";
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut text = String::from(
        "# Active learnings\n\n| project | category | confidence | seen | content |\n|---|---|---|---|---|\n",
    );
    while let Some(row) = rows.next()? {
        let (project, category, content): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (confidence, seen): (f64, i64) = (row.get(3)?, row.get(4)?);
        let content = content.replace('\n', " ").replace('|', "\\|");
        writeln!(text, "| {project} | {category} | {confidence:.2} | {seen} | {content} |")?;
    }
    let file = folder.join("learnings.md");
    fs::write(&file, text)?;
    Ok(file)
}
