//! The notes of a database, and the phrases that none of them should have.

use anyhow::Result;
use regex::Regex;
use rusqlite::Connection;

/// An observation, with empty text for missing parts.
pub struct Note {
    pub session: String,
    pub prompt_number: i64,
    pub title: String,
    pub summary: String,
    pub detail: String,
    /// A line for each part of it, beginning with the part's name.
    pub text: String,
}

impl Note {
    /// Reads all notes, in the order they were made.
    pub fn all(database: &Connection) -> Result<Vec<Self>> {
        let sql = "SELECT session_id, coalesce(prompt_number, 0) AS prompt_number, type, coalesce(title, '') AS title,
                          coalesce(summary, '') AS summary, coalesce(detail, '') AS detail, coalesce(facts, '[]') AS facts,
                          coalesce(files_read, '[]') AS read, coalesce(files_modified, '[]') AS modified
                   FROM observations WHERE deleted_at IS NULL ORDER BY id";
        let mut statement = database.prepare(sql)?;
        let notes = statement.query_map([], |row| {
            let mut text = String::new();
            for part in ["type", "title", "summary", "detail", "facts", "read", "modified"] {
                text += &format!("{part}: {}\n", row.get::<_, String>(part)?.replace('\n', " "));
            }
            Ok(Self {
                session: row.get("session_id")?,
                prompt_number: row.get("prompt_number")?,
                title: row.get("title")?,
                summary: row.get("summary")?,
                detail: row.get("detail")?,
                text,
            })
        })?;
        Ok(notes.collect::<Result<_, _>>()?)
    }
}

/// The phrases, as patterns over [`Note::text`].
const PHRASES: [(&str, &str); 15] = [
    ("title \"Implement the following plan\"", "(?m)^title: Implement the following plan"),
    ("title \"Answer:\"", "(?m)^title: Answer:"),
    ("title \"Find that\"", "(?m)^title: Find that"),
    ("title \"Research\"", "(?m)^title: Research "),
    ("title \"Run\"", "(?m)^title: Run "),
    ("title \"Change FILE\"", r"(?m)^title: Change \S+\.\w+(?: and |$|,)"),
    ("title \"Plan: Plan\"", "(?m)^title: Plan: Plan"),
    ("title Commit, Push, Switch, Pull, Stage", r#"(?m)^title: (?:Commit "|Push |Switch |Pull |Stage )"#),
    ("\"succeeded, saying\"", "succeeded, saying"),
    (ONLY_FILES, r"(?m)^summary: (?:Changed|Read) .*"),
    ("summary cut with \"…\"", "(?m)^summary: .*…$"),
    (
        "\"Verified by\" a background start",
        "(?m)^summary: .*(?:Verified by.*started in the background|started in the background.*Verified by)",
    ),
    ("\"with nothing changed\"", "with nothing changed"),
    ("empty summary", "(?m)^summary: $"),
    ("scratch file in files_modified", "(?m)^modified: .*(?:scratchpad|/tmp/claude)"),
];

const ONLY_FILES: &str = "summary only lists changed or read files";

/// Each phrase with the notes that have it.
pub fn with_bad_phrases(notes: &[Note]) -> Vec<(&'static str, Vec<&Note>)> {
    let counts = Regex::new(r"\(\+\d+ -\d+[^)]*\)").unwrap();
    let says_more = Regex::new(r"Verified|\. [A-Z`]").unwrap();
    let find = |(label, pattern): (&'static str, &str)| {
        let pattern = Regex::new(pattern).unwrap();
        let is_bad = |note: &&Note| {
            let found = pattern.find(&note.text);
            found.is_some_and(|it| {
                label != ONLY_FILES || !says_more.is_match(&counts.replace_all(it.as_str(), ""))
            })
        };
        (label, notes.iter().filter(is_bad).collect())
    };
    PHRASES.into_iter().map(find).collect()
}
