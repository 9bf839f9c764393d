//! The present, as the database has it, and the day that it belongs to.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::llm::budget::Day;
use crate::model::Millis;

/// Milliseconds since 1970.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// When the user's day began.
pub fn day_start(now: Millis) -> Millis {
    Day::local(now).start
}
