//! `claude-mem search`: searches memories.

use std::process::ExitCode;

use crate::api::{Hit, SearchQuery, SearchResponse};
use crate::cli::arguments::project_filter;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::wrap::{self, counted};
use crate::cli::{UsageError, client};
use crate::clock;
use crate::config::Environment;
use crate::paths::Home;
use crate::search::Request;
use crate::search::parameters::PAGE;

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
    fn query(&self, project: Option<String>, session: Option<String>) -> SearchQuery {
        let words = self.words.join(" ");
        let option = |value: &Option<String>| value.clone().unwrap_or_default();
        SearchQuery {
            // Longer queries are truncated anyway.
            q: words[..words.floor_char_boundary(8192)].to_owned(),
            project: project.unwrap_or_default(),
            types: option(&self.types),
            kind: option(&self.kind),
            concept: option(&self.concept),
            file: option(&self.file),
            since: option(&self.since),
            until: option(&self.until),
            limit: self.limit.to_string(),
            offset: self.offset.to_string(),
            as_of: option(&self.as_of),
            exclude_session: session.unwrap_or_default(),
            explain: if self.explain { "1".to_owned() } else { String::new() },
            ..SearchQuery::default()
        }
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let query = arguments.query(project, environment.session_id.clone());
    Request::from_query(&query, clock::now()).map_err(UsageError)?;
    let found = client::ask(home, environment, async |client| client.search(query).await)?;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print(&found, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

fn print(found: &SearchResponse, style: Style) {
    for correction in &found.corrections {
        outln!(
            "{}",
            style.faint(&harmless(&format!(
                "No match for '{}'; searched for '{}'.",
                correction.asked, correction.read_as
            )))
        );
    }
    if found.hits.is_empty() {
        outln!("No results.");
    }
    for hit in &found.hits {
        print_hit(hit, style);
        if let Some(parts) = &hit.explain {
            outln!("{UNDER}{}", style.faint(&serde_json::to_string(parts).unwrap_or_default()));
        }
    }
    if let Some(next) = found.next_offset {
        let shown = counted(i64::try_from(found.total).unwrap_or(i64::MAX), "result", "results");
        outln!("{}", style.faint(&format!("{shown}; --offset {next} shows more.")));
    }
}

/// Indent of a hit's further lines.
const UNDER: &str = "          ";

fn print_hit(hit: &Hit, style: Style) {
    wrap::print(
        &format!(
            "{}  {}  ",
            style.tone(Tone::Name, &format!("{:>8}", hit.reference)),
            style.tone(Tone::of_kind(hit.label()), &format!("{:<9}", hit.label()))
        ),
        &marked(&hit.title, &hit.title_marks, style),
    );
    let snippet = marked(&hit.snippet, &hit.snippet_marks, style);
    if !snippet.is_empty() && hit.snippet != hit.title {
        wrap::print(UNDER, &snippet);
    }
    let similar = match hit.similar.len() {
        0 => String::new(),
        count => format!(", {count} more like it (claude-mem show {})", numbers(&hit.similar)),
    };
    let at = clock::local_time(hit.created_at);
    let about = harmless(&format!("{}, {at} ({}){similar}", hit.project, hit.age));
    wrap::print(UNDER, &style.faint(&about));
}

fn numbers(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the text with its matches highlighted.
fn marked(text: &str, marks: &[[usize; 2]], style: Style) -> String {
    let characters: Vec<char> = harmless(text).chars().collect();
    let part = |from: usize, to: usize| {
        characters.get(from..to).map(|part| part.iter().collect::<String>()).unwrap_or_default()
    };
    let mut shown = String::new();
    let mut at = 0;
    for &[start, end] in marks {
        shown.push_str(&part(at, start));
        shown.push_str(&style.tone(Tone::Match, &part(start, end)));
        at = end;
    }
    shown.push_str(&part(at, characters.len()));
    shown
}
