//! What the worker's parts share: whether it is well, and the figures that health reports.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::clock;
use super::comparing::Comparing;
use super::compressor::Compressor;
use super::database::Database;
use super::mind::Mind;
use super::seen::Seen;
use crate::config::{Config, Environment};
use crate::model::Millis;
use crate::paths::Home;
use crate::repository::Repositories;
use crate::search::{self, meaning};
use crate::store::queue::{ClaimId, Finished, QueueStats};
use crate::store::{StoreError, index, queue};

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
    /// Held from the look at what a session was shown to the note of what it is shown now.
    pub telling: tokio::sync::Mutex<()>,
    /// No more connections are taken.
    pub stopping: watch::Sender<bool>,
    running: RwLock<Option<Arc<Running>>>,
    trouble: Mutex<Option<String>>,
    damage: Mutex<Option<String>>,
    last_claim: AtomicI64,
    asked: AtomicBool,
    /// The model that search finds meanings by.
    pub mind: Mind,
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
    long_finished: Mutex<Option<LongFinished>>,
    /// What sessions have read so far.
    pub seen: Seen,
    /// What is going on in repositories.
    pub repositories: Arc<Repositories>,
    /// Compares meanings while others search by words.
    pub comparing: Comparing,
}

/// The rows that finished up to a moment: counted once, because counting a million takes its time. What finished since
/// is counted whenever somebody asks, so that no count is ever kept beside the rows themselves.
#[derive(Debug, Clone, Copy)]
struct LongFinished {
    counted: Instant,
    until: Millis,
    rows: Finished,
}

/// Counts older than this are made anew when somebody asks: others may have changed old rows, too.
const COUNTS_HOLD: Duration = Duration::from_secs(60);

/// A row may be committed this much later than the moment it bears.
const COMMIT_TAKES: Millis = 5_000;

impl Shared {
    /// Not well yet.
    pub fn new(home: Home, mut environment: Environment) -> Self {
        // Where a client was started says nothing about the events of others.
        environment.project_dir = None;
        let mind = Mind::new(meaning::file(&home.models()));
        Self {
            home,
            environment,
            mind,
            started: Instant::now(),
            nudge: Notify::new(),
            settled: watch::Sender::new(0),
            telling: tokio::sync::Mutex::new(()),
            stopping: watch::Sender::new(false),
            running: RwLock::new(None),
            trouble: Mutex::new(Some("starting".into())),
            damage: Mutex::default(),
            last_claim: AtomicI64::new(0),
            asked: AtomicBool::new(false),
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

    /// Somebody asked what takes memory to answer: there will be something to give back.
    pub fn note_asked(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            self.nudge.notify_one();
        }
    }

    /// Whether somebody asked since this was last called.
    pub fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// Somebody found the database damaged.
    pub fn note_damage(&self, damage: String) {
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(damage);
        self.nudge.notify_one();
    }

    /// What was found, once.
    pub fn take_damage(&self) -> Option<String> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).take()
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
        Self {
            config,
            database,
            compressor,
            long_finished: Mutex::default(),
            seen: Seen::default(),
            repositories: Arc::default(),
            comparing: Comparing::default(),
        }
    }

    /// How many rows are in each state.
    pub async fn queue_stats(&self) -> Result<QueueStats, StoreError> {
        let now = clock::now();
        let known = *self.long_finished();
        let known = known.filter(|known| known.counted.elapsed() < COUNTS_HOLD && known.until < now);
        let (long, recent, open) = self
            .database
            .read(move |database| {
                // One look at everything, so that a row on its way from one state to the next is counted once.
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

    /// Brings what others wrote, hooks above all, into the search index. Whoever cannot wait for that finds it all the same.
    pub async fn index_what_waits(&self) {
        let waiting = self.database.read(|database| index::waiting(database, 1)).await;
        if waiting.is_ok_and(|waiting| !waiting.is_empty()) {
            let _ = self.database.write(search::upkeep::catch_up).await;
        }
    }

    /// Others changed finished rows: count again when somebody asks.
    pub fn forget_counts(&self) {
        *self.long_finished() = None;
    }

    fn long_finished(&self) -> MutexGuard<'_, Option<LongFinished>> {
        self.long_finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
