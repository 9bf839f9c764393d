//! Timeline: the year at a glance, the sessions of a project, and the work of a day.

use maud::{Markup, html};

use super::text::{counted, cut, prose, when};
use super::{charts, note_row, pager, project_field};
use crate::api::{DayCount, HistoryDay, KnownProject, SessionDay, SessionRow};

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
            (charts::year(days, jiff::Zoned::now().date(), project))
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
            div.title dir="auto" { a href=(format!("/session/{}", crate::client::encoded(&session.id))) { (prose(session.heading(), 200)) } }
            div.end { (when(session.last_activity_at)) }
            @if let Some(outcome) = &session.outcome { div.more dir="auto" { (prose(outcome, 300)) } }
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

/// The page of a day.
pub fn day(day: &HistoryDay, date: jiff::civil::Date, project: &str) -> Markup {
    let path = |date: jiff::civil::Date| day_path(date, project);
    let previous = date.yesterday().ok().map(path);
    let next = date.tomorrow().ok().filter(|date| *date <= jiff::Zoned::now().date()).map(path);
    html! {
        div.head {
            h1 { (date.strftime("%A, %-d %B %Y").to_string()) }
            a href=(format!("/timeline?project={}", crate::client::encoded(project))) { "Timeline" }
        }
        @if day.projects.is_empty() { p.empty { "No notes of this day." } }
        @for of_project in &day.projects {
            section.section {
                h2 { (cut(&of_project.project, 60)) }
                @for session in &of_project.sessions { (session_of_day(session)) }
            }
        }
        @if !day.projects.is_empty() { p.lede { code { "claude-mem today --day " (date) } " prints this for a stand-up." } }
        (pager(previous, next, ["day before", "day after"]))
    }
}

fn session_of_day(session: &SessionDay) -> Markup {
    html! {
        div.section {
            h3 dir="auto" { a href=(format!("/session/{}", crate::client::encoded(&session.session.id))) { (prose(session.session.heading(), 200)) } }
            ol.rows { @for note in &session.notes { (note_row(note, &html! {})) } }
            @if !session.open_items.is_empty() {
                ul.facts { @for item in &session.open_items { li dir="auto" { "Open: " (prose(item, 300)) } } }
            }
        }
    }
}

/// The address of a day.
pub fn day_path(date: jiff::civil::Date, project: &str) -> String {
    let within = if project.is_empty() {
        String::new()
    } else {
        format!("?project={}", crate::client::encoded(project))
    };
    format!("/day/{date}{within}")
}
