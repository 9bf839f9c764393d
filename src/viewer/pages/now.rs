//! Now: the activity of the service, live.

use maud::{Markup, html};

use super::text::{cut, dollars, exact, grouped, when};
use super::{Write, charts, kind, note_row};
use crate::api::{Activity, EventLine, Health};

/// The page.
pub fn now(activity: &Activity, has_memories: bool, write: &Write<'_>) -> Markup {
    let Activity { health, queue, .. } = activity;
    html! {
        div.head data-feed {
            h1 { "Now" }
            span.live aria-live="polite" { "as of " (exact(crate::clock::now())) }
        }
        @if let Some(reason) = health.reason.as_deref().filter(|_| !health.is_ok()) {
            div.notice.bad role="status" { span { (cut(reason, 400)) } a href="/health" { "Health" } }
        }
        dl.figures {
            div { dt { "Waiting" } dd { span data-figure="queue.raw" { (grouped(queue.raw)) } " " small { "+ " span data-figure="queue.processing" { (grouped(queue.processing)) } " in work" } } }
            div { dt { "Notes today" } dd data-figure="health.observations_today" { (grouped(health.observations_today.unwrap_or_default())) } }
            div { dt { "Provider" } dd { (cut(health.provider.as_deref().unwrap_or("–"), 20)) " " @if let Some(breaker) = health.breaker.as_deref().filter(|state| *state != "closed") { small { (breaker) } } } }
            (money(health))
            div { dt { "Failed" } dd data-figure="queue.error" { (grouped(queue.error)) } }
        }
        @if !has_memories && activity.events.is_empty() { (welcome()) }
        @if !activity.errors.is_empty() { (errors(&activity.errors, write)) }
        div.split {
            section.section aria-labelledby="notes" {
                header { h2 #notes { "Notes" } a href="/timeline" { "All sessions" } }
                @if activity.notes.is_empty() { p.empty { "Each turn of a session leaves a note here, with its reason." } }
                ol.rows data-rows="notes" { @for note in &activity.notes { (note_row(note, &html! {})) } }
                template { li.row data-row {
                    span.kind data-put="kind" {}
                    div.title dir="auto" { a href="/" data-put="title" {} }
                    div.end data-put="time" {}
                    div.whence { span data-put="project" {} }
                } }
            }
            section.section aria-labelledby="events" {
                header { h2 #events { "Events" } }
                @if activity.events.is_empty() { p.empty { "Every prompt and tool call of a session arrives here first." } }
                ol.rows data-rows="events" { @for event in &activity.events { (event_row(event)) } }
                template { li.row.slim data-row {
                    div.title { a href="/" data-put="title" {} }
                    div.whence { span data-put="project" {} span data-put="state" {} }
                    div.end data-put="time" {}
                } }
            }
        }
    }
}

fn money(health: &Health) -> Markup {
    let (spent, ceiling) =
        (health.cost_usd_today.unwrap_or_default(), health.max_usd_per_day.unwrap_or_default());
    html! {
        div {
            dt { "Spent today" }
            dd { span data-figure="health.cost_usd_today" data-unit="usd" { (dollars(spent)) } " " small { "of " (dollars(ceiling)) } @if ceiling > 0.0 { (charts::meter(spent / ceiling, &format!("{} of {}", dollars(spent), dollars(ceiling)))) } }
        }
    }
}

fn event_row(event: &EventLine) -> Markup {
    html! {
        li.row.slim data-row {
            div.title { a href=(format!("/session/{}", event.session_id)) { (cut(super::session::name(event), 60)) } }
            div.whence {
                span { (cut(&event.project, 60)) }
                span { @if event.failed { "failed" } @else { (state(&event.status)) } }
                @if let Some(reason) = event.reason.as_deref().filter(|_| event.status == "skipped") { span { (cut(reason, 80)) } }
            }
            div.end { (when(event.created_at)) }
        }
    }
}

/// The state of an event in words; the script has the same.
fn state(status: &str) -> &str {
    match status {
        "raw" => "waiting",
        "processing" => "in work",
        other => other,
    }
}

fn errors(errors: &[EventLine], write: &Write<'_>) -> Markup {
    html! {
        section.section aria-labelledby="errors" {
            header { h2 #errors { "Failed events" } (write.button("/queue/retry", "", "Retry all", None)) }
            ol.rows {
                @for event in errors.iter().take(10) {
                    li.row.two data-row {
                        div.title { (kind("error")) " " (cut(super::session::name(event), 60)) " in " (cut(&event.project, 60)) }
                        div.end { (when(event.created_at)) }
                        div.more { (cut(event.reason.as_deref().unwrap_or("no reason was recorded"), 300)) }
                        div.acts { (write.button(&format!("/queue/retry?id={}", event.id), "quiet", "Retry", None)) }
                    }
                }
            }
        }
    }
}

fn welcome() -> Markup {
    html! {
        div.empty {
            p { b { "There are no memories yet." } }
            p { "Work with Claude Code as usual: each turn leaves a note, and the next session starts with those that matter." }
            p { "Have you used an agent on this machine before? " code { "claude-mem backfill" } " reads its history, and this page fills within minutes." }
        }
    }
}
