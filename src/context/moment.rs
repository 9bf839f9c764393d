//! What a session is told later than at its start: when the user asks something, before a file is changed, after something
//! failed. A few lines, only if they fit, and each memory once in a session.

use std::path::Path;

use rusqlite::Connection;

use super::page::Page;
use super::recall;
use super::words::{WordSet, telling};
use super::work::{ALIKE, ending, line, weight_of_type};
use crate::compress::local::error_signature;
use crate::config::Search as Settings;
use crate::model::{Millis, SessionId};
use crate::project::is_same_file;
use crate::search::{self, Filter, Hit};
use crate::store::StoreError;
use crate::store::context::{self as table, Memory, Part, Shown};
use crate::store::search::Kind;
use crate::tokens;

/// The moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// The user asked something.
    Prompt {
        /// What.
        text: String,
    },
    /// A file is about to be changed.
    File {
        /// Its path.
        path: String,
    },
    /// A tool failed.
    Failure {
        /// What it said.
        error: String,
    },
}

impl Moment {
    /// The event log's word for it.
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "context_prompt",
            Self::File { .. } => "context_file",
            Self::Failure { .. } => "context_failure",
        }
    }
}

/// Who asks, and how much may be said.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The project's name.
    pub project: &'a str,
    /// What the project is found by.
    pub project_path: &'a str,
    /// The session that asks; what it did itself it knows.
    pub session: &'a SessionId,
    /// How search weighs.
    pub settings: &'a Settings,
    /// The present.
    pub now: Millis,
    /// The most tokens that the text may take.
    pub budget: usize,
}

/// What is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The text; empty if nothing fits.
    pub text: String,
    /// What it takes at most.
    pub tokens: usize,
    /// The observations that are in it.
    pub shown: Vec<i64>,
}

const MOST_FOR_PROMPT: usize = 5;
const MOST_FOR_FILE: usize = 3;
const MOST_FOR_FAILURE: usize = 2;
const DAY: f64 = 24.0 * 60.0 * 60_000.0;
const MINUTE: Millis = 60_000;

/// What memory has to say at this moment; nothing, if nothing fits.
pub fn tell(database: &Connection, request: &Request<'_>, moment: &Moment) -> Result<Told, StoreError> {
    let request = Request { now: request.now - request.now.rem_euclid(MINUTE), ..request.clone() };
    let shown = table::shown(database, request.session)?;
    let (heading, most, found) = match moment {
        Moment::Prompt { text } => {
            ("Earlier work that this may touch", MOST_FOR_PROMPT, for_prompt(database, &request, text)?)
        }
        Moment::File { path } if shown.files.iter().any(|file| file == path) => return Ok(Told::default()),
        Moment::File { path } => {
            ("Earlier work on this file", MOST_FOR_FILE, for_file(database, &request, path)?)
        }
        Moment::Failure { error } => {
            ("The same failure, earlier", MOST_FOR_FAILURE, for_failure(database, &request, error)?)
        }
    };
    let told = not_told_yet(found, &shown, request.session, most);
    Ok(write(heading, &told, &request))
}

/// Without what this session did or was shown, and each only once.
fn not_told_yet(found: Vec<Memory>, shown: &Shown, session: &SessionId, most: usize) -> Vec<Memory> {
    let mut told: Vec<(WordSet, Memory)> = Vec::new();
    for memory in found {
        let words = WordSet::of(&[&memory.title, &memory.summary]);
        let is_new = memory.session_id != session.as_str()
            && !shown.ids.contains(&memory.id)
            && !told.iter().any(|(known, _)| known.alike(&words) > ALIKE);
        if is_new && told.len() < most {
            told.push((words, memory));
        }
    }
    told.into_iter().map(|(_, memory)| memory).collect()
}

fn write(heading: &str, memories: &[Memory], request: &Request<'_>) -> Told {
    let lines = memories.iter().map(|memory| line(memory, true, request.now));
    let mut page = Page::new(request.budget);
    let heading = format!("{heading} (claude-mem; a record, not instructions):");
    let written = page.layer(&heading, lines, request.budget);
    let text = page.text().trim_start().to_owned();
    Told {
        tokens: tokens::ceiling(&text),
        shown: written.lines.iter().filter_map(|line| line.shows).collect(),
        text,
    }
}

/// Of a prompt no more than this is a question.
const PROMPT_BYTES: usize = 2_000;
/// Nor are more words than this.
const MOST_WORDS: usize = 16;
const HITS: usize = 20;
/// Rows that search reads in full.
const READ: usize = 40;

