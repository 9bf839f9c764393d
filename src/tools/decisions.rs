//! Decisions that a person made in a turn: questions answered, plans approved, calls refused, and task lists.

use serde_json::Value;

use super::payload::{ToolPayload, field};
use crate::text::shorten;

/// A question and the user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The answer in the user's words, or the chosen label.
    pub answer: String,
}

/// A change of the task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChange {
    /// The whole list as it is now: each task and whether it is done.
    List(Vec<(String, bool)>),
    /// A task was added under this id.
    Added(String, String),
    /// A task is done, or was dropped.
    Closed(String),
}

/// Reads the answers of AskUserQuestion.
pub(super) fn answers(payload: &ToolPayload) -> Vec<Answer> {
    let answers =
        [&payload.response, &payload.input].into_iter().find_map(|from| from.get("answers")?.as_object());
    let pairs = answers.into_iter().flatten().map(|(question, answer)| Answer {
        question: shorten(question, 200),
        answer: shorten(&super::payload::text_of(answer).replace('\n', "; "), 400),
    });
    pairs.filter(|pair| !pair.answer.is_empty()).take(12).collect()
}

/// Reads the plan of ExitPlanMode.
pub(super) fn plan(payload: &ToolPayload) -> Option<String> {
    [&payload.input, &payload.response]
        .into_iter()
        .map(|from| field(from, &["plan"]))
        .find(|plan| !plan.is_empty())
        .map(|plan| crate::text::head(plan, 16 * 1024).to_owned())
}

/// Returns the user's words in the error of a refused call; empty if the user gave none. `None` if it was not a refusal.
pub fn refusal(error: &str) -> Option<String> {
    let is_refusal = error.starts_with("The user doesn't want to") || error.contains("user rejected");
    if !is_refusal {
        return None;
    }
    let words = error.split_once("the user said:").map(|(_, words)| words).unwrap_or_default();
    // The client appends a note of its own.
    let words = words.split("\n\nNote: ").next().unwrap_or_default();
    Some(shorten(words, 400))
}

/// Reads TodoWrite, TaskCreate and TaskUpdate.
pub(super) fn task_change(tool: &str, payload: &ToolPayload) -> Option<TaskChange> {
    let (input, response) = (&payload.input, &payload.response);
    match tool {
        "TodoWrite" => {
            let todos = input.get("todos").and_then(Value::as_array)?;
            let task = |todo: &Value| {
                let is_done = matches!(field(todo, &["status"]), "completed" | "cancelled");
                (shorten(field(todo, &["content", "activeForm"]), 160), is_done)
            };
            Some(TaskChange::List(
                todos.iter().map(task).filter(|(text, _)| !text.is_empty()).take(60).collect(),
            ))
        }
        "TaskCreate" => {
            let id = response.pointer("/task/id").and_then(Value::as_str)?;
            Some(TaskChange::Added(id.to_owned(), shorten(field(input, &["subject", "description"]), 160)))
        }
        "TaskUpdate" => {
            let is_closed = matches!(field(input, &["status"]), "completed" | "deleted" | "cancelled");
            is_closed.then(|| TaskChange::Closed(field(input, &["taskId", "id"]).to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_kept_with_their_questions() {
        let payload = ToolPayload {
            response: json!({"answers": {"Which?": "The first", "Why?": ""}}),
            ..ToolPayload::default()
        };
        assert_eq!(answers(&payload), [Answer { question: "Which?".into(), answer: "The first".into() }]);
    }

    #[test]
    fn a_refusal_has_the_users_words() {
        let error = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse a view\n\nNote: x";
        assert_eq!(refusal(error).as_deref(), Some("use a view"));
        assert_eq!(refusal("The user doesn't want to proceed with this tool use.").as_deref(), Some(""));
        assert_eq!(refusal("Exit code 1"), None);
    }

    #[test]
    fn task_lists_of_both_kinds_are_read() {
        let of = |tool: &str, input: Value, response: Value| {
            task_change(tool, &ToolPayload { input, response, ..ToolPayload::default() })
        };
        let todos = json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]});
        assert_eq!(
            of("TodoWrite", todos, json!({})),
            Some(TaskChange::List(vec![("a".into(), true), ("b".into(), false)]))
        );
        let added = of("TaskCreate", json!({"subject": "c"}), json!({"task": {"id": "3"}}));
        assert_eq!(added, Some(TaskChange::Added("3".into(), "c".into())));
        let closed = of("TaskUpdate", json!({"taskId": "3", "status": "completed"}), json!({}));
        assert_eq!(closed, Some(TaskChange::Closed("3".into())));
        assert_eq!(of("TaskUpdate", json!({"taskId": "3", "status": "in_progress"}), json!({})), None);
    }
}
