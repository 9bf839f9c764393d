//! The circuit breaker: while a provider fails, no calls are made except one probe at a time.
//!
//! A state machine that gets the time as an argument. Independent of requests; shared by all
//! callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::failure::{ProviderFailure, ProviderProblem};
use crate::model::Millis;

/// Initial wait; each failed probe doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Maximum wait that we choose ourselves.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Maximum wait that a provider may ask for; after it we probe anyway.
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
    kind: ProviderProblem,
    message: String,
    since: Millis,
    failed_at: Millis,
    until: Millis,
    failed_probes: u32,
    probing: bool,
}

/// The breaker's state, for health and status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls are allowed.
    Closed,
    /// All callers wait.
    Open {
        /// The kind of problem.
        kind: ProviderProblem,
        /// The problem, as a sentence for the user.
        message: String,
        /// Start time of the problem.
        since: Millis,
        /// Time of the next probe; now or in the past while a probe is running.
        next_probe_at: Millis,
        /// True if a probe is running.
        probing: bool,
    },
}

/// The decision about a call.
#[derive(Debug)]
pub enum Admission {
    /// Allowed. Return the pass with the result of the call.
    Go(Pass),
    /// Denied until this time.
    WaitUntil(Millis),
}

/// The permission for one call. Dropping it without a result (a cancelled call) changes nothing and
/// lets another caller try.
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
    /// Creates a closed breaker.
    pub fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// Creates a closed breaker with predictable jitter.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Machine { open: None, random: seed })))
    }

    /// Decides whether a call may be made now.
    pub fn admit(&self, now: Millis) -> Admission {
        let mut machine = self.lock();
        let is_probe = match &mut machine.open {
            None => false,
            Some(open) if open.may_probe(now) => {
                open.probing = true;
                true
            }
            // A probe is running; its end is unknown, so check again soon.
            Some(open) if open.probing => return Admission::WaitUntil(now.max(open.until) + 1000),
            Some(open) => return Admission::WaitUntil(open.until),
        };
        drop(machine);
        Admission::Go(Pass { breaker: self.clone(), is_probe, settled: false })
    }

    /// Returns the breaker's state.
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

    /// Closes the breaker: the provider or its configuration changed, so earlier failures are
    /// irrelevant.
    pub fn reset(&self) {
        self.lock().open = None;
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Records that the provider answered. A response that is useless for the item counts as well.
    pub fn answered(mut self) {
        self.settled = true;
        self.breaker.reset();
    }

    /// Records that the provider failed.
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
    /// True if it is time for a probe. If the clock was set back we would wait for ever, so that
    /// counts as well.
    fn may_probe(&self, now: Millis) -> bool {
        !self.probing && (now >= self.until || now < self.failed_at)
    }
}

impl Machine {
    fn failed(&mut self, now: Millis, failure: &ProviderFailure, was_probe: bool) {
        let asked = failure.retry_after.unwrap_or_default().min(LONGEST_ASKED);
        let (since, failed_probes) = match &self.open {
            None => (now, 0),
            // Calls that were running when it opened fail one after another: they count as one
            // failure.
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

    /// Returns 80 % to 120 % of the wait, up to the maximum, so that many machines do not call at
    /// once.
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
            kind: ProviderProblem::Overloaded,
            message: "too much".into(),
            retry_after: retry_after_s.map(Duration::from_secs),
            may_cost: false,
        }
    }

    fn pass(breaker: &Breaker, now: Millis) -> Pass {
        match breaker.admit(now) {
            Admission::Go(pass) => pass,
            Admission::WaitUntil(until) => panic!("at {now}: waits until {until}"),
        }
    }

    fn wait(breaker: &Breaker, now: Millis) -> Millis {
        match breaker.admit(now) {
            Admission::Go(_) => panic!("at {now}: allows a call"),
            Admission::WaitUntil(until) => until - now,
        }
    }

    #[test]
    fn a_healthy_provider_gets_concurrent_calls() {
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
    fn one_probe_at_a_time_and_its_success_closes_the_breaker() {
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
    fn a_cancelled_probe_allows_another() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 0).failed(0, &trouble(None));
        drop(pass(&breaker, 10_000));
        pass(&breaker, 10_000).answered();
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn retry_after_is_honoured_within_limits() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 0).failed(0, &trouble(Some(90)));
        assert_eq!(wait(&breaker, 0), 90_000);
        breaker.reset();
        pass(&breaker, 0).failed(0, &trouble(Some(86_400 * 365)));
        assert_eq!(wait(&breaker, 0), 3_600_000);
        breaker.reset();
        pass(&breaker, 0).failed(0, &trouble(Some(0)));
        assert!(wait(&breaker, 0) >= 4_000, "a retry-after of 0 must not cause a tight loop");
    }

    #[test]
    fn concurrent_failures_count_as_one() {
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
    fn a_clock_set_back_does_not_block_calls_for_ever() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 1_000_000).failed(1_000_000, &trouble(None));
        pass(&breaker, 0).answered();
    }

    #[test]
    fn status_reports_problem_start_and_next_probe() {
        let breaker = Breaker::seeded(1);
        pass(&breaker, 7).failed(7, &trouble(Some(60)));
        let json = serde_json::to_string(&breaker.state()).unwrap();
        assert_eq!(
            json,
            r#"{"state":"open","kind":"overloaded","message":"too much","since":7,"next_probe_at":60007,"probing":false}"#
        );
    }
}
