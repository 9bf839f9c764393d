//! Days that a query names relative to the present, as the index has them with every row: `3 February 2026`.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::model::Millis;
use crate::search::language::words::{fold, words};

/// The index's expression for the days of `yesterday`, `last week`, `3 days ago` or `last friday`; none if no such day is named.
pub fn relative_days(text: &str, now: Millis) -> Option<String> {
    let today = Timestamp::from_millisecond(now).ok()?.to_zoned(TimeZone::UTC).date();
    let words: Vec<String> = words(text).map(|word| fold(word.text)).collect();
    let phrases = (0..words.len()).find_map(|at| phrases(&words[..at], &words[at], today))?;
    (!phrases.is_empty()).then(|| format!("({})", phrases.join(" OR ")))
}

/// A query that names a longer time ago means no day.
const MOST_BACK: i64 = 1_000;

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The phrases for a word, given the words before it.
fn phrases(before: &[String], word: &str, today: Date) -> Option<Vec<String>> {
    let last = before.last().map_or("", String::as_str);
    let (unit, back) = match (last, word) {
        (_, "today" | "heute") => ("day", 0),
        (_, "yesterday" | "gestern") => ("day", 1),
        (unit, "ago") => {
            (unit.trim_end_matches('s'), before.get(before.len().checked_sub(2)?)?.parse().ok()?)
        }
        ("last" | "previous" | "past" | "on" | "letzte" | "letzten" | "letzter", unit) => (unit, 1),
        ("this" | "diese" | "diesen" | "dieser", unit) => (unit, 0),
        _ => return None,
    };
    if back >= MOST_BACK {
        return None;
    }
    match unit {
        "day" => days(today, back, 1),
        "week" | "woche" => days(today, back * 7 + i64::from(today.weekday().to_monday_zero_offset()), 7),
        "month" | "monat" => {
            let month = today.first_of_month().checked_sub(back.months()).ok()?;
            Some(vec![month.strftime("\"%B %Y\"").to_string()])
        }
        _ => {
            let weekday = WEEKDAYS.iter().position(|known| *known == unit)?;
            let since = today.weekday().since(Weekday::from_monday_zero_offset(weekday as i8).ok()?);
            days(today, if since == 0 { 7 } else { i64::from(since) }, 1)
        }
    }
}

/// Phrases for `count` days, the first of them `back` days before today.
fn days(today: Date, back: i64, count: i64) -> Option<Vec<String>> {
    let day = |offset: i64| today.checked_sub(back.days()).ok()?.checked_add(offset.days()).ok();
    (0..count).map(|offset| Some(day(offset)?.strftime("\"%-d %B %Y\"").to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wednesday, 18 November 2026.
    const NOW: Millis = 1_795_000_000_000;

    #[test]
    fn relative_days_become_dates() {
        let expected = [
            ("what did we do yesterday?", "(\"17 November 2026\")"),
            ("the migration 3 days ago", "(\"15 November 2026\")"),
            ("last friday", "(\"13 November 2026\")"),
            ("decisions of last month", "(\"October 2026\")"),
            ("2 months ago", "(\"September 2026\")"),
        ];
        for (query, days) in expected {
            assert_eq!(relative_days(query, NOW).as_deref(), Some(days), "{query}");
        }
        let week = relative_days("bugs of last week", NOW).unwrap();
        assert!(
            week.starts_with("(\"9 November 2026\" OR") && week.ends_with("\"15 November 2026\")"),
            "{week}"
        );
    }

    #[test]
    fn other_queries_name_no_days() {
        for query in [
            "",
            "week",
            "the last commit",
            "ago",
            "9999999999999999999 days ago",
            "99999999999 weeks ago",
            "99999 months ago",
            "on",
        ] {
            assert_eq!(relative_days(query, NOW), None, "{query}");
        }
    }
}
