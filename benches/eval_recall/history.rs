//! The sessions of a project: their prompts, answers, files and failures.

use std::collections::{HashMap, HashSet};

use claude_mem::model::{Event, EventBody, ToolUse};
use claude_mem::project::without_worktree;
use serde_json::Value;

use crate::project::Project;

/// The sessions of a project, those that began first at the front.
pub struct History {
    pub project: String,
    pub sessions: Vec<Session>,
}

/// One session.
#[derive(Default)]
pub struct Session {
    pub id: String,
    pub edited: Vec<String>,
    pub read: Vec<String>,
    /// Files that were known before it began.
    pub known: HashSet<String>,
    /// Prompts, closing messages and failing commands, in order.
    pub story: Vec<String>,
    /// The words of its prompts and closing messages.
    pub words: HashSet<String>,
    /// The words of its closing messages.
    pub answers: HashSet<String>,
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
        Self { project: project.name.clone(), sessions }
    }

    pub fn session(&self, id: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }
}

impl Session {
    fn take(&mut self, event: &Event, root: &str) {
        match &event.body {
            EventBody::Prompt { text } => {
                self.words.extend(words(text));
                self.story.push(format!("USER: {}", short(text, 700)));
            }
            EventBody::Summarize(payload) => {
                let payload: Value = serde_json::from_str(&payload.json).unwrap_or_default();
                let closing = payload["last_assistant_message"].as_str().unwrap_or_default();
                self.words.extend(words(closing));
                self.answers.extend(words(closing));
                self.story.push(format!("ANSWER: {}", short(closing, 600)));
            }
            EventBody::Tool(tool) => self.tool(tool, root),
            _ => {}
        }
    }

    fn tool(&mut self, tool: &ToolUse, root: &str) {
        let name = tool.tool_name.as_deref().unwrap_or_default();
        let payload: Value = serde_json::from_str(&tool.payload.json).unwrap_or_default();
        let path = payload["tool_input"]["file_path"].as_str().and_then(|path| within(path, root));
        let list = match name {
            "Edit" | "Write" | "MultiEdit" if !tool.failed => &mut self.edited,
            "Read" => &mut self.read,
            _ => {
                if tool.failed && name == "Bash" {
                    let command = payload["tool_input"]["command"].as_str().unwrap_or_default();
                    let error = payload["error"].as_str().unwrap_or_default();
                    self.story.push(format!("FAILED: {} => {}", short(command, 160), short(error, 200)));
                }
                return;
            }
        };
        if let Some(path) = path.filter(|path| !list.contains(path)) {
            list.push(path);
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
