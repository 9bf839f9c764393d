//! The queue processor: claims what is ready, a few sessions side by side, and settles it.
//!
//! Event-driven: a nudge starts work at once. A slow timer is the safety net, and the only thing that wakes an idle
//! worker.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::doors::Doors;
use super::memory::Rest;
use super::settle::{Settled, settle};
use super::signals::Signal;
use super::state::{Running, Shared};
use super::supervise::Supervisor;
use super::{LOOK_AGAIN, NUDGE_PAUSE, Signals, clock, spooled, upkeep};
use crate::model::{Millis, SessionId};
use crate::store::StoreError;
use crate::store::queue::{self, Claim, ClaimId, ClaimRules, Work};

/// The safety net's mesh: nothing waits longer than this for want of a nudge.
const SAFETY_NET: Duration = Duration::from_secs(60);

/// Work that takes longer than this does not move, and the service manager should know.
const STUCK_AFTER: Duration = Duration::from_secs(15 * 60);

/// While there is work the service manager is told this often how it goes.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Why the processor stopped.
#[derive(Debug)]
pub enum Ended {
    /// It was told to.
    Stop,
    /// The settings are to be read again.
    Reload,
    /// The database file was replaced: whatever is there now is to be opened.
    Reopen,
    /// The database file is broken.
    Damaged(String),
    /// Something has to be repaired first.
    Trouble(String),
}

/// What the processor works with.
pub struct Surroundings<'a> {
    /// What ends or interrupts it.
    pub signals: &'a mut Signals,
    /// Who is told how it goes.
    pub supervisor: &'a Supervisor,
    /// Looked after on the way.
    pub doors: &'a mut Doors,
}

/// Works until something stops it. Whatever was claimed then is given back.
pub async fn run(shared: &Arc<Shared>, running: &Arc<Running>, around: Surroundings<'_>) -> Ended {
    // This database was opened just now: damage that was found before is that of another.
    shared.take_damage();
    let mut processor = Processor {
        shared: shared.clone(),
        running: running.clone(),
        under_way: HashMap::new(),
        tasks: JoinSet::new(),
        last: None,
        hold: None,
        upkeep: upkeep::Schedule::default(),
        is_hindered: true,
        reported: None,
        rest: Rest::after_start(),
    };
    let supervisor = around.supervisor;
    let ended = processor.live(around).await;
    if matches!(ended, Ended::Stop) {
        supervisor.stopping(Duration::from_secs(running.config.worker.stop_s));
        // First of all: what is not accepted from here on waits for the next worker.
        shared.stopping.send_replace(true);
    }
    processor.stop().await;
    ended
}

struct Processor {
    shared: Arc<Shared>,
    running: Arc<Running>,
    /// What is claimed, by session.
    under_way: HashMap<SessionId, UnderWay>,
    tasks: JoinSet<(SessionId, Result<Settled, StoreError>)>,
    /// The session that had its turn last.
    last: Option<SessionId>,
    /// Nothing is claimed from the first of these times to the second: the provider is in trouble.
    hold: Option<(Millis, Millis)>,
    upkeep: upkeep::Schedule,
    /// The last look at the queue failed, or there was none yet.
    is_hindered: bool,
    reported: Option<Instant>,
    rest: Rest,
}

struct UnderWay {
    claim: ClaimId,
    since: Instant,
}

