//! The queue processor: claims what is ready, a few sessions side by side, and settles it.
//!
//! Event-driven: a nudge starts work at once. A slow timer is the safety net, and the only thing that wakes an idle
//! worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::signals::Signal;
use super::state::{FileIdentity, Running, Shared};
use super::supervise::Supervisor;
use super::{Signals, clock, observe, spooled, upkeep};
use crate::model::{Millis, SessionId};
use crate::store::queue::{self, Claim, ClaimRules, Ending, Work};
use crate::store::{StoreError, memory};

/// The safety net's mesh: nothing waits longer than this for want of a nudge.
const SAFETY_NET: Duration = Duration::from_secs(60);

/// Work that takes longer than this does not move, and the service manager should know.
const STUCK_AFTER: Duration = Duration::from_secs(15 * 60);

/// Why the processor stopped.
#[derive(Debug)]
pub enum Ended {
    /// It was told to.
    Stop,
    /// The settings are to be read again.
    Reload,
    /// The database is not what it was.
    Trouble(String),
}

/// Works until something stops it. Whatever was claimed then is given back.
pub async fn run(
    shared: &Arc<Shared>,
    running: &Arc<Running>,
    signals: &mut Signals,
    supervisor: &Supervisor,
) -> Ended {
    let mut processor = Processor {
        shared: shared.clone(),
        running: running.clone(),
        under_way: HashMap::new(),
        tasks: JoinSet::new(),
        last: None,
        hold_until: None,
        upkeep: upkeep::Schedule::default(),
    };
    let ended = processor.live(signals, supervisor).await;
    processor.stop().await;
    ended
}

struct Processor {
    shared: Arc<Shared>,
    running: Arc<Running>,
    /// Claimed rows by session, and since when.
    under_way: HashMap<SessionId, (Vec<i64>, Instant)>,
    tasks: JoinSet<(SessionId, Result<Settled, StoreError>)>,
    /// The session that had its turn last.
    last: Option<SessionId>,
    /// Nothing is claimed before this: the provider is in trouble.
    hold_until: Option<Millis>,
    upkeep: upkeep::Schedule,
}

impl Processor {
    async fn live(&mut self, signals: &mut Signals, supervisor: &Supervisor) -> Ended {
        loop {
            let wake_at = match self.work().await {
                Ok(wake_at) => wake_at,
                Err(error) => return Ended::Trouble(self.describe(&error)),
            };
            self.report(supervisor).await;
            let longest = supervisor.beat().map_or(SAFETY_NET, |beat| beat.min(SAFETY_NET));
            tokio::select! {
                biased;
                signal = signals.recv() => match signal {
                    Some(Signal::Reload) => return Ended::Reload,
                    Some(Signal::Stop) | None => return Ended::Stop,
                },
                Some(finished) = self.tasks.join_next() => {
                    if let Err(error) = self.note_finished(finished) {
                        return Ended::Trouble(self.describe(&error));
                    }
                }
                () = self.shared.nudge.notified() => {}
                () = tokio::time::sleep(until(wake_at).min(longest)) => {}
            }
        }
    }

    /// Does everything that can be done now. Returns when there will be more, as far as that is known.
    async fn work(&mut self) -> Result<Option<Millis>, StoreError> {
        if FileIdentity::of(&self.shared.home.database()) != self.running.file {
            return Err(StoreError::Missing);
        }
        spooled::drain(&self.shared.home, &self.running.writer).await?;
        self.upkeep.keep_up(&self.shared, &self.running).await?;
        if let Some(until) = self.hold_until.filter(|until| *until > clock::now()) {
            return Ok(Some(until));
        }
        self.hold_until = None;
        let concurrency = usize::try_from(self.running.config.worker.concurrency).unwrap_or(usize::MAX);
        while self.under_way.len() < concurrency {
            match self.claim().await? {
                Claim::Work(work) => self.start(work),
                Claim::Nothing { wake_at } => return Ok(wake_at),
            }
        }
        Ok(None)
    }

    async fn claim(&self) -> Result<Claim, StoreError> {
        let batch = &self.running.config.batch;
        let rules = ClaimRules {
            now: clock::now(),
            batching: batch.enabled,
            max_size: usize::try_from(batch.max_size).unwrap_or(usize::MAX),
            max_wait: Millis::try_from(batch.max_wait_s).unwrap_or(Millis::MAX / 1000).saturating_mul(1000),
        };
        let last = self.last.clone();
        let busy: HashSet<SessionId> = self.under_way.keys().cloned().collect();
        self.running.writer.run(move |database| queue::claim(database, &rules, last.as_ref(), &busy)).await
    }

