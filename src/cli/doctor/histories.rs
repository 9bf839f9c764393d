//! Histories that agents keep and nobody has read.

use super::Doctor;
use super::finding::Finding;
use crate::backfill::find;
use crate::store;
use crate::store::backfill::is_known;

/// A hook or the service may write at the same moment.
const PATIENCE_MS: u32 = 10_000;

pub fn unread(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "histories";
    let mut files = find::files(doctor.environment);
    if let Ok(database) = store::open_to_read(doctor.home, PATIENCE_MS) {
        files.retain(|(_, path)| {
            let session = path.file_stem().unwrap_or_default().to_string_lossy();
            !is_known(&database, &path.to_string_lossy(), &session).unwrap_or(true)
        });
    }
    if files.is_empty() {
        return Finding::good(NAME, "nothing that agents keep on this machine is unread");
    }
    Finding::note(
        NAME,
        format!("sessions that were never read: {}", find::in_words(&files)),
        "later sessions could know what happened in them",
        "claude-mem backfill (with --dry-run it only reports)",
    )
}
