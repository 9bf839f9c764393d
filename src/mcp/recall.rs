//! Asks the worker; where there is none, reads the database itself, or writes to it in one short transaction.

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

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// There is no memory at all yet.
    Nothing,
    /// As a sentence to act on.
    Told(String),
}

impl From<String> for Trouble {
    fn from(told: String) -> Self {
        Self::Told(told)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing => Self::Nothing,
            StoreError::Busy => Self::Told("the database is busy: try again in a moment".into()),
            StoreError::Older(_) => Self::Told(format!("{error}; `claude-mem start` starts it")),
            _ => Self::Told(format!("{error}; `claude-mem doctor` tells how to repair it")),
        }
    }
}

/// The way to the memory.
#[derive(Debug, Clone)]
pub struct Recall {
    home: Home,
    config: Config,
    rest: Rest,
}

/// As long as a worker's own patience: a hook holds the lock for a millisecond, a backup longer.
const BUSY_MS: u32 = 5_000;

impl Recall {
    /// To the memory in that directory.
    pub fn new(home: Home, config: Config) -> Self {
        Self { home, config, rest: Rest::default() }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The start or a call is over: memory is given back, unless another call comes at once.
    pub fn rest(&self) {
        self.rest.begin();
    }

    /// Notes that Claude Code has our tools, so that a session's context can name them. Best effort.
    pub fn note_tools(&self) {
        let _ = std::fs::File::create(self.home.tools_asked());
    }

    /// The worker's answer to a route, or what `directly` reads.
    pub async fn read(
        &self,
        (method, route, body): (Method, &str, Option<Value>),
        directly: impl FnOnce(&Connection, &Config) -> Result<Value, Trouble> + Send + 'static,
    ) -> Result<Value, Trouble> {
        if let Some(answer) = self.ask(method, route, body).await? {
            return Ok(answer);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&store::open_to_recall(&home, BUSY_MS)?, &config)).await
    }

    /// The same for what changes something. It must be harmless to do twice: a worker that gave no answer may have done it.
    pub async fn write(
        &self,
        (method, route, body): (Method, &str, Option<Value>),
        directly: impl FnOnce(&mut Connection, &Config) -> Result<Value, Trouble> + Send + 'static,
    ) -> Result<Value, Trouble> {
        if let Some(answer) = self.ask(method, route, body).await? {
            return Ok(answer);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&mut store::open_to_change(&home, BUSY_MS)?, &config)).await
    }

    /// The worker's answer; none if there is no worker that could give one.
    async fn ask(&self, method: Method, route: &str, body: Option<Value>) -> Result<Option<Value>, Trouble> {
        let Ok(answer) = client::ask(&self.home.socket(), method, route, body.as_ref()).await else {
            return Ok(None);
        };
        match answer["error"]["code"].as_str() {
            None => Ok(Some(answer)),
            // A worker that is not well may still have a database that is; one of another version may lack the route.
            Some("degraded" | "timeout" | "method_not_allowed") => Ok(None),
            Some("not_found") if is_unknown_route(&answer) => Ok(None),
            Some(_) => {
                let message = answer["error"]["message"].as_str().unwrap_or("the service refuses");
                Err(Trouble::Told(message.to_owned()))
            }
        }
    }
}

fn is_unknown_route(answer: &Value) -> bool {
    answer["error"]["message"].as_str().is_some_and(|message| message.contains("no such route"))
}

/// No statement runs on the thread that answers.
async fn blocking(work: impl FnOnce() -> Result<Value, Trouble> + Send + 'static) -> Result<Value, Trouble> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Trouble::Told("this went wrong inside; `claude-mem doctor` may know why".into()))
    })
}

/// A search's lists are large, and the next one may be hours away: what it took is given back once no call has come for a
/// moment. Not at once, because the answer has yet to be written, which would fetch half of it again.
#[derive(Debug, Clone, Default)]
struct Rest(Arc<Mutex<Option<AbortHandle>>>);

impl Rest {
    const QUIET: Duration = Duration::from_millis(300);

    fn begin(&self) {
        let resting = tokio::spawn(async {
            tokio::time::sleep(Self::QUIET).await;
            drop(tokio::task::spawn_blocking(memory::give_back));
        });
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = current.replace(resting.abort_handle()) {
            earlier.abort();
        }
    }
}
