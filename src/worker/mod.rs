//! The service: a long-lived worker behind two sockets, which turns the queue into memory.
//!
//! It degrades rather than exits: whatever is wrong with the settings or the database is said in `/api/health` and the
//! journal, and tried again until it is repaired. What it does while it is well is in `processor`.

pub mod activation;
pub mod briefing;
pub mod clock;
mod comparing;
mod compressor;
mod daily;
mod database;
mod doors;
mod durable;
mod http;
#[cfg(target_os = "macos")]
mod launchd;
mod learning;
pub mod lock;
pub(crate) mod memory;
mod mind;
mod observe;
mod processor;
mod seen;
mod settle;
mod signals;
mod spooled;
mod state;
mod supervise;
mod transcript;
mod turn_end;
mod upkeep;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use signals::{Signal, signals};

use crate::config::{Config, ConfigError, Environment};
use crate::paths::Home;
use crate::store::StoreError;
use activation::Sockets;
use compressor::Compressor;
use database::Database;
use doors::Doors;
use lock::Lock;
use processor::{Ended, Surroundings};
use state::{Running, Shared};
use supervise::Supervisor;

/// How often a degraded worker looks whether it was repaired.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The pause after a nudge while something is wrong: it may be the repair's first sign, but a storm of hooks must not
/// become a storm of tries.
const NUDGE_PAUSE: Duration = Duration::from_millis(250);

/// A database that takes longer to open is being migrated: clients are told so, and do not wait.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);

/// A worker recovers its database at most this often in a day: a disk that breaks it again and again is beyond us.
const MOST_RECOVERIES: usize = 3;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What ends or interrupts the service.
pub type Signals = tokio::sync::mpsc::UnboundedReceiver<Signal>;

/// Serves until a signal says stop. The lock comes back to be held until nothing of the worker is left.
pub async fn run(
    home: Home,
    environment: Environment,
    lock: Lock,
    sockets: Sockets,
    signals: Signals,
) -> Lock {
    let doors = Doors::new(&home, lock, sockets);
    let shared = Arc::new(Shared::new(home, environment));
    let mut service = Service {
        shared,
        supervisor: Supervisor::new(),
        signals,
        doors,
        database: None,
        seems_damaged: false,
        recoveries: Vec::new(),
        stop_within: Duration::from_secs(10),
    };
    service.live().await;
    service.shared.stopping.send_replace(true);
    // Requests under way are answered; what is not accepted yet waits in the manager's backlog for the next worker.
    service.doors.close(service.stop_within / 2).await
}

struct Service {
    shared: Arc<Shared>,
    supervisor: Supervisor,
    signals: Signals,
    doors: Doors,
    /// Kept open over a change of settings.
    database: Option<Database>,
    /// Something in it could not be read: it is looked at as a whole before it is opened again.
    seems_damaged: bool,
    /// When that was so, of late.
    recoveries: Vec<Instant>,
    /// How long the end may take.
    stop_within: Duration,
}

impl Service {
    /// Well or degraded, until it is told to stop.
    async fn live(&mut self) {
        loop {
            let ended = match self.open().await {
                Ok(running) => self.process(running).await,
                Err(ended) => ended,
            };
            match ended {
                Ended::Stop => return,
                Ended::Reload => tracing::info!("reloading the configuration"),
                Ended::Reopen => self.database = None,
                Ended::Damaged(reason) if self.may_recover() => {
                    self.degrade(&reason);
                    self.seems_damaged = true;
                }
                Ended::Damaged(reason) | Ended::Trouble(reason) => {
                    self.degrade(&reason);
                    if self.wait_for_repair().await {
                        return;
                    }
                }
            }
        }
    }

    async fn process(&mut self, running: Running) -> Ended {
        let running = Arc::new(running);
        self.stop_within = Duration::from_secs(running.config.worker.stop_s);
        self.shared.set_running(Some(running.clone()));
        self.serve();
        let around =
            Surroundings { signals: &mut self.signals, supervisor: &self.supervisor, doors: &mut self.doors };
        processor::run(&self.shared, &running, around).await
    }

    /// Answers clients from now on.
    fn serve(&mut self) {
        if self.doors.open(&self.shared) {
            self.supervisor.ready();
        }
    }

    /// Loads the settings and opens the database, if it is not open.
    async fn open(&mut self) -> Result<Running, Ended> {
        let config = Config::load(&self.shared.home.config(), &self.shared.environment)
            .map_err(|error| Ended::Trouble(Trouble::from(error).to_string()))?;
        let database = match self.database.take() {
            Some(database) => database,
            None => self.open_database().await?,
        };
        self.database = Some(database.clone());
        let compressor = Compressor::new(&self.shared, &config);
        Ok(Running::new(config, database, compressor))
    }

    async fn open_database(&mut self) -> Result<Database, Ended> {
        let home = self.shared.home.clone();
        let seems_damaged = std::mem::take(&mut self.seems_damaged);
        let mut opening = std::pin::pin!(Database::open(&home, seems_damaged));
        let mut patience = OPEN_PATIENCE;
        let mut reload = false;
        loop {
            tokio::select! {
                opened = &mut opening => {
                    let opened = opened.map_err(|source| {
                        let is_damage = source.hints_at_damage();
                        let reason = Trouble::Store { path: home.database(), source }.to_string();
                        if is_damage { Ended::Damaged(reason) } else { Ended::Trouble(reason) }
                    })?;
                    if reload {
                        // The settings were read before this began.
                        self.database = Some(opened);
                        return Err(Ended::Reload);
                    }
                    return Ok(opened);
                }
                signal = self.signals.recv() => {
                    if signal.is_none_or(|signal| signal == Signal::Stop) {
                        return Err(Ended::Stop);
                    }
                    reload = true;
                }
                () = tokio::time::sleep(patience) => {
                    self.shared.set_trouble("the database is being opened, recovered or brought up to date");
                    self.serve();
                    self.supervisor.alive();
                    patience = self.supervisor.at_most(LOOK_AGAIN);
                }
            }
        }
    }

    /// Counts a recovery, unless there were too many.
    fn may_recover(&mut self) -> bool {
        self.recoveries.retain(|at| at.elapsed() < DAY);
        let may = self.recoveries.len() < MOST_RECOVERIES;
        if may {
            self.recoveries.push(Instant::now());
        }
        may
    }

    /// Lets go of the database, so that whatever is wrong with it can be repaired.
    fn degrade(&mut self, reason: &str) {
        self.database = None;
        self.shared.set_trouble(reason);
        self.shared.set_running(None);
        self.serve();
        self.supervisor.status(&format!("degraded: {reason}"));
    }

    /// Waits a little before the next try. True if the worker shall stop.
    async fn wait_for_repair(&mut self) -> bool {
        self.supervisor.alive();
        if let Err(error) = self.doors.look_after(&self.shared.home) {
            tracing::error!(%error, "this worker is not wanted any more: {error}");
            return true;
        }
        tokio::select! {
            signal = self.signals.recv() => signal.is_none_or(|signal| signal == Signal::Stop),
            () = tokio::time::sleep(self.supervisor.at_most(LOOK_AGAIN)) => false,
            () = async {
                self.shared.nudge.notified().await;
                tokio::time::sleep(NUDGE_PAUSE).await;
            } => false,
        }
    }
}

/// Why the worker is degraded.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the configuration: {0}")]
    Config(#[from] ConfigError),
    #[error("{path}: {source}")]
    Store { path: PathBuf, source: StoreError },
}
