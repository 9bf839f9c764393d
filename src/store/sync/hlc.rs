//! The hybrid logical clock that orders records of different devices.

use crate::model::Millis;

/// Maximum lead of a record's clock over the server's clock when it arrived there. A record beyond
/// it is set aside by every device: one wrong clock must not win over all later changes.
pub const MAX_AHEAD_MS: Millis = 60 * 60_000;

/// A time in milliseconds and a counter in the low 16 bits. Grows with every record, whatever the
/// calendar does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Hlc(pub i64);

impl Hlc {
    /// Returns the first value at this time.
    pub fn at(time: Millis) -> Self {
        Self(time.clamp(0, i64::MAX >> 16) << 16)
    }

    /// Returns the value of the next record: the current time, or just after the last value.
    pub fn next(self, now: Millis) -> Self {
        Self(Self::at(now).0.max(self.0.saturating_add(1)))
    }

    /// Returns its time.
    pub fn millis(self) -> Millis {
        self.0 >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_grows_when_the_calendar_jumps() {
        let first = Hlc::default().next(1_000);
        assert_eq!(first, Hlc::at(1_000));
        let jumped_back = first.next(10);
        assert!(jumped_back > first && jumped_back.millis() == 1_000);
        assert_eq!(jumped_back.next(2_000), Hlc::at(2_000));
        assert_eq!(Hlc::at(-5).millis(), 0);
        assert!(Hlc::at(Millis::MAX).next(0).0 > 0);
    }
}
