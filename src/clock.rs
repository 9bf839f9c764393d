//! The current time in the database's unit, and the user's calendar day.

use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(feature = "service")]
use jiff::tz::TimeZone;
#[cfg(feature = "service")]
use jiff::{Timestamp, ToSpan};

use crate::model::Millis;

/// A minute in milliseconds.
pub const MINUTE: Millis = 60_000;
/// An hour in milliseconds.
pub const HOUR: Millis = 60 * MINUTE;
/// A day in milliseconds, if no clock is changed on it.
pub const DAY: Millis = 24 * HOUR;

/// Milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns the user's local date, as in `2026-11-18`.
#[cfg(feature = "service")]
pub fn date(now: Millis) -> String {
    let zoned = Timestamp::from_millisecond(now).unwrap_or_default().to_zoned(TimeZone::system());
    zoned.date().to_string()
}

/// Returns the user's local time, as in `2026-11-18 07:30`.
#[cfg(feature = "service")]
pub fn local_time(at: Millis) -> String {
    let zoned = Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::system());
    zoned.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns start and end in local time, as in `2026-11-18 09:12–10:40`; the second date only if it is another day.
#[cfg(feature = "service")]
pub fn period(from: Millis, to: Millis) -> String {
    let (from, to) = (local_time(from), local_time(to));
    match (from.split_once(' '), to.split_once(' ')) {
        _ if from == to => from,
        (Some((day, _)), Some((same, end))) if day == same => format!("{from}–{end}"),
        _ => format!("{from} – {to}"),
    }
}

/// Returns the start of the user's local day.
#[cfg(feature = "service")]
pub fn day_start(now: Millis) -> Millis {
    Day::local(now).start
}

/// Returns the start of the first of these days, of which today is the last.
#[cfg(feature = "service")]
pub fn first_of_days(days: u32) -> Millis {
    // Noon falls on the right day even across a daylight saving change.
    day_start(day_start(now()) + DAY / 2 - Millis::from(days.saturating_sub(1)) * DAY)
}

/// A calendar day: from its first millisecond to the first of the next day.
#[cfg(feature = "service")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Start of the day.
    pub start: Millis,
    /// Start of the next day.
    pub end: Millis,
}

#[cfg(feature = "service")]
impl Day {
    /// Returns the day of this time in the machine's time zone.
    pub fn local(now: Millis) -> Self {
        Self::in_zone(now, TimeZone::system())
    }

    /// Returns the local day with this date, as in `2026-11-18`; none if it is not a date.
    pub fn of_date(date: &str) -> Option<Self> {
        let start = date.parse::<jiff::civil::Date>().ok()?.to_zoned(TimeZone::system()).ok()?;
        Some(Self::local(start.timestamp().as_millisecond()))
    }

    /// Returns the day of this time in a time zone. A time outside the calendar gets its own day.
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
            Err(_) => Self { start: now, end: now.saturating_add(DAY) },
        }
    }
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn a_day_follows_the_local_calendar_and_summer_time() {
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
