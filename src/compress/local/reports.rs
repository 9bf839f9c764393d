//! What others said: subagents, the tools of servers, and the user when asked.

use super::payload::{Payload, field, text_of};
use super::searches::{SAID_COLUMNS, gist};
use super::text::{each, shorten};

/// What a subagent came back with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub agent: String,
    pub task: String,
    pub said: String,
}

/// The use of a server's tool, or of one that is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub tool: String,
    pub asked: String,
    pub said: String,
    pub failed: bool,
    /// Whether it changed something out there, by its name.
    pub acts: bool,
}

/// What the user decided when asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub question: String,
    pub answer: String,
}

impl Report {
    /// From the payload of Agent.
    pub fn read(payload: &Payload) -> Self {
        let (input, response) = (&payload.input, &payload.response);
        let content = response.get("content").map(text_of);
        let said = match (&payload.error, content) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(content)) => content,
            (None, None) if response.is_object() => String::new(),
            (None, None) => text_of(response),
        };
        Self {
            agent: shorten(field(input, &["subagent_type", "agentType"]), 40),
            task: shorten(field(input, &["description", "prompt"]), 100),
            said: gist(&without_tags(&said)),
        }
    }

    /// A statement that stands on its own.
    pub fn statement(&self) -> String {
        let agent = if self.agent.is_empty() || self.agent == "general-purpose" {
            "Subagent".to_owned()
        } else {
            format!("{} agent", self.agent)
        };
        match (self.task.is_empty(), self.said.is_empty()) {
            (_, true) => format!("{agent} was given: {}", self.task),
            (true, false) => format!("{agent} reported: {}", self.said),
            (false, false) => format!("{agent} on \"{}\": {}", self.task, self.said),
        }
    }
}

/// Without what the client puts around an agent's words.
fn without_tags(text: &str) -> String {
    let name = "tools-used-before-summary";
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    match (text.find(&open), text.find(&close)) {
        (Some(start), Some(end)) if start < end => {
            format!("{}{}", &text[..start], &text[end + close.len()..])
        }
        _ => text.to_owned(),
    }
}

impl Call {
    /// From the payload of a tool of which nothing else is known.
    pub fn read(name: &str, payload: &Payload, failed: bool) -> Self {
        let bare = name.strip_prefix("mcp__").unwrap_or(name);
        let (server, tool) = bare.rsplit_once("__").unwrap_or(("", bare));
        let server = server.trim_start_matches("plugin_");
        let words = [
            "query",
            "q",
            "title",
            "subject",
            "name",
            "question",
            "prompt",
            "text",
            "url",
            "path",
            "sql",
            "message",
            "description",
        ];
        let asked = match field(&payload.input, &words) {
            "" if payload.input.as_object().is_none_or(|fields| fields.is_empty()) => String::new(),
            "" => payload.input.to_string(),
            text => text.to_owned(),
        };
        let said = payload.error.clone().unwrap_or_else(|| text_of(&payload.response));
        Self {
            tool: if tool.is_empty() {
                "a tool".to_owned()
            } else {
                shorten(&format!("{server} {tool}"), 60)
            },
            asked: shorten(&asked, 90),
            said: gist(&said),
            failed: failed || payload.error.is_some(),
            acts: acts(tool),
        }
    }

    /// A statement that stands on its own.
    pub fn statement(&self) -> String {
        let asked = if self.asked.is_empty() { String::new() } else { format!(" ({})", self.asked) };
        let verb = if self.failed { "failed" } else { "answered" };
        if self.said.is_empty() {
            format!("{}{asked} was used", self.tool)
        } else {
            format!("{}{asked} {verb}: {}", self.tool, self.said)
        }
    }
}

fn acts(tool: &str) -> bool {
    const VERBS: &str = "create|update|delete|add|remove|send|post|write|set|merge|close|move|insert|deploy|\
        publish|upload|commit";
    let lower = tool.to_lowercase();
    lower.split(['_', '-']).next().is_some_and(|first| each(VERBS).any(|known| known == first))
        || each(VERBS).any(|verb| lower.starts_with(&format!("{verb}_")))
}

impl Choice {
    /// From the payload of AskUserQuestion or ExitPlanMode.
    pub fn read(payload: &Payload) -> Vec<Self> {
        let plan = [&payload.input, &payload.response]
            .into_iter()
            .map(|from| field(from, &["plan"]))
            .find(|plan| !plan.is_empty());
        if let Some(plan) = plan {
            let heading = plan
                .lines()
                .find_map(|line| line.strip_prefix("# "))
                .map(|heading| format!("{}: ", heading.trim()));
            let answer = shorten(&format!("{}{}", heading.unwrap_or_default(), gist(plan)), SAID_COLUMNS);
            return if answer.is_empty() {
                Vec::new()
            } else {
                vec![Self { question: "Plan".to_owned(), answer }]
            };
        }
        let answers =
            [&payload.response, &payload.input].into_iter().find_map(|from| from.get("answers")?.as_object());
        let pairs = answers.into_iter().flatten().map(|(question, answer)| Self {
            question: shorten(question, 120),
            answer: shorten(&text_of(answer), 120),
        });
        pairs.filter(|choice| !choice.answer.is_empty()).take(8).collect()
    }

    /// A statement that stands on its own.
    pub fn statement(&self) -> String {
        match self.question.as_str() {
            "Plan" => format!("Plan: {}", self.answer),
            question => format!("Asked \"{question}\", the user chose: {}", self.answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn payload(input: Value, response: Value) -> Payload {
        Payload { input, response, ..Payload::default() }
    }

    #[test]
    fn an_agents_words_are_told_without_wrapping() {
        let report = Report::read(&payload(
            json!({"description": "Find auth", "subagent_type": "Explore"}),
            json!({"status": "completed", "content": [{"type": "text", "text": "<tools-used-before-summary>Bash</tools-used-before-summary>\n"}, {"type": "text", "text": "Tokens are checked in auth.rs."}]}),
        ));
        assert_eq!(report.statement(), "Explore agent on \"Find auth\": Tokens are checked in auth.rs.");
        assert_eq!(
            Report::read(&payload(json!({"prompt": "x"}), json!({"status": "async_launched"}))).said,
            ""
        );
    }

    #[test]
    fn tools_of_servers_are_told_by_name() {
        let call = Call::read(
            "mcp__plugin_gh_github__create_issue",
            &payload(json!({"title": "Crash on start"}), json!([{"type": "text", "text": "Created #12"}])),
            false,
        );
        assert_eq!(
            (call.statement().as_str(), call.acts),
            ("gh_github create_issue (Crash on start) answered: Created #12", true)
        );
        let odd = Call::read("Odd", &payload(json!(3), json!(null)), false);
        assert_eq!(odd.statement(), "Odd was used");
    }

    #[test]
    fn the_users_answers_are_decisions() {
        let asked = Choice::read(&payload(json!({}), json!({"answers": {"Which database?": "SQLite"}})));
        assert_eq!(asked[0].statement(), "Asked \"Which database?\", the user chose: SQLite");
        let plan = Choice::read(&payload(json!({"plan": "# Storage\nMove the queue to SQLite."}), json!({})));
        assert_eq!(plan[0].statement(), "Plan: Storage: Move the queue to SQLite.");
    }
}
