//! A tool event, parsed once: from the stored row to the action it records.
//!
//! Routine rules, function map, notes, prompts, learnings and error signatures all work on [`ToolEvent`]; no other module
//! reads a payload. Pure: no I/O, no clock. Text from tools is data, bounded here.

pub mod command;
pub mod decisions;
pub mod edit;
mod error_signature;
pub mod git;
pub mod path;
pub mod payload;
pub mod programs;
pub mod reports;
pub mod shell;
pub mod test_results;

use serde_json::Value;

pub use command::{Command, Exit, Outcome};
pub use decisions::{Answer, TaskChange, refusal};
pub use edit::{FileChange, FileEdit};
pub use error_signature::{error_signature, is_generic};
pub use git::Commit;
use path::PathBase;
use payload::{ToolPayload, field, number};
pub use programs::{Purpose, reads_only};

pub use reports::{AgentReport, TaskOutput, ToolCall};

use crate::text::{each, shorten};

/// The part of a queue row that describes a tool use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawEvent {
    /// The row's id.
    pub id: i64,
    /// The tool's name as the client has it.
    pub tool_name: Option<String>,
    /// `{"tool_input", "tool_response", "duration_ms"}`, or `{"tool_input", "error", "is_interrupt"}` for a failure.
    /// Any part may be missing, of another type or cut, and the whole may not be JSON.
    pub payload: String,
    /// True if the client reported a failure.
    pub failed: bool,
    /// The client's working directory.
    pub cwd: Option<String>,
    /// The root of the worktree that it lies in, if it is known.
    pub worktree: Option<String>,
    /// The kind of the subagent that used the tool.
    pub agent_type: Option<String>,
    /// True if a subagent used the tool.
    pub by_subagent: bool,
    /// Size of the hook's input.
    pub raw_bytes: u64,
}

/// A tool event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEvent {
    /// Its row in the queue.
    pub id: i64,
    /// The tool's name as the client has it.
    pub tool: String,
    /// The kind of the subagent that used the tool.
    pub agent_type: Option<String>,
    /// True if a subagent used the tool.
    pub by_subagent: bool,
    /// True if the tool failed.
    pub failed: bool,
    /// Size of the hook's input.
    pub raw_bytes: u64,
    /// The action.
    pub action: Action,
}

/// The action that an event records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A file was changed.
    Edit(FileEdit),
    /// A shell command ran.
    Command(Box<Command>),
    /// A file was read.
    Read(FileRead),
    /// Files were searched.
    Search {
        /// The pattern.
        pattern: String,
        /// True if nothing matched.
        is_empty: bool,
    },
    /// Files were listed.
    Listing,
    /// A page was fetched, or the web was searched.
    Web(ToolCall),
    /// A subagent answered.
    Agent(AgentReport),
    /// A background task was polled.
    TaskOutput(TaskOutput),
    /// The user answered questions.
    Answers(Vec<Answer>),
    /// The user approved a plan.
    Plan(String),
    /// The task list changed.
    Tasks(TaskChange),
    /// The user refused a call, with these words.
    Refused(String),
    /// The call failed by its own conditions: a missing file, a string that does not match.
    Failed {
        /// The error, bounded.
        error: String,
        /// True if the user stopped it.
        interrupted: bool,
    },
    /// Any other tool.
    Call(ToolCall),
    /// Client bookkeeping, or an empty event.
    Nothing,
}

/// A file, or a part of it, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRead {
    /// The file as the project knows it.
    pub path: String,
    /// True for a file of the project.
    pub is_owned: bool,
    /// First line, from 1.
    pub start: usize,
    /// The text, until [`ToolEvent::release_texts`]; none for images and the like.
    pub content: Option<String>,
}

impl ToolEvent {
    /// Parses a row. Never fails: an event without content is [`Action::Nothing`].
    pub fn parse(raw: &RawEvent, project_path: Option<&str>) -> Self {
        let payload = ToolPayload::read(&raw.payload);
        let place =
            PathBase { root: project_path, worktree: raw.worktree.as_deref(), cwd: raw.cwd.as_deref() };
        let tool = raw.tool_name.as_deref().unwrap_or_default();
        let failed = raw.failed || payload.error.is_some();
        Self {
            id: raw.id,
            tool: tool.to_owned(),
            agent_type: raw.agent_type.clone(),
            by_subagent: raw.by_subagent,
            failed,
            raw_bytes: raw.raw_bytes,
            action: action(tool, &payload, failed, &place),
        }
    }

    /// The command, if it was one.
    pub fn command(&self) -> Option<&Command> {
        if let Action::Command(command) = &self.action { Some(command) } else { None }
    }

    /// Files of the project that the event changed.
    pub fn changed_files(&self) -> &[String] {
        match &self.action {
            Action::Edit(edit) if edit.is_owned => std::slice::from_ref(&edit.path),
            Action::Command(command) => &command.files,
            _ => &[],
        }
    }

