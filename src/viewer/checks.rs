//! The checks of `doctor`, run in the background: they take longer than a page may.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Viewer;
use super::machine::Machine;
use super::pages::LastChecks;
use crate::clock;

/// The last results.
#[derive(Debug, Default)]
pub struct Checks(Arc<Mutex<LastChecks>>);

impl Checks {
    /// Returns the last results. Starts the checks that only look if there are none yet.
    pub fn latest(&self, viewer: &Viewer) -> LastChecks {
        let checked = self.state().clone();
        if checked.at.is_none() && !checked.is_running {
            self.start(Arc::clone(&viewer.machine), false, false);
            return LastChecks { is_running: true, ..checked };
        }
        checked
    }

    /// Runs the checks and waits for them.
    pub async fn run(&self, machine: Arc<dyn Machine>, may_fix: bool) {
        let _ = self.start(machine, may_fix, true).await;
    }

    fn start(&self, machine: Arc<dyn Machine>, may_fix: bool, is_full: bool) -> tokio::task::JoinHandle<()> {
        self.state().is_running = true;
        let state = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let checks = machine.check(may_fix, is_full);
            let done = LastChecks { at: Some(clock::now()), is_running: false, checks };
            *state.lock().unwrap_or_else(PoisonError::into_inner) = done;
        })
    }

    fn state(&self) -> MutexGuard<'_, LastChecks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
