//! A session: its turns, their notes, and the raw evidence as long as it is kept.

use maud::{Markup, html};

use super::text::{bytes, counted, cut, exact, prose, when};
use super::{kind, note_row, pager};
use crate::api::{EventLine, SessionHistory, SessionTurn, step_name};
use crate::clock;

/// The page of a session.
pub fn session(history: &SessionHistory) -> Markup {
    let session = &history.session;
    let path = |id: &String| format!("/session/{}", crate::client::encoded(id));
    html! {
        div.head {
            h1 dir="auto" { (prose(session.heading(), 300)) }
            a href=(format!("/timeline?project={}", crate::client::encoded(&session.project))) { (cut(&session.project, 60)) }
        }
        dl.pairs {
            dt { "Time" } dd { (clock::period(session.started_at, session.last_activity_at)) ", " (session.status) }
            @if let Some(branch) = &session.branch { dt { "Branch" } dd { (cut(branch, 80)) } }
            dt { "Recorded" } dd { @match session.origin.as_str() { "backfill" => "read from the agent's history", "sync" => "by another machine", _ => "live, by hooks" } " (" (cut(&session.agent, 40)) ")" }
            dt { "Session" } dd { code { (cut(&session.id, 80)) } }
            @if let Some(outcome) = &session.outcome { dt { "Outcome" } dd dir="auto" { (prose(outcome, 1_000)) } }
            @if !history.open_items.is_empty() { dt { "Left open" } dd { @for item in &history.open_items { div dir="auto" { (prose(item, 300)) } } } }
        }
        (pager(history.previous.as_ref().map(path), history.next.as_ref().map(path), ["session before", "session after"]))
        div {
            @if history.turns.is_empty() { p.empty { "Nothing of this session is kept." } }
            @for turn in &history.turns { (self::turn(&session.id, turn)) }
        }
        @if let Some(from) = history.next_from {
            p { a href=(format!("{}?from={from}", path(&session.id))) { "Later turns" } }
        }
    }
}

fn turn(session: &str, turn: &SessionTurn) -> Markup {
    let number = turn.prompt_number.unwrap_or_default();
    html! {
        article.turn id=(format!("t{number}")) data-row tabindex="-1" {
            header {
                @if turn.prompt_number.is_some() { a href=(format!("#t{number}")) { "Turn " (number) } } @else { span { "Before the first prompt" } }
                @if let Some(at) = turn.created_at { span { (exact(at)) } }
                @if turn.events > 0 {
                    a href=(format!("/session/{}/turn/{number}", crate::client::encoded(session))) { (counted(turn.events, "event", "events")) }
                    @if turn.payloads < turn.events { span { (counted(turn.payloads, "is", "are")) " still kept in full" } }
                }
            }
            @if let Some(prompt) = &turn.prompt {
                div { p.exact { "Prompt, as typed (secrets removed)" } blockquote dir="auto" tabindex="0" { (cut(prompt, 4_000)) } }
            }
            @if !turn.notes.is_empty() {
                div { p.made { "Note, a summary made by " (super::by(&turn.notes[0].origin)) } ol.rows { @for note in &turn.notes { (note_row(note, &html! {})) } } }
            }
            @if turn.notes.is_empty() && let Some(completed) = &turn.completed { div { p.made { "Summary" } p.prose dir="auto" { (prose(completed, 2_000)) } } }
            @if let Some(next) = &turn.next_steps { p.lede dir="auto" { "Left open: " (prose(next, 600)) } }
        }
    }
}

/// The page of a turn's events.
pub fn events(session: &str, number: i64, events: &[EventLine]) -> Markup {
    html! {
        div.head {
            h1 { "Events of turn " (number) }
            a href=(format!("/session/{}#t{number}", crate::client::encoded(session))) { "Back to the session" }
        }
        p.lede { "The exact record, in order. Payloads are kept for a few days (" code { "retention.raw_days" } "); the note outlives them." }
        @if events.is_empty() { p.empty { "The events of this turn are no longer kept." } }
        ol.rows { @for event in events { (evidence(event)) } }
    }
}

/// The name of an event.
pub fn name(event: &EventLine) -> &str {
    step_name(event.tool.as_deref(), &event.kind)
}

/// An event with the beginning of its payload.
pub fn evidence(event: &EventLine) -> Markup {
    html! {
        li.row data-row {
            (kind(if event.failed { "failed" } else { &event.status }))
            div.title { a href=(format!("/event/{}", event.id)) { (cut(name(event), 60)) } }
            div.end { (bytes(event.raw_bytes)) " · " (when(event.created_at)) }
            @if let Some(reason) = &event.reason { div.whence { (cut(reason, 160)) } }
            @match event.gist.as_deref().or(event.payload.as_deref()) {
                Some(text) => div.more.mono dir="auto" { (cut(text, 400)) },
                None => div.whence { "the payload is no longer kept" },
            }
        }
    }
}

/// The page of one event.
pub fn event(event: &EventLine) -> Markup {
    let pretty = event.payload.as_deref().map(|payload| {
        let parsed = serde_json::from_str::<serde_json::Value>(payload).ok();
        parsed
            .and_then(|value| serde_json::to_string_pretty(&value).ok())
            .unwrap_or_else(|| payload.to_owned())
    });
    html! {
        div.head {
            h1 { (cut(name(event), 80)) " " small.lede { "event " (event.id) } }
            a href=(format!("/session/{}", crate::client::encoded(&event.session_id))) { "Its session" }
        }
        dl.pairs {
            dt { "Time" } dd { (exact(event.created_at)) }
            dt { "State" } dd { (event.status) @if event.failed { ", the tool failed" } @if let Some(reason) = &event.reason { ": " (cut(reason, 300)) } }
            dt { "Size" } dd { (bytes(event.raw_bytes)) }
        }
        @match pretty {
            Some(text) => pre tabindex="0" aria-label="Payload" { (cut(&text, 200_000)) },
            None => p.empty { "The payload is no longer kept; the note made of it is." },
        }
    }
}
