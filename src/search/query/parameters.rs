//! A search as named parameters: of a URL, a JSON body, a command line, a tool call.

use crate::api::SearchQuery;
use crate::model::{Millis, ObservationType};
use crate::search::{AsOf, Filter, Request, Similarity, TurnId};
use crate::store::index::search::Kind;

/// The size of a page by default, and at most.
pub const PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;
const FARTHEST: usize = 10_000;

impl Request {
    /// The request that the parameters make, or what is wrong with them.
    pub fn from_query(query: &SearchQuery, now: Millis) -> Result<Self, String> {
        let text = |value: &String| Some(value.clone()).filter(|value| !value.is_empty());
        let time = |name: &str, value: &String| match text(value) {
            None => Ok(None),
            Some(word) => moment(&word, now).map(Some).ok_or_else(|| {
                format!("{name}: '{word}' is no time: 2026-02-03, 7d (ago) and milliseconds are")
            }),
        };
        let number = |name: &str, value: &String, usual: usize, most: usize| match text(value) {
            None => Ok(usual),
            Some(word) => word
                .parse()
                .map(|number: usize| number.min(most))
                .map_err(|_| format!("{name}: '{word}' is no number")),
        };
        let filter = Filter {
            project: text(&query.project),
            kinds: list(text(&query.kind), kind)?,
            types: list(text(&query.types), type_word)?,
            concept: text(&query.concept),
            file: text(&query.file),
            since: time("since", &query.since)?,
            until: time("until", &query.until)?,
        };
        let as_of = match text(&query.as_of) {
            None => None,
            Some(word) => Some(AsOf::from_word(&word).ok_or("as_of is not from an earlier page")?),
        };
        Ok(Self {
            query: text(&query.q).unwrap_or_default(),
            similarity: Similarity::Unknown,
            filter,
            exclude: text(&query.exclude_session).map(|session_id| TurnId {
                session_id,
                prompt_number: text(&query.exclude_prompt).and_then(|number| number.parse().ok()),
            }),
            limit: number("limit", &query.limit, PAGE, LARGEST_PAGE)?.max(1),
            offset: number("offset", &query.offset, 0, FARTHEST)?,
            as_of,
            near_files: Vec::new(),
            explain: text(&query.explain).is_some_and(|word| word != "0" && word != "false"),
            without_text: false,
            now,
        })
    }
}

fn list<T>(text: Option<String>, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let text = text.unwrap_or_default();
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(read).collect()
}

fn kind(word: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.as_str() == word.trim_end_matches('s'));
    let known = known.or_else(|| (word == "summaries").then_some(Kind::Summary));
    known.ok_or_else(|| format!("kind: '{word}' is none of observation, summary, prompt"))
}

fn type_word(word: &str) -> Result<String, String> {
    let known = ObservationType::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(word));
    known.map(|known| known.as_str().to_owned()).ok_or_else(|| {
        format!("type: '{word}' is none of {}", ObservationType::ALL.map(ObservationType::as_str).join(", "))
    })
}

/// A point in time: milliseconds, a date of the local calendar, a time stamp, or an age such as `12h`, `7d`, `3w`.
pub fn moment(word: &str, now: Millis) -> Option<Millis> {
    if let Ok(millis) = word.parse() {
        return Some(millis);
    }
    let unit = word.chars().last()?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 24 * 7,
        _ => 0,
    };
    if hours > 0
        && let Ok(count) = word[..word.len() - 1].parse::<i64>()
    {
        return now.checked_sub(count.checked_mul(hours * 3_600_000)?);
    }
    if let Ok(stamp) = word.parse::<jiff::Timestamp>() {
        return Some(stamp.as_millisecond());
    }
    let date: jiff::civil::DateTime = word.parse().ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Request, String> {
        let fields: serde_json::Map<_, _> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let query = serde_json::from_value(fields.into()).map_err(|error| error.to_string())?;
        Request::from_query(&query, 1_000_000_000_000)
    }

    #[test]
    fn nothing_is_needed_and_mistakes_are_told() {
        assert_eq!(parse(&[]).unwrap().limit, PAGE);
        assert_eq!(parse(&[("limit", "5000")]).unwrap().limit, LARGEST_PAGE);
        for wrong in [
            ("limit", "many"),
            ("type", "bug"),
            ("kind", "x"),
            ("since", "soon"),
            ("as_of", "1.2"),
            ("quer", "x"),
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_are_dates_ages_and_stamps() {
        let now = 1_000_000_000_000;
        assert_eq!(moment("7d", now), Some(now - 7 * 24 * 3_600_000));
        assert_eq!(moment("1700000000000", now), Some(1_700_000_000_000));
        assert_eq!(moment("2026-02-03T00:00:00Z", now), Some(1_770_076_800_000));
        assert!(moment("2026-02-03", now).is_some_and(|at| (at - 1_770_076_800_000).abs() <= 14 * 3_600_000));
        assert_eq!(moment("9999999999999999999d", now), None);
        assert_eq!(moment("日", now), None);
    }
}
