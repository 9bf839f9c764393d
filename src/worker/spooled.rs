//! Takes events from the spool into the database, in the order of arrival.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::database::Database;
use crate::model::Event;
use crate::paths::{Home, create_private_dir};
use crate::spool;
use crate::store::{self, StoreError};

/// So many at once, so that a long queue of them holds up neither hooks nor a signal.
const AT_ONCE: usize = 64;

/// Takes in some of what waits. A file that holds no event is put aside; it stops nothing. True if there is more.
pub async fn drain(home: &Home, database: &Database) -> Result<bool, StoreError> {
    let waiting = match spool::waiting(home) {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(%error, "the spool cannot be read: {error}");
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
            // A disk or a permission in the way says nothing about the event: it waits.
            Err(error) => tracing::warn!(%error, ?path, "a spool file cannot be read now: {error}"),
        }
    }
    let (paths, events): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    if !events.is_empty() {
        take_in(home, database, &paths, events).await?;
    }
    Ok(waiting.len() > seen)
}

/// It was read, and is not an event; or it is no file at all.
fn holds_no_event(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput
    )
}

/// All in one transaction; if one of them is refused, each in its own.
async fn take_in(
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

/// A file that stays is read again, which stores nothing twice.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, ?path, "a spool file that was taken in cannot be removed: {error}");
    }
}

fn put_aside(home: &Home, path: &Path, error: &io::Error) {
    let rejected = home.spool().join("rejected");
    let target: Option<PathBuf> = path.file_name().map(|name| rejected.join(name));
    let moved = create_private_dir(&rejected).and_then(|()| match target {
        Some(target) => fs::rename(path, target),
        None => Ok(()),
    });
    tracing::error!(%error, ?path, kept = moved.is_ok(), "a spool file holds no event: {error}");
}
