//! Files that sessions have read so far, kept as long as it is likely to matter.
//!
//! A job updates this only when its results are stored: released rows must be classified the same
//! way again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::compress::routine::SeenFiles;
use crate::model::SessionId;

/// Maximum sessions; beyond it the oldest is dropped, and its repeated reads are noted again.
const MOST_SESSIONS: usize = 8;

/// Files seen, by session.
#[derive(Debug, Default)]
pub struct SeenFilesBySession {
    sessions: Mutex<HashMap<SessionId, SeenSession>>,
}

#[derive(Debug)]
struct SeenSession {
    used: Instant,
    seen: SeenFiles,
    /// Including the running job.
    next: Option<SeenFiles>,
}

impl SeenFilesBySession {
    /// Returns the files that a session has seen.
    pub fn of(&self, session: &SessionId) -> SeenFiles {
        self.sessions().get(session).map(|known| known.seen.clone()).unwrap_or_default()
    }

    /// Sets the files that it will have seen if the running job is stored.
    pub fn propose(&self, session: &SessionId, next: SeenFiles) {
        let mut sessions = self.sessions();
        let new = || SeenSession { used: Instant::now(), seen: SeenFiles::default(), next: None };
        let known = sessions.entry(session.clone()).or_insert_with(new);
        known.used = Instant::now();
        known.next = Some(next);
        if sessions.len() > MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, known)| known.used);
            oldest.map(|(session, _)| session.clone()).map(|session| sessions.remove(&session));
        }
    }

    /// Confirms the proposed files, because the job is stored.
    pub fn confirm(&self, session: &SessionId) {
        if let Some(known) = self.sessions().get_mut(session)
            && let Some(next) = known.next.take()
        {
            known.seen = next;
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SeenSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
