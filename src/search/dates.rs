//! Times that a query names: "in March", "last week", "2026-02-03", "vor zwei Wochen", "三月". They are ranges of days, in
//! UTC and with half a day to spare, because they only lift what lies in them and cut nothing off.

use super::words::{fold, words};
use crate::model::Millis;

/// From and until.
pub type Span = (Millis, Millis);

const DAY: Millis = 24 * 60 * 60_000;
const SPARE: Millis = DAY / 2;

/// The span that a text names, if it names one.
pub fn span(text: &str, now: Millis) -> Option<Span> {
    let tokens: Vec<String> = words(text).map(|word| fold(word.text)).collect();
    let today = now.div_euclid(DAY);
    let days = exact_date(&tokens)
        .or_else(|| relative(&tokens, text, today))
        .or_else(|| month(&tokens, text, today))
        .or_else(|| season(&tokens, today))?;
    Some((days.0 * DAY - SPARE, (days.1 + 1) * DAY + SPARE))
}

/// First and last day.
type Days = (i64, i64);

/// `2026-02-03` or `2026-02`, as words.
fn exact_date(tokens: &[String]) -> Option<Days> {
    let number = |at: usize| tokens.get(at).and_then(|token| token.parse::<i64>().ok());
    (0..tokens.len()).find_map(|at| {
        let year = number(at).filter(|year| (2000..2100).contains(year) && tokens[at].len() == 4)?;
        let month = number(at + 1).filter(|month| (1..=12).contains(month) && tokens[at + 1].len() == 2)?;
        match number(at + 2).filter(|day| (1..=31).contains(day)) {
            Some(day) => Some((days_from(year, month, day), days_from(year, month, day))),
            None => Some(whole_month(year, month)),
        }
    })
}

fn whole_month(year: i64, month: i64) -> Days {
    (days_from(year, month, 1), days_from(year + month / 12, month % 12 + 1, 1) - 1)
}

/// Spans that are counted from today: the words, and the first and last day relative to it.
const RELATIVE: [(&str, i64, i64); 30] = [
    ("today", 0, 0),
    ("heute", 0, 0),
    ("今天", 0, 0),
    ("今日", 0, 0),
    ("yesterday", -1, -1),
    ("gestern", -1, -1),
    ("昨天", -1, -1),
    ("昨日", -1, -1),
    ("vorgestern", -2, -2),
    ("前天", -2, -2),
    ("this week", -7, 0),
    ("diese woche", -7, 0),
    ("本周", -7, 0),
    ("这周", -7, 0),
    ("今週", -7, 0),
    ("last week", -14, -1),
    ("letzte woche", -14, -1),
    ("上周", -14, -1),
    ("先週", -14, -1),
    ("this month", -31, 0),
    ("diesen monat", -31, 0),
    ("今月", -31, 0),
    ("这个月", -31, 0),
    ("last month", -62, -1),
    ("letzten monat", -62, -1),
    ("上个月", -62, -1),
    ("先月", -62, -1),
    ("last year", -730, -180),
    ("letztes jahr", -730, -180),
    ("去年", -730, -180),
];

const UNITS: [(&str, i64); 14] = [
    ("day", 1),
    ("days", 1),
    ("week", 7),
    ("weeks", 7),
    ("month", 30),
    ("months", 30),
    ("year", 365),
    ("years", 365),
    ("tag", 1),
    ("tagen", 1),
    ("woche", 7),
    ("wochen", 7),
    ("monat", 30),
    ("monaten", 30),
];

const NUMBERS: [(&str, i64); 14] = [
    ("a", 1),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("ein", 1),
    ("einem", 1),
    ("einer", 1),
    ("zwei", 2),
    ("drei", 3),
    ("vier", 4),
    ("funf", 5),
];

fn relative(tokens: &[String], text: &str, today: i64) -> Option<Days> {
    let spaced = format!(" {} ", tokens.join(" "));
    let named = RELATIVE.iter().find(|(words, ..)| {
        if words.is_ascii() { spaced.contains(&format!(" {words} ")) } else { text.contains(words) }
    });
    if let Some((_, first, last)) = named {
        return Some((today + first, today + last));
    }
    // "two weeks ago", "vor zwei Wochen"
    tokens.windows(3).find_map(|three| {
        let (count, unit) = match (three[0].as_str(), three[2].as_str()) {
            (count, "ago") => (count, three[1].as_str()),
            ("vor", unit) => (three[1].as_str(), unit),
            _ => return None,
        };
        let count = count.parse().ok().or_else(|| value(&NUMBERS, count))?;
        let days = value(&UNITS, unit)?;
        let middle = today - days.saturating_mul(count);
        Some((middle - days, middle + days))
    })
}

