//! Texts that come back from somewhere else: subagents, background tasks, web pages, and tools of servers.

use serde_json::Value;

use super::command::bounded;
use super::payload::{ToolPayload, field, number, text_of};
use crate::text::{clean, shorten};

/// A subagent's answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentReport {
    /// The task as the client calls it.
    pub task: String,
    /// The answer; empty while the agent only started.
    pub text: String,
}

/// One poll of a background task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskOutput {
    /// The client's id of the task.
    pub task_id: String,
    /// The task as the client calls it.
    pub task: String,
    /// True once the task has ended.
    pub is_finished: bool,
    /// Its exit status, if it was a command and has ended.
    pub exit_code: Option<u64>,
    /// True for a subagent, false for a command.
    pub is_agent: bool,
    /// Its output, bounded.
    pub text: String,
}

/// A call of any other tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCall {
    /// The tool's name without its server.
    pub tool: String,
    /// Its most informative argument.
    pub asked: String,
    /// Its answer, bounded.
    pub text: String,
}

/// Maximum length of a stored report, in bytes.
const REPORT_BYTES: usize = 8 * 1024;

impl AgentReport {
    pub(super) fn read(payload: &ToolPayload) -> Self {
        let (input, response) = (&payload.input, &payload.response);
        let is_launch = field(response, &["status"]) == "async_launched";
        let content = response.get("content").map(text_of);
        let text = match (&payload.error, content) {
            _ if is_launch => String::new(),
            (Some(_), _) => String::new(),
            (None, Some(content)) => content,
            (None, None) if response.is_object() => field(response, &["result", "output"]).to_owned(),
            (None, None) => text_of(response),
        };
        Self { task: shorten(field(input, &["description", "prompt"]), 100), text: report_text(&text) }
    }
}

fn report_text(text: &str) -> String {
    crate::text::head(&clean(text), REPORT_BYTES).trim().to_owned()
}

impl TaskOutput {
    /// From TaskOutput (`task{…}`) and its predecessor BashOutput (`stdout`, `status`, `exitCode`).
    pub(super) fn read(payload: &ToolPayload) -> Self {
        let (input, response) = (&payload.input, &payload.response);
        let task = response.get("task").filter(|task| task.is_object()).unwrap_or(response);
        let status = field(task, &["status"]);
        let text = match field(task, &["output", "result", "stdout"]) {
            "" => field(task, &["stderr"]),
            text => text,
        };
        let is_agent = field(task, &["task_type"]).contains("agent");
        Self {
            task_id: field(input, &["task_id", "bash_id", "shell_id"]).to_owned(),
            task: shorten(field(task, &["description", "command"]), 100),
            is_finished: !matches!(status, "running" | "pending" | ""),
            exit_code: number(task, "exitCode").or_else(|| number(task, "exit_code")),
            is_agent,
            text: if is_agent { report_text(text) } else { bounded(&clean(text)) },
        }
    }

    /// From the prompt that the client submits when a background task ends: `<task-notification>…`.
    pub fn from_notification(prompt: &str) -> Option<Self> {
        let prompt = prompt.trim_start();
        if !prompt.starts_with("<task-notification>") {
            return None;
        }
        let tag = |name: &str| {
            let (open, close) = (format!("<{name}>"), format!("</{name}>"));
            let from = prompt.find(&open)? + open.len();
            let to = prompt[from..].find(&close).map_or(prompt.len(), |end| from + end);
            Some(prompt[from..to].trim())
        };
        let text = tag("result").unwrap_or_default();
        Some(Self {
            task_id: tag("task-id").unwrap_or_default().to_owned(),
            task: shorten(tag("summary").unwrap_or_default(), 160),
            is_finished: tag("status").is_some_and(|status| status != "running"),
            exit_code: None,
            is_agent: !text.is_empty(),
            text: report_text(text),
        })
    }
}

impl ToolCall {
    pub(super) fn read(name: &str, payload: &ToolPayload) -> Self {
        let bare = name.strip_prefix("mcp__").unwrap_or(name);
        let tool = bare.rsplit_once("__").map_or(bare, |(_, tool)| tool);
        let names = [
            "query", "q", "title", "subject", "name", "question", "prompt", "url", "path", "message", "text",
        ];
        let asked = match field(&payload.input, &names) {
            "" if payload.input.as_object().is_none_or(|fields| fields.is_empty()) => String::new(),
            "" => payload.input.to_string(),
            text => text.to_owned(),
        };
        let text = payload.error.clone().unwrap_or_else(|| match &payload.response {
            Value::Object(fields) if fields.is_empty() => String::new(),
            response => text_of(response),
        });
        Self { tool: shorten(tool, 60), asked: shorten(&asked, 120), text: bounded(&clean(&text)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agents_answer_is_its_text_and_a_launch_is_none() {
        let read = |response: Value| {
            AgentReport::read(&ToolPayload {
                input: json!({"description": "Find it"}),
                response,
                ..ToolPayload::default()
            })
        };
        assert_eq!(
            read(json!({"status": "completed", "content": [{"type": "text", "text": "In a.rs."}]})).text,
            "In a.rs."
        );
        assert_eq!(read(json!({"status": "async_launched", "content": "started"})).text, "");
        assert_eq!(read(json!("plain")).text, "plain");
    }

    #[test]
    fn both_shapes_of_a_poll_and_the_notification_are_read() {
        let poll = |response: Value| {
            TaskOutput::read(&ToolPayload {
                input: json!({"task_id": "b1"}),
                response,
                ..ToolPayload::default()
            })
        };
        let new = poll(
            json!({"retrieval_status": "success", "task": {"status": "completed", "exitCode": 1, "output": "red"}}),
        );
        assert_eq!(
            (new.task_id.as_str(), new.is_finished, new.exit_code, new.text.as_str()),
            ("b1", true, Some(1), "red")
        );
        assert!(!poll(json!({"task": {"status": "running", "output": "..."}})).is_finished);
        let old = poll(json!({"status": "completed", "stdout": "out", "exitCode": 0}));
        assert_eq!((old.exit_code, old.text.as_str()), (Some(0), "out"));
        let prompt = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n<summary>Agent done</summary>\n<result>Found it.";
        let notified = TaskOutput::from_notification(prompt).unwrap();
        assert_eq!(
            (notified.task_id.as_str(), notified.text.as_str(), notified.is_agent),
            ("a1", "Found it.", true)
        );
        assert_eq!(TaskOutput::from_notification("fix it"), None);
    }
}
