//! Notes of several sessions that say the same: the latest stands for all of them, with their number.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, params};

use super::json_list;
use crate::model::Millis;
use crate::store::{StoreError, listed};

/// Share of words that two notes must have in common to be the same.
const ALIKE: f64 = 0.85;
/// Minimum words of a note that can be compared.
const LEAST_WORDS: usize = 5;
/// Maximum notes that a new one is compared with, the newest of its project.
const MOST_COMPARED: u32 = 200;
/// Maximum facts that a note takes over.
const MOST_FACTS: usize = 24;
/// Words that turn a statement around.
const NEGATIONS: [&str; 8] = ["no", "not", "never", "without", "cannot", "nicht", "nie", "kein"];

/// The content of a note.
#[derive(Debug)]
struct NoteContent {
    id: i64,
    words: BTreeSet<String>,
    files: BTreeSet<String>,
    facts: Vec<String>,
    times_seen: i64,
}

impl NoteContent {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let text = format!("{} {}", row.get::<_, String>(1)?, row.get::<_, String>(2)?);
        let files: Vec<String> = listed(row, 3)?;
        Ok(Self {
            id: row.get(0)?,
            words: words(&text),
            files: files.into_iter().collect(),
            facts: listed(row, 4)?,
            times_seen: row.get(5)?,
        })
    }

    /// True if both state the same about the same files. Other numbers or a negation make another statement.
    fn repeats(&self, other: &Self) -> bool {
        let decides = |word: &&String| {
            word.chars().any(|char| char.is_ascii_digit()) || NEGATIONS.contains(&word.as_str())
        };
        let common = self.words.intersection(&other.words).count();
        let all = self.words.len() + other.words.len() - common;
        self.words.len() >= LEAST_WORDS
            && self.files == other.files
            && common as f64 >= ALIKE * all as f64
            && self.words.iter().filter(decides).eq(other.words.iter().filter(decides))
    }
}

const CONTENT: &str = "id, coalesce(title, ''), coalesce(summary, ''), files_modified, facts, times_seen";

/// Merges earlier notes of other sessions that say the same into a new note. They are hidden and can be restored.
pub(super) fn merge(transaction: &Transaction<'_>, note: i64, now: Millis) -> Result<(), StoreError> {
    let sql = format!("SELECT {CONTENT} FROM observations WHERE id = ?1");
    let mut new = transaction.prepare_cached(&sql)?.query_row([note], NoteContent::read)?;
    let before = new.times_seen;
    for old in others(transaction, note)? {
        if !new.repeats(&old) {
            continue;
        }
        let sql = "UPDATE observations SET deleted_at = ?2, superseded_by = (SELECT uid FROM observations WHERE id = ?3)
                   WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![old.id, now, note])?;
        new.times_seen += old.times_seen;
        for fact in old.facts {
            if new.facts.len() < MOST_FACTS && !new.facts.contains(&fact) {
                new.facts.push(fact);
            }
        }
    }
    if new.times_seen > before {
        let sql = "UPDATE observations SET times_seen = ?2, facts = ?3 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute(params![note, new.times_seen, json_list(&new.facts)])?;
    }
    Ok(())
}

/// Takes back the merges into a note that is rewritten or replaced, and may no longer say the same. A merged note stays hidden if
/// its turn went on and has another note: an event belongs to one note.
pub(super) fn undo(transaction: &Transaction<'_>, note: i64) -> Result<(), StoreError> {
    let sql = "UPDATE observations SET deleted_at = NULL, superseded_by = NULL
               WHERE deleted_at IS NOT NULL AND superseded_by = (SELECT uid FROM observations WHERE id = ?1)
                 AND NOT EXISTS (SELECT 1 FROM observation_sources mine
                                 JOIN observation_sources other ON other.queue_id = mine.queue_id
                                 JOIN observations o ON o.id = other.observation_id
                                 WHERE mine.observation_id = observations.id AND o.deleted_at IS NULL)";
    transaction.prepare_cached(sql)?.execute([note])?;
    transaction.prepare_cached("UPDATE observations SET times_seen = 1 WHERE id = ?1")?.execute([note])?;
    Ok(())
}

/// The latest earlier notes of the same project and branch by other sessions on this machine that the user has neither written nor
/// changed.
fn others(database: &Connection, note: i64) -> Result<Vec<NoteContent>, StoreError> {
    let sql = format!(
        "SELECT {CONTENT} FROM observations
         WHERE project = (SELECT project FROM observations WHERE id = ?1)
           AND session_id <> (SELECT session_id FROM observations WHERE id = ?1)
           AND branch IS (SELECT branch FROM observations WHERE id = ?1)
           AND created_at <= (SELECT created_at FROM observations WHERE id = ?1)
           AND provider IS NOT 'user' AND session_id NOT IN (SELECT id FROM sessions WHERE origin = 'sync')
           AND deleted_at IS NULL AND superseded_by IS NULL AND pinned_at IS NULL AND edited_at IS NULL
         ORDER BY created_at DESC LIMIT ?2"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map(params![note, MOST_COMPARED], NoteContent::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str, files: &[&str]) -> NoteContent {
        NoteContent {
            id: 1,
            words: words(text),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            facts: Vec::new(),
            times_seen: 1,
        }
    }

    #[test]
    fn only_the_same_statement_about_the_same_files_is_a_repeat() {
        let note =
            content("Raised the notarization timeout to 45 minutes because Apple is slow", &["ci.yml"]);
        let cases = [
            ("Raised the notarization timeout to 45 minutes, because Apple is slow.", "ci.yml", true),
            ("Raised the notarization timeout to 20 minutes because Apple is slow", "ci.yml", false),
            ("Never raised the notarization timeout to 45 minutes because Apple is slow", "ci.yml", false),
            ("Raised the notarization timeout to 45 minutes because Apple is slow", "release.yml", false),
            ("Raised the timeout", "ci.yml", false),
        ];
        for (text, file, expected) in cases {
            assert_eq!(note.repeats(&content(text, &[file])), expected, "{text} {file}");
        }
        let short = content("Fix lint", &["a"]);
        assert!(!short.repeats(&content("Fix lint", &["a"])), "too short to be sure");
    }
}
