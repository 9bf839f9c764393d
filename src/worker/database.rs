//! Asynchronous access to the database: one writer thread, and readers on blocking threads. No
//! statement runs on an asynchronous thread.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::background::wal_sync;
use crate::clock;
use crate::paths::{FileIdentity, Home};
use crate::store::files::{legacy_import, recovery};
use crate::store::{self, Readers, StoreError};

/// The open database.
#[derive(Debug, Clone)]
pub struct Database {
    writer: mpsc::Sender<Job>,
    readers: Readers,
    file: Arc<OpenFile>,
    /// The WAL, and the channel that wakes its sync task after a write.
    log: PathBuf,
    written: watch::Sender<()>,
}

/// A job for the writer; returns true if another process held the lock for longer than the busy
/// timeout.
type Job = Box<dyn FnOnce(&mut Connection) -> bool + Send>;

impl Database {
    /// Opens the database on its own thread, which writes until the last handle is dropped.
    /// Recovers a damaged database first; checks the whole file if it `seems_damaged`.
    pub async fn open(home: &Home, seems_damaged: bool) -> Result<Self, StoreError> {
        let (opened, outcome) = oneshot::channel();
        let home = home.clone();
        std::thread::Builder::new().name("writer".into()).spawn(move || {
            let (sender, jobs) = mpsc::channel();
            match make_usable(&home, seems_damaged).and_then(|()| open_or_recover(&home, sender)) {
                Ok((connection, database)) => {
                    let _ = opened.send(Ok(database));
                    write(connection, jobs);
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        })?;
        let database = outcome.await.unwrap_or(Err(StoreError::Gone))?;
        tokio::spawn(wal_sync::run(database.log.clone(), database.written.subscribe()));
        Ok(database)
    }

    /// Runs `work` with the writing connection and waits for the result, which is on disk a moment
    /// later.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let file = self.file.clone();
        let job: Job = Box::new(move |database| {
            // Data written to a file that is no longer at its path is not stored.
            let outcome = work(database).and_then(|value| file.check().map(|()| value));
            let is_locked = matches!(outcome, Err(StoreError::Busy));
            let _ = answer.send(outcome);
            is_locked
        });
        self.writer.send(job).map_err(|_| StoreError::Gone)?;
        let outcome = outcome.await.map_err(|_| StoreError::Gone)?;
        self.written.send_replace(());
        outcome
    }

    /// Like [`Self::write`], but waits until the result is on disk: for callers that then delete
    /// the only other copy.
    pub async fn write_to_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let value = self.write(work).await?;
        wal_sync::sync(&self.log).await?;
        Ok(value)
    }

    /// Returns a channel that changes with every write.
    pub fn written(&self) -> watch::Receiver<()> {
        self.written.subscribe()
    }

    /// Runs `work` with a reading connection and waits for the result.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.readers.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let database = readers.get().map_err(|_| StoreError::Busy)?;
            work(&database)
        });
        outcome.await.map_err(|_| StoreError::Gone)?
    }

    /// Frees the page caches of all connections that nobody uses at the moment. Best effort: the operating system
    /// has the pages too.
    pub async fn release_caches(&self) {
        let (released, outcome) = oneshot::channel();
        let job: Job = Box::new(move |database| {
            let _ = released.send(store::release_cache(database));
            false
        });
        if self.writer.send(job).is_err() {
            return;
        }
        let _ = outcome.await;
        let readers = self.readers.clone();
        let release = move || {
            // All at once: the pool hands out the connection first that came back last.
            let idle: Vec<_> = std::iter::from_fn(|| readers.try_get()).collect();
            idle.iter().for_each(|database| drop(store::release_cache(database)));
        };
        let _ = tokio::task::spawn_blocking(release).await;
    }
}

/// Prepares the database before anything opens it.
fn make_usable(home: &Home, seems_damaged: bool) -> Result<(), StoreError> {
    home.prepare()?;
    if recovery::is_unfinished(home) {
        return recovery::resume(home, clock::now());
    }
    if recovery::was_emptied(home, clock::now()) {
        return recovery::recover(home, "the file is empty", clock::now()).map(drop);
    }
    if legacy_import::use_alternate_path(home)? {
        let ours = home.database_beside().display().to_string();
        tracing::info!(ours, "another program's database is at our path; ours is {ours}");
    }
    if let Some(fault) = recovery::wal_corruption(home) {
        return recovery::recover(home, &fault, clock::now()).map(drop);
    }
    if seems_damaged { repair(home) } else { Ok(()) }
}

/// Determines the extent of the damage and repairs it.
fn repair(home: &Home) -> Result<(), StoreError> {
    match recovery::renew_index(home) {
        Err(error) if error.may_be_damage() => {
            recovery::recover(home, &error.cause(), clock::now()).map(drop)
        }
        // The migration reports an error, if there is one.
        Err(StoreError::Older(_)) => Ok(()),
        other => other,
    }
}

fn open_or_recover(home: &Home, writer: mpsc::Sender<Job>) -> Result<(Connection, Database), StoreError> {
    match open(home, writer.clone()) {
        Err(error) if error.is_damage() => {
            recovery::recover(home, &error.cause(), clock::now())?;
            open(home, writer)
        }
        // Its tables were in its WAL, which the check from outside does not read.
        Err(StoreError::Foreign) if home.database() == home.usual_database() => {
            legacy_import::create_alternate(home)?;
            open(home, writer)
        }
        other => other,
    }
}

fn open(home: &Home, writer: mpsc::Sender<Job>) -> Result<(Connection, Database), StoreError> {
    let connection = store::open_for_worker(home, clock::now())?;
    let readers = store::open_readers(home)?;
    let file = Arc::new(OpenFile::at(home.database())?);
    let database = Database { writer, readers, file, log: home.wal(), written: watch::Sender::new(()) };
    Ok((connection, database))
}

fn write(mut connection: Connection, jobs: mpsc::Receiver<Job>) {
    for job in jobs {
        let before = connection.total_changes();
        // A panic fails this job only, not the following ones.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&mut connection)));
        // If each of the waiting jobs waited as long again, there would be no response for minutes,
        // not even to a stop.
        if done.unwrap_or_default() {
            let _ = store::set_busy_timeout(&connection, false);
        } else if connection.total_changes() != before {
            let _ = store::set_busy_timeout(&connection, true);
        }
    }
}

/// The identity of a file when it was opened.
#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl OpenFile {
    fn at(path: PathBuf) -> Result<Self, StoreError> {
        let identity = FileIdentity::of(&path).ok_or(StoreError::Replaced)?;
        Ok(Self { path, identity })
    }

    /// Detects a removed file: an open file survives its removal, but no other process would ever
    /// see the data written to it.
    fn check(&self) -> Result<(), StoreError> {
        let is_there = FileIdentity::of(&self.path) == Some(self.identity);
        is_there.then_some(()).ok_or(StoreError::Replaced)
    }
}
