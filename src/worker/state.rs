//! What the worker's parts share: whether it is well, and the figures that health reports.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::compressor::Compressor;
use super::database::{Writer, read};
use crate::compress::routine::SeenFiles;
use crate::config::{Config, Environment};
use crate::model::SessionId;
use crate::paths::Home;
use crate::store::queue::QueueStats;
use crate::store::{Readers, StoreError, queue};

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
    phase: RwLock<Phase>,
}

#[derive(Debug, Clone)]
enum Phase {
    Running(Arc<Running>),
    Degraded(String),
}

/// What there is while the worker is well.
#[derive(Debug)]
pub struct Running {
    /// The settings.
    pub config: Config,
    /// The one that writes.
    pub writer: Writer,
    /// Those that read.
    pub readers: Readers,
    /// Who compresses.
    pub compressor: Compressor,
    /// The database file that was opened.
    pub file: Option<FileIdentity>,
    finished: Mutex<FinishedCounts>,
    seen: Mutex<HashMap<SessionId, (Instant, SeenFiles)>>,
}

/// What was read is remembered for so many sessions; for others reading it again is told again.
const SESSIONS_REMEMBERED: usize = 16;

/// Finished rows: counted once, then kept up to date, because counting a million takes its time.
#[derive(Debug, Default)]
struct FinishedCounts {
    counted: Option<(Instant, QueueStats)>,
}

/// Counts older than this are made anew when somebody asks: others may have written, too.
const COUNTS_HOLD: Duration = Duration::from_secs(60);

/// Which file a path led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The file that is there now.
    pub fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(path).ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino() })
    }
}

impl Shared {
    /// Not well yet.
    pub fn new(home: Home, environment: Environment) -> Self {
        Self {
            home,
            environment,
            started: Instant::now(),
            nudge: Notify::new(),
            settled: watch::Sender::new(0),
            phase: RwLock::new(Phase::Degraded("starting".into())),
        }
    }

    /// What there is, or why there is nothing.
    pub fn running(&self) -> Result<Arc<Running>, String> {
        match &*self.phase.read().unwrap_or_else(PoisonError::into_inner) {
            Phase::Running(running) => Ok(running.clone()),
            Phase::Degraded(reason) => Err(reason.clone()),
        }
    }

    /// All is well.
    pub fn set_running(&self, running: Arc<Running>) {
        self.set_phase(Phase::Running(running));
    }

    /// Between two states.
    pub fn clear_running(&self) {
        self.set_phase(Phase::Degraded("restarting".into()));
    }

    /// Something is wrong; said in the journal when it is news.
    pub fn degrade(&self, reason: &str) {
        let is_news = !matches!(self.running(), Err(known) if known == reason);
        if is_news {
            tracing::error!(reason, "degraded");
        }
        self.set_phase(Phase::Degraded(reason.to_owned()));
    }

    fn set_phase(&self, phase: Phase) {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Says that a piece of work is settled.
    pub fn note_settled(&self) {
        self.settled.send_modify(|count| *count += 1);
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
    pub fn new(
        config: Config,
        writer: Writer,
        readers: Readers,
        file: Option<FileIdentity>,
        compressor: Compressor,
    ) -> Self {
        Self { config, writer, readers, compressor, file, finished: Mutex::default(), seen: Mutex::default() }
    }

    /// Does something with what a session has read so far.
    pub fn with_seen_files(&self, session: &SessionId, work: impl FnOnce(&mut SeenFiles)) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, seen) =
            all.entry(session.clone()).or_insert_with(|| (Instant::now(), SeenFiles::default()));
        *used = Instant::now();
        work(seen);
        if all.len() > SESSIONS_REMEMBERED {
            let oldest = all.iter().min_by_key(|(_, (used, _))| *used).map(|(session, _)| session.clone());
            oldest.map(|session| all.remove(&session));
        }
    }

    /// Does something with a reading connection.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        read(&self.readers, work).await
    }

    /// How many rows are in each state.
    pub async fn queue_stats(&self) -> Result<QueueStats, StoreError> {
        let known = self.finished().counted.filter(|(at, _)| at.elapsed() < COUNTS_HOLD);
        let mut stats = match known {
            Some((_, stats)) => stats,
            None => {
                let (done, skipped, error) = self.read(queue::finished).await?;
                let stats = QueueStats { done, skipped, error, ..QueueStats::default() };
                self.finished().counted = Some((Instant::now(), stats));
                stats
            }
        };
        let open = self.read(queue::open_work).await?;
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
