//! The spool: one file per event that the database could not store yet, and the count of events
//! that even the spool could not store.
//!
//! File names sort in order of arrival. Files are atomic: written under another name first.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::Environment;
use crate::files::atomic::DirLock;
use crate::model::{Event, Millis};
use crate::paths::{Home, create_private_dir, open_plain};

const EXTENSION: &str = "json";

/// Writes the event to the spool.
pub fn write(home: &Home, event: &Event) -> io::Result<()> {
    static SEQUENCE: AtomicU32 = AtomicU32::new(0);
    let spool = home.spool();
    create_private_dir(&spool)?;
    let writing = DirLock::shared(&spool)?;
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let name = format!("{:015}-{:010}-{sequence:06}", event.at, std::process::id());
    let unfinished = spool.join(format!(".{name}.tmp"));
    let written = write_synced(&unfinished, event)
        .and_then(|()| fs::rename(&unfinished, spool.join(format!("{name}.{EXTENSION}"))))
        .and_then(|()| writing.sync());
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_synced(path: &Path, event: &Event) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, event)?;
    out.into_inner().map_err(|error| error.into_error())?.sync_data()
}

/// Returns the waiting files in order of arrival.
pub fn waiting(home: &Home) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(home.spool()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the event in a spool file.
pub fn read(path: &Path) -> io::Result<Event> {
    let mut bytes = Vec::new();
    open_plain(path)?.read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Records an event that could not be stored anywhere: one line in the data directory or, if that
/// fails too, in a private directory outside it. Best effort, because there is nothing left to try.
pub fn count_dropped(home: Option<&Home>, environment: &Environment, at: Millis, reason: &str) {
    let line = format!("{at} {}\n", reason.replace('\n', " "));
    for place in dropped_places(home, environment) {
        if append(&place, &line).is_ok() {
            return;
        }
    }
}

/// Returns the number of dropped events, over all files that may record them. An empty file could
/// not be written completely, and counts as one.
pub fn dropped(home: &Home, environment: &Environment) -> usize {
    let notes = dropped_notes(home, environment);
    notes.iter().filter_map(|note| fs::read(note).ok()).map(|text| lines(text).max(1)).sum()
}

/// Returns the files that record dropped events.
pub fn dropped_notes(home: &Home, environment: &Environment) -> Vec<PathBuf> {
    dropped_places(Some(home), environment).into_iter().filter(|place| is_ours(place)).collect()
}

fn lines(text: Vec<u8>) -> usize {
    memchr::memchr_iter(b'\n', &text).count()
}

fn dropped_places(home: Option<&Home>, environment: &Environment) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let outside = match &environment.runtime_dir {
        Some(runtime) => runtime.join("claude-mem"),
        None => PathBuf::from(format!("/tmp/claude-mem-{user}")),
    };
    // The name distinguishes data directories without revealing their paths.
    let name = home.map_or(0, |home| xxhash_rust::xxh3::xxh3_64(home.dir().as_os_str().as_encoded_bytes()));
    home.map(Home::dropped).into_iter().chain([outside.join(format!("dropped-{name:016x}.log"))]).collect()
}

/// Appends a line in a directory that we own: in a shared place, another user may have created one
/// of that name.
fn append(place: &Path, line: &str) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        let _ = fs::DirBuilder::new().mode(0o700).create(parent);
        // Check both the name and its target: our link may lead to another user's directory, or the
        // reverse.
        let me = rustix::process::geteuid().as_raw();
        if fs::symlink_metadata(parent)?.uid() != me || fs::metadata(parent)?.uid() != me {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(NO_FOLLOW).open(place)?;
    file.write_all(line.as_bytes())
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

fn is_ours(place: &Path) -> bool {
    fs::symlink_metadata(place)
        .is_ok_and(|meta| meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EventBody, EventKey};

    fn event(at: Millis) -> Event {
        Event {
            key: EventKey::Exact(format!("k{at}")),
            at,
            session: None,
            body: EventBody::End { reason: None },
        }
    }

    #[test]
    fn events_are_read_in_order_of_arrival() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        for at in [20, 3, 100] {
            write(&home, &event(at)).unwrap();
        }
        let read: Vec<_> = waiting(&home).unwrap().iter().map(|path| read(path).unwrap()).collect();
        assert_eq!(read, [event(3), event(20), event(100)]);
    }

    #[test]
    fn temporary_file_is_not_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        write(&home, &event(1)).unwrap();
        fs::write(home.spool().join(".000000000000002-1-0.tmp"), "{").unwrap();
        assert_eq!(waiting(&home).unwrap().len(), 1);
    }

    #[test]
    fn drops_are_counted_without_a_data_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let mut environment = Environment::default();
        environment.runtime_dir = Some(scratch.path().to_owned());
        let good = Home::at(scratch.path().join("good"));
        let missing = Home::at(scratch.path().join("no/such"));
        good.prepare().unwrap();
        for home in [&good, &missing, &missing] {
            count_dropped(Some(home), &environment, 1, "full\ndisk");
        }
        assert_eq!((dropped(&good, &environment), dropped(&missing, &environment)), (1, 2));
    }
}
