//! Timeline: the year at a glance, and the sessions of a project.

use maud::{Markup, html};

use super::text::{counted, cut, when};
use super::{charts, pager, project_field};
use crate::api::{DayCount, KnownProject, SessionRow};

/// Sessions on a page.
pub const PAGE: u32 = 40;

/// The page.
pub fn timeline(
    projects: &[KnownProject],
    project: &str,
    days: &[DayCount],
    sessions: &[SessionRow],
    offset: u32,
) -> Markup {
    let path = |offset: u32| format!("/timeline?project={}&offset={offset}", crate::client::encoded(project));
    let previous = (offset > 0).then(|| path(offset.saturating_sub(PAGE)));
    let has_more = sessions.len() > PAGE as usize;
    html! {
        div.head {
            h1 { "Timeline" @if !project.is_empty() { " of " (cut(project, 60)) } }
            form.fields action="/timeline" { (project_field(projects, project, Some("all projects"))) button { "Show" } }
        }
        section.section aria-labelledby="year" {
            h2 #year { "Notes by day" }
            (charts::year(days, jiff::Zoned::now().date()))
        }
        section.section aria-labelledby="sessions" {
            h2 #sessions { "Sessions" }
            @if sessions.is_empty() {
                div.empty { p { b { "No sessions yet." } } p { "Sessions appear here as you work. " code { "claude-mem backfill" } " adds those from before." } }
            }
            ol.rows { @for session in sessions.iter().take(PAGE as usize) { (row(session)) } }
            (pager(previous, has_more.then(|| path(offset + PAGE)), ["later sessions", "earlier sessions"]))
        }
    }
}

fn row(session: &SessionRow) -> Markup {
    html! {
        li.row.two data-row {
            div.title dir="auto" { a href=(format!("/session/{}", crate::client::encoded(&session.id))) { (cut(session.heading(), 200)) } }
            div.end { (when(session.last_activity_at)) }
            @if let Some(outcome) = &session.outcome { div.more dir="auto" { (cut(outcome, 300)) } }
            div.whence {
                span { (cut(&session.project, 60)) }
                @if let Some(branch) = &session.branch { span { (cut(branch, 40)) } }
                span { (counted(session.prompt_count, "prompt", "prompts")) }
                @if session.status != "completed" { span { (session.status) } }
                @if session.origin != "live" && !session.origin.is_empty() { span { (session.origin) } }
            }
        }
    }
}
