//! Money: what a call costs, what it may cost at most, and whether it may be made.
//!
//! Pure functions. What was spent is kept by the store. A day is a day of the calendar where the user lives.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::Usage;
use crate::config::Price;
use crate::model::Millis;

/// The price of a model that has no line of its own.
const DEFAULT: &str = "default";
/// The price of such a model on this machine.
const LOOPBACK: &str = "loopback";
/// What must be paid where not even a default is set.
const NO_DEFAULT: Price = Price { input: 10.0, output: 50.0 };

/// The price of a model: its own line in `[prices]`, else that of the longest name it is a version of, else `loopback`
/// if it runs on this machine, else `default`.
pub fn price_of(prices: &BTreeMap<String, Price>, model: &str, on_this_machine: bool) -> Price {
    let fallback = if on_this_machine { LOOPBACK } else { DEFAULT };
    let wanted = plain_name(model);
    prices
        .iter()
        .filter(|(name, _)| {
            *name != DEFAULT && *name != LOOPBACK && is_version_of(&wanted, &plain_name(name))
        })
        .max_by_key(|(name, _)| name.len())
        .map(|(_, price)| *price)
        .or_else(|| prices.get(fallback).copied())
        .unwrap_or(NO_DEFAULT)
}

/// The name without who sells it, in one spelling: `anthropic/claude-haiku-4.5` is `claude-haiku-4-5`.
fn plain_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.to_ascii_lowercase().replace('.', "-")
}

fn is_version_of(model: &str, name: &str) -> bool {
    model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':', '[']))
}

/// What so many tokens cost, in US dollars.
pub fn cost(price: Price, usage: &Usage) -> f64 {
    (usage.tokens_in as f64 * price.input + usage.tokens_out as f64 * price.output) / 1_000_000.0
}

/// More tokens than a text of so many bytes has: code has about 3 bytes to a token, Chinese 2 to 3, random text 2.
pub fn most_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(2) as u64
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It fits under the ceiling, whatever the answer will be.
    Allowed,
    /// It might go beyond the ceiling.
    OverCeiling {
        /// What the day has cost so far.
        spent: f64,
        /// What this call might cost at most.
        at_most: f64,
        /// The ceiling.
        ceiling: f64,
    },
}

/// Decides about a call that costs `at_most` on a day that has cost `spent`: settled calls and, at their most, those
/// under way.
pub fn decide(spent: f64, at_most: f64, ceiling: f64) -> Verdict {
    // Sums of many small amounts are off by some last digits: a billionth of a dollar is nothing.
    if spent + at_most <= ceiling + 1e-9 {
        Verdict::Allowed
    } else {
        Verdict::OverCeiling { spent, at_most, ceiling }
    }
}

/// A day of the calendar: from its first millisecond to the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// When it begins.
    pub start: Millis,
    /// When the next one begins.
    pub end: Millis,
}

impl Day {
    /// The day of this moment in the machine's time zone.
    pub fn local(now: Millis) -> Self {
        Self::in_zone(now, TimeZone::system())
    }

    /// The day of this moment in a time zone. A moment outside the calendar is in a day of its own.
    pub fn in_zone(now: Millis, zone: TimeZone) -> Self {
        let day = || {
            let start = Timestamp::from_millisecond(now)?.to_zoned(zone).start_of_day()?;
            let end = start.checked_add(1.day())?.start_of_day()?;
            Ok::<_, jiff::Error>((start, end))
        };
        match day() {
            Ok((start, end)) => {
                Self { start: start.timestamp().as_millisecond(), end: end.timestamp().as_millisecond() }
            }
            Err(_) => Self { start: now, end: now.saturating_add(86_400_000) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn price(model: &str, on_this_machine: bool) -> (f64, f64) {
        let price = price_of(&Config::default().prices, model, on_this_machine);
        (price.input, price.output)
    }

    #[test]
    fn a_model_has_the_price_of_the_name_it_is_a_version_of() {
        let table = [
            ("claude-haiku-4-5-20251001", (1.0, 5.0)),
            ("claude-haiku-4-5", (1.0, 5.0)),
            ("anthropic/claude-haiku-4.5", (1.0, 5.0)),
            ("anthropic/claude-haiku-5.5", (0.1, 0.5)),
            ("claude-sonnet-4-5@20250929", (3.0, 15.0)),
            ("claude-sonnet-4-6", (3.0, 15.0)),
            ("claude-sonnet-5-5", (2.0, 10.0)),
            ("claude-opus-4-1-20250805", (15.0, 75.0)),
            ("claude-opus-4-20250514", (15.0, 75.0)),
            ("claude-opus-4-5-20251101", (5.0, 25.0)),
            ("claude-opus-5", (5.0, 25.0)),
            ("claude-opus-5-5", (4.0, 20.0)),
            ("claude-fable-5-1", (10.0, 50.0)),
            ("sonnet[1m]", (3.0, 15.0)),
        ];
        for (model, expected) in table {
            assert_eq!(price(model, false), expected, "{model}");
        }
    }

    #[test]
    fn an_unknown_model_is_dear_unless_it_runs_here() {
        assert_eq!(price("gpt-5-mini", false), (10.0, 50.0));
        assert_eq!(price("claude-haiku-4-50", false), (10.0, 50.0), "a longer number is another model");
        assert_eq!(price("qwen3:8b", true), (0.0, 0.0));
        assert_eq!(price("claude-haiku-4-5", true), (1.0, 5.0), "a proxy on this machine is not free");
        assert_eq!(price("default", false), (10.0, 50.0));
        assert_eq!(price_of(&BTreeMap::new(), "x", true), NO_DEFAULT);
    }

    #[test]
    fn cost_is_tokens_times_price() {
        let usage = Usage { tokens_in: 2_000, tokens_out: 600, cost_usd: None };
        let price = price_of(&Config::default().prices, "claude-haiku-4-5", false);
        assert!((cost(price, &usage) - 0.005).abs() < 1e-12);
    }

    #[test]
    fn the_ceiling_is_never_passed_even_by_the_dearest_answer() {
        assert_eq!(decide(0.0, 0.05, 1.0), Verdict::Allowed);
        assert_eq!(decide(0.95, 0.05, 1.0), Verdict::Allowed);
        assert!(matches!(decide(0.96, 0.05, 1.0), Verdict::OverCeiling { .. }));
        assert_eq!(decide(0.0, 0.0, 0.0), Verdict::Allowed, "what costs nothing needs no money");
        assert!(matches!(decide(0.0, 0.001, 0.0), Verdict::OverCeiling { .. }));
    }

    #[test]
    fn a_day_is_a_day_where_the_user_lives_summer_time_included() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let hours = |now: &str| {
            let now = now.parse::<Timestamp>().unwrap().as_millisecond();
            let day = Day::in_zone(now, zone.clone());
            assert!((day.start..day.end).contains(&now));
            (day.end - day.start) / 3_600_000
        };
        assert_eq!(hours("2026-11-16T22:59:59Z"), 24);
        assert_eq!(hours("2026-03-29T10:00:00Z"), 23);
        assert_eq!(hours("2026-10-25T10:00:00Z"), 25);
        let evening =
            Day::in_zone("2026-11-16T23:30:00Z".parse::<Timestamp>().unwrap().as_millisecond(), zone);
        assert_eq!(Timestamp::from_millisecond(evening.start).unwrap().to_string(), "2026-11-16T23:00:00Z");
        assert_eq!(Day::in_zone(Millis::MAX, TimeZone::UTC).start, Millis::MAX);
        assert!(Day::local(0).end > 0);
    }
}
