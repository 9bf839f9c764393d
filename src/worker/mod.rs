//! The service: a long-lived worker behind two sockets, which turns the queue into memory.
//!
//! It degrades rather than exits: whatever is wrong with the settings or the database is said in `/api/health` and the
//! journal, and tried again until it is repaired. What it does while it is well is in `processor`.

pub mod activation;
pub mod clock;
mod compressor;
mod database;
mod http;
#[cfg(target_os = "macos")]
mod launchd;
pub mod lock;
mod observe;
mod processor;
mod signals;
mod spooled;
mod state;
mod supervise;
mod transcript;
mod upkeep;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::sync::watch;

pub use signals::{Signal, signals};

use crate::config::{Config, ConfigError, Environment};
use crate::paths::Home;
use crate::store::{self, StoreError};
use activation::{Origin, Sockets};
use compressor::Compressor;
use database::Writer;
use state::{Running, Shared};
use supervise::Supervisor;

/// How often a degraded worker looks whether it was repaired.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What ends or interrupts the service.
pub type Signals = tokio::sync::mpsc::UnboundedReceiver<Signal>;

/// Serves until a signal says stop. The caller holds the lock.
pub async fn run(
    home: Home,
    environment: Environment,
    sockets: Sockets,
    signals: Signals,
) -> std::io::Result<()> {
    let shared = Arc::new(Shared::new(home, environment));
    let (stop_accepting, stopped) = watch::channel(false);
    let origin = sockets.origin;
    sockets.api.set_nonblocking(true)?;
    sockets.nudge.set_nonblocking(true)?;
    let server =
        tokio::spawn(http::serve(tokio::net::UnixListener::from_std(sockets.api)?, shared.clone(), stopped));
    let nudges = tokio::spawn(listen_for_nudges(UnixDatagram::from_std(sockets.nudge)?, shared.clone()));
    let supervisor = Supervisor::new();
    supervisor.ready();
    let stop_within = live(&shared, signals, &supervisor).await;
    supervisor.stopping();
    nudges.abort();
    let _ = stop_accepting.send(true);
    // Requests under way are answered; what is not accepted yet waits in the manager's backlog for the next worker.
    let _ = tokio::time::timeout(stop_within, server).await;
    if origin == Origin::Own {
        let _ = std::fs::remove_file(shared.home.socket());
        let _ = std::fs::remove_file(shared.home.nudge_socket());
    }
    Ok(())
}

/// Any datagram means "look at the queue".
async fn listen_for_nudges(socket: UnixDatagram, shared: Arc<Shared>) {
    let mut buffer = [0; 16];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(_) => shared.nudge.notify_one(),
            Err(error) => {
                tracing::warn!(%error, "cannot receive nudges");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Well or degraded, until it is told to stop. Returns how long the rest may take.
async fn live(shared: &Arc<Shared>, mut signals: Signals, supervisor: &Supervisor) -> Duration {
    let mut stop_within = Duration::from_secs(10);
    loop {
        let interruption = match Running::open(shared).await {
            Ok(running) => {
                let running = Arc::new(running);
                stop_within = Duration::from_secs(running.config.worker.stop_s);
                shared.set_running(running.clone());
                let ended = processor::run(shared, &running, &mut signals, supervisor).await;
                shared.clear_running();
                ended
            }
            Err(trouble) => processor::Ended::Trouble(trouble.to_string()),
        };
        match interruption {
            processor::Ended::Stop => return stop_within,
            processor::Ended::Reload => tracing::info!("reloading the configuration"),
            processor::Ended::Trouble(reason) => {
                shared.degrade(&reason);
                supervisor.status(&format!("degraded: {reason}"));
                if wait_for_repair(shared, &mut signals, supervisor).await {
                    return stop_within;
                }
            }
        }
    }
}

/// Waits a little before the next try. True if the worker shall stop.
async fn wait_for_repair(shared: &Shared, signals: &mut Signals, supervisor: &Supervisor) -> bool {
    supervisor.alive();
    tokio::select! {
        signal = signals.recv() => signal.is_none_or(|signal| signal == Signal::Stop),
        () = tokio::time::sleep(LOOK_AGAIN) => false,
        () = async {
            // A nudge may be the repair's first sign, but a storm of hooks must not become a storm of tries.
            shared.nudge.notified().await;
            tokio::time::sleep(Duration::from_millis(250)).await;
        } => false,
    }
}

/// Why the worker is degraded.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the configuration: {0}")]
    Config(#[from] ConfigError),
    #[error("{path}: {source}")]
    Store { path: PathBuf, source: StoreError },
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Running {
    /// Loads the settings and opens the database.
    async fn open(shared: &Shared) -> Result<Self, Trouble> {
        let config = Config::load(&shared.home.config(), &shared.environment)?;
        let path = shared.home.database();
        let home = shared.home.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let writer = store::open_for_worker(&home, clock::now())?;
            Ok((writer, store::open_readers(&home)?))
        });
        let opened = opened.await.unwrap_or(Err(StoreError::Gone));
        let (writer, readers) = opened.map_err(|source| Trouble::Store { path: path.clone(), source })?;
        let identity = state::FileIdentity::of(&path);
        let compressor = Compressor::new(shared, &config);
        Ok(Self::new(config, Writer::start(writer)?, readers, identity, compressor))
    }
}