impl Processor {
    async fn live(&mut self, around: Surroundings<'_>) -> Ended {
        let mut looked = None;
        loop {
            if looked.is_none_or(|looked: Instant| looked.elapsed() >= SAFETY_NET) {
                looked = Some(Instant::now());
                if let Err(error) = around.doors.look_after(&self.shared.home) {
                    tracing::error!(%error, "this worker is not wanted any more: {error}");
                    return Ended::Stop;
                }
            }
            let wait = match self.work().await {
                Ok(wake_at) => until(wake_at).min(SAFETY_NET),
                Err(error) if error.passes() => self.hinder(&error),
                Err(error) => return self.ended_by(&error),
            };
            self.report(around.supervisor).await;
            if self.shared.take_asked() {
                self.rest.put_off();
            }
            let wait = self.rest.keep().map_or(wait, |rest_in| rest_in.min(wait));
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
                () = nudged(&self.shared, self.is_hindered) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Does everything that can be done now. Returns when there will be more, as far as that is known.
    async fn work(&mut self) -> Result<Option<Millis>, StoreError> {
        if let Some(damage) = self.shared.take_damage() {
            return Err(StoreError::Damaged(damage));
        }
        if spooled::drain(&self.shared.home, &self.running.database).await? {
            self.shared.nudge.notify_one();
        }
        self.upkeep.keep_up(&self.shared, &self.running, self.rest.is_quiet()).await?;
        let wake_at = self.claim_all().await?;
        if std::mem::take(&mut self.is_hindered) {
            self.shared.set_well();
        }
        Ok(wake_at)
    }

    async fn claim_all(&mut self) -> Result<Option<Millis>, StoreError> {
        let now = clock::now();
        // Before the first: the clock was set back, and the second may be days away.
        if let Some((_, until)) = self.hold.filter(|(since, until)| (*since..*until).contains(&now)) {
            return Ok(Some(until));
        }
        self.hold = None;
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
            claim: self.shared.new_claim(),
            batching: batch.enabled,
            max_size: usize::try_from(batch.max_size).unwrap_or(usize::MAX),
            max_wait: Millis::try_from(batch.max_wait_s).unwrap_or(Millis::MAX / 1000).saturating_mul(1000),
        };
        let last = self.last.clone();
        let busy: HashSet<SessionId> = self.under_way.keys().cloned().collect();
        let claim = move |database: &mut _| queue::claim(database, &rules, last.as_ref(), &busy);
        self.running.database.write(claim).await
    }

    fn start(&mut self, work: Work) {
        self.rest.put_off();
        let session = work.session.clone();
        self.under_way.insert(session.clone(), UnderWay { claim: work.claim, since: Instant::now() });
        self.last = Some(session.clone());
        let (shared, running) = (self.shared.clone(), self.running.clone());
        self.tasks.spawn(async move { (session, settle(&shared, &running, work).await) });
    }

    fn note_finished(
        &mut self,
        finished: Result<(SessionId, Result<Settled, StoreError>), tokio::task::JoinError>,
    ) -> Result<(), StoreError> {
        match finished {
            Ok((session, Ok(settled))) => {
                self.under_way.remove(&session);
                self.rest.put_off();
                if let Settled::NotBefore(time) = settled {
                    self.hold = Some((clock::now(), time));
                    self.running.compressor.look_again(&self.shared, &self.running.config);
                }
                Ok(())
            }
            // Its claim is still under way, and given back with the others.
            Ok((_, Err(error))) => Err(error),
            Err(error) => {
                tracing::error!(%error, "a piece of work died: {error}");
                Err(StoreError::Gone)
            }
        }
    }

    /// Says what is wrong. Returns how long to wait before the next look.
    fn hinder(&mut self, error: &StoreError) -> Duration {
        self.is_hindered = true;
        self.shared.set_trouble(&self.describe(error));
        LOOK_AGAIN
    }

    fn ended_by(&self, error: &StoreError) -> Ended {
        match error {
            StoreError::Replaced => {
                tracing::warn!(%error, "opening what is there now: {error}");
                Ended::Reopen
            }
            // What the row at hand does not allow was dealt with where that was known.
            damage if damage.hints_at_damage() => Ended::Damaged(self.describe(damage)),
            other => Ended::Trouble(self.describe(other)),
        }
    }

    fn describe(&self, error: &StoreError) -> String {
        format!("{}: {error}", self.shared.home.database().display())
    }

    /// Tells the service manager how it goes. No sign of life while a piece of work is stuck for no reason.
    async fn report(&mut self, supervisor: &Supervisor) {
        let is_recent = self.reported.is_some_and(|last| last.elapsed() < REPORT_EVERY);
        if !supervisor.listens() || (is_recent && !self.under_way.is_empty()) {
            return;
        }
        self.reported = Some(Instant::now());
        let trouble = self.shared.trouble();
        match &trouble {
            Some(reason) => supervisor.status(&format!("degraded: {reason}")),
            // The answer also proves that the writer lives.
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

    /// Gives back what was claimed and is not settled in time, at no attempt.
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
                tracing::warn!(%error, "what was claimed comes back at the next start: {error}");
            }
        }
    }
}

/// A nudge; while something hinders us a storm of hooks must not become a storm of tries.
async fn nudged(shared: &Shared, is_hindered: bool) {
    shared.nudge.notified().await;
    if is_hindered {
        tokio::time::sleep(NUDGE_PAUSE).await;
    }
}

/// How long until then, from now.
fn until(time: Option<Millis>) -> Duration {
    let wait = time.map_or(Millis::MAX, |time| time.saturating_sub(clock::now()).max(0));
    Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX))
}
