//! The queue processor: claims ready rows of several sessions concurrently, and settles them.
//!
//! Event-driven: a nudge starts work immediately. A slow timer is the fallback, and the only thing
//! that wakes an idle worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::background::{maintenance, spool_drain};
use super::jobs;
use super::state::{Running, Shared};
use super::system::listeners::Listeners;
use super::system::ram::{self, TrimTimer};
use super::system::signals::Signal;
use super::system::supervise::Supervisor;
use super::{NUDGE_PAUSE, RETRY_INTERVAL, Signals};
use crate::clock;
use crate::model::{Millis, SessionId};
use crate::privacy::redact::Redactor;
use crate::store::maintenance::retention::checkpoint;
use crate::store::queue::{self, Claim, ClaimId, ClaimRules, QueueRow, Work};
use crate::store::{StoreError, prompts};

/// Fallback interval for checking the queue: the maximum delay if a nudge is lost.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(60);

/// Interval for checking sockets, lock and data directory: a worker without its directory exits
/// within a minute.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// A job that runs longer than this is stuck, and the watchdog is no longer notified.
const STUCK_AFTER: Duration = Duration::from_secs(15 * 60);

/// Interval for status reports to the service manager while there is work.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after work on the past, in times of what it took, and at most.
const PAST_PAUSE: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Why the processor stopped.
#[derive(Debug)]
pub enum Ended {
    /// A stop signal.
    Stop,
    /// The settings have to be reloaded.
    Reload,
    /// The database file was replaced and has to be opened again.
    Reopen,
    /// The database file is damaged.
    Damaged(String),
    /// A problem that has to be fixed first.
    Trouble(String),
}

/// The processor's environment.
pub struct Surroundings<'a> {
    /// Signals that end or interrupt it.
    pub signals: &'a mut Signals,
    /// Receives status reports.
    pub supervisor: &'a Supervisor,
    /// Sockets, checked regularly.
    pub listeners: &'a mut Listeners,
}

/// Processes the queue until a signal or a problem. Then releases all claims.
pub async fn run(shared: &Arc<Shared>, running: &Arc<Running>, around: Surroundings<'_>) -> Ended {
    // This database was just opened: damage found before belongs to another file.
    shared.take_damage();
    let mut processor = Processor {
        shared: shared.clone(),
        running: running.clone(),
        under_way: HashMap::new(),
        tasks: JoinSet::new(),
        last: None,
        hold: None,
        maintenance: maintenance::Schedule::default(),
        log_has_secrets: false,
        has_problem: true,
        reported: None,
        has_chores: false,
        trim_timer: TrimTimer::after_start(),
    };
    let supervisor = around.supervisor;
    let ended = processor.run(around).await;
    if matches!(ended, Ended::Stop) {
        supervisor.stopping(Duration::from_secs(running.config.worker.stop_s));
        // First of all: connections not accepted from here on wait for the next worker.
        shared.stopping.send_replace(true);
    }
    processor.stop().await;
    ended
}

struct Processor {
    shared: Arc<Shared>,
    running: Arc<Running>,
    /// Running jobs, by session.
    under_way: HashMap<SessionId, UnderWay>,
    tasks: JoinSet<(SessionId, Result<Option<Millis>, StoreError>)>,
    /// The session that had its turn last.
    last: Option<SessionId>,
    /// Nothing is claimed from the first of these times to the second: the provider has a problem.
    hold: Option<(Millis, Millis)>,
    maintenance: maintenance::Schedule,
    /// True if a secret was redacted and the WAL still holds it.
    log_has_secrets: bool,
    /// True if the last access to the queue failed, or there was none yet.
    has_problem: bool,
    reported: Option<Instant>,
    /// True if housekeeping continues at once.
    has_chores: bool,
    trim_timer: TrimTimer,
}

struct UnderWay {
    claim: ClaimId,
    is_past: bool,
    since: Instant,
}

