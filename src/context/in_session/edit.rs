//! Before a file is changed: first an earlier change that the edit would undo, then the reasons for the present lines.

use std::fmt;
use std::path::Path;

use rusqlite::Connection;

use super::terms::{Fitted, Terms};
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

/// Most memories.
pub const MOST: usize = 2;
/// Memories of a file that are looked at, the newest.
const ABOUT_FILE: u32 = 60;
/// A turn that changed more files than this gives no reason for one of them unless it names it.
const FEW_FILES: usize = 3;
/// The least that a memory of the file must have in common with the edit, and that its line must, as for a prompt.
const FLOOR: f64 = 0.50;
const LINE_FLOOR: f64 = 0.55;
/// The same for the line of the turn that wrote the lines: it is about them, or about something else that the turn did.
const TOUCHED_FLOOR: f64 = 0.25;
/// More lines than this that an edit only adds, or takes out, are a part of their own.
const MOST_ADDED: usize = 8;
const MOST_REMOVED: usize = 12;
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
    let mut found = undone(database, request, file, &traces, added, removed)?;
    // Who asks about a file without an edit wants all of its reasons.
    let is_edit = !added.is_empty() || !removed.is_empty();
    if is_edit && (is_test(file) || is_wholesale(added, removed)) {
        return Ok(found);
    }
    let (names, words) = words_of(file, added, removed);
    let counted = relevance::counted(database, request.project, &words)?;
    let rows = i64::from(table::observations_of(database, request.project)?);
    let terms = Terms::of(&words, &names, &counted, rows);
    let mut why: Vec<(ContextMemory, Cause)> = Vec::new();
    for touched in touched(&traces, removed, |trace, hash| trace.trace.added.contains(&hash)) {
        why.extend(note(database, request, touched.turn)?.map(|memory| (memory, Cause::WroteLines)));
    }
    let about = about(database, request, file, within.is_none())?;
    why.extend(about.into_iter().map(|memory| (memory, Cause::AboutFile)));
    // The turn that wrote the lines first; of others the newest.
    why.sort_by_key(|(memory, cause)| (*cause, std::cmp::Reverse((memory.created_at, memory.id))));
    for (memory, cause) in why {
        if found.iter().any(|known| known.memory.as_ref().is_some_and(|known| known.id == memory.id)) {
            continue;
        }
        // A turn that changed many files has a note about all of them.
        let is_about = is_about(&memory, file);
        let Fitted { memory, fit, words } = terms.fit(focused(memory, file, &terms));
        let may_fit = match cause {
            Cause::WroteLines => true,
            Cause::AboutFile => is_about && (fit >= FLOOR || !is_edit),
        };
        if !may_fit {
            continue;
        }
        let wording = request.wording_about(&memory, WIDE, &terms);
        let text = wording.text();
        let shown = terms.fit_of(&text);
        let fits = match cause {
            Cause::WroteLines => shown >= if is_about { TOUCHED_FLOOR } else { LINE_FLOOR },
            Cause::AboutFile => !is_edit || (shown >= LINE_FLOOR && terms.are_code_of(&text)),
        };
        // Git has what was changed; a memory is worth its place by the reason.
        if fits
            && wording.has_reason
            && let Some(memory) = request.admitted(database, memory)?
        {
            let why = format!("{cause}, fits by {fit:.2}, its line by {shown:.2}: {}", words.join(", "));
            let line = observations::line(&memory, &wording, "", request.now).because(why);
            found.push(CandidateLine { memory: Some(memory), line, is_urgent: false });
        }
    }
    Ok(found)
}

/// The tie between a memory and an edit, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    WroteLines,
    AboutFile,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WroteLines => "wrote lines that the edit changes",
            Self::AboutFile => "about this file",
        })
    }
}

/// True for a file of tests. They follow the code, and its edit was answered.
fn is_test(file: &str) -> bool {
    let is_mark = |part: &str| {
        let part = part.to_ascii_lowercase();
        ["test", "tests", "spec", "specs", "__tests__", "testdata", "fixtures"].contains(&part.as_str())
    };
    file.split('/').any(|part| part.split(['.', '_', '-']).any(is_mark) || is_mark(part))
}

/// True for an edit that is about no line in particular: one that only adds, or mostly removes, a whole part.
fn is_wholesale(added: &[String], removed: &[String]) -> bool {
    let (new, old) = (added.len(), removed.len());
    (old == 0 && new > MOST_ADDED) || (old > MOST_REMOVED && 2 * new < old)
}

/// Turns that removed lines that the edit adds back, and whose note gives a reason.
fn undone(
    database: &Connection,
    request: &RecallQuery<'_>,
    file: &str,
    traces: &[TurnTrace],
    added: &[String],
    removed: &[String],
) -> Result<Vec<CandidateLine>, StoreError> {
    // A line with another number in it was not brought back.
    let bare = |line: &str| line.replace(|char: char| char.is_ascii_digit(), "");
    let replaced: Vec<String> = removed.iter().map(|line| bare(line)).collect();
    let added: Vec<String> = added.iter().filter(|line| !replaced.contains(&bare(line))).cloned().collect();
    let distinctive = added.iter().filter(|line| line_hash(line).is_some()).count();
    let mut found = Vec::new();
    for touched in touched(traces, &added, |trace, hash| trace.trace.removed.contains(&hash)) {
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
fn focused(memory: ContextMemory, file: &str, terms: &Terms) -> ContextMemory {
    if memory.files_modified.len() <= 1 || terms.is_empty() {
        return memory;
    }
    let stem = stem(file).to_lowercase();
    let rare = terms.rare(RARE);
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
