//! A turn: from a prompt to the end of its answer. The input of every provider.

use crate::tools::{Action, Commit, TaskChange, TaskOutput, ToolEvent};

/// One turn with its parsed events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// The project's name.
    pub project: String,
    /// The main worktree's path, or the working directory outside git.
    pub project_path: Option<String>,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// The prompt that began the turn.
    pub prompt: Option<String>,
    /// The latest earlier request with substance, which "yes" and "continue" mean.
    pub earlier_request: Option<String>,
    /// Closing messages, oldest first. A turn has several if background work made the client stop more than once.
    pub closings: Vec<String>,
    /// Prompts that the client itself submitted when background tasks ended.
    pub notifications: Vec<String>,
    /// The user's words when refusing a call, if only the transcript has them.
    pub refusals: Vec<String>,
    /// Functions and types that the turn is known to have changed.
    pub functions: Vec<String>,
    /// Tool events, in order of arrival.
    pub events: Vec<ToolEvent>,
}

impl Turn {
    /// The user's own words; the client's notifications and commands are prompts too.
    pub fn request(&self) -> Option<&str> {
        let prompt = self.prompt.as_deref()?.trim();
        let is_users = !prompt.is_empty() && !is_client_text(prompt);
        is_users.then_some(prompt)
    }

    /// The assistant's last closing message. Where the API failed the client puts the error in its place.
    pub fn closing(&self) -> Option<&str> {
        let is_answer = |message: &&str| !message.is_empty() && !message.starts_with("API Error");
        self.closings.iter().rev().map(|message| message.trim()).find(is_answer)
    }

    /// Files of the project that the turn changed, each once, without files that it removed.
    pub fn changed_files(&self) -> Vec<String> {
        let mut files: Vec<&String> = Vec::new();
        for event in self.events.iter().filter(|event| !event.failed) {
            let removed = event.command().map(|command| command.removed.as_slice()).unwrap_or_default();
            files.retain(|file| !removed.contains(file));
            for file in event.changed_files().iter().filter(|file| !removed.contains(file)) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files.into_iter().cloned().collect()
    }

    /// True if the turn changed files of the project, or committed.
    pub fn has_changed(&self) -> bool {
        !self.changed_files().is_empty() || !self.commits().is_empty()
    }

    /// Files of the project that the main agent read and the turn did not change.
    pub fn read_files(&self) -> Vec<String> {
        let changed = self.changed_files();
        let mut files: Vec<String> = Vec::new();
        for event in self.events.iter().filter(|event| !event.by_subagent) {
            if let Action::Read(read) = &event.action
                && read.is_owned
                && !files.contains(&read.path)
                && !changed.contains(&read.path)
            {
                files.push(read.path.clone());
            }
        }
        files
    }

    /// Commits of the turn, each once.
    pub fn commits(&self) -> Vec<&Commit> {
        let mut commits: Vec<&Commit> = Vec::new();
        for commit in self.events.iter().filter_map(ToolEvent::command).flat_map(|command| &command.commits) {
            // An amended commit replaces the one before it.
            commits.retain(|known| known.subject != commit.subject);
            commits.push(commit);
        }
        commits
    }

    /// Subagents' answers and finished background tasks, in the latest version of each.
    pub fn reports(&self) -> Vec<(String, String)> {
        let mut reports: Vec<(String, String, String)> = Vec::new();
        let notified = self.notifications.iter().filter_map(|prompt| TaskOutput::from_notification(prompt));
        let polled = self.events.iter().filter_map(|event| match &event.action {
            Action::TaskOutput(output) => Some(output.clone()),
            _ => None,
        });
        for event in &self.events {
            if let Action::Agent(report) = &event.action
                && !report.text.is_empty()
            {
                reports.push((String::new(), report.task.clone(), report.text.clone()));
            }
        }
        for output in polled.chain(notified) {
            let is_same = |(id, _, _): &(String, String, String)| !id.is_empty() && *id == output.task_id;
            reports.retain(|report| !is_same(report));
            if output.is_finished && output.is_agent && !output.text.is_empty() {
                reports.push((output.task_id, output.task, output.text));
            }
        }
        reports.into_iter().map(|(_, task, text)| (task, text)).collect()
    }

    /// Tasks that are still open at the end of the turn, and those that were closed in it.
    pub fn tasks(&self) -> (Vec<String>, Vec<String>) {
        let mut tasks: Vec<(String, String, bool)> = Vec::new();
        for event in self.events.iter().filter(|event| !event.by_subagent) {
            let Action::Tasks(change) = &event.action else { continue };
            match change {
                TaskChange::List(list) => {
                    let entry = |(text, done): &(String, bool)| (String::new(), text.clone(), *done);
                    tasks = list.iter().map(entry).collect();
                }
                TaskChange::Added(id, text) => tasks.push((id.clone(), text.clone(), false)),
                TaskChange::Closed(id) => {
                    tasks.iter_mut().filter(|(known, _, _)| known == id).for_each(|task| task.2 = true);
                }
            }
        }
        let (done, open): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(_, _, done)| *done);
        let texts = |list: Vec<(String, String, bool)>| list.into_iter().map(|(_, text, _)| text).collect();
        (texts(open), texts(done))
    }
}

