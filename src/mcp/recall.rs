//! Queries the worker; without one, reads the database directly, or writes to it in one short
//! transaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use rusqlite::Connection;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::client;
use crate::config::Config;
use crate::paths::Home;
use crate::store::{self, StoreError};
use crate::worker::memory;

/// The reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecallError {
    /// There are no memories yet.
    NoMemories,
    /// An error message to act on.
    Message(String),
}

impl From<String> for RecallError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<StoreError> for RecallError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing => Self::NoMemories,
            StoreError::Busy => Self::Message("the database is busy; try again shortly".into()),
            StoreError::Older(_) => Self::Message(format!("{error}; run `claude-mem start`")),
            _ => Self::Message(format!("{error}; run `claude-mem doctor`")),
        }
    }
}

/// Access to the memory.
#[derive(Debug, Clone)]
pub struct Recall {
    home: Home,
    config: Config,
    memory_release: MemoryRelease,
}

/// Busy timeout, the same as the worker's: a hook holds the lock for a millisecond, a backup
/// longer.
const BUSY_MS: u32 = 5_000;

impl Recall {
    /// Accesses the memory in that directory.
    pub fn new(home: Home, config: Config) -> Self {
        Self { home, config, memory_release: MemoryRelease::default() }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Schedules the release of unused memory after the start or a call; another call cancels it.
    pub fn release_memory_later(&self) {
        self.memory_release.schedule();
    }

    /// Records that Claude Code has our tools, so that a session's context can mention them. Best
    /// effort.
    pub fn record_tools(&self) {
        let _ = std::fs::File::create(self.home.tools_asked());
    }

    /// Returns the worker's response to a route, or the result of `directly`.
    pub async fn read(
        &self,
        (method, route, body): (Method, &str, Option<Value>),
        directly: impl FnOnce(&Connection, &Config) -> Result<Value, RecallError> + Send + 'static,
    ) -> Result<Value, RecallError> {
        if let Some(answer) = self.ask(method, route, body).await? {
            return Ok(answer);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&store::open_to_recall(&home, BUSY_MS)?, &config)).await
    }

    /// The same for writes. They must be idempotent: a worker that did not respond may have done
    /// the write.
    pub async fn write(
        &self,
        (method, route, body): (Method, &str, Option<Value>),
        directly: impl FnOnce(&mut Connection, &Config) -> Result<Value, RecallError> + Send + 'static,
    ) -> Result<Value, RecallError> {
        if let Some(answer) = self.ask(method, route, body).await? {
            return Ok(answer);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&mut store::open_to_change(&home, BUSY_MS)?, &config)).await
    }

    /// Returns the worker's response; none if no worker can give one.
    async fn ask(
        &self,
        method: Method,
        route: &str,
        body: Option<Value>,
    ) -> Result<Option<Value>, RecallError> {
        let Ok(answer) = client::ask(&self.home.socket(), method, route, body.as_ref()).await else {
            return Ok(None);
        };
        match answer["error"]["code"].as_str() {
            None => Ok(Some(answer)),
            // A degraded worker may still have a readable database; one of another version may lack
            // the route.
            Some("degraded" | "timeout" | "method_not_allowed") => Ok(None),
            Some("not_found") if is_unknown_route(&answer) => Ok(None),
            Some(_) => {
                let message =
                    answer["error"]["message"].as_str().unwrap_or("the service refused the request");
                Err(RecallError::Message(message.to_owned()))
            }
        }
    }
}

fn is_unknown_route(answer: &Value) -> bool {
    answer["error"]["message"].as_str().is_some_and(|message| message.contains("no such route"))
}

/// Runs work off the thread that serves the client.
async fn blocking(
    work: impl FnOnce() -> Result<Value, RecallError> + Send + 'static,
) -> Result<Value, RecallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(RecallError::Message("internal error; run `claude-mem doctor`".into())))
}

/// Returns the memory of a search to the system once no call has come for a while: its lists are
/// large, and the next search may be hours away. Not at once, because the response still has to be
/// written, which would fault half of it back in.
#[derive(Debug, Clone, Default)]
struct MemoryRelease(Arc<Mutex<Option<AbortHandle>>>);

impl MemoryRelease {
    const DELAY: Duration = Duration::from_millis(300);

    fn schedule(&self) {
        let release = tokio::spawn(async {
            tokio::time::sleep(Self::DELAY).await;
            drop(tokio::task::spawn_blocking(memory::give_back));
        });
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = current.replace(release.abort_handle()) {
            earlier.abort();
        }
    }
}
