//! The files of a project as the transcripts leave them, and the lines that each turn added and removed.
//!
//! The judge of `make eval-true`: it sees every edit, while the memory has only the anchors of its notes.

use std::collections::{HashMap, HashSet};

use claude_mem::compress::traces;
use claude_mem::model::{SessionStamp, ToolUse};
use claude_mem::store::memory::traces::{Hash, line_hash};
use claude_mem::tools::{Action, RawEvent, ToolEvent};

/// A turn: its session, and the number of its prompt.
pub type Turn = (String, i64);

/// The share of a memory's lines that must be left, or stay removed, for it to hold.
const LEAST_LEFT: f64 = 0.2;

/// The files of a project.
#[derive(Default)]
pub struct Tree {
    files: HashMap<String, File>,
    prompts: HashMap<String, i64>,
    turns: HashMap<Turn, HashMap<String, Lines>>,
}

/// A file, as far as edits show it.
#[derive(Default)]
struct File {
    lines: HashSet<Hash>,
    /// The text, if the last edit had all of it.
    text: Option<String>,
}

/// The net effect of a turn on a file.
#[derive(Default)]
struct Lines {
    added: HashSet<Hash>,
    removed: HashSet<Hash>,
}

/// The fate of a memory's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is about no code that could be followed.
    Unknown,
    /// Most of it is still there.
    Holds,
    /// A large part was changed.
    Changed,
    /// It was taken out.
    Gone,
    /// It was taken out, and the earlier code is back.
    Reversed,
}

impl Tree {
    /// Takes note of a prompt, which begins a turn.
    pub fn prompt(&mut self, session: &SessionStamp) {
        *self.prompts.entry(session.id.as_str().to_owned()).or_default() += 1;
    }

    /// Takes note of an edit, or of files that a command removed or moved.
    pub fn record(&mut self, session: &SessionStamp, tool: &ToolUse, root: &str) {
        let raw = RawEvent {
            tool_name: tool.tool_name.clone(),
            payload: tool.payload.json.clone(),
            failed: tool.failed,
            cwd: Some(session.cwd.clone()),
            ..RawEvent::default()
        };
        let event = ToolEvent::parse(&raw, Some(root));
        match &event.action {
            Action::Edit(edit) if edit.is_owned && !event.failed => {
                let file = self.files.entry(edit.path.clone()).or_default();
                let trace = traces::edit_trace(&event);
                match &edit.change {
                    Some(change) => {
                        file.lines = change.after.lines().filter_map(line_hash).collect();
                        file.text = Some(change.after.clone());
                    }
                    None => {
                        let trace = trace.clone().unwrap_or_default();
                        file.lines.retain(|hash| !trace.removed.contains(hash));
                        file.lines.extend(trace.added);
                        file.text = None;
                    }
                }
                let number = self.prompts.get(session.id.as_str()).copied().unwrap_or_default();
                let turn = self.turns.entry((session.id.as_str().to_owned(), number)).or_default();
                if let Some(trace) = trace {
                    turn.entry(trace.file_path.clone()).or_default().add(&trace.removed, &trace.added);
                }
            }
            Action::Command(command) if command.outcome.succeeded() => self.moved(&command.line),
            _ => {}
        }
    }

    /// Follows `rm`, `mv` and their git forms.
    fn moved(&mut self, line: &str) {
        for part in line.split(['&', ';', '|', '\n']) {
            let words: Vec<&str> = part.split_whitespace().filter(|word| *word != "git").collect();
            let paths = || words.iter().skip(1).filter(|word| !word.starts_with('-'));
            match words.first() {
                Some(&"rm") => paths().for_each(|path| drop(self.files.remove(*path))),
                Some(&"mv") => {
                    let paths: Vec<&&str> = paths().collect();
                    if let [from, to] = paths[..]
                        && let Some(file) = self.files.remove(*from)
                    {
                        self.files.insert((*to).to_owned(), file);
                    }
                }
                _ => {}
            }
        }
    }

    /// The text of a file, if it is known.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// True if a turn changed this file, and no later command removed it.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// The turns of a session.
    pub fn turns_of(&self, session: &str) -> Vec<Turn> {
        self.turns.keys().filter(|(id, _)| id == session).cloned().collect()
    }

    /// The fate of what some turns did, all of their files together.
    pub fn fate(&self, turns: &[Turn]) -> Fate {
        let mut whole: HashMap<&str, Lines> = HashMap::new();
        let mut turns: Vec<&Turn> = turns.iter().collect();
        turns.sort();
        for (file, lines) in turns.into_iter().filter_map(|turn| self.turns.get(turn)).flatten() {
            let removed: Vec<Hash> = lines.removed.iter().copied().collect();
            let added: Vec<Hash> = lines.added.iter().copied().collect();
            whole.entry(file).or_default().add(&removed, &added);
        }
        let (mut added, mut left, mut removed, mut back) = (0, 0, 0, 0);
        for (file, lines) in whole {
            let there = self.files.get(file).map(|file| &file.lines);
            let has = |hash: &&Hash| there.is_some_and(|lines| lines.contains(*hash));
            (added, left) = (added + lines.added.len(), left + lines.added.iter().filter(has).count());
            (removed, back) =
                (removed + lines.removed.len(), back + lines.removed.iter().filter(has).count());
        }
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let is_back = removed > 0 && share(back, removed) >= 1.0 - LEAST_LEFT;
        match (added, removed) {
            (0, 0) => Fate::Unknown,
            (0, _) if is_back => Fate::Reversed,
            (0, _) => Fate::Holds,
            _ if share(left, added) <= LEAST_LEFT && is_back => Fate::Reversed,
            _ if share(left, added) <= LEAST_LEFT => Fate::Gone,
            _ if share(left, added) <= 0.5 => Fate::Changed,
            _ => Fate::Holds,
        }
    }
}

impl Lines {
    fn add(&mut self, removed: &[Hash], added: &[Hash]) {
        for hash in removed {
            if !self.added.remove(hash) {
                self.removed.insert(*hash);
            }
        }
        for hash in added {
            if !self.removed.remove(hash) {
                self.added.insert(*hash);
            }
        }
    }
}
