//! The breaker: while a provider is in trouble nobody calls it, except one probe at a time.
//!
//! A state machine whose clock is an argument. Knows nothing of requests; shared by all who call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::failure::{ProviderFailure, Trouble};
use crate::model::Millis;

/// The first wait; each failed probe doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that we choose ourselves.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The longest wait that a provider may ask for: beyond it we look again anyway.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// One provider's breaker. Clones are the same breaker.
#[derive(Debug, Clone)]
pub struct Breaker(Arc<Mutex<Machine>>);

#[derive(Debug)]
struct Machine {
    open: Option<Open>,
    random: u64,
}

#[derive(Debug, Clone)]
struct Open {
    kind: Trouble,
    message: String,
    since: Millis,
    failed_at: Millis,
    until: Millis,
    failed_probes: u32,
    probing: bool,
}

/// What the breaker is doing, for health and status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BreakerState {
    /// All is well.
    Closed,
    /// Everybody waits.
    Open {
        /// What kind of trouble.
        kind: Trouble,
        /// What is wrong, as a sentence for the user.
        message: String,
        /// When it began.
        since: Millis,
        /// When the provider is tried next; now or in the past while a probe is on its way.
        next_probe_at: Millis,
        /// Whether a probe is on its way.
        probing: bool,
    },
}

/// Whether a call may be made.
#[derive(Debug)]
pub enum Admission {
    /// Yes. The pass must be given back with what became of the call.
    Go(Pass),
    /// No. At that time it is worth asking again.
    WaitUntil(Millis),
}

/// The right to make one call. Dropped without a word (a cancelled call), it changes nothing and lets another try.
#[derive(Debug)]
pub struct Pass {
    breaker: Breaker,
    is_probe: bool,
    settled: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// A closed breaker.
    pub fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// A closed breaker whose jitter can be foreseen.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Machine { open: None, random: seed })))
    }

    /// Asks whether a call may be made now.
    pub fn admit(&self, now: Millis) -> Admission {
        let mut machine = self.lock();
        let is_probe = match &mut machine.open {
            None => false,
            Some(open) if open.may_probe(now) => {
                open.probing = true;
                true
            }
            // A probe is on its way: its end is not known, so look again soon.
            Some(open) if open.probing => return Admission::WaitUntil(now.max(open.until) + 1000),
            Some(open) => return Admission::WaitUntil(open.until),
        };
        drop(machine);
        Admission::Go(Pass { breaker: self.clone(), is_probe, settled: false })
    }

    /// What the breaker is doing.
    pub fn state(&self) -> BreakerState {
        match &self.lock().open {
            None => BreakerState::Closed,
            Some(open) => BreakerState::Open {
                kind: open.kind,
                message: open.message.clone(),
                since: open.since,
                next_probe_at: open.until,
                probing: open.probing,
            },
        }
    }

    /// Closes it: the provider or its configuration was changed, and what was known is void.
    pub fn reset(&self) {
        self.lock().open = None;
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// The provider answered. An answer that is useless for the item is an answer too.
    pub fn answered(mut self) {
        self.settled = true;
        self.breaker.reset();
    }

    /// The provider failed.
    pub fn failed(mut self, now: Millis, failure: &ProviderFailure) {
        self.settled = true;
        self.breaker.lock().failed(now, failure, self.is_probe);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.is_probe
            && !self.settled
            && let Some(open) = &mut self.breaker.lock().open
        {
            open.probing = false;
        }
    }
}

impl Open {
    /// A clock that was set back would make us wait for ever: then the time is come, too.
    fn may_probe(&self, now: Millis) -> bool {
        !self.probing && (now >= self.until || now < self.failed_at)
    }
}

impl Machine {
    fn failed(&mut self, now: Millis, failure: &ProviderFailure, was_probe: bool) {
        let asked = failure.retry_after.unwrap_or_default().min(LONGEST_ASKED);
        let (since, failed_probes) = match &self.open {
            None => (now, 0),
            // Calls that were under way when it opened fail one after another: that is one failure, not many.
            Some(open) if !was_probe => {
                let until = open.until.max(now + millis(asked));
                self.open = Some(Open { until, ..open.clone() });
                return;
            }
            Some(open) => (open.since, open.failed_probes + 1),
        };
        let wait = self.jittered(back_off(failed_probes)).max(asked);
        self.open = Some(Open {
            kind: failure.kind,
            message: failure.message.clone(),
            since,
            failed_at: now,
            until: now + millis(wait),
            failed_probes,
            probing: false,
        });
    }

