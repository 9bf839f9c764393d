//! Takes events from the spool into the database, in the order of arrival.

use std::fs;
use std::path::{Path, PathBuf};

use super::database::Writer;
use crate::paths::{Home, create_private_dir};
use crate::spool;
use crate::store::{self, StoreError};

/// Takes in all that waits. A file that holds no event is put aside; it stops nothing.
pub async fn drain(home: &Home, writer: &Writer) -> Result<(), StoreError> {
    let waiting = match spool::waiting(home) {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::warn!(%error, "the spool cannot be read: {error}");
            return Ok(());
        }
    };
    for path in waiting {
        match spool::read(&path) {
            Ok(event) => {
                writer.run(move |database| store::record(database, &event)).await?;
                remove(&path);
            }
            Err(error) => put_aside(home, &path, &error),
        }
    }
    Ok(())
}

/// A file that stays is read again, which stores nothing twice.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        let path = path.display();
        tracing::warn!(%error, %path, "{path} was taken in and cannot be removed: {error}");
    }
}

fn put_aside(home: &Home, path: &Path, error: &std::io::Error) {
    let rejected = home.spool().join("rejected");
    let target: Option<PathBuf> = path.file_name().map(|name| rejected.join(name));
    let moved = create_private_dir(&rejected).and_then(|()| match target {
        Some(target) => fs::rename(path, target),
        None => Ok(()),
    });
    let (path, kept) = (path.display(), moved.is_ok());
    tracing::error!(%error, %path, kept, "{path} in the spool holds no event: {error}");
}
