//! Memory: one note with its reason, evidence and uses, and what the user has changed.

use maud::{Markup, html};

use super::session::evidence;
use super::text::{bytes, counted, cut, exact, grouped, prose, when};
use super::{Write, by, kind, note_row, project_field};
use crate::api::{
    Curated, Injection, KnownProject, LearningRow, Memory, NoteHistory, NoteVersion, ObservationRow,
};

/// Most characters of a text on this page.
const WHOLE: usize = 60_000;

/// The page of a note.
pub fn note(history: &NoteHistory, write: &Write<'_>) -> Markup {
    let note = &history.note;
    html! {
        div.head {
            h1 dir="auto" { (prose(note.title.as_deref().unwrap_or("(no title)"), 400)) }
            span { (kind(&note.kind)) }
        }
        (standing(history, write))
        @if history.deleted_at.is_none() { (actions(history, write)) }
        div.side {
            div.section {
                @if let Some(summary) = note.summary.as_deref().filter(|text| !text.is_empty()) { p.prose dir="auto" { (prose(summary, WHOLE)) } }
                @if let Some(detail) = note.detail.as_deref().filter(|text| !text.is_empty()) { p.prose dir="auto" { (prose(detail, WHOLE)) } }
                @if !note.facts.is_empty() { ul.facts { @for fact in note.facts.iter().take(200) { li dir="auto" { (prose(fact, 4_000)) } } } }
                (injections(&history.injections))
                section.section aria-labelledby="evidence" {
                    h2 #evidence { "Evidence" }
                    @if history.events.is_empty() {
                        p.lede { @if note.provider.as_deref() == Some("user") { "You saved this note yourself." } @else { "The events behind this note are no longer kept." } }
                    }
                    ol.rows { @for event in history.events.iter().take(40) { (evidence(event)) } }
                }
                (similar(history, write))
                (versions(note.id, &history.versions, write))
            }
            (facts_about(history))
        }
    }
}

fn standing(history: &NoteHistory, write: &Write<'_>) -> Markup {
    html! {
        @if let Some(at) = history.deleted_at {
            div.notice.warn role="status" {
                span {
                    "Forgotten " (when(at)) "."
                    @if let Some(kept) = history.merged_into { " Merged into " a href=(format!("/memory/{kept}")) { "#" (kept) } "." }
                }
                (write.button(&format!("/memory/{}/restore", history.note.id), "", "Restore", None))
            }
        }
    }
}

fn actions(history: &NoteHistory, write: &Write<'_>) -> Markup {
    let note = &history.note;
    let path = |action: &str| format!("/memory/{}/{action}", note.id);
    html! {
        div.section { div.acts {
            @if history.pinned_at.is_some() { (write.button(&path("unpin"), "", "Unpin", Some("p"))) }
            @else { (write.button(&path("pin"), "", "Pin", Some("p"))) }
            (write.button(&path("veto"), "", "Veto", None))
            (write.button(&path("forget"), "bad", "Forget", Some("x")))
        }
        details #edit {
            summary { "Edit" }
            (write.form(&path("edit"), &html! {
                div.section {
                    label { "Title" input name="title" value=(note.title.as_deref().unwrap_or_default()) maxlength="200" required; }
                    label { "Summary" textarea name="summary" { (note.summary.as_deref().unwrap_or_default()) } }
                    @if note.detail.is_some() { label { "Detail" textarea name="detail" { (note.detail.as_deref().unwrap_or_default()) } } }
                    label { "Facts, one per line" textarea name="facts" { (note.facts.join("\n")) } }
                    div.acts { button.main { "Save" } span.lede { "The present version is kept below." } }
                }
            }))
        } }
    }
}

