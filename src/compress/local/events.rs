//! From a stored event to what was done: which tool it was decides how its payload is read.

use super::commands::{Command, Ended};
use super::edits::Edit;
use super::payload::{Payload, field};
use super::place::Place;
use super::reports::{Call, Choice, Report};
use super::searches::{Look, Page};
use super::signature::error_line;
use super::text::each;
use crate::compress::turn::{Turn, TurnEvent};

/// One event and what it was.
#[derive(Debug)]
pub(super) struct Step<'t> {
    pub event: &'t TurnEvent,
    pub act: Act,
}

/// What was done.
#[derive(Debug)]
pub(super) enum Act {
    Edit(Edit),
    Command(Command),
    Look(Look),
    Page(Page),
    Report(Report),
    Choices(Vec<Choice>),
    Call(Call),
    /// A tool that could not do its work, and why.
    Mishap(String),
    /// Bookkeeping, or nothing that can be told.
    Nothing,
}

impl Step<'_> {
    /// The command, if it was one.
    pub fn command(&self) -> Option<&Command> {
        if let Act::Command(command) = &self.act { Some(command) } else { None }
    }

    /// The files that it changed, by a tool or by the shell.
    pub fn edits(&self) -> &[Edit] {
        match &self.act {
            Act::Edit(edit) => std::slice::from_ref(edit),
            Act::Command(command) => &command.changes,
            _ => &[],
        }
    }

    /// Whether it brought knowledge from elsewhere.
    pub fn is_research(&self) -> bool {
        match &self.act {
            Act::Page(page) => !page.said.is_empty(),
            Act::Report(report) => report.said.len() >= 40,
            _ => false,
        }
    }

    /// Whether it changed something besides files.
    pub fn acts(&self) -> bool {
        use super::programs::Purpose::{Commit, Git, Install, Publish, Push};
        match &self.act {
            Act::Command(command) => {
                let lasting = matches!(command.purpose, Commit | Push | Publish | Install | Git);
                command.ended == Ended::Well && lasting
            }
            Act::Call(call) => call.acts && !call.failed,
            _ => false,
        }
    }
}

/// Reads a turn's events.
pub(super) fn steps(turn: &Turn) -> Vec<Step<'_>> {
    let read = |event| Step { event, act: act(turn, event) };
    turn.events.iter().map(read).collect()
}

fn act(turn: &Turn, event: &TurnEvent) -> Act {
    let payload = Payload::read(&event.payload);
    let place = Place { root: turn.project_path.as_deref(), cwd: event.cwd.as_deref() };
    let name = event.tool_name.as_deref().unwrap_or_default();
    let failed = event.failed || payload.error.is_some();
    match name {
        "Bash" | "PowerShell" => Act::Command(Command::read(&payload, failed, &place)),
        "Agent" | "Task" => Act::Report(Report::read(&payload)),
        "AskUserQuestion" | "ExitPlanMode" => Act::Choices(Choice::read(&payload)),
        _ if is_bookkeeping(name) => Act::Nothing,
        _ if name.starts_with("mcp__") => Act::Call(Call::read(name, &payload, failed)),
        _ if failed => Act::Mishap(payload.error.as_deref().and_then(error_line).unwrap_or_default()),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
            Edit::read(&payload, &place).map_or(Act::Nothing, Act::Edit)
        }
        "Read" | "NotebookRead" => Look::file(&payload, &place).map_or(Act::Nothing, Act::Look),
        "Grep" => Act::Look(Look::search(&payload, &place)),
        "Glob" | "LS" => Act::Look(Look::Listing),
        "WebFetch" | "WebSearch" => Act::Page(Page::read(&payload)),
        _ => guessed(name, &payload, &place),
    }
}

/// Tools that only serve the work on the work.
pub(in crate::compress) fn is_bookkeeping(name: &str) -> bool {
    const TOOLS: &str = "TodoWrite|TodoRead|TaskCreate|TaskUpdate|TaskList|TaskGet|TaskOutput|TaskStop|\
        ToolSearch|Skill|SlashCommand|EnterPlanMode|EnterWorktree|ExitWorktree|KillShell|\
        KillBash|BashOutput|ListMcpResourcesTool|ReadMcpResourceTool|SendMessage|Sleep";
    each(TOOLS).any(|known| known == name)
}

/// A tool that is not known, by what it was given.
fn guessed(name: &str, payload: &Payload, place: &Place<'_>) -> Act {
    let has = |names: &[&str]| !field(&payload.input, names).is_empty();
    if has(&["command"]) {
        return Act::Command(Command::read(payload, false, place));
    }
    if has(&["file_path", "notebook_path"]) && has(&["new_string", "content", "new_source"]) {
        return Edit::read(payload, place).map_or(Act::Nothing, Act::Edit);
    }
    if has(&["file_path"]) {
        return Look::file(payload, place).map_or(Act::Nothing, Act::Look);
    }
    let call = Call::read(name, payload, false);
    if call.said.is_empty() && call.asked.is_empty() { Act::Nothing } else { Act::Call(call) }
}
