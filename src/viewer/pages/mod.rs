//! The pages, rendered here. Memories are hostile input: every text goes through [`text`], and nothing is ever marked safe.

mod charts;
mod context;
mod health;
mod memory;
mod now;
mod search;
mod session;
pub mod text;
mod timeline;
mod value;

pub use context::{ContextAsked, ContextShown, context};
pub use health::{LastChecks, health};
pub use memory::{curated, document, note};
pub use now::now;
pub use search::{SearchForm, search};
pub use session::{event, events, session};
pub use timeline::{PAGE as SESSIONS, day, timeline};
pub use value::value;

use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::service::PageError;
use crate::api::{KnownProject, NoteLine};
use text::{cut, prose, when};

/// The frame of every page.
pub struct PageFrame<'a> {
    /// Name of the page in the navigation.
    pub page: &'static str,
    /// Its title.
    pub title: &'a str,
    /// A message about the last change.
    pub notice: Option<Markup>,
}

const PAGES: [(&str, &str, &str); 7] = [
    ("now", "/", "Now"),
    ("search", "/search", "Search"),
    ("timeline", "/timeline", "Timeline"),
    ("memory", "/memory", "Memory"),
    ("context", "/context", "Context"),
    ("value", "/value", "Value"),
    ("health", "/health", "Health"),
];

impl PageFrame<'_> {
    /// Puts the content into the frame.
    pub fn around(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (cut(self.title, 120)) " · claude-mem" }
                    link rel="icon" href=(assets::ICON.path);
                    link rel="stylesheet" href=(assets::STYLE.path);
                    script type="module" src=(assets::SCRIPT.path) {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    header.top { div.top-in {
                        a.brand href="/" {
                            svg viewBox="0 0 16 16" aria-hidden="true" {
                                rect width="16" height="16" rx="3.5" fill="#14606d" {}
                                path d="M4 4.5h8M4 8h8M4 11.5h5" stroke="#fff" stroke-width="1.6" stroke-linecap="round" {}
                            }
                            "claude-mem"
                        }
                        nav.tabs aria-label="Pages" {
                            @for (name, path, label) in PAGES {
                                a href=(path) data-page=(name) aria-current=[(name == self.page).then_some("page")] { (label) }
                            }
                        }
                        @if self.page != "search" {
                            form.quick action="/search" role="search" {
                                input type="search" name="q" placeholder="Search  /" aria-label="Search memories" autocomplete="off";
                            }
                        }
                    } }
                    main #main data-page=(self.page) tabindex="-1" {
                        @if let Some(notice) = &self.notice { (notice) }
                        (content)
                    }
                    footer.foot {
                        span { "Served by " code { "claude-mem open" } " on this machine only." }
                        a #keys-open href="#keys" { "Keys " kbd { "?" } }
                    }
                    (keys())
                }
            }
        }
    }
}

fn keys() -> Markup {
    let keys = [
        ("/", "search"),
        ("j k", "next and previous row"),
        ("← →", "previous and next session or page"),
        ("e", "edit the memory"),
        ("p", "pin or unpin it"),
        ("x", "forget it, with ten seconds to undo"),
        ("?", "this list"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h3 #keys-title { "Keys" }
            dl { @for (key, meaning) in keys { dt { kbd { (key) } } dd { (meaning) } } }
            form method="dialog" { button autofocus { "Close" } }
        }
    }
}

/// A page that explains why there is nothing to see.
pub fn trouble(page: &'static str, trouble: &PageError) -> Markup {
    let content = html! {
        h1 { @if trouble.is_missing() { "Not found" } @else { "Nothing to show" } }
        div.empty role="status" {
            p { (cut(&trouble.message(), 500)) }
            @if *trouble == PageError::Down {
                p { "Memories are kept meanwhile. " a href="/health" { "Check the installation" } "." }
            }
        }
    };
    PageFrame { page, title: "Nothing to show", notice: None }.around(&content)
}

/// A type of note, or a kind of memory.
fn kind(word: &str) -> Markup {
    html! { span class=(format!("kind k-{}", word.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default())) { (cut(word, 20)) } }
}

/// A note in a list.
fn note_row(note: &NoteLine, actions: &Markup) -> Markup {
    html! {
        li.row data-row {
            (kind(&note.kind))
            div.title dir="auto" { a href=(format!("/memory/{}", note.id)) { (prose(note.heading(), 200)) } }
            div.end { (when(note.created_at)) }
            @if !note.title.is_empty() && !note.summary.is_empty() { div.more dir="auto" { (prose(&note.summary, 400)) } }
            div.whence {
                span { (cut(&note.project, 60)) }
                @if note.pinned { span.tag.good { "pinned" } }
                @if !note.origin.is_empty() { span { "by " (by(&note.origin)) } }
            }
            (actions)
        }
    }
}

/// The maker of a note: the rules have no model.
fn by(origin: &str) -> String {
    if origin == "local" { "rules".into() } else { cut(origin, 60) }
}

/// A choice of project.
fn project_field(projects: &[KnownProject], chosen: &str, all: Option<&str>) -> Markup {
    html! {
        label { "Project"
            select name="project" {
                @if let Some(all) = all { option value="" { (all) } }
                @for project in projects {
                    option value=(project.name) selected[project.name == chosen] { (cut(&project.name, 60)) }
                }
            }
        }
    }
}

/// A form that writes: one button, and the token that proves that it is ours.
pub struct Write<'a> {
    /// The token.
    pub token: &'a str,
}

impl Write<'_> {
    /// A button that posts to a path.
    pub fn button(&self, path: &str, class: &str, label: &str, key: Option<&str>) -> Markup {
        self.form(path, &html! { button class=(class) data-key=[key] { (label) } })
    }

    /// A form with fields of its own.
    pub fn form(&self, path: &str, fields: &Markup) -> Markup {
        html! { form method="post" action=(path) { input type="hidden" name="token" value=(self.token); (fields) } }
    }
}

/// The ways to a page before and after this one.
fn pager(previous: Option<String>, next: Option<String>, labels: [&str; 2]) -> Markup {
    html! {
        @if previous.is_some() || next.is_some() {
            nav.pages aria-label="Further pages" {
                span { @if let Some(path) = previous { a rel="prev" href=(path) { "← " (labels[0]) } } }
                span { @if let Some(path) = next { a rel="next" href=(path) { (labels[1]) " →" } } }
            }
        }
    }
}
