//! What the worker's parts share: whether it is well, and the figures that health reports.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::clock;
use super::compressor::Compressor;
use super::database::Database;
use super::seen::Seen;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::store::queue::{ClaimId, QueueStats};
use crate::store::{StoreError, queue};

/// Shared by everything for the worker's whole life.
#[derive(Debug)]
pub struct Shared {
    /// The data directory.
    pub home: Home,
    /// What the environment said.
    pub environment: Environment,
    /// When the worker began.
    pub started: Instant,
    /// "Look at the queue."
    pub nudge: Notify,
    /// Counts settled pieces of work; whoever waits for one watches it.
    pub settled: watch::Sender<u64>,
    /// No more connections are taken.
    pub stopping: watch::Sender<bool>,
    running: RwLock<Option<Arc<Running>>>,
    trouble: Mutex<Option<String>>,
    last_claim: AtomicI64,
}

/// What there is while the worker is well.
#[derive(Debug)]
pub struct Running {
    /// The settings.
    pub config: Config,
    /// The database.
    pub database: Database,
    /// Who compresses.
    pub compressor: Compressor,
    finished: Mutex<FinishedCounts>,
    /// What sessions have read so far.
    pub seen: Seen,
}

/// Finished rows: counted once, then kept up to date, because counting a million takes its time.
#[derive(Debug, Default)]
struct FinishedCounts {
    counted: Option<(Instant, QueueStats)>,
}

/// Counts older than this are made anew when somebody asks: others may have written, too.
const COUNTS_HOLD: Duration = Duration::from_secs(60);

impl Shared {
    /// Not well yet.
    pub fn new(home: Home, mut environment: Environment) -> Self {
        // Where a client was started says nothing about the events of others.
        environment.project_dir = None;
        Self {
            home,
            environment,
            started: Instant::now(),
            nudge: Notify::new(),
            settled: watch::Sender::new(0),
            stopping: watch::Sender::new(false),
            running: RwLock::new(None),
            trouble: Mutex::new(Some("starting".into())),
            last_claim: AtomicI64::new(0),
        }
    }

    /// What there is, or why there is nothing.
    pub fn running(&self) -> Result<Arc<Running>, String> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| self.trouble().unwrap_or_else(|| "starting".into()))
    }

    /// What is wrong, if something is.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There is a database to work with, or none any more.
    pub fn set_running(&self, running: Option<Arc<Running>>) {
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Something is wrong; said in the journal when it is news.
    pub fn set_trouble(&self, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != Some(reason) {
            tracing::error!(reason, "degraded: {reason}");
            *trouble = Some(reason.to_owned());
        }
    }

    /// Things really move: whatever was wrong is over.
    pub fn set_well(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = trouble.take() {
            tracing::info!(after = reason, "well again");
        }
    }

    /// Says that rows of the queue have ended, one way or another.
    pub fn note_settled(&self) {
        self.settled.send_modify(|count| *count += 1);
    }

    /// A claim like no other of this worker: the present, or a little later, whatever the clock does.
    pub fn new_claim(&self) -> ClaimId {
        let now = clock::now();
        let later = |last: i64| Some(now.max(last + 1));
        let last = self.last_claim.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        ClaimId(now.max(last.unwrap_or_default() + 1))
    }
}

/// Who compresses, as health tells it.
#[derive(Debug, Clone, Default)]
pub struct ProviderHealth {
    /// Its name.
    pub name: &'static str,
    /// Whether calls are held back: closed, open, half-open.
    pub breaker: &'static str,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl Running {
    /// With nothing counted yet.
    pub fn new(config: Config, database: Database, compressor: Compressor) -> Self {
        Self { config, database, compressor, finished: Mutex::default(), seen: Seen::default() }
    }

    /// How many rows are in each state.
    pub async fn queue_stats(&self) -> Result<QueueStats, StoreError> {
        let known = self.finished().counted.filter(|(at, _)| at.elapsed() < COUNTS_HOLD);
        let mut stats = match known {
            Some((_, stats)) => stats,
            None => {
                let (done, skipped, error) = self.database.read(queue::finished).await?;
                let stats = QueueStats { done, skipped, error, ..QueueStats::default() };
                self.finished().counted = Some((Instant::now(), stats));
                stats
            }
        };
        let open = self.database.read(queue::open_work).await?;
        (stats.raw, stats.processing) = (open.raw, open.processing);
        Ok(stats)
    }

    /// Keeps the counts up to date.
    pub fn count_finished(&self, done: usize, skipped: usize) {
        if let Some((_, stats)) = &mut self.finished().counted {
            stats.done += i64::try_from(done).unwrap_or_default();
            stats.skipped += i64::try_from(skipped).unwrap_or_default();
        }
    }

    /// Others changed finished rows: count again when somebody asks.
    pub fn forget_counts(&self) {
        self.finished().counted = None;
    }

    fn finished(&self) -> MutexGuard<'_, FinishedCounts> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