impl Processor {
    async fn run(&mut self, around: Surroundings<'_>) -> Ended {
        let mut looked = None;
        loop {
            if looked.is_none_or(|looked: Instant| looked.elapsed() >= FILE_CHECK_INTERVAL) {
                looked = Some(Instant::now());
                if let Err(error) = around.listeners.restore_files(&self.shared.home) {
                    tracing::error!(%error, "stopping this worker: {error}");
                    return Ended::Stop;
                }
            }
            let wait = match self.work().await {
                Ok(wake_at) => until(wake_at).min(FALLBACK_INTERVAL).min(FILE_CHECK_INTERVAL),
                Err(error) if error.is_transient() => self.report_problem(&error),
                Err(error) => return self.ended_by(&error),
            };
            self.report(around.supervisor).await;
            if self.shared.take_memory_used() {
                self.trim_timer.reset();
            }
            self.release_memory();
            let wait = self.trim_timer.due_in().map_or(wait, |trim_in| trim_in.min(wait));
            let wait = around.supervisor.at_most(wait);
            tokio::select! {
                biased;
                signal = around.signals.recv() => match signal {
                    Some(Signal::Reload) => return Ended::Reload,
                    Some(Signal::Stop) | None => return Ended::Stop,
                },
                Some(finished) = self.tasks.join_next() => {
                    if let Err(error) = self.note_finished(finished) {
                        return self.ended_by(&error);
                    }
                }
                () = nudged(&self.shared, self.has_problem) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Does everything that is ready. Returns the time of the next work, if known.
    async fn work(&mut self) -> Result<Option<Millis>, StoreError> {
        if let Some(damage) = self.shared.take_damage() {
            return Err(StoreError::Damaged(damage));
        }
        if spool_drain::drain(&self.shared.home, &self.running.database).await? {
            self.shared.nudge.notify_one();
        }
        self.redact_prompts().await?;
        let is_quiet = self.trim_timer.is_quiet();
        self.has_chores = self.maintenance.run(&self.shared, &self.running, is_quiet).await?;
        let wake_at = self.claim_all().await?;
        if std::mem::take(&mut self.has_problem) {
            self.shared.set_healthy();
        }
        Ok(wake_at)
    }

    /// Returns memory to the operating system if it is due. Housekeeping starts when it is quiet, and would
    /// use the memory again: it goes first.
    fn release_memory(&mut self) {
        if self.has_chores || !self.trim_timer.take_due() {
            return;
        }
        let database = self.running.database.clone();
        tokio::spawn(async move {
            database.release_caches().await;
            tokio::task::spawn_blocking(ram::release_memory);
        });
    }

    /// Redacts the prompts that hooks stored, before they are indexed, shown or sent.
    async fn redact_prompts(&mut self) -> Result<(), StoreError> {
        let redact = |text: &str| Redactor::new().redact(text).into_string();
        loop {
            let redacted =
                self.running.database.write(move |database| prompts::redact_raw(database, redact)).await?;
            self.log_has_secrets |= redacted.has_secrets;
            if !redacted.is_unfinished {
                break;
            }
        }
        if self.log_has_secrets {
            // Readers may block it: then the next round retries.
            let empty = |database: &mut _| checkpoint(database, Duration::ZERO);
            self.running.database.write(empty).await?;
            let length = std::fs::metadata(self.shared.home.wal()).map_or(0, |meta| meta.len());
            self.log_has_secrets = length > 0;
        }
        Ok(())
    }

    /// Redacts claimed payloads, in memory and in the database: a raw event is kept for days.
    async fn redact_payloads(&mut self, work: &mut Work) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut work.rows);
        let redacting = tokio::task::spawn_blocking(move || redacted(rows));
        let (rows, changed) = redacting.await.map_err(|_| StoreError::Gone)?;
        work.rows = rows;
        if !changed.is_empty() {
            self.log_has_secrets = true;
            self.running
                .database
                .write(move |database| prompts::replace_payloads(database, &changed))
                .await?;
        }
        Ok(())
    }

    async fn claim_all(&mut self) -> Result<Option<Millis>, StoreError> {
        let now = clock::now();
        if self.running.compressor.notice_new_keys(&self.shared, &self.running.config) {
            self.hold = None;
        }
        // Before the first time: the clock was set back, and the second may be days away.
        if let Some((_, until)) = self.hold.filter(|(since, until)| (*since..*until).contains(&now)) {
            return Ok(Some(until));
        }
        if self.hold.take().is_some() {
            self.running.compressor.recheck_provider(&self.shared, &self.running.config);
        }
        let concurrency = usize::try_from(self.running.config.worker.concurrency).unwrap_or(usize::MAX);
        while self.under_way.len() < concurrency {
            match self.claim().await? {
                Claim::Work(mut work) => {
                    self.redact_payloads(&mut work).await?;
                    self.start(work);
                }
                Claim::Nothing { wake_at } => return Ok(wake_at),
            }
        }
        Ok(None)
    }

    async fn claim(&self) -> Result<Claim, StoreError> {
        let batch = &self.running.config.batch;
        let rules = ClaimRules {
            now: clock::now(),
            claim: self.shared.new_claim(),
            batching: batch.enabled,
            max_size: usize::try_from(batch.max_size).unwrap_or(usize::MAX),
            past_under_way: self.under_way.values().any(|work| work.is_past),
            max_wait: Millis::try_from(batch.max_wait_s).unwrap_or(Millis::MAX / 1000).saturating_mul(1000),
        };
        let last = self.last.clone();
        let busy: HashSet<SessionId> = self.under_way.keys().cloned().collect();
        let claim = move |database: &mut _| queue::claim(database, &rules, last.as_ref(), &busy);
        self.running.database.write(claim).await
    }

    fn start(&mut self, work: Work) {
        self.trim_timer.reset();
        let session = work.session.clone();
        self.under_way.insert(
            session.clone(),
            UnderWay { claim: work.claim, is_past: work.is_past, since: Instant::now() },
        );
        self.last = Some(session.clone());
        let (shared, running) = (self.shared.clone(), self.running.clone());
        let (is_past, began) = (work.is_past, Instant::now());
        self.tasks.spawn(async move {
            let outcome = jobs::run(&shared, &running, work).await;
            if is_past {
                give_way(&running, began.elapsed()).await;
            }
            (session, outcome)
        });
    }

    fn note_finished(
        &mut self,
        finished: Result<(SessionId, Result<Option<Millis>, StoreError>), tokio::task::JoinError>,
    ) -> Result<(), StoreError> {
        match finished {
            Ok((session, Ok(retry_at))) => {
                self.under_way.remove(&session);
                self.trim_timer.reset();
                if let Some(time) = retry_at {
                    self.hold = Some((clock::now(), time));
                    self.running.compressor.recheck_provider(&self.shared, &self.running.config);
                }
                Ok(())
            }
            // Its claim is still recorded as running, and released with the others.
            Ok((_, Err(error))) => Err(error),
            Err(error) => {
                tracing::error!(%error, "a job panicked: {error}");
                Err(StoreError::Gone)
            }
        }
    }

    /// Reports a problem. Returns the time to wait before the next attempt.
    fn report_problem(&mut self, error: &StoreError) -> Duration {
        self.has_problem = true;
        self.shared.set_trouble(&self.describe(error));
        RETRY_INTERVAL
    }

    fn ended_by(&self, error: &StoreError) -> Ended {
        match error {
            StoreError::Replaced => {
                tracing::warn!(%error, "reopening the database: {error}");
                Ended::Reopen
            }
            // Errors of a single row were handled earlier.
            damage if damage.may_be_damage() => Ended::Damaged(self.describe(damage)),
            other => Ended::Trouble(self.describe(other)),
        }
    }

    fn describe(&self, error: &StoreError) -> String {
        format!("{}: {error}", self.shared.home.database().display())
    }

    /// Reports the status to the service manager. Does not notify the watchdog while a job is stuck
    /// without a reason.
    async fn report(&mut self, supervisor: &Supervisor) {
        let is_recent = self.reported.is_some_and(|last| last.elapsed() < REPORT_INTERVAL);
        if !supervisor.listens() || (is_recent && !self.under_way.is_empty()) {
            return;
        }
        self.reported = Some(Instant::now());
        let trouble = self.shared.trouble();
        match &trouble {
            Some(reason) => supervisor.status(&format!("degraded: {reason}")),
            // The response also proves that the writer is alive.
            None => match self.running.database.write(|database| queue::open_work(database)).await {
                Ok(open) => {
                    supervisor.status(&format!("{} waiting, {} under way", open.raw, open.processing))
                }
                Err(_) => return,
            },
        }
        let is_stuck = self.under_way.values().any(|work| work.since.elapsed() >= STUCK_AFTER);
        if !is_stuck || trouble.is_some() {
            supervisor.alive();
        }
    }

    /// Releases claims that are not settled in time, without counting an attempt.
    async fn stop(&mut self) {
        let patience = Duration::from_secs(self.running.config.worker.stop_s) / 2;
        let drain = async {
            while let Some(finished) = self.tasks.join_next().await {
                if let Ok((session, Ok(_))) = finished {
                    self.under_way.remove(&session);
                }
            }
        };
        let _ = tokio::time::timeout(patience, drain).await;
        self.tasks.shutdown().await;
        for (_, work) in self.under_way.drain() {
            let release = move |database: &mut _| queue::release(database, work.claim);
            if let Err(error) = self.running.database.write(release).await {
                tracing::warn!(%error, "cannot release a claim; the next start will: {error}");
            }
        }
    }
}

/// After work on the past: while somebody works live, most of the time belongs to their hooks.
async fn give_way(running: &Running, took: Duration) {
    let is_used = running.database.read(|database| queue::is_used(database, clock::now())).await;
    if is_used.unwrap_or_default() {
        tokio::time::sleep((took * PAST_PAUSE).min(LONGEST_PAUSE)).await;
    }
}

/// Waits for a nudge. While the queue has a problem, a storm of hooks must not become a storm of retries.
async fn nudged(shared: &Shared, has_problem: bool) {
    shared.nudge.notified().await;
    if has_problem {
        tokio::time::sleep(NUDGE_PAUSE).await;
    }
}

/// Returns the time from now until then.
fn until(time: Option<Millis>) -> Duration {
    let wait = time.map_or(Millis::MAX, |time| time.saturating_sub(clock::now()).max(0));
    Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX))
}

/// Returns the redacted rows, and the payloads that contained secrets.
fn redacted(mut rows: Vec<QueueRow>) -> (Vec<QueueRow>, Vec<(i64, String)>) {
    let mut changed = Vec::new();
    for row in &mut rows {
        let Some(payload) = &mut row.payload else { continue };
        let clean = Redactor::new().redact(payload).into_string();
        if clean != *payload {
            changed.push((row.id, clean.clone()));
            *payload = clean;
        }
    }
    (rows, changed)
}
