//! The current time in the database's unit, and the user's calendar day.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::llm::budget::Day;
use crate::model::Millis;

/// Milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns the user's local date, as in `2026-11-18`.
pub fn date(now: Millis) -> String {
    let zoned =
        jiff::Timestamp::from_millisecond(now).unwrap_or_default().to_zoned(jiff::tz::TimeZone::system());
    zoned.date().to_string()
}

/// Returns the start of the user's local day.
pub fn day_start(now: Millis) -> Millis {
    Day::local(now).start
}
