//! Before a file is changed: first an earlier change that the edit would undo, then the reasons for the present lines.

use std::path::Path;

use rusqlite::Connection;

use super::prompt::{self, Fitted};
use super::{CandidateLine, RecallQuery};
use crate::context::observations::{self, ending};
use crate::context::relevance;
use crate::context::repo_state::stem;
use crate::context::wording::{WIDE, statements};
use crate::context::words::{WordSet, content_words};
use crate::project::{is_same_file, without_worktree};
use crate::store::context::ContextMemory;
use crate::store::memory::traces::{self, Hash, TurnTrace, line_hash};
use crate::store::{StoreError, context as table};
use crate::text::line::one_line;
use crate::text::without_ending;

/// Most memories.
pub const MOST: usize = 2;
/// Memories of a file that are looked at, the newest.
const ABOUT_FILE: u32 = 60;
/// A turn that changed more files than this gives no reason for one of them unless it names it.
const FEW_FILES: usize = 3;
/// The least that a memory of the file must have in common with the edit, as for a prompt.
const FLOOR: f64 = 0.55;
/// The same for the note of the turn that wrote the lines: it is about them, or about something else that the turn did.
const TOUCHED_FLOOR: f64 = 0.4;
/// The share of an edit's new lines that must have been taken out before for it to be an undoing.
const UNDONE_SHARE: f64 = 0.25;
const QUOTED: usize = 80;
/// The worth of a word from which on a clause that has it is about the edit.
const RARE: f64 = 0.5;

/// A turn that the edit has to do with, and a line of the edit that shows it.
struct Touched<'a> {
    turn: &'a TurnTrace,
    line: &'a str,
    count: usize,
}

/// Memories of the file, the best first.
pub fn candidates(
    database: &Connection,
    request: &RecallQuery<'_>,
    path: &str,
    added: &[String],
    removed: &[String],
) -> Result<Vec<CandidateLine>, StoreError> {
    let within = Path::new(path).strip_prefix(request.project_path).ok().and_then(Path::to_str);
    let file = without_worktree(within.unwrap_or(path));
    let traces = traces::of_file(database, request.project, file, request.session.as_str())?;
    let mut found = undone(database, request, file, &traces, added)?;
    let mut why: Vec<(ContextMemory, String)> = Vec::new();
    let (names, words) = words_of(file, added, removed);
    let counted = relevance::counted(database, request.project, &words)?;
    let rows = i64::from(table::observations_of(database, request.project)?);
    let worth = prompt::worth(&words, &names, &counted, rows);
    for touched in touched(&traces, removed, |trace, hash| trace.trace.added.contains(&hash)) {
        // A turn that changed many files has a note about all of them.
        let Some(memory) = note(database, request, touched.turn)?.filter(|memory| is_about(memory, file))
        else {
            continue;
        };
        let Fitted { memory, fit, .. } = prompt::fit(focused(memory, file, &worth), &worth);
        if fit >= TOUCHED_FLOOR {
            why.push((memory, format!("wrote lines that the edit changes, fits by {fit:.2}")));
        }
    }
    for memory in about(database, request, file, within.is_none())? {
        let Fitted { memory, fit, words } = prompt::fit(focused(memory, file, &worth), &worth);
        // Who asks about a file without an edit wants all of its reasons.
        let fits = fit >= FLOOR || (added.is_empty() && removed.is_empty());
        if fits && is_about(&memory, file) {
            why.push((memory, format!("about this file, fits by {fit:.2}: {}", words.join(", "))));
        }
    }
    why.sort_by_key(|(memory, _)| std::cmp::Reverse((memory.created_at, memory.id)));
    why.dedup_by_key(|(memory, _)| memory.id);
    for (memory, reason) in why {
        let Some(memory) = request.admitted(database, memory)? else { continue };
        let wording = request.wording(&memory, WIDE);
        // Git has what was changed; a memory is worth its place by the reason.
        if wording.has_reason {
            let line = observations::line(&memory, &wording, "", request.now).because(reason);
            found.push(CandidateLine { memory: Some(memory), line, is_urgent: false });
        }
    }
    Ok(found)
}

/// Turns that removed lines that the edit adds back, and whose note gives a reason.
fn undone(
    database: &Connection,
    request: &RecallQuery<'_>,
    file: &str,
    traces: &[TurnTrace],
    added: &[String],
) -> Result<Vec<CandidateLine>, StoreError> {
    let distinctive = added.iter().filter(|line| line_hash(line).is_some()).count();
    let mut found = Vec::new();
    for touched in touched(traces, added, |trace, hash| trace.trace.removed.contains(&hash)) {
        if (touched.count as f64) < UNDONE_SHARE * distinctive as f64 {
            continue;
        }
        let Some(memory) = note(database, request, touched.turn)?.filter(|memory| !memory.is_superseded)
        else {
            continue;
        };
        let wording = request.wording(&memory, WIDE);
        if wording.has_reason && is_about(&memory, file) {
            let lead =
                format!("undone by this edit: it removed `{}`. ", one_line(touched.line.trim(), QUOTED));
            let why = format!("{} of {distinctive} new lines were removed by it", touched.count);
            let line = observations::line(&memory, &wording, &lead, request.now).because(why);
            found.push(CandidateLine { memory: Some(memory), line, is_urgent: true });
        }
    }
    Ok(found)
}