    /// Drops whole file texts, which only routine rules and the function map need.
    pub fn release_texts(&mut self) {
        match &mut self.action {
            Action::Edit(edit) => edit.change = None,
            Action::Read(read) => read.content = None,
            _ => {}
        }
    }
}

fn action(tool: &str, payload: &ToolPayload, failed: bool, place: &PathBase<'_>) -> Action {
    if let Some(words) = payload.error.as_deref().and_then(refusal) {
        return Action::Refused(words);
    }
    match tool {
        "Bash" | "PowerShell" => return Action::Command(Box::new(Command::read(payload, failed, place))),
        "TodoWrite" | "TaskCreate" | "TaskUpdate" => {
            return decisions::task_change(tool, payload).map_or(Action::Nothing, Action::Tasks);
        }
        "TaskOutput" | "BashOutput" | "AgentOutput" => return Action::TaskOutput(TaskOutput::read(payload)),
        _ if is_bookkeeping(tool) => return Action::Nothing,
        _ => {}
    }
    if failed {
        let error = shorten(payload.error.as_deref().unwrap_or_default(), 400);
        return Action::Failed { error, interrupted: payload.interrupted };
    }
    match tool {
        "Agent" | "Task" => Action::Agent(AgentReport::read(payload)),
        "AskUserQuestion" => Action::Answers(decisions::answers(payload)),
        "ExitPlanMode" => decisions::plan(payload).map_or(Action::Nothing, Action::Plan),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => edit(tool, payload, place),
        "Read" | "NotebookRead" => read(payload, place),
        "Grep" => search(payload),
        "Glob" | "LS" => Action::Listing,
        "WebFetch" | "WebSearch" => Action::Web(ToolCall::read(tool, payload)),
        _ => guess(tool, payload, place),
    }
}

/// True for tools that only serve the client.
fn is_bookkeeping(tool: &str) -> bool {
    const TOOLS: &str = "TodoRead|TaskList|TaskGet|TaskStop|ToolSearch|Skill|SlashCommand|EnterPlanMode|EnterWorktree|\
        ExitWorktree|KillShell|KillBash|ListMcpResourcesTool|ReadMcpResourceTool|SendMessage|Sleep|ScheduleWakeup|Monitor";
    each(TOOLS).any(|known| known == tool)
}

fn edit(tool: &str, payload: &ToolPayload, place: &PathBase<'_>) -> Action {
    let Some(path) = edit::edited_path(payload) else { return Action::Nothing };
    let change = edit::file_change(tool, payload);
    Action::Edit(FileEdit {
        path: place.relative(path),
        is_owned: place.owns(path),
        creates: field(&payload.response, &["type"]) == "create"
            || change.as_ref().is_some_and(|change| change.before.is_none()),
        diff: edit::diff(payload),
        change,
    })
}

fn read(payload: &ToolPayload, place: &PathBase<'_>) -> Action {
    let file = payload.response.get("file").unwrap_or(&Value::Null);
    let path = [file, &payload.input]
        .into_iter()
        .map(|from| field(from, &["filePath", "file_path", "notebook_path"]))
        .find(|path| !path.is_empty());
    let Some(path) = path else { return Action::Nothing };
    Action::Read(FileRead {
        path: place.relative(path),
        is_owned: place.owns(path),
        start: number(file, "startLine").and_then(|line| usize::try_from(line).ok()).unwrap_or(1).max(1),
        content: file.get("content").and_then(Value::as_str).map(str::to_owned),
    })
}

fn search(payload: &ToolPayload) -> Action {
    let response = &payload.response;
    let counts = ["numFiles", "numLines", "numMatches"].map(|name| number(response, name).unwrap_or(0));
    let is_empty = field(response, &["content"]).is_empty()
        && counts.iter().all(|count| *count == 0)
        && response.get("filenames").and_then(Value::as_array).is_some_and(Vec::is_empty);
    Action::Search { pattern: shorten(field(&payload.input, &["pattern", "query"]), 120), is_empty }
}

/// Classifies an unknown tool by its input.
fn guess(tool: &str, payload: &ToolPayload, place: &PathBase<'_>) -> Action {
    let has = |names: &[&str]| !field(&payload.input, names).is_empty();
    if has(&["command"]) {
        return Action::Command(Box::new(Command::read(payload, false, place)));
    }
    if has(&["file_path", "notebook_path"]) && has(&["new_string", "content", "new_source"]) {
        return edit(tool, payload, place);
    }
    if has(&["file_path"]) {
        return read(payload, place);
    }
    let call = ToolCall::read(tool, payload);
    if call.text.is_empty() && call.asked.is_empty() { Action::Nothing } else { Action::Call(call) }
}
