//! What the service manager is told. Without one, nobody listens, and nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::config::Environment;

/// The service manager's side of our life.
#[derive(Debug)]
pub struct Supervisor {
    listens: bool,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Reads what the manager expects.
    pub fn new() -> Self {
        Self { listens: Environment::has_manager(), watchdog: sd_notify::watchdog_enabled() }
    }

    /// Whether there is anybody to tell.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// How often [`Supervisor::alive`] must be said: twice within the manager's patience.
    pub fn beat(&self) -> Option<Duration> {
        self.watchdog.map(|patience| patience / 2)
    }

    /// We serve.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// One line for `systemctl status`.
    pub fn status(&self, text: &str) {
        tell(&[NotifyState::Status(text)]);
    }

    /// Work really moves.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// We are about to end.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// A manager that does not listen is no reason to stop.
fn tell(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