fn note(
    database: &Connection,
    request: &RecallQuery<'_>,
    turn: &TurnTrace,
) -> Result<Option<ContextMemory>, StoreError> {
    table::note_of_turn(database, request.project, &turn.session_id, turn.prompt_number)
}

/// For each line the latest turn that touched it, if it did so in the way that is asked for. The newest turns come first.
fn touched<'a>(
    traces: &'a [TurnTrace],
    lines: &'a [String],
    is_so: impl Fn(&TurnTrace, Hash) -> bool,
) -> Vec<Touched<'a>> {
    let mut found: Vec<Touched<'a>> = Vec::new();
    for line in lines {
        let Some(hash) = line_hash(line) else { continue };
        let touches =
            |turn: &&TurnTrace| turn.trace.removed.contains(&hash) || turn.trace.added.contains(&hash);
        let Some(turn) = traces.iter().find(touches).filter(|turn| is_so(turn, hash)) else { continue };
        let is_same = |known: &&mut Touched<'_>| {
            known.turn.session_id == turn.session_id && known.turn.prompt_number == turn.prompt_number
        };
        match found.iter_mut().find(is_same) {
            Some(known) => known.count += 1,
            None => found.push(Touched { turn, line, count: 1 }),
        }
    }
    let age = |turn: &TurnTrace| traces.iter().position(|known| known == turn);
    found.sort_by_key(|touched| age(touched.turn));
    found
}

/// Memories of turns that changed the file.
fn about(
    database: &Connection,
    request: &RecallQuery<'_>,
    file: &str,
    is_elsewhere: bool,
) -> Result<Vec<ContextMemory>, StoreError> {
    let with = |phrase: &str| table::observations_with(database, request.project, phrase, ABOUT_FILE);
    let mut ids = with(ending(file))?;
    if ids.is_empty() && is_elsewhere {
        // In another worktree the root may be unknown, and the name alone must do.
        ids = with(file.rsplit('/').next().unwrap_or(file))?;
    }
    let mut memories = table::memories(database, request.project, &ids)?;
    memories.retain(|memory| memory.files_modified.iter().any(|known| is_same_file(known, file)));
    Ok(memories)
}

/// True if the memory is about this file: of the few that its turn changed, or named by it.
fn is_about(memory: &ContextMemory, file: &str) -> bool {
    let stem = stem(file).to_lowercase();
    let text = format!("{} {} {}", memory.title, memory.summary, memory.facts.join(" ")).to_lowercase();
    memory.files_modified.len() <= FEW_FILES || (stem.len() > 4 && text.contains(&stem))
}

/// The memory with only those clauses that name the file or share a rare word with the edit: the note of a turn that changed
/// several files speaks of all of them. That of a turn that changed one file is about it as a whole.
fn focused(memory: ContextMemory, file: &str, worth: &[(String, f64)]) -> ContextMemory {
    if memory.files_modified.len() <= 1 || worth.is_empty() {
        return memory;
    }
    let stem = stem(file).to_lowercase();
    let rare: Vec<&str> =
        worth.iter().filter(|(_, worth)| *worth >= RARE).map(|(word, _)| without_ending(word)).collect();
    let is_about = |clause: &str| {
        let words = WordSet::stemmed(&[clause]);
        clause.to_lowercase().contains(&stem) || rare.iter().any(|word| words.has(word))
    };
    let keep = |text: &str| {
        let kept = |statement: String| {
            let clauses: Vec<&str> = statement.split("; ").filter(|clause| is_about(clause)).collect();
            clauses.join("; ")
        };
        let kept: Vec<String> =
            statements(text).into_iter().map(kept).filter(|kept| !kept.is_empty()).collect();
        kept.join("\n")
    };
    let (summary, detail) = (keep(&memory.summary), keep(&memory.detail));
    let facts = memory.facts.into_iter().filter(|fact| is_about(fact)).collect();
    ContextMemory { summary, detail, facts, ..memory }
}

/// The words of an edit: names that only code has, and these with the other words.
fn words_of(file: &str, added: &[String], removed: &[String]) -> (Vec<String>, Vec<String>) {
    let own = content_words(stem(file));
    let (mut names, mut words) = (Vec::new(), Vec::new());
    for line in added.iter().chain(removed) {
        for word in line.split(|char: char| !char.is_alphanumeric() && char != '_') {
            let lower = word.trim_matches('_').to_lowercase();
            if lower.len() < LEAST_LETTERS || own.contains(&lower) || words.contains(&lower) {
                continue;
            }
            if is_identifier(word) && names.len() < MOST_WORDS {
                names.push(lower.clone());
                words.push(lower);
            } else if words.len() - names.len() < MOST_WORDS {
                words.push(lower);
            }
        }
    }
    (names, words)
}

/// Words of fewer letters decide nothing, nor do more names or words than this.
const LEAST_LETTERS: usize = 5;
const MOST_WORDS: usize = 20;

/// `camelCase`, `snake_case`, `CONSTANT_CASE` or `PascalCase` of two humps.
fn is_identifier(word: &str) -> bool {
    let humps = word.char_indices().filter(|(at, char)| *at > 0 && char.is_uppercase()).count();
    let has_lower = word.chars().any(char::is_lowercase);
    (word.trim_matches('_').contains('_')) || (humps > 0 && has_lower)
}
