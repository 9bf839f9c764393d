//! With a prompt: the few memories that it has most in common with, if that is enough.
//!
//! Search finds candidates. Its scores compare the hits of one question with each other; if the best of them is good
//! enough is decided here: by the words, rare in the project, that the prompt and a memory share.

use rusqlite::Connection;

use super::terms::{Fitted, Terms};
use super::{CandidateLine, RecallQuery};
use crate::compress::note::is_trivial;
use crate::context::observations::ending;
use crate::context::repo_state::{is_topic, stem};
use crate::context::wording::{NARROW, topic};
use crate::context::words::content_words;
use crate::context::{observations, relevance};
use crate::model::Millis;
use crate::project::{is_same_file, without_worktree};
use crate::search::{self, Filter};
use crate::store::context::ContextMemory;
use crate::store::index::search::Kind;
use crate::store::{StoreError, context as table};

/// Most memories.
pub const MOST: usize = 3;
/// The least that a memory must have in common with a prompt, from 0 to 1, closeness included: in a session that has done
/// nothing yet, and in one that has a topic of its own by now and seldom needs another's. `make eval-recall` prints the floors
/// that each two projects choose, and their effect on the third (docs/decisions/014-context-lines.md).
pub const FIRST_FLOOR: f64 = 0.62;
/// The same for later prompts.
pub const FLOOR: f64 = 0.72;
/// Off these floors for a line with a file or symbol that the prompt names: it speaks of the same thing.
const FOR_NAME: f64 = 0.06;
/// The least that the line itself must have in common with the prompt: a memory of many things is worth showing only for its
/// part about this one.
const LINE_FLOOR: f64 = 0.50;

/// Of a prompt no more than this is a question, besides the files and symbols that it names.
const CHARACTERS: usize = 300;
/// Nor are more words than this.
const MOST_WORDS: usize = 40;
const HITS: usize = 24;
/// Rows that search reads in full.
const READ: usize = 40;
/// Files named by the prompt whose notes are looked at besides, and the newest notes of each.
const MOST_FILES: usize = 4;
const FOR_EACH_FILE: u32 = 8;
/// Added to the fit of a memory that changed a file which the prompt names, of a memory of the session's topic branch, and of a
/// memory of today; the last halves after [`RECENT_DAYS`]. Between memories with the same words in common these decide.
const SAME_FILE: f64 = 0.08;
const SAME_BRANCH: f64 = 0.08;
const RECENT: f64 = 0.06;
const RECENT_DAYS: f64 = 2.0;

/// The memories that fit, the best first.
pub(super) fn candidates(
    database: &Connection,
    request: &RecallQuery<'_>,
    prompt: &str,
) -> Result<Vec<CandidateLine>, StoreError> {
    let (terms, fitted) = found(database, request, prompt)?;
    let floor = if table::has_note(database, request.session)? { FLOOR } else { FIRST_FLOOR };
    let mut candidates = Vec::new();
    for Fitted { memory, fit, words } in fitted.into_iter().filter(|fitted| fitted.fit >= floor - FOR_NAME) {
        let wording = request.wording_about(&memory, NARROW, &terms);
        let text = wording.text();
        let shown = terms.fit_of(&text);
        let floor = if terms.has_name(&text) { floor - FOR_NAME } else { floor };
        if fit >= floor
            && shown >= LINE_FLOOR
            && terms.are_met_by(&text)
            && let Some(memory) = request.admitted(database, memory)?
        {
            let why = format!("fits by {fit:.2}, its line by {shown:.2}: {}", words.join(", "));
            let line = observations::line(&memory, &wording, "", request.now).because(why);
            candidates.push(CandidateLine { memory: Some(memory), line, is_urgent: false });
        }
    }
    Ok(candidates)
}

/// All candidates with how well they fit, whatever the floor; none for a prompt that asks nothing.
pub fn fitted(
    database: &Connection,
    request: &RecallQuery<'_>,
    prompt: &str,
) -> Result<Vec<Fitted>, StoreError> {
    Ok(found(database, request, prompt)?.1)
}

/// The same with the terms that they were measured by.
fn found(
    database: &Connection,
    request: &RecallQuery<'_>,
    prompt: &str,
) -> Result<(Terms, Vec<Fitted>), StoreError> {
    let Some(asked) = Question::of(prompt) else { return Ok(Default::default()) };
    let counted = relevance::counted(database, request.project, &asked.words)?;
    let query = relevance::rarest(&asked.words, &counted);
    if query.is_empty() {
        return Ok(Default::default());
    }
    let found = search::search(
        database,
        &search::Request {
            query: query.join(" "),
            filter: Filter { project: Some(request.project.to_owned()), ..Filter::default() },
            limit: HITS,
            without_text: true,
            now: request.now,
            ..search::Request::default()
        },
        &relevance::shallow(request.settings, READ),
    )?;
    let mut memories: Vec<ContextMemory> = Vec::new();
    let mut add = |memory: Option<ContextMemory>| {
        memories.extend(memory.filter(|memory| {
            memory.session_id != request.session.as_str()
                && memories.iter().all(|known| known.id != memory.id)
        }));
    };
    for hit in found.hits {
        add(match hit.kind {
            Kind::Observation => table::memories(database, request.project, &[hit.id])?.pop(),
            Kind::Summary => table::memory_of_summary(database, request.project, hit.id)?,
            // What was asked is no answer.
            Kind::Prompt => None,
        });
    }
    for file in asked.files.iter().take(MOST_FILES) {
        let ids = table::observations_with(database, request.project, ending(file), FOR_EACH_FILE)?;
        table::memories(database, request.project, &ids)?.into_iter().for_each(|memory| add(Some(memory)));
    }
    let terms = Terms::of(&asked.words, &asked.named, &counted, found.as_of.rows);
    let branch = table::branch_of(database, request.session)?.filter(|branch| is_topic(branch));
    let close = |memory: ContextMemory| {
        let closeness = closeness(&memory, &asked.files, branch.as_deref(), request.now);
        let fitted = terms.fit(memory);
        Fitted { fit: fitted.fit + closeness, ..fitted }
    };
    let mut fitted: Vec<Fitted> = memories.into_iter().map(close).collect();
    fitted.sort_by(|a, b| b.fit.total_cmp(&a.fit).then_with(|| b.memory.id.cmp(&a.memory.id)));
    Ok((terms, fitted))
}