/// True for prompts that the client writes: notifications, command output, skill bodies.
pub fn is_client_text(prompt: &str) -> bool {
    const STARTS: [&str; 9] = [
        "<task-notification>",
        "<command-",
        "<local-command",
        "<bash-",
        "<system-reminder>",
        "[Request interrupted",
        "Base directory for this skill:",
        "Caveat: The messages below",
        "This session is being continued from a previous conversation",
    ];
    let prompt = prompt.trim_start();
    STARTS.iter().any(|start| prompt.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::RawEvent;

    fn event(id: i64, tool: &str, payload: serde_json::Value) -> ToolEvent {
        let raw = RawEvent {
            id,
            tool_name: Some(tool.into()),
            payload: payload.to_string(),
            ..RawEvent::default()
        };
        ToolEvent::parse(&raw, Some("/p"))
    }

    #[test]
    fn only_the_user_and_the_assistant_are_quoted() {
        let turn = |prompt: &str, closings: &[&str]| Turn {
            prompt: Some(prompt.to_owned()),
            closings: closings.iter().map(|text| (*text).to_owned()).collect(),
            ..Turn::default()
        };
        let words = turn(" fix it ", &["Waiting.", "Done.\n"]);
        assert_eq!((words.request(), words.closing()), (Some("fix it"), Some("Done.")));
        let others =
            turn("<task-notification>\n<task-id>b</task-id>", &["API Error: Request rejected (429)"]);
        assert_eq!((others.request(), others.closing()), (None, None));
        let blank = turn("  ", &[""]);
        assert_eq!((blank.request(), blank.closing()), (None, None));
    }

    #[test]
    fn the_last_poll_of_a_task_counts() {
        let poll = |id: i64, status: &str, text: &str| {
            let task = serde_json::json!({"task_type": "local_agent", "status": status, "output": text});
            event(
                id,
                "TaskOutput",
                serde_json::json!({"tool_input": {"task_id": "a1"}, "tool_response": {"task": task}}),
            )
        };
        let turn = Turn {
            events: vec![poll(1, "running", "half"), poll(2, "completed", "whole")],
            notifications: vec![
                "<task-notification><task-id>b2</task-id><status>completed</status><result>Other.</result>"
                    .into(),
            ],
            ..Turn::default()
        };
        let texts: Vec<String> = turn.reports().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["whole", "Other."]);
    }

    #[test]
    fn tasks_end_as_their_last_state() {
        let create = |id: i64, number: &str, subject: &str| {
            event(
                id,
                "TaskCreate",
                serde_json::json!({"tool_input": {"subject": subject}, "tool_response": {"task": {"id": number}}}),
            )
        };
        let done =
            event(3, "TaskUpdate", serde_json::json!({"tool_input": {"taskId": "1", "status": "completed"}}));
        let turn =
            Turn { events: vec![create(1, "1", "one"), create(2, "2", "two"), done], ..Turn::default() };
        assert_eq!(turn.tasks(), (vec!["two".to_owned()], vec!["one".to_owned()]));
    }
}
