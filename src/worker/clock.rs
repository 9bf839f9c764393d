//! The present, as the database has it, and the day that it belongs to.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::Millis;

/// Milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// When the user's day began.
pub fn day_start(now: Millis) -> Millis {
    let start = jiff::Timestamp::from_millisecond(now)
        .ok()
        .and_then(|moment| moment.to_zoned(jiff::tz::TimeZone::system()).start_of_day().ok());
    start.map_or(now, |day| day.timestamp().as_millisecond())
}
