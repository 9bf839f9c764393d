//! Returns unused memory to the system between calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::worker::system::ram;

/// Returns the memory of a search to the system once no call has come for a while: its lists are
/// large, and the next search may be hours away. Not at once, because the response still has to be
/// written, which would fault half of it back in.
#[derive(Debug, Clone, Default)]
pub struct MemoryRelease(Arc<Mutex<Option<AbortHandle>>>);

impl MemoryRelease {
    const DELAY: Duration = Duration::from_millis(300);

    /// Schedules the release; another call postpones it.
    pub fn schedule(&self) {
        let release = tokio::spawn(async {
            tokio::time::sleep(Self::DELAY).await;
            drop(tokio::task::spawn_blocking(ram::release_memory));
        });
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = current.replace(release.abort_handle()) {
            earlier.abort();
        }
    }
}
