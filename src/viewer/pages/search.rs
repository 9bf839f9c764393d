//! Search: hits with the reason for their rank.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::text::{counted, cut, marked, when};
use super::{kind, pager, project_field};
use crate::api::{Hit, KnownProject, ScoreParts, SearchQuery, SearchResponse};

/// Hits on a page.
const PAGE: usize = 20;

/// The fields of the form, as they are in the address.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchForm {
    q: String,
    project: String,
    #[serde(rename = "type")]
    types: String,
    file: String,
    since: String,
    offset: String,
    as_of: String,
}

impl SearchForm {
    /// The search that the form stands for; none for an empty form.
    pub fn query(&self) -> Option<SearchQuery> {
        let is_empty = [&self.q, &self.project, &self.types, &self.file, &self.since]
            .iter()
            .all(|field| field.trim().is_empty());
        (!is_empty).then(|| SearchQuery {
            q: self.q.chars().take(2_000).collect(),
            project: self.project.clone(),
            types: self.types.clone(),
            file: self.file.clone(),
            since: self.since.clone(),
            offset: self.offset.clone(),
            as_of: self.as_of.clone(),
            limit: PAGE.to_string(),
            explain: "1".into(),
            ..SearchQuery::default()
        })
    }

    fn page(&self, offset: usize, as_of: &str) -> String {
        let offset = if offset == 0 { String::new() } else { offset.to_string() };
        let form = Self { offset, as_of: as_of.to_owned(), ..self.clone() };
        let fields = [
            ("q", &form.q),
            ("project", &form.project),
            ("type", &form.types),
            ("file", &form.file),
            ("since", &form.since),
            ("offset", &form.offset),
            ("as_of", &form.as_of),
        ];
        let pairs: Vec<String> = fields
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", crate::client::encoded(value)))
            .collect();
        format!("/search?{}", pairs.join("&"))
    }
}

const TYPES: [&str; 6] = ["bugfix", "feature", "refactor", "change", "discovery", "decision"];
const TIMES: [(&str, &str); 5] =
    [("", "any time"), ("1d", "last day"), ("7d", "last week"), ("30d", "last month"), ("365d", "last year")];

/// The page.
pub fn search(
    form: &SearchForm,
    projects: &[KnownProject],
    found: Option<&Result<SearchResponse, String>>,
) -> Markup {
    html! {
        h1.sr { "Search" }
        form.section action="/search" role="search" data-typed {
            div.fields {
                label.wide { "Search memories"
                    input type="search" name="q" value=(form.q) autofocus autocomplete="off" spellcheck="false" placeholder="words, a file, an error, \"a phrase\"";
                }
                button.main { "Search" }
            }
            div.fields {
                (project_field(projects, &form.project, Some("all projects")))
                label { "Type" select name="type" {
                    option value="" { "any type" }
                    @for name in TYPES { option value=(name) selected[form.types == name] { (name) } }
                } }
                label { "Time" select name="since" {
                    @for (value, label) in TIMES { option value=(value) selected[form.since == value] { (label) } }
                } }
                label { "File" input name="file" value=(form.file) placeholder="src/upload.rs" autocomplete="off" spellcheck="false"; }
            }
        }
        div.section #results aria-live="polite" {
            @match found {
                None => (hints()),
                Some(Err(message)) => div.notice.warn role="status" { (cut(message, 300)) },
                Some(Ok(found)) => (hits(form, found)),
            }
        }
    }
}

fn hits(form: &SearchForm, found: &SearchResponse) -> Markup {
    let offset: usize = form.offset.parse().unwrap_or_default();
    let previous = (offset > 0).then(|| form.page(offset.saturating_sub(PAGE), &found.as_of));
    let next = found.next_offset.map(|next| form.page(next, &found.as_of));
    html! {
        p.lede {
            (counted(i64::try_from(found.total).unwrap_or_default(), "memory", "memories"))
            @if let Some(took) = found.took_ms { " in " (format!("{took:.1}")) " ms" }
            @for correction in &found.corrections { ", " (cut(&correction.asked, 40)) " read as " b { (cut(&correction.read_as, 40)) } }
        }
        @if found.hits.is_empty() {
            div.empty { p { b { "Nothing matches." } } p { "Try fewer or other words, or remove a filter. Words of any language are found, also misspelt." } }
        }
        ol.rows { @for hit in &found.hits { (row(hit)) } }
        (pager(previous, next, ["better hits", "more hits"]))
    }
}

fn row(hit: &Hit) -> Markup {
    html! {
        li.row data-row {
            (kind(hit.label()))
            div.title dir="auto" { a href=(format!("/memory/{}", hit.reference)) { (marked(&hit.title, &hit.title_marks, 240)) } }
            div.end { (when(hit.created_at)) }
            @if !hit.snippet.is_empty() { div.more dir="auto" { (marked(&hit.snippet, &hit.snippet_marks, 600)) } }
            div.whence {
                span { (cut(&hit.project, 60)) }
                span { "#" (hit.reference) }
                @if !hit.similar.is_empty() { span { (counted(i64::try_from(hit.similar.len()).unwrap_or_default(), "similar note", "similar notes")) } }
            }
            @if let Some(parts) = &hit.explain { (why(hit.score, parts)) }
        }
    }
}

/// The reason for a rank: the parts of its score in words.
fn why(score: f64, parts: &ScoreParts) -> Markup {
    let clues: Vec<String> = parts.clues.iter().take(12).map(|(clue, ..)| cut(clue, 40)).collect();
    let factors = [("kind", parts.kind), ("files in common", parts.files)];
    html! {
        details { summary { "score " (format!("{score:.2}")) }
            dl.pairs {
                dt { "words" } dd { (format!("{:.2}", parts.words)) @if !clues.is_empty() { " (" (clues.join(", ")) ")" } }
                @if parts.meaning > 0.0 { dt { "meaning" } dd { (format!("{:.2}", parts.meaning)) } }
                @if parts.session > 0.0 { dt { "its session" } dd { (format!("+{:.2}", parts.session)) } }
                @for (label, factor) in factors {
                    @if factor > 0.0 && (factor - 1.0).abs() > 0.001 { dt { (label) } dd { (format!("× {factor:.2}")) } }
                }
            }
        }
    }
}

fn hints() -> Markup {
    html! {
        div.empty {
            p { b { "Search every note, summary and prompt." } }
            p { "Ask in your own words: " i { "why did we drop the token cache" } ". Quotes search a phrase. Filters work without words, too: a file alone lists all that is known about it." }
        }
    }
}
