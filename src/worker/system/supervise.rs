//! Notifications to the service manager. Without one, nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;

use crate::config::Environment;

/// The connection to the service manager.
#[derive(Debug, Clone, Copy)]
pub struct Supervisor {
    listens: bool,
    watchdog: Option<Duration>,
}

/// Extra time, on top of worker.stop_s, that we ask systemd to wait before SIGKILL.
const MARGIN: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Reads the manager's settings from the environment.
    pub fn from_environment() -> Self {
        Self {
            listens: Environment::has_manager(),
            watchdog: sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()),
        }
    }

    /// True if there is a service manager.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// Interval for [`Supervisor::alive`]: half of the manager's watchdog timeout.
    pub fn beat(&self) -> Option<Duration> {
        self.watchdog.map(|patience| patience / 2)
    }

    /// Returns the watchdog interval, but at most `longest`.
    pub fn at_most(&self, longest: Duration) -> Duration {
        self.beat().map_or(longest, |beat| beat.min(longest))
    }

    /// Reports that we serve.
    pub fn ready(&self) {
        notify(&[NotifyState::Ready]);
    }

    /// Sets the line that `systemctl status` shows.
    pub fn status(&self, text: &str) {
        // A second line would be parsed as another message.
        notify(&[NotifyState::Status(&text.replace('\n', " "))]);
    }

    /// Notifies the watchdog: work makes progress.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// Reports that we stop, within this time.
    pub fn stopping(&self, within: Duration) {
        // Whatever the unit's limit is, the user's setting counts.
        let limit = u32::try_from(within.saturating_add(MARGIN).as_micros()).unwrap_or(u32::MAX);
        notify(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(limit)]);
    }
}

/// Sends a notification; a manager that does not listen is no reason to stop.
fn notify(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
