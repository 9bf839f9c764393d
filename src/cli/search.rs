//! `claude-mem search`: searches memories.

use std::process::ExitCode;

use serde_json::Value;

use super::recall::{ask, encoded, project_filter, text};
use super::style::{Style, harmless};
use super::{Usage, lines};
use crate::config::Environment;
use crate::paths::Home;
use crate::search::meaning;
use crate::search::parameters::{PAGE, Parameters};
use crate::search::{self, Meaning, Request, answer};
use crate::worker::clock;

/// Search memories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem search why did we drop the token cache\n  \
    claude-mem search --project harborline --type decision --since 30d queue\n  \
    claude-mem search '\"connection pool\" timeout' --json")]
pub struct Arguments {
    /// Words to search for; "quoted phrases" must match exactly
    words: Vec<String>,
    /// Only this project: its name or one of its directories
    #[arg(long, short)]
    project: Option<String>,
    /// Only these types: bugfix, feature, refactor, change, discovery, decision
    #[arg(long = "type", short)]
    types: Option<String>,
    /// Only these kinds: observation, summary, prompt
    #[arg(long, short)]
    kind: Option<String>,
    /// Only memories with this concept
    #[arg(long)]
    concept: Option<String>,
    /// Only memories about this file
    #[arg(long, short)]
    file: Option<String>,
    /// Only memories since this date or age: 2026-02-03, 12h, 7d, 3w
    #[arg(long)]
    since: Option<String>,
    /// Only memories until this date or age
    #[arg(long)]
    until: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', default_value_t = PAGE)]
    limit: usize,
    /// Skip this many results
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// Use the state of an earlier page (as_of in its JSON), so that pages are consistent
    #[arg(long)]
    as_of: Option<String>,
    /// Show how each score was computed
    #[arg(long)]
    explain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// `session` is the one that runs the command, if one does: its prompts are in its own context.
    fn parameters(&self, project: Option<String>, session: Option<String>) -> Parameters {
        let words = self.words.join(" ");
        let explain = if self.explain { "1" } else { "" };
        let (limit, offset) = (self.limit.to_string(), self.offset.to_string());
        let option = |value: &'_ Option<String>| value.clone().unwrap_or_default();
        [
            // Longer queries are truncated anyway, and must fit into a URL.
            ("q", words[..words.floor_char_boundary(8192)].to_owned()),
            ("project", project.unwrap_or_default()),
            ("type", option(&self.types)),
            ("kind", option(&self.kind)),
            ("concept", option(&self.concept)),
            ("file", option(&self.file)),
            ("since", option(&self.since)),
            ("until", option(&self.until)),
            ("limit", limit),
            ("offset", offset),
            ("as_of", option(&self.as_of)),
            ("exclude_session", session.unwrap_or_default()),
            ("explain", explain.to_owned()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let parameters = arguments.parameters(project, environment.session_id.clone());
    let now = clock::now();
    let mut request = Request::from_parameters(&parameters, now).map_err(Usage)?;
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let found = ask(home, environment, &format!("/api/search?{}", query.join("&")), |database, config| {
        request.alike = embed_query(home, &request.query).map_or(search::Alike::Unknown, search::Alike::To);
        let found = search::search(database, &request, &config.search)?;
        Ok(answer::found(&found, request.offset, now))
    })?;
    if arguments.json {
        outln!("{found:#}");
    } else {
        print(&found, arguments, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

/// Embeds the query if a model is installed. Errors are left to `doctor` to report.
fn embed_query(home: &Home, query: &str) -> Option<Meaning> {
    let model = meaning::load(&home.models())?.ok()?;
    meaning::of_query(query, &model).ok()?
}

fn print(found: &Value, arguments: &Arguments, style: Style) {
    for correction in found["corrections"].as_array().into_iter().flatten() {
        outln!(
            "{}",
            style.faint(&harmless(&format!(
                "No match for '{}'; searched for '{}'.",
                text(correction, "asked"),
                text(correction, "read_as")
            )))
        );
    }
    let hits = found["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
    if hits.is_empty() {
        outln!("No results.");
    }
    for hit in hits {
        print_hit(hit, style);
        if arguments.explain {
            outln!("          {}", style.faint(&hit["explain"].to_string()));
        }
    }
    if let Some(next) = found["next_offset"].as_u64() {
        outln!("{}", style.faint(&format!("{} results; use --offset {next} for more.", found["total"])));
    }
}

/// Indent of a hit's further lines.
const UNDER: &str = "          ";

fn print_hit(hit: &Value, style: Style) {
    let kind = hit["type"].as_str().unwrap_or(text(hit, "kind"));
    lines::print(
        &format!("{:>8}  {}  ", text(hit, "ref"), style.strong(&format!("{kind:<9}"))),
        &marked(text(hit, "title"), &hit["title_marks"], style),
    );
    let snippet = marked(text(hit, "snippet"), &hit["snippet_marks"], style);
    if !snippet.is_empty() && text(hit, "snippet") != text(hit, "title") {
        lines::print(UNDER, &snippet);
    }
    let similar = match hit["similar"].as_array().map_or(0, Vec::len) {
        0 => String::new(),
        count => format!(", {count} more like it"),
    };
    let at = hit["created_at"].as_i64().map(local_time).unwrap_or_default();
    let about = harmless(&format!("{}, {at} ({}){similar}", text(hit, "project"), text(hit, "age")));
    lines::print(UNDER, &style.faint(&about));
}

/// `2026-02-03 14:05`, in the local time zone.
fn local_time(at: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at).map(|at| at.to_zoned(jiff::tz::TimeZone::system()));
    at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// Returns the text with its matches highlighted.
fn marked(text: &str, marks: &Value, style: Style) -> String {
    let characters: Vec<char> = harmless(text).chars().collect();
    let part = |from: usize, to: usize| {
        characters.get(from..to).map(|part| part.iter().collect::<String>()).unwrap_or_default()
    };
    let mut shown = String::new();
    let mut at = 0;
    for mark in marks.as_array().into_iter().flatten() {
        let end = |index: usize| mark[index].as_u64().and_then(|end| usize::try_from(end).ok()).unwrap_or(at);
        let (start, end) = (end(0), end(1));
        shown.push_str(&part(at, start));
        shown.push_str(&style.match_(&part(start, end)));
        at = end;
    }
    shown.push_str(&part(at, characters.len()));
    shown
}