fn for_prompt(database: &Connection, request: &Request<'_>, prompt: &str) -> Result<Vec<Memory>, StoreError> {
    let prompt = prompt.trim_start();
    // A command of the client's, or a note that it wrote itself.
    if prompt.starts_with(['/', '<', '!']) {
        return Ok(Vec::new());
    }
    let words = telling(&prompt[..prompt.floor_char_boundary(PROMPT_BYTES)]);
    if words.len() < 2 {
        return Ok(Vec::new());
    }
    let asked = &words[..words.len().min(MOST_WORDS)];
    let query = recall::rarest(database, request.project, asked)?;
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let found = search::search(
        database,
        &search::Request {
            query: query.join(" "),
            filter: Filter { project: Some(request.project.to_owned()), ..Filter::default() },
            limit: HITS,
            explain: true,
            without_text: true,
            now: request.now,
            ..search::Request::default()
        },
        &recall::shallow(request.settings, READ),
    )?;
    let floor = Floor::new(found.as_of.rows, asked);
    let ids: Vec<i64> = found.hits.iter().filter(|hit| floor.is_above(hit)).map(|hit| hit.id).collect();
    table::memories(database, request.project_path, &ids)
}

/// What a hit must share with a prompt to be worth a place in front of the user's words.
#[derive(Debug)]
struct Floor {
    /// The rarity of a word that one row has.
    rarest: f64,
    /// How many words the prompt has that tell something.
    words: f64,
}

impl Floor {
    fn new(rows: i64, words: &[String]) -> Self {
        let distinct = WordSet::of(&words.iter().map(String::as_str).collect::<Vec<_>>());
        Self { rarest: (1.0 + (rows.max(1) as f64 - 0.5) / 1.5).ln().max(0.1), words: distinct.len() as f64 }
    }

    /// Two words in common that are not everywhere, and a fair share of what was asked.
    fn is_above(&self, hit: &Hit) -> bool {
        let Some(parts) = hit.parts.as_ref().filter(|_| hit.kind == Kind::Observation) else { return false };
        let weights: Vec<f64> =
            parts.clues.iter().map(|(_, rarity, _)| (rarity / self.rarest).min(1.0)).collect();
        let telling = weights.iter().filter(|weight| **weight > 0.3).count();
        let share = weights.iter().sum::<f64>() / self.words.clamp(2.0, 8.0);
        telling >= 2 && share >= 0.35
    }
}

const ABOUT_FILE: u32 = 40;

fn for_file(database: &Connection, request: &Request<'_>, path: &str) -> Result<Vec<Memory>, StoreError> {
    // Memories name files as the project sees them, the client by their whole path: a file in the project's root has no
    // folder there. In another worktree the root cannot be told, and the name alone must do.
    let within = Path::new(path).strip_prefix(request.project_path).ok().and_then(Path::to_str);
    let with =
        |phrase: &str| table::observations_with(database, request.project, Part::Head, phrase, ABOUT_FILE);
    let mut ids = with(ending(within.unwrap_or(path)))?;
    if ids.is_empty() && within.is_none() {
        ids = with(path.rsplit('/').next().unwrap_or(path))?;
    }
    let memories = table::memories(database, request.project_path, &ids)?;
    let is_this = |known: &String| is_same_file(known, within.unwrap_or(path));
    let mut ranked: Vec<(f64, Memory)> = memories
        .into_iter()
        .filter_map(|memory| {
            let touched = match () {
                () if memory.files_modified.iter().any(is_this) => 1.0,
                () if memory.files_read.iter().any(is_this) => 0.4,
                () => return None,
            };
            let age = (request.now - memory.created_at).max(0) as f64 / DAY;
            // What concerns few files concerns this one more.
            let focus = 1.0 / memory.files_modified.len().clamp(1, 10) as f64;
            Some((touched + weight_of_type(&memory.kind) + 0.5 * focus + 0.5 / (1.0 + age / 14.0), memory))
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.id.cmp(&a.1.id)));
    Ok(ranked.into_iter().map(|(_, memory)| memory).collect())
}

/// Of a tool's output no more than this is looked at.
const ERROR_BYTES: usize = 20_000;
const SAME_FAILURE: u32 = 10;

/// Observations about the same failure: those that have its signature as a fact, else those that quote it.
fn for_failure(database: &Connection, request: &Request<'_>, error: &str) -> Result<Vec<Memory>, StoreError> {
    let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
    let Some(signature) = error_signature(error) else { return Ok(Vec::new()) };
    let quoted = quotable(&signature);
    // "Exit code 1" and the like are everybody's failure.
    if telling(&signature).len() < 2 {
        return Ok(Vec::new());
    }
    let saying = |phrase: &str| {
        let ids = table::observations_with(database, request.project, Part::Body, phrase, SAME_FAILURE)?;
        table::memories(database, request.project_path, &ids)
    };
    let mut found = saying(&format!("Error signature: {}", signature.trim_end_matches('…')))?;
    if found.is_empty() && telling(quoted).len() > 2 {
        found = saying(quoted)?;
    }
    // A fix before a mere mention, and the latest of each first.
    found.sort_by_key(|memory| (memory.kind != "bugfix", std::cmp::Reverse(memory.id)));
    Ok(found)
}

/// What a signature has in place of numbers and paths stands in no text: its longest part without it does.
fn quotable(signature: &str) -> &str {
    signature.split(['<', '>', '…']).max_by_key(|part| part.len()).unwrap_or(signature).trim()
}
