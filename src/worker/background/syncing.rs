//! Synchronises with other machines (`claude-mem sync`), as a task of the worker.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::task::JoinHandle;

use crate::clock;
use crate::store::StoreError;
use crate::sync::{Engine, Local, Membership, service};
use crate::worker::database::Database;
use crate::worker::state::{Running, Shared};

/// Synchronises until this is dropped.
#[derive(Debug)]
pub struct Syncing(JoinHandle<()>);

impl Syncing {
    /// Begins, if this machine is a member of a team.
    pub fn start(shared: &Shared, running: &Arc<Running>) -> Option<Self> {
        match Membership::load(&shared.home, &shared.environment) {
            Ok(None) => return None,
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot synchronise: {error}");
                return None;
            }
        }
        let settings = &running.config.sync;
        let engine = Engine::new(
            running.database.clone(),
            shared.home.clone(),
            shared.environment.clone(),
            settings.share_default,
        );
        let poll = Duration::from_secs(settings.poll_s);
        let mut changes = running.database.written();
        let written = async move || {
            // The database is closed only after this task has ended.
            let _ = changes.changed().await;
        };
        Some(Self(tokio::spawn(service::run(engine, poll, written, clock::now))))
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Local for Database {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Self::read(self, work).await
    }
}
