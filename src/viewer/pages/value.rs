//! Value: what memory cost, and what came of it.

use jiff::ToSpan;
use maud::{Markup, html};

use super::charts;
use super::text::{bytes, counted, cut, dollars, grouped, share};
use crate::api::{Value, ValueRow};

const PERIODS: [(u32, &str); 3] = [(7, "7 days"), (30, "30 days"), (90, "90 days")];

/// The page.
pub fn value(value: &Value) -> Markup {
    let total = &value.total;
    let per_note = if total.notes > 0 { total.cost_usd / total.notes as f64 } else { 0.0 };
    html! {
        div.head {
            h1 { "Value" }
            nav.acts aria-label="Period" {
                @for (days, label) in PERIODS { a.button href=(format!("/value?days={days}")) aria-current=[(days == value.days).then_some("true")] { (label) } }
            }
        }
        dl.figures {
            div { dt { "Notes made" } dd { (grouped(total.notes)) } }
            div { dt { "Spent" } dd { (dollars(total.cost_usd)) " " small { (dollars(per_note)) " per note" } } }
            div { dt { "Contexts given" } dd { (grouped(total.contexts)) " " small { (grouped(total.context_tokens)) " tokens" } } }
            div { dt { "Notes shown" } dd { (grouped(total.shown)) } }
            div { dt { "Then used" } dd { (share(total.used, total.shown)) " " small { (grouped(total.used)) } } }
        }
        p.lede { "A note counts as used if the session that was shown it then changed or read one of its files. That is a lower bound: a note can help without a file." }
        @if total.notes == 0 && total.contexts == 0 {
            div.empty { p { b { "Nothing happened in these " (value.days) " days." } } p { "After some sessions this page shows what memory gave them, and what it cost." } }
        } @else {
            div.split {
                section.section aria-labelledby="made" {
                    h2 #made { "Notes by day" }
                    (charts::bars("Notes by day", &days(value, |row| row.notes as f64), |notes| counted(notes as i64, "note", "notes")))
                }
                section.section aria-labelledby="cost" {
                    h2 #cost { "Cost by day" }
                    @if total.cost_usd > 0.0 { (charts::bars("Cost by day", &days(value, |row| row.cost_usd), dollars)) }
                    @else { p.lede { "No model was paid: the rules made every note on this machine." } }
                }
            }
            (effects(value))
            (table("By model", "Model", &value.by_model))
            (table("By project", "Project", &value.by_project))
        }
    }
}

/// The use of notes by the sessions that were shown them, and the comparison with sessions without memory.
fn effects(value: &Value) -> Markup {
    let (again, holdout) = (&value.effects.again, &value.effects.holdout);
    let shown: Vec<(String, f64, f64)> = value
        .by_day
        .iter()
        .map(|row| (row.name.clone(), row.used as f64, (row.shown - row.used).max(0) as f64))
        .collect();
    html! {
        section.section aria-labelledby="use" {
            h2 #use { "Shown and used" }
            (charts::bars("Notes shown by day, those that were used at the bottom", &shown, |notes| counted(notes as i64, "note shown", "notes shown")))
            div.table tabindex="0" role="region" aria-label="Use by moment" { table {
                thead { tr { th.text { "Moment" } th { "Contexts" } th { "Tokens" } th { "Shown" } th { "Used" } th { "File changed" } th { "File read" } th { "Command run" } th { "Cited" } th { "Repaired" } } }
                tbody { @for moment in &value.effects.moments {
                    tr {
                        td.text { (moment.moment) } td { (grouped(moment.contexts)) } td { (grouped(moment.tokens)) } td { (grouped(moment.shown)) }
                        td { (share(moment.used, moment.shown)) } td { (grouped(moment.edited)) } td { (grouped(moment.opened)) }
                        td { (grouped(moment.ran)) } td { (grouped(moment.cited)) } td { (grouped(moment.repaired)) }
                    }
                } }
            } }
            p.lede {
                "Of " (counted(again.files, "file", "files")) " read, " (grouped(again.known_files)) " were known from earlier sessions; a note about "
                (grouped(again.shown_files)) " of them had been shown. Of " (counted(again.failures, "repaired failure", "repaired failures")) ", "
                (grouped(again.known_failures)) " had been repaired before."
            }
        }
        section.section aria-labelledby="holdout" {
            h2 #holdout { "With and without memory" }
            @if holdout.withheld == 0 {
                p.lede { "No session was without memory. With " code { "value.holdout_percent" } " some are, chosen at random, and the others are compared with them here." }
            } @else {
                p.lede { (counted(holdout.shown, "session", "sessions")) " with memory, " (grouped(holdout.withheld)) " without. The lines are 95 % intervals of the change by memory." }
                (charts::intervals(&holdout.measures))
            }
        }
    }
}

/// A figure of each day of the period, also of those without activity.
fn days(value: &Value, figure: impl Fn(&ValueRow) -> f64) -> Vec<(String, f64, f64)> {
    let today = jiff::Zoned::now().date();
    let dates = (0..i64::from(value.days)).rev().filter_map(|back| today.checked_sub(back.days()).ok());
    let row = |date: jiff::civil::Date| {
        let date = date.to_string();
        let found = value.by_day.iter().find(|row| row.name == date);
        (date, found.map_or(0.0, &figure), 0.0)
    };
    dates.map(row).collect()
}

fn table(title: &str, name: &str, rows: &[ValueRow]) -> Markup {
    // A context has no model, and without a model there are no calls.
    let has_contexts = rows.iter().any(|row| row.contexts > 0);
    let has_calls = rows.iter().any(|row| row.calls > 0);
    html! {
        @if !rows.is_empty() {
            section.section {
                h2 { (title) }
                div.table tabindex="0" role="region" aria-label=(title) { table {
                    thead { tr {
                        th.text { (name) } th { "Notes" } th { "Raw events" } th { "Kept" }
                        @if has_calls { th { "Calls" } th { "Tokens in" } th { "Tokens out" } th { "Cost" } }
                        @if has_contexts { th { "Contexts" } th { "Notes shown" } th { "Used" } }
                    } }
                    tbody { @for row in rows.iter().take(40) {
                        tr {
                            td.text { @if row.name == "local" { "rules" } @else if row.name == "user" { "saved by you" } @else { (cut(&row.name, 60)) } }
                            td { (grouped(row.notes)) } td { (bytes(row.raw_bytes)) } td { (bytes(row.kept_bytes)) }
                            @if has_calls { td { (grouped(row.calls)) } td { (grouped(row.tokens_in)) } td { (grouped(row.tokens_out)) } td { (dollars(row.cost_usd)) } }
                            @if has_contexts { td { (grouped(row.contexts)) } td { (grouped(row.shown)) } td { (share(row.used, row.shown)) } }
                        }
                    } }
                } }
            }
        }
    }
}
