//! The backup of each day.

use serde_json::json;

use super::clock;
use super::state::{Running, Shared};
use crate::model::Millis;
use crate::store::backup::{self, Reason};
use crate::store::log::{LogEntry, log, notice};
use crate::store::{StoreError, rows};

/// A little less than a day, so that it does not wander from hour to hour.
const DUE_AFTER: Millis = 23 * 60 * 60_000;

/// Makes it if it is due and there is something to keep, and deletes those that are too many.
pub async fn backup(shared: &Shared, running: &Running) -> Result<(), StoreError> {
    let keep = usize::try_from(running.config.backup.keep).unwrap_or(usize::MAX);
    let directory = shared.home.backups();
    let now = clock::now();
    if keep == 0 || backup::has_daily(&directory, now, DUE_AFTER) {
        return Ok(());
    }
    let making = running.database.read(move |database| {
        if rows::counts(database)?.get("sessions") == Some(&0) {
            return Ok(None);
        }
        let began = std::time::Instant::now();
        let (copy, checked) = backup::make(database, &directory, Reason::Daily, now, |_, _| {})?;
        backup::prune(&directory, keep, now)?;
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
            let message = format!("claude-mem: today's backup could not be made: {error}");
            running.database.write(move |database| notice(database, &message, now)).await?;
            Err(error)
        }
    }
}
