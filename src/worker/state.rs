//! State shared by the worker's parts: its condition, and the figures that health reports.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::background::embedder::EmbedderHandle;
use super::background::similarity_threads::SimilarityPool;
use super::background::vetoes;
use super::compressor::Compressor;
use super::database::Database;
use super::jobs::seen_files::SeenFilesBySession;
use super::session_context::Offers;
use crate::api::{Health, QueueStats};
use crate::config::{Config, Environment};
use crate::model::Millis;
use crate::paths::Home;
use crate::repository::Repositories;
use crate::store::queue::{self, ClaimId, Finished};
use crate::store::{StoreError, index};
use crate::{clock, search};

/// State with the lifetime of the worker.
#[derive(Debug)]
pub struct Shared {
    /// The data directory.
    pub home: Home,
    /// The environment variables.
    pub environment: Environment,
    /// Start time of the worker.
    pub started: Instant,
    /// Wakes the processor to check the queue.
    pub nudge: Notify,
    /// Counts settled jobs; clients that wait for a job watch it.
    pub settled: watch::Sender<u64>,
    /// Context recently offered to sessions; their hooks record the printed part.
    pub offers: tokio::sync::Mutex<Offers>,
    /// True if no more connections are accepted.
    pub stopping: watch::Sender<bool>,
    running: RwLock<Option<Arc<Running>>>,
    trouble: Mutex<Option<String>>,
    damage: Mutex<Option<String>>,
    /// Time and reason of the last loss of events to the size limit.
    pressure: Mutex<Option<(Instant, &'static str)>>,
    /// Time of the last failed backup; 0 if there was none.
    pub backup_failed_at: AtomicI64,
    last_claim: AtomicI64,
    memory_used: AtomicBool,
    /// The embedding model for semantic search.
    pub embedder: EmbedderHandle,
}

/// State that exists while the worker is healthy.
#[derive(Debug)]
pub struct Running {
    /// The settings.
    pub config: Config,
    /// The database.
    pub database: Database,
    /// Access to the models.
    pub compressor: Compressor,
    long_finished: Mutex<Option<LongFinished>>,
    /// Files that sessions have read so far.
    pub seen: SeenFilesBySession,
    /// The state of the git repositories.
    pub repositories: Arc<Repositories>,
    /// Semantic comparison, parallel to the word search.
    pub similarity: SimilarityPool,
    /// The statements that were compared with the vetoes.
    pub compared_with_vetoes: vetoes::VetoProgress,
}

/// Counts of rows finished up to a given time: cached, because counting a million takes long. Rows
/// finished since then are counted on each request, so no counter is kept besides the rows
/// themselves.
#[derive(Debug, Clone, Copy)]
struct LongFinished {
    counted: Instant,
    until: Millis,
    rows: Finished,
}

/// Maximum age of cached counts: other processes may change old rows, too.
const COUNTS_HOLD: Duration = Duration::from_secs(60);

/// Time for which health reports a loss of events.
const PRESSURE_COUNTS: Duration = Duration::from_secs(3600);

/// Maximum delay between a row's timestamp and its commit.
const COMMIT_TAKES: Millis = 5_000;

impl Shared {
    /// Starts as degraded.
    pub fn new(home: Home, mut environment: Environment) -> Self {
        // The directory in which a client was started is irrelevant for the events of others.
        environment.project_dir = None;
        let embedder = EmbedderHandle::new(home.models());
        Self {
            home,
            environment,
            embedder,
            started: Instant::now(),
            nudge: Notify::new(),
            settled: watch::Sender::new(0),
            offers: tokio::sync::Mutex::new(Offers::default()),
            stopping: watch::Sender::new(false),
            running: RwLock::new(None),
            trouble: Mutex::new(Some(Health::STARTING.into())),
            damage: Mutex::default(),
            pressure: Mutex::default(),
            backup_failed_at: AtomicI64::new(0),
            last_claim: AtomicI64::new(0),
            memory_used: AtomicBool::new(false),
        }
    }