    fn start(&mut self, work: Work) {
        let session = work.session.clone();
        let ids = work.rows.iter().map(|row| row.id).collect();
        self.under_way.insert(session.clone(), (ids, Instant::now()));
        self.last = Some(session.clone());
        let (shared, running) = (self.shared.clone(), self.running.clone());
        self.tasks.spawn(async move { (session, settle(&shared, &running, work).await) });
    }

    fn note_finished(
        &mut self,
        finished: Result<(SessionId, Result<Settled, StoreError>), tokio::task::JoinError>,
    ) -> Result<(), StoreError> {
        match finished {
            Ok((session, outcome)) => {
                self.under_way.remove(&session);
                if let Settled::NotBefore(time) = outcome? {
                    self.hold_until = Some(time);
                    self.running.compressor.look_again(&self.shared, &self.running.config);
                }
                Ok(())
            }
            // A panic takes no name with it: start over, which gives every claim back.
            Err(error) => {
                tracing::error!(%error, "a piece of work died");
                Err(StoreError::Gone)
            }
        }
    }

    /// Tells the service manager how it goes. No sign of life while a piece of work is stuck.
    async fn report(&self, supervisor: &Supervisor) {
        if supervisor.beat().is_none() {
            return;
        }
        // The answer also proves that the writer lives.
        let Ok(open) = self.running.writer.run(|database| queue::open_work(database)).await else { return };
        supervisor.status(&format!("{} waiting, {} under way", open.raw, open.processing));
        if self.under_way.values().all(|(_, since)| since.elapsed() < STUCK_AFTER) {
            supervisor.alive();
        }
    }

    /// Gives back what was claimed, at no attempt.
    async fn stop(&mut self) {
        let wait = Duration::from_secs(self.running.config.worker.stop_s) / 2;
        let drained =
            tokio::time::timeout(wait, async { while self.tasks.join_next().await.is_some() {} }).await;
        if drained.is_ok() {
            return;
        }
        self.tasks.shutdown().await;
        let ids: Vec<i64> = self.under_way.drain().flat_map(|(_, (ids, _))| ids).collect();
        if let Err(error) = self.running.writer.run(move |database| queue::release(database, &ids)).await {
            tracing::warn!(%error, "what was claimed comes back at the next start");
        }
    }

    fn describe(&self, error: &StoreError) -> String {
        format!("{}: {error}", self.shared.home.database().display())
    }
}

/// What became of a piece of work.
#[derive(Debug)]
enum Settled {
    /// It is dealt with.
    Dealt,
    /// It was given back, and nothing of its kind is worth trying before this.
    NotBefore(Millis),
}

/// Makes memory of the work and stores it, or notes why not.
async fn settle(shared: &Shared, running: &Arc<Running>, work: Work) -> Result<Settled, StoreError> {
    let ids: Vec<i64> = work.rows.iter().map(|row| row.id).collect();
    let outcome = observe::observe(running, work).await?;
    let settlement = match outcome {
        observe::Outcome::Settled(settlement) => *settlement,
        observe::Outcome::Postponed(time) => {
            running.writer.run(move |database| queue::release(database, &ids)).await?;
            return Ok(Settled::NotBefore(time));
        }
        observe::Outcome::Failed(message, entries) => {
            let max_attempts = running.config.queue.max_attempts;
            tracing::warn!(error = message, "an event could not be compressed");
            let now = clock::now();
            running
                .writer
                .run(move |database| queue::fail(database, &ids, &message, max_attempts, &entries, now))
                .await?;
            running.forget_counts();
            shared.nudge.notify_one();
            return Ok(Settled::Dealt);
        }
    };
    let skipped =
        settlement.endings.iter().filter(|(_, ending)| matches!(ending, Ending::Skipped(_))).count();
    let done = settlement.endings.len() - skipped;
    let stored = running.writer.run(move |database| memory::settle(database, &settlement)).await?;
    if stored {
        running.count_finished(done, skipped);
        shared.note_settled();
    }
    Ok(Settled::Dealt)
}

/// How long until then, from now.
fn until(time: Option<Millis>) -> Duration {
    let wait = time.map_or(Millis::MAX, |time| (time - clock::now()).max(0));
    Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX))
}