    /// Between 80 % and 120 % of it, and never beyond the longest: many machines must not knock at once.
    fn jittered(&mut self, wait: Duration) -> Duration {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (self.random >> 40) as f64 / (1_u64 << 24) as f64;
        wait.mul_f64(0.8 + 0.4 * part).min(LONGEST_WAIT)
    }
}

fn back_off(failed_probes: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1_u32.checked_shl(failed_probes).unwrap_or(u32::MAX)).min(LONGEST_WAIT)
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(retry_after_s: Option<u64>) -> ProviderFailure {
        ProviderFailure {
            kind: Trouble::Overloaded,
            message: "too much".into(),
            retry_after: retry_after_s.map(Duration::from_secs),
        }
    }

    fn pass(breaker: &Breaker, now: Millis) -> Pass {
        match breaker.admit(now) {
            Admission::Go(pass) => pass,
            Admission::WaitUntil(until) => panic!("at {now} it waits until {until}"),
        }
    }

    fn wait(breaker: &Breaker, now: Millis) -> Millis {
        match breaker.admit(now) {
            Admission::Go(_) => panic!("at {now} it lets a call pass"),
            Admission::WaitUntil(until) => until - now,
        }
    }

    #[test]
    fn a_well_provider_is_called_by_everybody_at_once() {
        let breaker = Breaker::new();
        let passes: Vec<_> = (0..10).map(|now| pass(&breaker, now)).collect();
        passes.into_iter().for_each(Pass::answered);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn waits_double_from_five_seconds_to_five_minutes_with_jitter() {
        for seed in 0..200 {
            let breaker = Breaker::seeded(seed);
            let mut now = 1_000_000;
            for expected in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000] {
                pass(&breaker, now).failed(now, &trouble(None));
                let waited = wait(&breaker, now);
                let most = (expected * 12 / 10).min(300_000);
                assert!((expected * 8 / 10..=most).contains(&waited), "{waited} is not about {expected}");
                assert_eq!(wait(&breaker, now + waited - 1), 1);
                now += waited;
            }
        }
    }

    #[test]
    fn jitter_differs_between_machines() {
        let first_wait = |seed| {
            let breaker = Breaker::seeded(seed);
            pass(&breaker, 0).failed(0, &trouble(None));
            wait(&breaker, 0)
        };
        let waits: std::collections::BTreeSet<_> = (0..50).map(first_wait).collect();
        assert!(waits.len() > 40, "{waits:?}");
    }

    #[test]
    fn only_one_probe_at_a_time_and_its_success_lets_everybody_in() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 0).failed(0, &trouble(None));
        let probe = pass(&breaker, 10_000);
        assert!(wait(&breaker, 10_000) > 0);
        assert!(matches!(breaker.state(), BreakerState::Open { probing: true, since: 0, .. }));
        probe.answered();
        let both = [pass(&breaker, 10_001), pass(&breaker, 10_001)];
        both.into_iter().for_each(Pass::answered);
    }

    #[test]
    fn a_probe_that_is_cancelled_makes_room_for_another() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 0).failed(0, &trouble(None));
        drop(pass(&breaker, 10_000));
        pass(&breaker, 10_000).answered();
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn retry_after_is_honoured_but_not_for_ever() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 0).failed(0, &trouble(Some(90)));
        assert_eq!(wait(&breaker, 0), 90_000);
        breaker.reset();
        pass(&breaker, 0).failed(0, &trouble(Some(86_400 * 365)));
        assert_eq!(wait(&breaker, 0), 3_600_000);
        breaker.reset();
        pass(&breaker, 0).failed(0, &trouble(Some(0)));
        assert!(wait(&breaker, 0) >= 4_000, "a provider that says 0 and fails is not hammered");
    }

    #[test]
    fn calls_that_were_under_way_when_it_opened_count_as_one_failure() {
        let breaker = Breaker::seeded(1);
        let (first, second, third) = (pass(&breaker, 0), pass(&breaker, 0), pass(&breaker, 0));
        first.failed(0, &trouble(None));
        let before = wait(&breaker, 0);
        second.failed(1, &trouble(None));
        assert_eq!(wait(&breaker, 0), before);
        third.failed(2, &trouble(Some(60)));
        assert_eq!(wait(&breaker, 2), 60_000);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_lock_us_out() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 1_000_000).failed(1_000_000, &trouble(None));
        pass(&breaker, 0).answered();
    }

    #[test]
    fn status_says_what_since_when_and_when_next() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 7).failed(7, &trouble(Some(60)));
        let json = serde_json::to_string(&breaker.state()).unwrap();
        assert_eq!(
            json,
            r#"{"state":"open","kind":"overloaded","message":"too much","since":7,"next_probe_at":60007,"probing":false}"#
        );
    }
}
