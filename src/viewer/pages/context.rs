//! Context: the text that a session would get now, line by line.

use maud::{Markup, html};

use super::text::{counted, cut, exact, grouped, prose};
use super::{Write, project_field};
use crate::api::{ContextLine, KnownProject, LastContext};

/// What is shown: the lines, their tokens, and the context of the last session to compare with.
pub struct ContextShown {
    /// The lines.
    pub lines: Vec<ContextLine>,
    /// The tokens of the whole text.
    pub tokens: usize,
    /// The text itself.
    pub text: String,
    /// The context of the last session; only for a start.
    pub last: Option<LastContext>,
}

/// The fields of the form.
pub struct ContextAsked<'a> {
    /// The project's name.
    pub project: &'a str,
    /// start, prompt, file or failure.
    pub trigger: &'a str,
    /// The prompt, the path, or the error.
    pub text: &'a str,
}

const TRIGGERS: [(&str, &str); 4] = [
    ("start", "a session starts"),
    ("prompt", "this prompt is sent"),
    ("file", "this file is edited"),
    ("failure", "this error occurs"),
];

/// The page.
pub fn context(
    asked: &ContextAsked<'_>,
    projects: &[KnownProject],
    shown: Result<&ContextShown, &str>,
    write: &Write<'_>,
) -> Markup {
    html! {
        h1 { "Context" }
        p.lede { "What Claude is told from memory, and why. Switch a line off, and no session sees it again." }
        form.section action="/context" {
            div.fields {
                (project_field(projects, asked.project, None))
                label { "When" select name="trigger" {
                    @for (value, label) in TRIGGERS { option value=(value) selected[asked.trigger == value] { (label) } }
                } }
                label.wide { "Prompt, file or error" input name="text" value=(asked.text) autocomplete="off" placeholder="not needed for a session start"; }
                button.main { "Show" }
            }
        }
        @match shown {
            _ if projects.is_empty() => div.empty { p { b { "No project has memories yet." } } p { "After the first turn in a project this page shows what its next session starts with. " code { "claude-mem backfill" } " brings in earlier sessions." } },
            Err(message) => div.notice.warn role="status" { (cut(message, 300)) },
            Ok(shown) if shown.lines.is_empty() => div.empty { p { b { "Nothing would be added." } } p { "Memory stays silent unless it has something specific: a prompt needs rare words in common with a note, a file a known reason, a failure a known repair." } },
            Ok(shown) => (lines(asked, shown, write)),
        }
    }
}

fn lines(asked: &ContextAsked<'_>, shown: &ContextShown, write: &Write<'_>) -> Markup {
    let gone = shown.last.as_ref().map_or(0, |last| {
        last.keys.iter().filter(|key| shown.lines.iter().all(|line| line.key != **key)).count()
    });
    html! {
        section.section aria-labelledby="lines" {
            header {
                h2 #lines { (counted(i64::try_from(shown.lines.len()).unwrap_or_default(), "line", "lines")) ", " (grouped(i64::try_from(shown.tokens).unwrap_or_default())) " tokens" }
                @if let Some(last) = &shown.last {
                    span.lede {
                        "compared with the " a href=(format!("/session/{}", crate::client::encoded(&last.session_id))) { "last session" } " of " (exact(last.created_at))
                        @if gone > 0 { ": " (counted(i64::try_from(gone).unwrap_or_default(), "line is", "lines are")) " gone" }
                    }
                }
            }
            @for group in shown.lines.chunk_by(|one, other| one.layer == other.layer) {
                @if !group[0].layer.is_empty() { h3 { (layer(&group[0].layer)) } }
                div.rows { @for line in group { (row(asked, line, shown.last.as_ref(), write)) } }
            }
        }
        details { summary { "The text as Claude gets it" } pre tabindex="0" { (cut(&shown.text, 60_000)) } }
    }
}

fn row(
    asked: &ContextAsked<'_>,
    line: &ContextLine,
    last: Option<&LastContext>,
    write: &Write<'_>,
) -> Markup {
    let is_new = last.is_some_and(|last| !last.keys.contains(&line.key));
    let note = line.memory.as_deref().filter(|id| !id.starts_with('S'));
    html! {
        div.line.added[is_new] data-row {
            div.count { (line.tokens) }
            div.text dir="auto" {
                @match &line.memory { Some(id) => a href=(format!("/memory/{id}")) { (prose(&line.text, 2_000)) }, None => (prose(&line.text, 2_000)) }
            }
            div.acts {
                (write.form("/context/veto", &html! {
                    input type="hidden" name="project" value=(asked.project);
                    input type="hidden" name="statement" value=(line.text);
                    @match note { Some(id) => input type="hidden" name="memory" value=(id);, None => input type="hidden" name="line" value=(line.key); }
                    button.quiet { "Switch off" }
                }))
            }
            div.why { (cut(&line.why, 300)) }
        }
    }
}

fn layer(name: &str) -> &str {
    match name {
        "session_index" => "Recent sessions",
        "function_map" => "Code changed lately",
        "learnings" => "Known about this project",
        "observations" => "Earlier work that may matter now",
        other => other,
    }
}
