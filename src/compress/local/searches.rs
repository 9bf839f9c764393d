//! What was looked at: files, matches, pages.

use serde_json::Value;

use super::payload::{Payload, field, number, text_of};
use super::place::{Place, extension, file_name};
use super::prose::{is_filler, sentences};
use super::text::{clean, counted, head, one_line, push_new, shorten};

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

const MOST_FILES: usize = 20;
const PATTERN_COLUMNS: usize = 60;
/// How much of what others said is told.
pub(super) const SAID_COLUMNS: usize = 260;

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
}