fn facts_about(history: &NoteHistory) -> Markup {
    let note: &ObservationRow = &history.note;
    let files = |label: &str, files: &[String]| {
        html! {
            @if !files.is_empty() {
                dt { (label) }
                dd { @for file in files.iter().take(40) { div { a href=(format!("/search?file={}", crate::client::encoded(file))) { (cut(file, 200)) } } } }
            }
        }
    };
    html! {
        aside.section aria-label="About this note" {
            h2 { "About" }
            dl.pairs {
                dt { "Made" } dd { (exact(note.created_at)) }
                @if let Some(at) = history.edited_at { dt { "Edited" } dd { "by you, " (when(at)) } }
                @if let Some(at) = history.pinned_at { dt { "Pinned" } dd { (when(at)) } }
                dt { "By" } dd { (by(note.model.as_deref().or(note.provider.as_deref()).unwrap_or("unknown"))) }
                @if history.tokens != [0, 0] { dt { "Tokens" } dd { (grouped(history.tokens[0])) " in, " (grouped(history.tokens[1])) " out" } }
                @if history.raw_bytes > 0 { dt { "Made of" } dd { (bytes(history.raw_bytes)) " of events" } }
                dt { "Project" } dd { a href=(format!("/timeline?project={}", crate::client::encoded(&note.project))) { (cut(&note.project, 80)) } }
                @if let Some(branch) = &note.branch { dt { "Branch" } dd { (cut(branch, 80)) } }
                dt { "Session" } dd { a href=(format!("/session/{}#t{}", crate::client::encoded(&note.session_id), note.prompt_number.unwrap_or_default())) { "turn " (note.prompt_number.unwrap_or_default()) } }
                (files("Changed", &note.files_modified))
                (files("Read", &note.files_read))
                @if !note.concepts.is_empty() { dt { "Topics" } dd { (cut(&note.concepts.join(", "), 400)) } }
                dt { "Id" } dd { "#" (note.id) }
            }
        }
    }
}

fn injections(injections: &[Injection]) -> Markup {
    html! {
        section.section aria-labelledby="shown" {
            h2 #shown { "Shown to sessions" }
            @if injections.is_empty() { p.lede { "No session has been shown this note in the last 90 days." } }
            ol.rows {
                @for injection in injections {
                    li.row.two data-row {
                        div.title dir="auto" { a href=(format!("/session/{}", crate::client::encoded(&injection.session_id))) { (cut(if injection.title.is_empty() { &injection.session_id } else { &injection.title }, 160)) } }
                        div.end { (when(injection.created_at)) }
                        div.whence {
                            span { @match injection.occasion.as_str() { "start" => "at its start", "prompt" => "with a prompt", "file" => "before an edit", "failure" => "after a failure", other => (other) } }
                            @if !injection.then_changed.is_empty() { span.tag.good { "then changed " (names(&injection.then_changed)) } }
                            @else if !injection.then_read.is_empty() { span.tag { "then read " (names(&injection.then_read)) } }
                            @else { span { "no file of this note was touched afterwards" } }
                        }
                    }
                }
            }
        }
    }
}

fn names(files: &[String]) -> String {
    let names: Vec<String> =
        files.iter().take(3).map(|file| cut(file.rsplit('/').next().unwrap_or(file), 60)).collect();
    names.join(", ")
}

fn similar(history: &NoteHistory, write: &Write<'_>) -> Markup {
    html! {
        @if !history.similar.is_empty() {
            section.section aria-labelledby="similar" {
                h2 #similar { "Similar notes" }
                (write.form(&format!("/memory/{}/merge", history.note.id), &html! {
                    ol.rows {
                        @for note in &history.similar {
                            (note_row(note, &html! { div.acts { label.check { input type="checkbox" name="merge" value=(note.id); span { "says the same" } } } }))
                        }
                    }
                    div.acts { button { "Merge into this note" } }
                }))
            }
        }
    }
}

fn versions(id: i64, versions: &[NoteVersion], write: &Write<'_>) -> Markup {
    html! {
        @if !versions.is_empty() {
            section.section aria-labelledby="versions" {
                h2 #versions { "Earlier versions" }
                ol.rows {
                    @for version in versions {
                        li.row.two data-row {
                            div.title dir="auto" { (prose(&version.title, 200)) }
                            div.end { "until " (exact(version.replaced_at)) }
                            @if !version.summary.is_empty() { div.more dir="auto" { (prose(&version.summary, 600)) } }
                            div.acts { (write.form(&format!("/memory/{id}/revert"), &html! { input type="hidden" name="version" value=(version.id); button.quiet { "Return to this version" } })) }
                        }
                    }
                }
            }
        }
    }
}

/// The page of a summary or a prompt.
pub fn document(memory: &Memory) -> Markup {
    html! {
        div.head { h1 dir="auto" { (cut(&memory.title, 400)) } span { (kind(memory.label())) } }
        p.lede {
            (exact(memory.created_at)) " · " (cut(&memory.project, 60)) " · "
            a href=(format!("/session/{}#t{}", crate::client::encoded(&memory.session_id), memory.prompt_number.unwrap_or_default())) { "in its session" }
        }
        @for text in [&memory.summary, &memory.detail] { @if !text.is_empty() { p.prose dir="auto" { (prose(text, WHOLE)) } } }
        @if !memory.facts.is_empty() { ul.facts { @for fact in &memory.facts { li dir="auto" { (prose(fact, 4_000)) } } } }
    }
}

