//! The sessions of a project: their prompts, answers, files, commands and failures.

use std::collections::{HashMap, HashSet};

use claude_mem::model::{Event, EventBody, ToolUse};
use claude_mem::project::without_worktree;
use claude_mem::store::context::ContextMemory;
use serde_json::Value;

use crate::project::Project;

/// The sessions of a project, those that began first at the front.
pub struct History {
    pub project: String,
    pub sessions: Vec<Session>,
    /// The notes that the memory had in the end.
    pub memories: Vec<ContextMemory>,
}

/// One session.
#[derive(Default)]
pub struct Session {
    pub id: String,
    pub edited: Vec<String>,
    pub read: Vec<String>,
    /// Files that were known before it began.
    pub known: HashSet<String>,
    /// Prompts, closing messages, first edits and failing commands, in order.
    pub story: Vec<Step>,
    /// Commands that it ran, each once.
    pub commands: Vec<String>,
    /// The words of its prompts and closing messages.
    pub words: HashSet<String>,
    /// The words of its closing messages.
    pub answers: HashSet<String>,
}

/// One step of a session.
pub struct Step {
    pub at: i64,
    pub text: String,
}

impl History {
    pub fn of(project: &Project) -> Self {
        let mut sessions: Vec<Session> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for event in &project.events {
            let Some(id) = event.session.as_ref().map(|session| session.id.as_str().to_owned()) else {
                continue;
            };
            let at = *places.entry(id.clone()).or_insert_with(|| {
                sessions.push(Session { id, ..Session::default() });
                sessions.len() - 1
            });
            sessions[at].take(event, &project.root);
        }
        let mut known = HashSet::new();
        for session in &mut sessions {
            session.known.clone_from(&known);
            known.extend(session.edited.iter().chain(&session.read).cloned());
        }
        Self { project: project.name.clone(), sessions, memories: Vec::new() }
    }

    pub fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }
}

impl Session {
    fn take(&mut self, event: &Event, root: &str) {
        let at = event.at;
        match &event.body {
            EventBody::Prompt { text } => {
                self.words.extend(words(text));
                self.tell(at, format!("USER: {}", short(text, 600)));
            }
            EventBody::Summarize(payload) => {
                let payload: Value = serde_json::from_str(&payload.json).unwrap_or_default();
                let closing = payload["last_assistant_message"].as_str().unwrap_or_default();
                self.words.extend(words(closing));
                self.answers.extend(words(closing));
                self.tell(at, format!("ANSWER: {}", short(closing, 500)));
            }
            EventBody::Tool(tool) => self.tool(at, tool, root),
            _ => {}
        }
    }

    fn tell(&mut self, at: i64, text: String) {
        self.story.push(Step { at, text });
    }

    fn tool(&mut self, at: i64, tool: &ToolUse, root: &str) {
        let name = tool.tool_name.as_deref().unwrap_or_default();
        let payload: Value = serde_json::from_str(&tool.payload.json).unwrap_or_default();
        let input = &payload["tool_input"];
        let path = input["file_path"].as_str().and_then(|path| within(path, root));
        match name {
            "Edit" | "Write" | "MultiEdit" if !tool.failed => {
                if let Some(path) = path.filter(|path| !self.edited.contains(path)) {
                    self.tell(at, format!("EDITS {path}"));
                    self.edited.push(path);
                }
            }
            "Read" => self.read.extend(path.filter(|path| !self.read.contains(path))),
            "Bash" => {
                let command = input["command"].as_str().unwrap_or_default();
                if tool.failed {
                    let error = payload["error"].as_str().unwrap_or_default();
                    self.tell(at, format!("FAILED: {} => {}", short(command, 160), short(error, 200)));
                }
                let command = short(command, 120);
                if !self.commands.contains(&command) {
                    self.commands.push(command);
                }
            }
            _ => {}
        }
    }
}

/// The words of a text that may be about something.
pub fn words(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| word.len() > 3);
    words.map(str::to_lowercase).collect()
}

/// The path as the project has it.
pub fn within(path: &str, root: &str) -> Option<String> {
    let inside = path.strip_prefix(root)?.strip_prefix('/')?;
    Some(without_worktree(inside).to_owned())
}

/// The text on one line, at most this many characters.
pub fn short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
