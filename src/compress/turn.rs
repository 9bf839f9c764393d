//! What a provider is given: the events of a turn, and what is known about the turn itself.

/// One queued tool event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnEvent {
    /// Its row in the queue.
    pub id: i64,
    /// The tool's name as the client has it.
    pub tool_name: Option<String>,
    /// `{"tool_input", "tool_response", "duration_ms"}`, or `{"tool_input", "error", "is_interrupt"}` if it failed.
    /// Any part may be missing, of another type or cut, and the whole may not be JSON.
    pub payload: String,
    /// Whether the client says that the tool failed.
    pub failed: bool,
    /// Where the client stood.
    pub cwd: Option<String>,
    /// The kind of the subagent that used the tool.
    pub agent_type: Option<String>,
    /// How large the hook's input was.
    pub raw_bytes: u64,
}

/// What is known about the turn that the events belong to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// The project's name.
    pub project: String,
    /// The main worktree's path, or the working directory outside git.
    pub project_path: Option<String>,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// The prompt that began the turn, as the hook saw it.
    pub prompt: Option<String>,
    /// The assistant's closing words.
    pub last_assistant_message: Option<String>,
    /// What the tools did, in the order of arrival.
    pub events: Vec<TurnEvent>,
}

impl Turn {
    /// What the user asked for, in the user's own words: the client's notifications are prompts too, and are not.
    pub fn request(&self) -> Option<&str> {
        let prompt = self.prompt.as_deref()?.trim();
        (!prompt.is_empty() && !prompt.starts_with("<task-notification>")).then_some(prompt)
    }

    /// How the assistant closed, in its own words: where the API failed, the client puts the error in their place.
    pub fn closing(&self) -> Option<&str> {
        let message = self.last_assistant_message.as_deref()?.trim();
        (!message.is_empty() && !message.starts_with("API Error")).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_people_and_the_assistant_are_taken_at_their_word() {
        let turn = |prompt: &str, message: &str| Turn {
            prompt: Some(prompt.to_owned()),
            last_assistant_message: Some(message.to_owned()),
            ..Turn::default()
        };
        let words = turn(" fix it ", "Done.\n");
        assert_eq!((words.request(), words.closing()), (Some("fix it"), Some("Done.")));
        let others = turn("<task-notification>\n<task-id>b</task-id>", "API Error: Request rejected (429)");
        assert_eq!((others.request(), others.closing()), (None, None));
        let blank = turn("  ", "");
        assert_eq!((blank.request(), blank.closing()), (None, None));
    }
}
