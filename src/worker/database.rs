//! The database as the asynchronous part sees it: one thread that writes, and readers on borrowed threads. No statement
//! runs on an asynchronous thread.

use std::sync::mpsc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::store::{Readers, StoreError};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The one that writes.
#[derive(Debug, Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Gives the connection to a thread of its own, which ends with the last handle.
    pub fn start(mut database: Connection) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new().name("writer".into()).spawn(move || {
            for job in queue {
                // A panic is that job's failure, not the end of all that come after it.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&mut database)));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Does something with the writing connection and waits for the outcome.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let job: Job = Box::new(move |database| {
            let _ = answer.send(work(database));
        });
        self.jobs.send(job).map_err(|_| StoreError::Gone)?;
        outcome.await.map_err(|_| StoreError::Gone)?
    }
}

/// Does something with a reading connection and waits for the outcome.
pub async fn read<T: Send + 'static>(
    readers: &Readers,
    work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let readers = readers.clone();
    let outcome = tokio::task::spawn_blocking(move || {
        let database = readers.get().map_err(|_| StoreError::Busy)?;
        work(&database)
    });
    outcome.await.map_err(|_| StoreError::Gone)?
}
