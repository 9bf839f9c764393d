//! Notices when nobody looks any more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::viewer::access::ENTRY_LIFETIME;

/// Longest life of a viewer: a page that was left open over night does not keep it.
const MAX_LIFE: Duration = Duration::from_secs(8 * 60 * 60);
/// A page without scripts cannot report that it is still open, so it gets this many times the idle time.
const WITHOUT_SCRIPTS: u32 = 15;
/// Browsers run the timers of hidden pages once a minute, so their reports hold this many times the idle time.
const WHILE_HIDDEN: u32 = 3;

/// The pages that are open.
#[derive(Debug)]
pub struct Presence {
    idle: Duration,
    began: Instant,
    state: Mutex<PresenceState>,
}

#[derive(Debug)]
struct PresenceState {
    /// Open live connections.
    live: usize,
    /// True once a page has run our script.
    has_scripts: bool,
    /// The viewer ends then, unless a live connection is open.
    until: Instant,
}

/// A live connection of a visible page.
#[derive(Debug)]
pub struct Visit(Arc<Presence>);

impl Presence {
    /// Waits for the first visit as long as its token is valid.
    pub fn new(idle: Duration, now: Instant) -> Self {
        let state = PresenceState { live: 0, has_scripts: false, until: now + idle.max(ENTRY_LIFETIME) };
        Self { idle, began: now, state: Mutex::new(state) }
    }

    /// Records that a page was requested.
    pub fn note_request(&self, now: Instant) {
        let times = if self.with(|state| state.has_scripts) { 1 } else { WITHOUT_SCRIPTS };
        self.extend(now, times);
    }

    /// Records a report of a hidden page.
    pub fn note_hidden(&self, now: Instant) {
        self.extend(now, WHILE_HIDDEN);
    }

    /// Records a live connection, which ends when the result is dropped.
    pub fn enter(self: &Arc<Self>) -> Visit {
        self.with(|state| {
            state.live += 1;
            if !state.has_scripts {
                state.has_scripts = true;
                // Pages report from now on.
                state.until = Instant::now() + self.idle;
            }
        });
        Visit(Arc::clone(self))
    }

    /// True if nobody has looked for the idle time, or the viewer is too old.
    pub fn is_over(&self, now: Instant) -> bool {
        let is_idle = self.with(|state| state.live == 0 && now >= state.until);
        is_idle || now >= self.began + MAX_LIFE
    }

    fn extend(&self, now: Instant, times: u32) {
        self.with(|state| state.until = state.until.max(now + self.idle * times));
    }

    fn with<T>(&self, work: impl FnOnce(&mut PresenceState) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.with(|state| state.live -= 1);
        self.0.extend(Instant::now(), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    #[test]
    fn an_open_page_keeps_the_viewer_and_a_closed_one_ends_it() {
        let now = Instant::now();
        let presence = Arc::new(Presence::new(IDLE, now));
        assert!(!presence.is_over(now) && presence.is_over(now + IDLE), "nobody ever came");
        let visit = presence.enter();
        assert!(!presence.is_over(now + 50 * IDLE));
        drop(visit);
        assert!(!presence.is_over(Instant::now()) && presence.is_over(Instant::now() + IDLE));
        presence.note_hidden(Instant::now());
        assert!(!presence.is_over(Instant::now() + 2 * IDLE) && presence.is_over(Instant::now() + 3 * IDLE));
    }

    #[test]
    fn pages_without_scripts_get_longer_and_nothing_lasts_for_ever() {
        let now = Instant::now();
        let presence = Arc::new(Presence::new(IDLE, now));
        presence.note_request(now);
        assert!(!presence.is_over(now + 14 * IDLE) && presence.is_over(now + 15 * IDLE));
        let _visit = presence.enter();
        assert!(presence.is_over(now + MAX_LIFE), "although a page is open");
    }
}