fn value(list: &[(&str, i64)], word: &str) -> Option<i64> {
    list.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

const MONTHS: [(&str, i64); 19] = [
    ("january", 1),
    ("february", 2),
    ("march", 3),
    ("april", 4),
    ("june", 6),
    ("july", 7),
    ("august", 8),
    ("september", 9),
    ("october", 10),
    ("november", 11),
    ("december", 12),
    ("januar", 1),
    ("februar", 2),
    ("marz", 3),
    ("mai", 5),
    ("juni", 6),
    ("juli", 7),
    ("oktober", 10),
    ("dezember", 12),
];

const NUMERALS: [(&str, i64); 12] = [
    ("十二", 12),
    ("十一", 11),
    ("十", 10),
    ("九", 9),
    ("八", 8),
    ("七", 7),
    ("六", 6),
    ("五", 5),
    ("四", 4),
    ("三", 3),
    ("二", 2),
    ("一", 1),
];

fn month(tokens: &[String], text: &str, today: i64) -> Option<Days> {
    let named = tokens.iter().position(|token| value(&MONTHS, token).is_some());
    let (month, at) = match named {
        Some(at) => (value(&MONTHS, &tokens[at])?, at),
        // "may" is mostly a verb.
        None if text.contains(" May ") || text.ends_with(" May") => (5, 0),
        None => (unspaced_month(text)?, 0),
    };
    let year = tokens.iter().filter(|token| token.len() == 4).find_map(|token| token.parse().ok());
    let year = year.filter(|year| (2000..2100).contains(year)).unwrap_or_else(|| latest_year(month, today));
    let (first, last) = whole_month(year, month);
    let before = at.checked_sub(1).and_then(|at| tokens.get(at)).map(String::as_str);
    Some(match before {
        Some("early" | "anfang") => (first, first + 12),
        Some("mid" | "mitte") => (first + 8, first + 22),
        Some("late" | "ende") => (last - 12, last),
        _ => (first, last),
    })
}

/// `3月`, `三月`.
fn unspaced_month(text: &str) -> Option<i64> {
    let before = text.split_once('月')?.0;
    let digits: String = before.chars().rev().take_while(char::is_ascii_digit).collect();
    let number = digits.chars().rev().collect::<String>().parse().ok();
    let numeral = || NUMERALS.iter().find(|(numeral, _)| before.ends_with(numeral)).map(|(_, value)| *value);
    number.or_else(numeral).filter(|month| (1..=12).contains(month))
}

/// The year in which that month was last.
fn latest_year(month: i64, today: i64) -> i64 {
    let (year, current, _) = civil(today);
    if month > current { year - 1 } else { year }
}

const SEASONS: [(&str, i64); 10] = [
    ("spring", 3),
    ("summer", 6),
    ("autumn", 9),
    ("fall", 9),
    ("winter", 12),
    ("fruhling", 3),
    ("fruhjahr", 3),
    ("sommer", 6),
    ("herbst", 9),
    ("christmas", 12),
];

fn season(tokens: &[String], today: i64) -> Option<Days> {
    let at = tokens.iter().position(|token| value(&SEASONS, token).is_some())?;
    // Spring is also a framework, and fall a verb.
    let is_time = at > 0
        && ["this", "last", "in", "im", "letzten", "diesen", "before", "since"]
            .contains(&tokens[at - 1].as_str());
    let month = value(&SEASONS, &tokens[at]).filter(|_| is_time)?;
    let first = days_from(latest_year(month, today), month, 1);
    Some((first, first + 91))
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days_from(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(text: &str) -> Option<(String, String)> {
        let now = days_from(2026, 5, 20) * DAY + 1;
        let name = |millis: Millis| {
            let (year, month, day) = civil(millis.div_euclid(DAY));
            format!("{year}-{month:02}-{day:02}")
        };
        span(text, now).map(|(from, to)| (name(from + SPARE), name(to - SPARE - 1)))
    }

    #[test]
    fn named_times_become_spans() {
        let cases = [
            ("deploy on 2026-02-03", "2026-02-03", "2026-02-03"),
            ("what broke in 2025-12", "2025-12-01", "2025-12-31"),
            ("the outage in March", "2026-03-01", "2026-03-31"),
            ("the outage in September", "2025-09-01", "2025-09-30"),
            ("early February migration", "2026-02-01", "2026-02-13"),
            ("Fehler im März 2024", "2024-03-01", "2024-03-31"),
            ("三月的重构", "2026-03-01", "2026-03-31"),
            ("11月の件", "2025-11-01", "2025-11-30"),
            ("what did we do yesterday", "2026-05-19", "2026-05-19"),
            ("changes two weeks ago", "2026-04-29", "2026-05-13"),
            ("vor 3 Tagen", "2026-05-16", "2026-05-18"),
            ("昨天的错误", "2026-05-19", "2026-05-19"),
            ("upgrade this spring", "2026-03-01", "2026-05-31"),
        ];
        for (text, from, to) in cases {
            assert_eq!(days(text), Some((from.into(), to.into())), "{text}");
        }
    }

    #[test]
    fn other_words_name_no_time() {
        for text in
            ["you may retry", "Spring Boot", "port 2026", "migration 0054", "the fall back path", "week"]
        {
            assert_eq!(days(text), None, "{text}");
        }
    }
}
