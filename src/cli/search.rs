//! `claude-mem search`: find memories, in any words.

use std::process::ExitCode;

use serde_json::Value;

use super::recall::{ask, encoded, text};
use super::style::{Style, harmless};
use super::{Usage, lines};
use crate::config::Environment;
use crate::paths::Home;
use crate::search::meaning::{self, MiniLm};
use crate::search::parameters::{PAGE, Parameters};
use crate::search::{self, Meaning, Request, answer};
use crate::worker::clock;

/// Find memories, in any words
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem search why did we drop the token cache\n  \
    claude-mem search --project harborline --type decision --since 30d queue\n  \
    claude-mem search '\"connection pool\" timeout' --json")]
pub struct Arguments {
    /// What to look for; "quoted phrases" must be there as they are
    words: Vec<String>,
    /// Only this project
    #[arg(long, short)]
    project: Option<String>,
    /// Only these types: bugfix, feature, refactor, change, discovery, decision
    #[arg(long = "type", short)]
    types: Option<String>,
    /// Only these kinds: observation, summary, prompt
    #[arg(long, short)]
    kind: Option<String>,
    /// Only with this concept
    #[arg(long)]
    concept: Option<String>,
    /// Only about this file
    #[arg(long, short)]
    file: Option<String>,
    /// Only from then on: 2026-02-03, 12h, 7d, 3w
    #[arg(long)]
    since: Option<String>,
    /// Only until then
    #[arg(long)]
    until: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', default_value_t = PAGE)]
    limit: usize,
    /// Leave out the first so many
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// The state of an earlier page (as_of in its JSON), so that pages fit together
    #[arg(long)]
    as_of: Option<String>,
    /// Tell how each score came about
    #[arg(long)]
    explain: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn parameters(&self) -> Parameters {
        let words = self.words.join(" ");
        let explain = if self.explain { "1" } else { "" };
        let (limit, offset) = (self.limit.to_string(), self.offset.to_string());
        let option = |value: &'_ Option<String>| value.clone().unwrap_or_default();
        [
            // Longer questions are not read to their end anyway, and must fit into a URL.
            ("q", words[..words.floor_char_boundary(8192)].to_owned()),
            ("project", option(&self.project)),
            ("type", option(&self.types)),
            ("kind", option(&self.kind)),
            ("concept", option(&self.concept)),
            ("file", option(&self.file)),
            ("since", option(&self.since)),
            ("until", option(&self.until)),
            ("limit", limit),
            ("offset", offset),
            ("as_of", option(&self.as_of)),
            ("explain", explain.to_owned()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let parameters = arguments.parameters();
    let now = clock::now();
    let mut request = Request::from_parameters(&parameters, now).map_err(Usage)?;
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let found = ask(home, environment, &format!("/api/search?{}", query.join("&")), |database, config| {
        request.alike = meaning_of(home, &request.query).map_or(search::Alike::Unknown, search::Alike::To);
        let found = search::search(database, &request, &config.search)?;
        Ok(answer::found(&found, request.offset, now))
    })?;
    if arguments.json {
        say!("{found:#}");
    } else {
        print(&found, arguments, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

/// What a query means, where a model is installed. One that cannot be used is for `doctor` to tell of.
fn meaning_of(home: &Home, query: &str) -> Option<Meaning> {
    let file = meaning::file(&home.models());
    let model = file.exists().then(|| MiniLm::load(&file).ok())??;
    meaning::of_query(query, &model).ok()?
}

fn print(found: &Value, arguments: &Arguments, style: Style) {
    for correction in found["corrections"].as_array().into_iter().flatten() {
        say!(
            "{}",
            style.faint(&harmless(&format!(
                "Nothing has '{}'; looked for '{}'.",
                text(correction, "asked"),
                text(correction, "read_as")
            )))
        );
    }
    let hits = found["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
    if hits.is_empty() {
        say!("Nothing was found.");
    }
    for hit in hits {
        print_hit(hit, style);
        if arguments.explain {
            say!("          {}", style.faint(&hit["explain"].to_string()));
        }
    }
    if let Some(next) = found["next_offset"].as_u64() {
        say!("{}", style.faint(&format!("{} in all; --offset {next} shows more.", found["total"])));
    }
}

/// Where a hit's further lines begin.
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
    let about = harmless(&format!("{}, {}{similar}", text(hit, "project"), text(hit, "age")));
    lines::print(UNDER, &style.faint(&about));
}

/// The text with its matches emphasised.
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
