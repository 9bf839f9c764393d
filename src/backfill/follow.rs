//! Follows histories as agents write them, for agents without hooks.
//!
//! The operating system reports changes (docs/decisions/004-following-files.md); between them nothing runs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher as _};

use super::replay::{Far, Options, Replay};
use super::{HistorySource, find};
use crate::config::{Config, Environment, FollowedAgent};
use crate::paths::Home;
use crate::store::StoreError;

/// Writers append in bursts: a burst is read once, this long after it began.
const BURST: Duration = Duration::from_secs(2);

/// Directories that were not there are looked for this often, and changes that name no history are looked into.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A message to a follower.
#[derive(Debug)]
pub enum FollowSignal {
    /// These files changed.
    Changed(Vec<PathBuf>),
    /// It is to end.
    Stop,
}

/// The reason for which following ended.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The operating system does not report changes.
    #[error("cannot watch the histories: {0}")]
    Watch(#[from] notify::Error),
    /// The database took nothing.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FollowedAgent> for HistorySource {
    fn from(agent: FollowedAgent) -> Self {
        match agent {
            FollowedAgent::ClaudeCode => Self::ClaudeCode,
            FollowedAgent::Codex => Self::Codex,
            FollowedAgent::Opencode => Self::Opencode,
            FollowedAgent::Gemini => Self::Gemini,
            FollowedAgent::Copilot => Self::Copilot,
        }
    }
}

/// Histories that are followed.
pub struct Follower<'a> {
    /// The data directory.
    pub home: &'a Home,
    /// The environment.
    pub environment: &'a Environment,
    /// The settings.
    pub config: &'a Config,
    /// Whose histories.
    pub agents: &'a [HistorySource],
    /// The choice of sessions.
    pub options: &'a Options,
}

impl Follower<'_> {
    /// Reads the histories, and then everything that is added, until it receives [`FollowSignal::Stop`].
    pub fn run(
        &self,
        sender: Sender<FollowSignal>,
        signals: &Receiver<FollowSignal>,
    ) -> Result<(), FollowError> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if let Ok(event) = event
                && !event.kind.is_access()
            {
                let _ = sender.send(FollowSignal::Changed(event.paths));
            }
        })?;
        let mut watched = HashSet::new();
        let (mut changed, mut is_all_due) = (HashSet::new(), true);
        let mut scanned: Option<Instant> = None;
        loop {
            self.watch_new(&mut watcher, &mut watched);
            if is_all_due && scanned.is_none_or(|scanned| scanned.elapsed() >= LOOK_AGAIN) {
                self.read(&find::usual(self.environment, self.agents))?;
                (scanned, is_all_due) = (Some(Instant::now()), false);
                changed.clear();
            } else if !changed.is_empty() {
                let paths: Vec<PathBuf> = changed.drain().collect();
                self.read(&find::named(&paths, None))?;
            }
            // Nothing wakes it but a change, unless something is left to look for.
            let has_rest = is_all_due || watched.len() < self.roots().len();
            let first =
                if has_rest { signals.recv_timeout(LOOK_AGAIN) } else { signals.recv().map_err(Into::into) };
            let began = Instant::now();
            let mut next = first;
            loop {
                match next {
                    Ok(FollowSignal::Changed(paths)) => {
                        for path in paths {
                            is_all_due |= !self.take(path, &mut changed);
                        }
                    }
                    Ok(FollowSignal::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => break,
                }
                next = signals.recv_timeout(BURST.saturating_sub(began.elapsed()));
            }
        }
    }

    /// Notes a history that changed. False if the file is none, but may belong to one.
    fn take(&self, path: PathBuf, changed: &mut HashSet<PathBuf>) -> bool {
        let is_history = self.agents.iter().any(|agent| agent.reader().is_history(&path));
        if is_history && path.exists() {
            changed.insert(path);
        }
        is_history
    }

    fn roots(&self) -> Vec<PathBuf> {
        self.agents.iter().flat_map(|agent| agent.roots(self.environment)).collect()
    }

    fn watch_new(&self, watcher: &mut notify::RecommendedWatcher, watched: &mut HashSet<PathBuf>) {
        for root in self.roots() {
            if !watched.contains(&root) && root.is_dir() && watch(watcher, &root).is_ok() {
                watched.insert(root);
            }
        }
    }

    fn read(&self, found: &find::FoundHistories) -> Result<(), FollowError> {
        let mut watch = |_: Far| true;
        let options = self.options.clone();
        let replay = Replay::new(self.home, self.config, self.environment, options, false, &mut watch)?;
        match replay.run(&found.transcripts) {
            // It passes, and the marker remembers how far it came.
            Err(error) if error.is_transient() => Ok(()),
            outcome => Ok(outcome.map(drop)?),
        }
    }
}

fn watch(watcher: &mut notify::RecommendedWatcher, root: &Path) -> notify::Result<()> {
    watcher.watch(root, RecursiveMode::Recursive)
}
