//! What the service manager is told. Without one, nobody listens, and nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::config::Environment;

/// The service manager's side of our life.
#[derive(Debug, Clone, Copy)]
pub struct Supervisor {
    listens: bool,
    watchdog: Option<Duration>,
}

/// So much longer than it allows itself may the end of the worker take, before the service manager makes an end of it.
const MARGIN: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Reads what the manager expects.
    pub fn new() -> Self {
        Self {
            listens: Environment::has_manager(),
            watchdog: sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()),
        }
    }

    /// Whether there is anybody to tell.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// How often [`Supervisor::alive`] must be said: twice within the manager's patience.
    pub fn beat(&self) -> Option<Duration> {
        self.watchdog.map(|patience| patience / 2)
    }

    /// The longest that one may wait before saying [`Supervisor::alive`], and no longer than this.
    pub fn at_most(&self, longest: Duration) -> Duration {
        self.beat().map_or(longest, |beat| beat.min(longest))
    }

    /// We serve.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// One line for `systemctl status`.
    pub fn status(&self, text: &str) {
        // A second line would be taken for another message.
        tell(&[NotifyState::Status(&text.replace('\n', " "))]);
    }

    /// Work really moves.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// We end, within this.
    pub fn stopping(&self, within: Duration) {
        // Whatever limit the unit has: it is the user's setting that counts.
        let limit = u32::try_from(within.saturating_add(MARGIN).as_micros()).unwrap_or(u32::MAX);
        tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(limit)]);
    }
}

/// A manager that does not listen is no reason to stop.
fn tell(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
