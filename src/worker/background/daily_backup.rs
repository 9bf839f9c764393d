//! The daily backup.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::clock::{self, HOUR};
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::files::backup::{self, Reason};
use crate::store::files::row_copy;
use crate::store::log::{LogEntry, last_entry, log, notice};
use crate::worker::state::{Running, Shared};

/// Slightly less than a day, so that the time of the backup does not drift.
const DUE_AFTER: Millis = 23 * HOUR;

/// Makes the backup if it is due and there is data, and deletes old ones.
pub async fn backup(shared: &Shared, running: &Running) -> Result<(), StoreError> {
    let keep = usize::try_from(running.config.backup.keep).unwrap_or(usize::MAX);
    let directory = shared.home.backups();
    let now = clock::now();
    if keep == 0 || backup::has_daily(&directory, now, DUE_AFTER) || has_failed(shared, running, now).await? {
        return Ok(());
    }
    let most = running.config.backup.max_mb.checked_mul(1 << 20).filter(|most| *most > 0).unwrap_or(u64::MAX);
    let making = running.database.read(move |database| {
        if row_copy::counts(database)?.get("sessions") == Some(&0) {
            return Ok(None);
        }
        let began = std::time::Instant::now();
        let (copy, checked) = backup::make(database, &directory, Reason::Daily, now, |_, _| {})?;
        backup::prune(&directory, keep, now)?;
        backup::prune_to(&directory, most)?;
        Ok(Some((copy, checked, began.elapsed())))
    });
    match making.await {
        Ok(None) => Ok(()),
        Ok(Some((copy, checked, took))) => {
            let path = copy.path.display().to_string();
            tracing::info!(path, bytes = copy.bytes, "backup made: {path}");
            let entry = LogEntry {
                event_type: "backup",
                data: json!({"path": path, "bytes": copy.bytes, "rows": checked.rows}),
                duration_ms: Some(took.as_secs_f64() * 1000.0),
                ..LogEntry::default()
            };
            running.database.write(move |database| log(database, &entry, now)).await
        }
        Err(error) if error.is_damage() => Err(error),
        Err(error) => {
            shared.backup_failed_at.store(now, Ordering::Relaxed);
            let reason = error.to_string();
            let note = move |database: &mut _| {
                let entry =
                    LogEntry { event_type: FAILED, data: json!({"reason": reason}), ..LogEntry::default() };
                log(database, &entry, now)?;
                notice(database, &format!("claude-mem: today's backup failed: {reason}"), now)
            };
            running.database.write(note).await?;
            Err(error)
        }
    }
}

/// Event type of a failed backup in the event log.
const FAILED: &str = "backup_failed";

/// True if a backup failed less than a day ago: its cause rarely goes away within the hour, and an
/// attempt is expensive. The log entry survives a restart; the time in memory covers a database
/// that could not be written.
async fn has_failed(shared: &Shared, running: &Running, now: Millis) -> Result<bool, StoreError> {
    let is_recent = |at: Millis| at > 0 && (0..DUE_AFTER).contains(&(now - at));
    if is_recent(shared.backup_failed_at.load(Ordering::Relaxed)) {
        return Ok(true);
    }
    let last = running.database.read(|database| last_entry(database, FAILED)).await?;
    Ok(last.is_some_and(is_recent))
}
