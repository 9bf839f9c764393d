//! What was looked at: files, matches, pages; and what others reported: subagents, servers, the user's own answers.

use serde_json::Value;

use super::payload::{Payload, field, number, text_of};
use super::place::{Place, extension, file_name};
use super::prose::{is_filler, sentences};
use super::text::{clean, counted, each, head, one_line, push_new, shorten};

/// A look at the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// A file was read.
    File(String),
    /// Something was searched for; these files had it.
    Search { pattern: String, files: Vec<String>, matches: Option<usize> },
    /// Files were listed.
    Listing,
}

/// A page that was read, or a search for pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// The address, or what was searched for.
    pub subject: String,
    /// Whether it was a search.
    pub search: bool,
    /// What it said.
    pub said: String,
}

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

const MOST_FILES: usize = 20;
const PATTERN_COLUMNS: usize = 60;
const SAID_COLUMNS: usize = 260;

impl Look {
    /// From the payload of Read.
    pub fn file(payload: &Payload, place: &Place<'_>) -> Option<Self> {
        let file = payload.response.get("file").unwrap_or(&Value::Null);
        let names = ["file_path", "notebook_path", "filePath", "path"];
        let path = [&payload.input, file]
            .into_iter()
            .map(|from| field(from, &names))
            .find(|path| !path.is_empty())?;
        Some(Self::File(place.relative(path)))
    }

    /// From the payload of Grep.
    pub fn search(payload: &Payload, place: &Place<'_>) -> Self {
        let response = &payload.response;
        let mut files = Vec::new();
        for file in response
            .get("filenames")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            push_new(&mut files, &place.relative(file), MOST_FILES);
        }
        let content = field(response, &["content"]);
        let content = if content.is_empty() { response.as_str().unwrap_or_default() } else { content };
        for line in head(content, 16 * 1024).lines() {
            if let Some((file, _)) =
                line.split_once(':').filter(|(file, _)| !extension(file).is_empty() && !file.contains(' '))
            {
                push_new(&mut files, &place.relative(file), MOST_FILES);
            }
        }
        let matches = ["numMatches", "numLines", "numFiles"].iter().find_map(|name| number(response, name));
        let matches = matches.and_then(|count| usize::try_from(count).ok());
        Self::Search {
            pattern: shorten(field(&payload.input, &["pattern", "query"]), PATTERN_COLUMNS),
            files,
            matches,
        }
    }
}

impl Page {
    /// From the payload of WebFetch or WebSearch.
    pub fn read(payload: &Payload) -> Self {
        let url = field(&payload.input, &["url"]);
        let search = url.is_empty();
        let subject = if search { field(&payload.input, &["query"]) } else { url };
        let said = if search { found_pages(&payload.response) } else { gist(&text_of(&payload.response)) };
        Self { subject: shorten(without_scheme(subject), 100), search, said }
    }

    /// A statement that stands on its own.
    pub fn statement(&self) -> String {
        let verb = if self.search { "Web search" } else { "Page" };
        let quoted = if self.search { format!("\"{}\"", self.subject) } else { self.subject.clone() };
        if self.said.is_empty() {
            format!("{verb} {quoted} was read")
        } else {
            format!("{verb} {quoted}: {}", self.said)
        }
    }
}

fn without_scheme(url: &str) -> &str {
    let bare = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url);
    bare.strip_prefix("www.").unwrap_or(bare).trim_end_matches('/')
}

/// What a web search says: its own text, else the titles that it found.
fn found_pages(response: &Value) -> String {
    let Some(results) = response.get("results").and_then(Value::as_array) else {
        return gist(&text_of(response));
    };
    let texts: Vec<&str> = results.iter().filter_map(Value::as_str).collect();
    let said = gist(&texts.join("\n"));
    if !said.is_empty() {
        return said;
    }
    let found = results.iter().filter_map(|result| result.get("content")?.as_array()).flatten();
    let titles: Vec<String> = found
        .map(|hit| shorten(field(hit, &["title", "url"]), 60))
        .filter(|title| !title.is_empty())
        .take(4)
        .collect();
    titles.join("; ")
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
            tool: shorten(&format!("{server} {tool}"), 60),
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

/// The first sentences of a text that say something, or its beginning if it has none.
pub(super) fn gist(text: &str) -> String {
    let text = clean(head(text, 16 * 1024));
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '[']) {
        return shorten(trimmed, SAID_COLUMNS / 2);
    }
    let mut out = String::new();
    for sentence in sentences(trimmed).iter().filter(|sentence| !is_filler(&sentence.text)) {
        if !out.is_empty() {
            let ended = out.ends_with(['.', '!', '?', '。', '！', '？', ';']);
            out.push_str(if ended { " " } else { "; " });
        }
        out.push_str(&sentence.text);
        if out.len() > SAID_COLUMNS {
            break;
        }
    }
    shorten(if out.is_empty() { trimmed } else { &out }, SAID_COLUMNS)
}

/// `3 files`, for lists too long to name.
pub(super) fn files_told(files: &[String]) -> String {
    match files {
        [] => "no file".to_owned(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        many => {
            let names: Vec<&str> = many.iter().take(2).map(|file| file_name(file)).collect();
            format!("{} ({}, …)", counted(many.len(), "file"), names.join(", "))
        }
    }
}

/// What was searched for, as one line.
pub(super) fn pattern_told(pattern: &str) -> String {
    format!("`{}`", one_line(pattern).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(input: Value, response: Value) -> Payload {
        Payload { input, response, ..Payload::default() }
    }

    #[test]
    fn searches_name_the_files_that_matched_in_every_mode() {
        let place = Place { root: Some("/p"), cwd: Some("/p") };
        let content = payload(
            json!({"pattern": "greet"}),
            json!({"mode": "content", "filenames": [], "content": "app.py:1:def greet(n):\nb/c.rs:3:greet()", "numLines": 2}),
        );
        assert_eq!(
            Look::search(&content, &place),
            Look::Search {
                pattern: "greet".into(),
                files: vec!["app.py".into(), "b/c.rs".into()],
                matches: Some(2)
            }
        );
        let files = payload(json!({"pattern": "x"}), json!({"filenames": ["/p/a.py"], "numFiles": 1}));
        assert_eq!(
            Look::search(&files, &place),
            Look::Search { pattern: "x".into(), files: vec!["a.py".into()], matches: Some(1) }
        );
    }

    #[test]
    fn pages_say_what_they_said() {
        let fetched = Page::read(&payload(
            json!({"url": "https://docs.rs/tokio/"}),
            json!({"result": "Here's the answer:\n\nUse `spawn_blocking`. It runs on a pool.", "code": 200}),
        ));
        assert_eq!(fetched.statement(), "Page docs.rs/tokio: Use `spawn_blocking`. It runs on a pool.");
        let searched = Page::read(&payload(
            json!({"query": "rust wal"}),
            json!({"results": [{"content": [{"title": "WAL mode", "url": "https://x"}]}]}),
        ));
        assert_eq!(searched.statement(), "Web search \"rust wal\": WAL mode");
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