/// The part of the fit that does not depend on words.
fn closeness(memory: &ContextMemory, files: &[String], branch: Option<&str>, now: Millis) -> f64 {
    const DAY: f64 = 24.0 * 60.0 * 60_000.0;
    let days = (now - memory.created_at).max(0) as f64 / DAY;
    let is_of_branch = branch.is_some() && memory.branch.as_deref() == branch;
    let changed = |file: &String| memory.files_modified.iter().any(|known| is_same_file(known, file));
    let share = |is_so: bool, amount: f64| if is_so { amount } else { 0.0 };
    RECENT / (1.0 + days / RECENT_DAYS)
        + share(is_of_branch, SAME_BRANCH)
        + share(files.iter().any(changed), SAME_FILE)
}

/// The words that a prompt asks with, those of names among them, and the files that it names.
struct Question {
    words: Vec<String>,
    named: Vec<String>,
    files: Vec<String>,
}

impl Question {
    /// None for a command, a note of the client, or an answer of a few words.
    fn of(prompt: &str) -> Option<Self> {
        // An address names the host and the owner of everything here, a path elsewhere the user's folders.
        let words: Vec<&str> =
            prompt.split(' ').filter(|word| !word.contains("://") && !is_elsewhere(word)).collect();
        let prompt = words.join(" ");
        let prompt = prompt.trim();
        let is_command = prompt.starts_with('/')
            && !prompt.split_whitespace().next().is_some_and(|word| word[1..].contains('/'));
        if is_command
            || prompt.starts_with(['<', '!'])
            || prompt.starts_with(STOPPED_BY_HOOK)
            || is_trivial(prompt)
        {
            return None;
        }
        let named = named(prompt);
        let mut words: Vec<String> = Vec::new();
        for word in named.iter().cloned().chain(content_words(question(prompt))) {
            if words.len() < MOST_WORDS && !words.contains(&word) {
                words.push(word);
            }
        }
        (words.len() >= 2).then(|| Self { words, named, files: files(prompt) })
    }
}

/// The client's message in place of a prompt that a hook refused.
const STOPPED_BY_HOOK: &str = "Operation stopped by hook";

/// True for a path below a home directory or one of temporary files.
fn is_elsewhere(word: &str) -> bool {
    const PLACES: [&str; 7] = ["~/", "/Users/", "/home/", "/root/", "/tmp/", "/var/", "/private/"];
    let word = word.trim_start_matches(['`', '\'', '"', '(', '@']);
    PLACES.iter().any(|place| word.starts_with(place)) || word.get(1..3) == Some(":\\")
}

/// The beginning of a prompt's topic.
fn question(prompt: &str) -> &str {
    let text = topic(prompt);
    text.char_indices().nth(CHARACTERS).map_or(text, |(end, _)| &text[..end])
}

/// The words of a prompt with what people put around names taken off.
fn tokens(prompt: &str) -> impl Iterator<Item = &str> {
    prompt
        .split(|char: char| char.is_whitespace() || "`'\"()[]{}<>,;".contains(char))
        .map(|token| token.trim_matches(['.', ':', '*', '!', '?', '@']))
}

/// `src/a.rs`, `a.rs`.
fn is_file(token: &str) -> bool {
    token.rsplit_once('.').is_some_and(|(name, end)| {
        !name.is_empty() && (1..=5).contains(&end.len()) && end.chars().all(|char| char.is_ascii_alphabetic())
    })
}

/// The files that a prompt names with a folder, without the line: a name alone may be anybody's.
fn files(prompt: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for token in tokens(prompt) {
        let path = token.split_once(':').map_or(token, |(path, _)| path);
        let path = without_worktree(path.trim_start_matches('/'));
        if path.contains('/') && is_file(path) && !files.iter().any(|known| known == path) {
            files.push(path.to_owned());
        }
    }
    files
}

/// Files and symbols that a prompt names anywhere, as words.
fn named(prompt: &str) -> Vec<String> {
    const MOST_NAMED: usize = 12;
    let mut named: Vec<String> = Vec::new();
    for token in tokens(prompt) {
        let is_file = is_file(token);
        let humps = token.char_indices().filter(|(at, char)| *at > 0 && char.is_ascii_uppercase()).count();
        let is_symbol = token.len() >= 5
            && token.chars().all(|char| char.is_alphanumeric() || "_.:".contains(char))
            && (token.contains('_') || (humps > 0 && token.chars().any(|char| char.is_ascii_lowercase())));
        if is_file || is_symbol {
            let words = content_words(if is_file { stem(token) } else { token });
            for word in words.into_iter().filter(|word| word.len() >= 4) {
                if named.len() < MOST_NAMED && !named.contains(&word) {
                    named.push(word);
                }
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_with_their_folders() {
        let prompt = "See `src/a.rs:14`, ./lib/b.ts, @docs/c.md and d.py; not e.g. this or https.";
        assert_eq!(files(prompt), ["src/a.rs", "lib/b.ts", "docs/c.md"]);
    }
}
