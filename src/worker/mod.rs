//! The service: a long-lived worker behind two sockets that turns the queue into memories.
//!
//! It degrades rather than exits: problems with the settings or the database are reported in
//! `/api/health` and the journal, and retried until they are fixed. Its normal work is in
//! `processor`.

mod background;
mod compressor;
mod database;
mod http;
mod jobs;
mod processor;
pub mod session_context;
mod state;
pub mod system;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use system::signals::{Signal, signals};
pub use system::supervise::Supervisor;

use crate::config::{Config, ConfigError, Environment};
use crate::paths::Home;
use crate::store::{StoreError, projects};
use compressor::Compressor;
use database::Database;
use processor::{Ended, Surroundings};
use state::{Running, Shared};
use system::activation::Sockets;
use system::listeners::Listeners;
use system::lock::Lock;

/// Interval between attempts of a degraded worker to start again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a nudge while degraded: a nudge may be the first sign of a fix, but many hooks must
/// not cause many attempts.
const NUDGE_PAUSE: Duration = Duration::from_millis(250);

/// Opening a database for longer than this means a migration or recovery: clients get an error
/// instead of waiting.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum recoveries of the database per day: a disk that keeps damaging it is beyond our help.
const MOST_RECOVERIES: usize = 3;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Signals that end or interrupt the service.
pub type Signals = tokio::sync::mpsc::UnboundedReceiver<Signal>;

/// Serves until a stop signal. Returns the lock, to be held until nothing of the worker is left.
pub async fn run(
    home: Home,
    environment: Environment,
    lock: Lock,
    sockets: Sockets,
    signals: Signals,
) -> Lock {
    let listeners = Listeners::new(&home, lock, sockets);
    let shared = Arc::new(Shared::new(home, environment));
    let mut service = WorkerService {
        shared,
        supervisor: Supervisor::from_environment(),
        signals,
        listeners,
        database: None,
        seems_damaged: false,
        recoveries: Vec::new(),
        stop_within: Duration::from_secs(10),
    };
    service.run().await;
    service.shared.stopping.send_replace(true);
    // Running requests are answered; connections not accepted yet wait in the manager's backlog for
    // the next worker.
    service.listeners.close(service.stop_within / 2).await
}

struct WorkerService {
    shared: Arc<Shared>,
    supervisor: Supervisor,
    signals: Signals,
    listeners: Listeners,
    /// Stays open across a reload of the settings.
    database: Option<Database>,
    /// True if a read failed: the whole file is checked before it is opened again.
    seems_damaged: bool,
    /// Times of recent recoveries.
    recoveries: Vec<Instant>,
    /// Maximum time for the shutdown.
    stop_within: Duration,
}

impl WorkerService {
    /// Runs, healthy or degraded, until a stop signal.
    async fn run(&mut self) {
        loop {
            // Opening would create the directory again.
            if let Err(error) = self.listeners.check_directory(&self.shared.home) {
                tracing::error!(%error, "stopping this worker: {error}");
                return;
            }
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
        let around = Surroundings {
            signals: &mut self.signals,
            supervisor: &self.supervisor,
            listeners: &mut self.listeners,
        };
        let following = background::history_follow::Following::start(&self.shared, &running);
        let syncing = background::syncing::Syncing::start(&self.shared, &running);
        let ended = processor::run(&self.shared, &running, around).await;
        drop((following, syncing));
        ended
    }

    /// Starts to serve clients.
    fn serve(&mut self) {
        if self.listeners.open(&self.shared) {
            self.supervisor.ready();
        }
    }

    /// Loads the settings and opens the database, if it is not open.
    async fn open(&mut self) -> Result<Running, Ended> {
        let config = Config::load(&self.shared.home.config(), &self.shared.environment)
            .map_err(|error| Ended::Trouble(DegradedReason::from(error).to_string()))?;
        let database = match self.database.take() {
            Some(database) => database,
            None => self.open_database().await?,
        };
        self.database = Some(database.clone());
        let capture = config.capture.clone();
        let renamed = database.write(move |database| projects::apply_aliases(database, &capture)).await;
        if let Err(error) = renamed {
            tracing::warn!(%error, "cannot apply project aliases before the next start: {error}");
        }
        let compressor = Compressor::new(&self.shared, &config);
        Ok(Running::new(config, database, compressor))
    }

    async fn open_database(&mut self) -> Result<Database, Ended> {
        let home = self.shared.home.clone();
        let seems_damaged = std::mem::take(&mut self.seems_damaged);
        let mut opening = std::pin::pin!(Database::open(&home, seems_damaged));
        let mut timeout = OPEN_PATIENCE;
        let mut reload = false;
        loop {
            tokio::select! {
                opened = &mut opening => {
                    let opened = opened.map_err(|source| {
                        let is_damage = source.may_be_damage();
                        let reason = DegradedReason::Store { path: home.database(), source }.to_string();
                        if is_damage { Ended::Damaged(reason) } else { Ended::Trouble(reason) }
                    })?;
                    if reload {
                        // The settings were read before this long wait.
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
                () = tokio::time::sleep(timeout) => {
                    self.shared.set_trouble("the database is being opened, recovered or migrated");
                    self.serve();
                    self.supervisor.alive();
                    timeout = self.supervisor.at_most(RETRY_INTERVAL);
                }
            }
        }
    }

    /// Counts a recovery; false if there were too many.
    fn may_recover(&mut self) -> bool {
        self.recoveries.retain(|at| at.elapsed() < DAY);
        let may = self.recoveries.len() < MOST_RECOVERIES;
        if may {
            self.recoveries.push(Instant::now());
        }
        may
    }

    /// Closes the database, so that its problem can be fixed.
    fn degrade(&mut self, reason: &str) {
        self.database = None;
        self.shared.set_trouble(reason);
        self.shared.set_running(None);
        self.serve();
        self.supervisor.status(&format!("degraded: {reason}"));
    }

    /// Waits before the next attempt. True if the worker must stop.
    async fn wait_for_repair(&mut self) -> bool {
        self.supervisor.alive();
        if let Err(error) = self.listeners.restore_files(&self.shared.home) {
            tracing::error!(%error, "stopping this worker: {error}");
            return true;
        }
        tokio::select! {
            signal = self.signals.recv() => signal.is_none_or(|signal| signal == Signal::Stop),
            () = tokio::time::sleep(self.supervisor.at_most(RETRY_INTERVAL)) => false,
            () = async {
                self.shared.nudge.notified().await;
                tokio::time::sleep(NUDGE_PAUSE).await;
            } => false,
        }
    }
}

/// The reason why the worker is degraded.
#[derive(Debug, thiserror::Error)]
enum DegradedReason {
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    #[error("{path}: {source}")]
    Store { path: PathBuf, source: StoreError },
}
