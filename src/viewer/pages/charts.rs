//! Charts as SVG: without scripts, with a title for every value.

use maud::{Markup, html};

use super::text::counted;
use super::timeline::day_path;
use crate::api::{DayCount, Measure};

/// A bar for each value; the second value of a bar is drawn on top of the first.
pub fn bars(title: &str, values: &[(String, f64, f64)], unit: impl Fn(f64) -> String) -> Markup {
    const HEIGHT: f64 = 90.0;
    let most = values.iter().map(|(_, one, other)| one + other).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let step = 720.0 / values.len().max(1) as f64;
    let width = (step * 0.72).min(26.0);
    html! {
        figure.chart {
            svg viewBox="0 0 720 112" role="img" aria-label=(title) {
                line.axis x1="0" y1=(HEIGHT + 4.0) x2="720" y2=(HEIGHT + 4.0) {}
                @for (at, (name, one, other)) in values.iter().enumerate() {
                    @let x = step * at as f64 + (step - width) / 2.0;
                    @let (low, high) = (HEIGHT * one / most, HEIGHT * other / most);
                    g {
                        title { (name) ": " (unit(one + other)) }
                        rect x=(round(x)) y="0" width=(round(width)) height=(HEIGHT + 4.0) fill="transparent" {}
                        @if *one > 0.0 { rect.bar x=(round(x)) y=(round(HEIGHT + 4.0 - low.max(1.5))) width=(round(width)) height=(round(low.max(1.5))) rx="1.5" {} }
                        @if *other > 0.0 { rect.bar.other x=(round(x)) y=(round(HEIGHT + 4.0 - low - high)) width=(round(width)) height=(round(high)) rx="1.5" {} }
                    }
                }
                @if let (Some(first), Some(last)) = (values.first(), values.last()) {
                    text x="0" y="110" { (first.0) }
                    @if values.len() > 1 { text x="720" y="110" text-anchor="end" { (last.0) } }
                }
            }
        }
    }
}

/// The change by memory for each measure, with its interval, on one axis from -100 % to +100 %.
pub fn intervals(measures: &[Measure]) -> Markup {
    let place = |percent: f64| round(260.0 + 2.2 * (100.0 + percent.clamp(-100.0, 100.0)));
    let height = 24 * measures.len() + 20;
    html! {
        figure.chart {
            svg viewBox=(format!("0 0 720 {height}")) role="img" aria-label="Change by memory" {
                line.axis x1=(place(0.0)) y1="0" x2=(place(0.0)) y2=(height - 16) {}
                @for (at, measure) in measures.iter().enumerate() {
                    @let y = 24 * at + 14;
                    text x="0" y=(y + 4) { (measure.name) }
                    @if let (Some([low, high]), Some(change)) = (measure.interval, measure.change) {
                        g {
                            title { (format!("{change:+.0} % ({low:+.0} to {high:+.0} %)")) }
                            rect.bar.other x=(place(low)) y=(y - 2) width=(round((place(high) - place(low)).max(1.0))) height="4" {}
                            rect.bar x=(place(change) - 4.0) y=(y - 4) width="8" height="8" rx="4" {}
                        }
                    } @else { text x=(place(0.0) + 8.0) y=(y + 4) { "not enough data" } }
                }
                text x=(place(-100.0)) y=(height - 4) { "-100 %" }
                text x=(place(100.0)) y=(height - 4) text-anchor="end" { "+100 %" }
            }
        }
    }
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// A thin bar that shows a share from 0 to 1.
pub fn meter(share: f64, label: &str) -> Markup {
    html! {
        div.meter { svg viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.bar width=(round(100.0 * share.clamp(0.0, 1.0))) height="4" {}
        } }
    }
}

/// The notes of each day of a year, one column for each week; each day leads to its notes.
pub fn year(days: &[DayCount], today: jiff::civil::Date, project: &str) -> Markup {
    let count = |date: jiff::civil::Date| {
        let date = date.to_string();
        days.binary_search_by(|day| day.date.as_str().cmp(date.as_str())).map_or(0, |at| days[at].notes)
    };
    let most = days.iter().map(|day| day.notes).max().unwrap_or_default().max(1);
    let total: i64 = days.iter().map(|day| day.notes).sum();
    let weekday = i64::from(today.weekday().to_monday_zero_offset());
    // The first day of the first of 53 columns.
    let first = today.checked_sub(jiff::Span::new().days(52 * 7 + weekday)).unwrap_or(today);
    let cells = (0..53 * 7).filter_map(|at: i64| {
        let date = first.checked_add(jiff::Span::new().days(at)).ok().filter(|date| *date <= today)?;
        Some((at / 7, at % 7, date))
    });
    let cells: Vec<_> = cells.collect();
    let level = |notes: i64| if notes == 0 { 0 } else { (1 + 3 * (notes - 1) / most.max(4)).min(4) };
    html! {
        figure.chart.heat tabindex="0" aria-label="Notes by day, scrollable" {
            svg viewBox="0 0 760 112" role="group" aria-label=(format!("{} in the last year", counted(total, "note", "notes"))) {
                @for (column, row, date) in &cells {
                    @if *row == 0 && date.day() <= 7 { text x=(28 + column * 13) y="9" { (date.strftime("%b").to_string()) } }
                }
                @for (row, name) in [(0, "Mon"), (2, "Wed"), (4, "Fri")] { text x="0" y=(25 + row * 13) { (name) } }
                @for (column, row, date) in &cells {
                    @let notes = count(*date);
                    @let cell = html! {
                        rect class=(format!("h{}", level(notes))) x=(28 + column * 13) y=(15 + row * 13) width="11" height="11" rx="2" {
                            title { (date) ": " (counted(notes, "note", "notes")) }
                        }
                    };
                    // Days with notes are links; the sessions below lead to the same notes by keyboard.
                    @if notes > 0 { a href=(day_path(*date, project)) tabindex="-1" aria-label=(format!("{date}: {}", counted(notes, "note", "notes"))) { (cell) } } @else { (cell) }
                }
            }
        }
    }
}
