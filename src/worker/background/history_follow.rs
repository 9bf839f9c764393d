//! Follows the histories of agents without hooks (`backfill.follow`), on a thread of its own.

use std::sync::mpsc::{self, Sender};

use crate::backfill::HistorySource;
use crate::backfill::follow::{FollowSignal, Follower};
use crate::backfill::replay::Options;
use crate::worker::state::{Running, Shared};

/// Histories that are followed until this is dropped.
#[derive(Debug)]
pub struct Following {
    stop: Sender<FollowSignal>,
}

impl Following {
    /// Begins, if the user wants any followed.
    pub fn start(shared: &Shared, running: &Running) -> Option<Self> {
        let agents: Vec<HistorySource> =
            running.config.backfill.follow.iter().copied().map(Into::into).collect();
        if agents.is_empty() {
            return None;
        }
        let (stop, signals) = mpsc::channel();
        let (home, environment) = (shared.home.clone(), shared.environment.clone());
        let (config, sender) = (running.config.clone(), stop.clone());
        std::thread::spawn(move || {
            let options = Options::default();
            let follower = Follower {
                home: &home,
                environment: &environment,
                config: &config,
                agents: &agents,
                options: &options,
            };
            if let Err(error) = follower.run(sender, &signals) {
                tracing::error!(%error, "histories are not followed any more: {error}");
            }
        });
        Some(Self { stop })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.stop.send(FollowSignal::Stop);
    }
}