/// The page of all that the user has changed, and of the learnings.
pub fn curated(curated: &Curated, projects: &[KnownProject], project: &str, write: &Write<'_>) -> Markup {
    html! {
        div.head {
            h1 { "Memory" }
            form.fields action="/memory" { (project_field(projects, project, Some("all projects"))) button { "Show" } }
        }
        p.lede { "What every session of a project knows, and what you have pinned, forgotten or vetoed. Single notes are found by " a href="/search" { "search" } " and in the " a href="/timeline" { "timeline" } "." }
        section.section aria-labelledby="learnings" {
            h2 #learnings { "Learnings" }
            @if curated.learnings.is_empty() {
                div.empty { p { b { "Nothing learned yet." } } p { "When you correct Claude (“no, use pnpm”), or sessions keep running the same command, it becomes a learning. " code { "claude-mem learn add" } " adds one yourself." } }
            }
            ol.rows { @for learning in &curated.learnings { (learning_row(learning, write)) } }
        }
        section.section aria-labelledby="pinned" {
            h2 #pinned { "Pinned notes" }
            @if curated.pinned.is_empty() { p.lede { "A pinned note is in the context of every session of its project. Open a note and press " kbd { "p" } "." } }
            ol.rows { @for note in &curated.pinned { (note_row(note, &html! { div.acts { (write.button(&format!("/memory/{}/unpin", note.id), "quiet", "Unpin", None)) } })) } }
        }
        section.section aria-labelledby="stale" {
            h2 #stale { "Code changed since" }
            @if curated.stale.is_empty() { p.lede { "Notes about code that has changed or is gone are listed here. Nothing is." } }
            ol.rows {
                @for stale in &curated.stale {
                    (note_row(&stale.note, &html! {
                        div.acts {
                            span.tag { @if stale.standing == "gone" { "code is gone" } @else { "code has changed" } }
                            (write.button(&format!("/memory/{}/keep", stale.note.id), "quiet", "Still true", None))
                            (write.button(&format!("/memory/{}/forget", stale.note.id), "quiet", "Forget", None))
                        }
                    }))
                }
            }
        }
        section.section aria-labelledby="vetoes" {
            h2 #vetoes { "Vetoes" }
            @if curated.vetoes.is_empty() { p.lede { "A vetoed statement is never shown or stored again, by anyone." } }
            ol.rows {
                @for veto in &curated.vetoes {
                    li.row.two data-row {
                        div.title dir="auto" { (cut(&veto.statement, 300)) }
                        div.end { (when(veto.created_at)) }
                        div.whence { span { @if veto.project.is_empty() { "every project" } @else { (cut(&veto.project, 60)) } } }
                        div.acts { (write.button(&format!("/veto/{}/lift", veto.id), "quiet", "Lift the veto", None)) }
                    }
                }
            }
        }
        section.section aria-labelledby="forgotten" {
            h2 #forgotten { "Forgotten" }
            @if curated.forgotten.is_empty() { p.lede { "Forgotten notes can be restored here. " code { "claude-mem forget" } " deletes for good." } }
            ol.rows { @for note in &curated.forgotten { (note_row(note, &html! { div.acts { (write.button(&format!("/memory/{}/restore", note.id), "quiet", "Restore", None)) } })) } }
        }
    }
}

fn learning_row(learning: &LearningRow, write: &Write<'_>) -> Markup {
    let path = |action: &str| format!("/memory/L{}/{action}", learning.id);
    html! {
        li.row data-row {
            (kind(&learning.category))
            div.title dir="auto" { (prose(&learning.content, 600)) }
            div.end { (learning.confidence) " %" }
            div.whence {
                span { (cut(learning.project.as_deref().unwrap_or("every project"), 60)) }
                span { "seen in " (counted(learning.times_seen, "session", "sessions")) }
                @if learning.pinned { span.tag.good { "pinned" } }
                @if let Some(source) = learning.source { a href=(format!("/memory/{source}")) { "evidence" } }
            }
            div.acts {
                @if learning.pinned { (write.button(&path("unpin"), "quiet", "Unpin", None)) } @else { (write.button(&path("pin"), "quiet", "Pin", None)) }
                (write.button(&path("veto"), "quiet", "Veto", None))
                (write.button(&path("forget"), "quiet", "Forget", None))
            }
        }
    }
}
