//! Drains the spool into the database, in order of arrival.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::Event;
use crate::paths::{Home, create_private_dir};
use crate::spool;
use crate::store::{self, StoreError};
use crate::worker::database::Database;

/// Maximum files per batch, so that a long spool delays neither hooks nor a signal.
const AT_ONCE: usize = 64;

/// Stores a batch of spooled events. A file without a valid event is moved aside and stops nothing.
/// True if there is more.
pub async fn drain(home: &Home, database: &Database) -> Result<bool, StoreError> {
    let waiting = match spool::waiting(home) {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(%error, "cannot read the spool: {error}");
            return Ok(false);
        }
    };
    let mut files: Vec<(PathBuf, Event)> = Vec::new();
    let mut seen = 0;
    for path in &waiting {
        if files.len() == AT_ONCE {
            break;
        }
        seen += 1;
        match spool::read(path) {
            Ok(event) => files.push((path.clone(), event)),
            Err(error) if holds_no_event(&error) => put_aside(home, path, &error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A disk or permission error is no property of the event: it waits.
            Err(error) => tracing::warn!(%error, ?path, "cannot read a spool file now: {error}"),
        }
    }
    let (paths, events): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    if !events.is_empty() {
        store_events(home, database, &paths, events).await?;
    }
    Ok(waiting.len() > seen)
}

/// True if the content is not an event, or the path is not a regular file.
fn holds_no_event(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput
    )
}

/// Stores all events in one transaction; if one of them is rejected, each in its own.
async fn store_events(
    home: &Home,
    database: &Database,
    paths: &[PathBuf],
    events: Vec<Event>,
) -> Result<(), StoreError> {
    let all = events.clone();
    match database.write_to_disk(move |database| store::record_all(database, &all)).await {
        Ok(_) => {
            paths.iter().for_each(|path| remove(path));
            return Ok(());
        }
        Err(StoreError::Refused(_)) => {}
        Err(error) => return Err(error),
    }
    for (path, event) in paths.iter().zip(events) {
        match database.write_to_disk(move |database| store::record(database, &event)).await {
            Ok(_) => remove(path),
            Err(StoreError::Refused(error)) => put_aside(home, path, &io::Error::other(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Best effort: a file that stays is read again, which stores nothing twice.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, ?path, "cannot remove a stored spool file: {error}");
    }
}

/// Deletes rejected files older than this. Best effort: it runs again in an hour.
pub fn drop_rejected(home: &Home, kept_for: Duration) {
    for entry in fs::read_dir(home.rejected()).into_iter().flatten().flatten() {
        let age =
            entry.metadata().and_then(|meta| meta.modified()).map(|at| at.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age > kept_for) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn put_aside(home: &Home, path: &Path, error: &io::Error) {
    let rejected = home.rejected();
    let target: Option<PathBuf> = path.file_name().map(|name| rejected.join(name));
    let moved = create_private_dir(&rejected).and_then(|()| match target {
        Some(target) => fs::rename(path, target),
        None => Ok(()),
    });
    tracing::error!(%error, ?path, kept = moved.is_ok(), "rejected a spool file without a valid event: {error}");
}