    /// Returns the running state, or the reason why there is none.
    pub fn running(&self) -> Result<Arc<Running>, String> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| self.trouble().unwrap_or_else(|| Health::STARTING.into()))
    }

    /// Returns the current problem, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets or clears the running state.
    pub fn set_running(&self, running: Option<Arc<Running>>) {
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Sets the current problem, and logs it if it is new.
    pub fn set_trouble(&self, reason: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.as_deref() != Some(reason) {
            tracing::error!(reason, "degraded: {reason}");
            *trouble = Some(reason.to_owned());
        }
    }

    /// Records work outside the queue, such as a search or a backup, that used memory which can be returned later.
    pub fn mark_memory_used(&self) {
        if !self.memory_used.swap(true, Ordering::Relaxed) {
            self.nudge.notify_one();
        }
    }

    /// True if there was such work since the last call.
    pub fn take_memory_used(&self) -> bool {
        self.memory_used.swap(false, Ordering::Relaxed)
    }

    /// Records that the database is damaged.
    pub fn set_damage(&self, damage: String) {
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(damage);
        self.nudge.notify_one();
    }

    /// Returns the recorded damage, once.
    pub fn take_damage(&self) -> Option<String> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Records that events were dropped before they were processed.
    pub fn set_pressure(&self, reason: &'static str) {
        let mut pressure = self.pressure.lock().unwrap_or_else(PoisonError::into_inner);
        if pressure.as_ref().is_none_or(|(at, _)| at.elapsed() >= PRESSURE_COUNTS) {
            tracing::error!(reason, "degraded: {reason}");
        }
        *pressure = Some((Instant::now(), reason));
    }

    /// Returns the reason why events were dropped in the last hour, if any were.
    pub fn pressure(&self) -> Option<String> {
        let pressure = self.pressure.lock().unwrap_or_else(PoisonError::into_inner);
        pressure.filter(|(at, _)| at.elapsed() < PRESSURE_COUNTS).map(|(_, reason)| reason.to_owned())
    }

    /// Clears the current problem, because work succeeds again.
    pub fn set_healthy(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = trouble.take() {
            tracing::info!(after = reason, "healthy again");
        }
    }

    /// Records that queue rows have ended, with any result.
    pub fn notify_settled(&self) {
        self.settled.send_modify(|count| *count += 1);
    }

    /// Returns a claim id that is unique in this worker: the current time, or slightly later,
    /// whatever the clock does.
    pub fn new_claim(&self) -> ClaimId {
        let now = clock::now();
        let later = |last: i64| Some(now.max(last + 1));
        let last = self.last_claim.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        ClaimId(now.max(last.unwrap_or_default() + 1))
    }
}

/// The provider's state in health.
#[derive(Debug, Clone, Default)]
pub struct ProviderHealth {
    /// Its name.
    pub name: &'static str,
    /// State of the breaker: closed, open, half-open.
    pub breaker: &'static str,
    /// The problem, if there is one.
    pub problem: Option<String>,
}

impl Running {
    /// Starts with empty counts.
    pub fn new(config: Config, database: Database, compressor: Compressor) -> Self {
        Self {
            config,
            database,
            compressor,
            long_finished: Mutex::default(),
            seen: SeenFilesBySession::default(),
            repositories: Arc::default(),
            similarity: SimilarityPool::default(),
            compared_with_vetoes: vetoes::VetoProgress::default(),
        }
    }

    /// Counts the rows in each state.
    pub async fn queue_stats(&self) -> Result<QueueStats, StoreError> {
        let now = clock::now();
        let known = *self.long_finished();
        let known = known.filter(|known| known.counted.elapsed() < COUNTS_HOLD && known.until < now);
        let (long, recent, open) = self
            .database
            .read(move |database| {
                // One transaction, so that a row that changes its state is counted once.
                let database = &*database.unchecked_transaction()?;
                let long = match known {
                    Some(known) => known,
                    None => {
                        let until = now - COMMIT_TAKES;
                        let rows = queue::finished(database, Millis::MIN, until)?;
                        LongFinished { counted: Instant::now(), until, rows }
                    }
                };
                let recent = queue::finished(database, long.until, Millis::MAX)?;
                Ok((long, recent, queue::open_work(database)?))
            })
            .await?;
        *self.long_finished() = Some(long);
        Ok(QueueStats {
            raw: open.raw,
            processing: open.processing,
            done: long.rows.done + recent.done,
            skipped: long.rows.skipped + recent.skipped,
            error: long.rows.error + recent.error,
        })
    }

    /// Adds rows written by others, mostly hooks, to the search index. Searches that do not wait
    /// for it find these rows nevertheless.
    pub async fn index_waiting_rows(&self) {
        let waiting = self.database.read(|database| index::waiting(database, 1)).await;
        if waiting.is_ok_and(|waiting| !waiting.is_empty()) {
            let _ = self.database.write(search::indexing::index_some).await;
        }
    }

    /// Drops the cached counts, because finished rows were changed.
    pub fn forget_counts(&self) {
        *self.long_finished() = None;
    }

    fn long_finished(&self) -> MutexGuard<'_, Option<LongFinished>> {
        self.long_finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
