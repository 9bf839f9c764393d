//! Ages in words. Whole minutes at the finest, so that the same minute gives the same words.

use crate::clock::{DAY, HOUR, MINUTE};
use crate::model::Millis;

/// "just now", "5 minutes ago", "yesterday", "3 weeks ago".
pub fn ago(then: Millis, now: Millis) -> String {
    let elapsed = (now / MINUTE - then / MINUTE).max(0) * MINUTE;
    let (count, unit) = match elapsed {
        _ if elapsed < 2 * MINUTE => return "just now".to_owned(),
        _ if elapsed < HOUR => (elapsed / MINUTE, "minute"),
        _ if elapsed < DAY => (elapsed / HOUR, "hour"),
        _ if elapsed < 2 * DAY => return "yesterday".to_owned(),
        _ if elapsed < 14 * DAY => (elapsed / DAY, "day"),
        _ if elapsed < 60 * DAY => (elapsed / (7 * DAY), "week"),
        _ if elapsed < 730 * DAY => (elapsed / (30 * DAY), "month"),
        _ => (elapsed / (365 * DAY), "year"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

/// The same for a text that should stay as it is for a while: whole hours at the finest.
pub fn roughly(then: Millis, now: Millis) -> String {
    if now - then < HOUR { "within the hour".to_owned() } else { ago(then, now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_said_as_people_say_them() {
        let now = 2_000_000_000_000;
        let cases = [
            (0, "just now"),
            (-5 * MINUTE, "just now"),
            (5 * MINUTE, "5 minutes ago"),
            (HOUR, "1 hour ago"),
            (30 * HOUR, "yesterday"),
            (3 * DAY, "3 days ago"),
            (21 * DAY, "3 weeks ago"),
            (100 * DAY, "3 months ago"),
            (800 * DAY, "2 years ago"),
        ];
        for (elapsed, words) in cases {
            assert_eq!(ago(now - elapsed, now), words);
        }
    }

    #[test]
    fn the_same_minute_gives_the_same_words() {
        let then = 1_999_999_123_456;
        assert_eq!(ago(then, 2_000_000_040_001), ago(then, 2_000_000_099_999));
    }
}
