//! One cycle: check who we are, receive, purge, send. Can be repeated, interrupted and resumed at any
//! point.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use uuid::Uuid;

use super::SyncError;
use super::membership::{Membership, place};
use super::sealing::Sealer;
use super::server::{self, Head, Server};
use crate::compress::digest::digest;
use crate::config::{Environment, Share};
use crate::model::Millis;
use crate::paths::Home;
use crate::privacy::redact::Redactor;
use crate::store::StoreError;
use crate::store::sync::{self as local, Collector, Kind, Shares, State};

/// Maximum records of one batch.
const BATCH: u32 = 500;
/// Maximum bytes of one batch, beyond its first record.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum time to wait for another process that synchronises.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Access to the local database.
pub trait Local: Send + Sync {
    /// Runs `work` with a connection that may write.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` with a connection that only reads.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;
}

/// The result of a cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Records sent.
    pub sent: usize,
    /// Records received and applied.
    pub received: usize,
    /// Records set aside.
    pub refused: usize,
}

/// Synchronises one data directory.
pub struct Engine<L> {
    local: L,
    home: Home,
    environment: Environment,
    default_share: Share,
    session: Option<Session>,
    /// Called with the records sent and received so far.
    progress: OnProgress,
}

type OnProgress = Box<dyn Fn(&Report) + Send + Sync>;

/// A connection that has introduced itself.
#[derive(Debug)]
struct Session {
    server: Server,
    sealer: Sealer,
    membership: Membership,
    device: Uuid,
    may_write: bool,
}

impl<L: Local> Engine<L> {
    /// Creates an engine; it connects when the first cycle needs it.
    pub fn new(local: L, home: Home, environment: Environment, default_share: Share) -> Self {
        Self { local, home, environment, default_share, session: None, progress: Box::new(|_| {}) }
    }

    /// Sets a function that is called after each batch.
    pub fn on_progress(mut self, progress: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Returns the local database.
    pub fn local(&self) -> &L {
        &self.local
    }

    /// Returns the connection, if there is one.
    pub fn server(&mut self) -> Option<&mut Server> {
        self.session.as_mut().map(|session| &mut session.server)
    }

    /// Runs a cycle and records its outcome.
    pub async fn cycle(&mut self, now: Millis) -> Result<Report, SyncError> {
        let _lock = self.lock().await?;
        let outcome = self.cycle_locked(now).await;
        match &outcome {
            Ok(_) if self.local.read(move |database| local::is_cycle_news(database, now)).await? => {
                self.local.run(move |database| local::finish_cycle(database, now)).await?;
            }
            Ok(_) => {}
            Err(error) => {
                // The next cycle begins with a fresh connection and checks everything again.
                self.session = None;
                let problem = error.to_string();
                self.local.run(move |database| local::set_problem(database, &problem)).await?;
            }
        }
        outcome
    }

    /// Waits for other processes that synchronise this directory.
    async fn lock(&self) -> Result<File, SyncError> {
        let path = self.home.sync_lock();
        let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open().map_err(StoreError::Io)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(StoreError::Io(error).into()),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(SyncError::Membership(
                        "another process has been synchronising this directory for two minutes; try again later"
                            .into(),
                    ));
                }
            }
        }
    }

    async fn cycle_locked(&mut self, now: Millis) -> Result<Report, SyncError> {
        let membership = Membership::load(&self.home, &self.environment)?.ok_or(SyncError::NotSetUp)?;
        let mut state = self.identify(&membership, now).await?;
        self.connect(membership, &state).await?;
        let Some(session) = &mut self.session else { return Err(SyncError::NotSetUp) };
        let heads = session.server.heads(session.membership.team).await?;
        if let Some(renewed) = check_own_log(&self.local, &self.home, session, &state, &heads).await? {
            state = renewed;
        }
        let shares = session.membership.shares(self.default_share);
        let mut cycle = Cycle {
            local: &self.local,
            session,
            shares,
            now,
            report: Report::default(),
            progress: &self.progress,
        };
        cycle.pull(&heads).await?;
        if cycle.session.may_write && cycle.local.read(local::dirty).await? > 0 {
            // Before its tombstone: a device that has applied the tombstone of a project sends later
            // memories of it, which must not be purged.
            cycle.purge().await?;
            cycle.push(&state).await?;
        }
        Ok(cycle.report)
    }

    /// Returns this device, after it got tables or a new id where it needs one.
    async fn identify(&self, membership: &Membership, now: Millis) -> Result<State, SyncError> {
        let (team, here) = (membership.team.to_string(), place(&self.home));
        let known = self.local.read(local::state).await?;
        if let Some(state) = known.filter(|state| state.team == team && state.place == here) {
            return Ok(state);
        }
        let state = self.local.run(move |database| {
            match local::state(database)? {
                Some(state) if state.team == team => {
                    tracing::warn!("this database was copied from another place: continuing as a new device");
                    local::become_device(database, &here, false)?;
                }
                // A recovered database has lost the tables.
                _ => drop(local::set_up(database, &team, &here, now)?),
            }
            local::state(database)
        });
        state.await?.ok_or(SyncError::NotSetUp)
    }

    /// Connects and introduces this device, unless that was done before.
    async fn connect(&mut self, membership: Membership, state: &State) -> Result<(), SyncError> {
        let device = server::id(&state.device);
        if let Some(session) = &mut self.session
            && !session.server.is_closed()
            && session.device == device
            && session.membership.team == membership.team
        {
            session.membership = membership;
            return Ok(());
        }
        let mut server = Server::connect(membership.url.expose()).await?;
        server.check_schema().await?;
        let hello = server.hello(membership.team, device).await?;
        check_keys(&membership, &hello.checks)?;
        if !hello.is_device {
            if state.acked > 0 {
                return Err(SyncError::Removed);
            }
            server.register(membership.team, device, &membership.label).await?;
        }
        let may_write = hello.role != "read";
        if may_write && let Some(server_now) = server.now() {
            self.local.run(move |database| local::restamp(database, server_now)).await?;
        }
        let sealer = Sealer::new(&membership);
        self.session = Some(Session { server, sealer, membership, device, may_write });
        Ok(())
    }
}

/// Checks the keys of this device against the proofs on the server.
pub fn check_keys(membership: &Membership, checks: &(Vec<u8>, Vec<u8>)) -> Result<(), SyncError> {
    let is_right = |keys: &super::keys::Epochs, check: &[u8]| {
        keys.values().next().is_some_and(|key| key.check().as_slice() == check)
    };
    if !is_right(&membership.team_keys, &checks.0) {
        return Err(SyncError::WrongKey("the key of this device is not the key of the team".into()));
    }
    if !is_right(&membership.my_keys, &checks.1) {
        return Err(SyncError::WrongKey(format!("login {} has another personal key", membership.login)));
    }
    Ok(())
}

/// Compares this device's log with the server's copy. A log that another database continued, or that
/// was continued from an older copy of this one, belongs to another device now. Returns the new
/// identity, if there is one.
async fn check_own_log<L: Local>(
    local_database: &L,
    home: &Home,
    session: &mut Session,
    state: &State,
    heads: &[Head],
) -> Result<Option<State>, SyncError> {
    let head = heads.iter().find(|head| head.device == session.device);
    let (seq, id) = head.map_or((0, String::new()), |head| (head.seq, head.id.to_string()));
    if seq == state.acked && id == state.acked_id {
        return Ok(None);
    }
    let is_ours = move |database: &mut Connection| {
        let record = local::outbox(database, seq - 1, 1, 0)?.pop();
        let is_ours = record.is_some_and(|record| record.seq == seq && record.id == id);
        if is_ours {
            // It was sent, but the answer got lost.
            local::acknowledge(database, seq, &id)?;
        }
        Ok(is_ours)
    };
    if seq > state.acked && local_database.run(is_ours).await? {
        return Ok(local_database.read(local::state).await?);
    }
    // The server lost records, or has records that this database does not know.
    let is_lost = seq < state.acked;
    tracing::warn!(
        "the log of this device on the server is not the one of this database (restored from a backup, or used twice): \
         continuing as a new device"
    );
    let here = place(home);
    let renewed = local_database.run(move |database| {
        local::become_device(database, &here, is_lost)?;
        local::state(database)
    });
    let renewed = renewed.await?.ok_or(SyncError::NotSetUp)?;
    session.device = server::id(&renewed.device);
    session.server.register(session.membership.team, session.device, &session.membership.label).await?;
    Ok(Some(renewed))
}

/// The parts of one cycle.
struct Cycle<'a, L> {
    local: &'a L,
    session: &'a mut Session,
    shares: Shares,
    now: Millis,
    report: Report,
    progress: &'a OnProgress,
}

impl<L: Local> Cycle<'_, L> {
    async fn pull(&mut self, heads: &[Head]) -> Result<(), SyncError> {
        let cursors = self.local.read(local::cursors).await?;
        for head in heads {
            let cursor = cursors.get(&head.device.to_string()).copied().unwrap_or_default();
            if head.device != self.session.device && cursor < head.seq {
                self.pull_device(head, cursor).await?;
            }
        }
        Ok(())
    }

    async fn pull_device(&mut self, head: &Head, mut cursor: i64) -> Result<(), SyncError> {
        let (team, device) = (self.session.membership.team, head.device);
        while cursor < head.seq {
            let records = self.session.server.records(team, device, cursor, BATCH.into()).await?;
            // Records for other members' own devices are not visible to us.
            cursor = records.last().map_or(head.seq, |last| last.record.seq);
            if records.iter().any(|stored| stored.record.kind == Kind::Forget as i16) {
                self.session.sealer.forget_project_keys();
            }
            self.session.sealer.prepare_to_open(&self.session.server, &records).await?;
            let opened: Vec<_> =
                records.iter().map(|stored| self.session.sealer.open(device, stored)).collect();
            let (shares, now, name) = (self.shares.clone(), self.now, device.to_string());
            let apply = move |database: &mut Connection| {
                local::apply(database, &name, &opened, cursor, collector(&shares, now))
            };
            let outcome = self.local.run(apply).await?;
            self.report.received += outcome.applied;
            self.report.refused += outcome.refused;
            (self.progress)(&self.report);
        }
        Ok(())
    }

    /// Sends everything that changed here, batch by batch.
    async fn push(&mut self, state: &State) -> Result<(), SyncError> {
        let mut sent = state.acked;
        let server_now = self.session.server.now();
        loop {
            let (shares, now) = (self.shares.clone(), self.now);
            let next = move |database: &mut Connection| {
                let mut batch = local::outbox(database, sent, BATCH, BATCH_BYTES)?;
                while batch.is_empty() {
                    if local::collect(database, collector(&shares, now), BATCH)? == 0 {
                        break;
                    }
                    batch = local::outbox(database, sent, BATCH, BATCH_BYTES)?;
                }
                if let Some(server_now) = server_now
                    && local::restamp(database, server_now)?
                {
                    batch = local::outbox(database, sent, BATCH, BATCH_BYTES)?;
                }
                Ok(batch)
            };
            let mut batch = self.local.run(next).await?;
            let Some(last) = batch.last() else { return Ok(()) };
            let (last, last_id) = (last.seq, last.id.clone());
            for record in &mut batch {
                if let Some(reason) = self.session.sealer.too_large(record) {
                    let (refused, now) = (record.clone(), self.now);
                    self.local.run(move |database| local::withhold(database, &refused, &reason, now)).await?;
                    record.body.clear();
                    self.report.refused += 1;
                }
            }
            self.session.sealer.prepare(&self.session.server, &batch).await?;
            let sealed = self.session.sealer.seal(self.session.device, &batch)?;
            self.session.server.append(self.session.membership.team, self.session.device, &sealed).await?;
            self.local.run(move |database| local::acknowledge(database, last, &last_id)).await?;
            sent = last;
            self.report.sent += sealed.len();
            (self.progress)(&self.report);
        }
    }

    /// Removes the bodies of forgotten memories from the server.
    async fn purge(&mut self) -> Result<(), SyncError> {
        let team = self.session.membership.team;
        loop {
            let what = self.local.read(|database| local::purges(database, BATCH)).await?;
            if what.is_empty() {
                return Ok(());
            }
            let mut memories: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
            for (what, hlc) in &what {
                let memories = memories.entry(*hlc).or_default();
                if let Some(project) = what.strip_prefix("project:") {
                    for project in self.session.sealer.projects(project) {
                        self.session.server.purge_project(team, &project).await?;
                    }
                    self.session.sealer.forget_project_keys();
                } else if let Some(refers) = what.strip_prefix("ref:") {
                    memories.push(server::id(refers));
                } else {
                    memories.extend(self.session.sealer.refers(what));
                }
            }
            for (hlc, memories) in memories.iter().filter(|(_, memories)| !memories.is_empty()) {
                self.session.server.purge(team, memories, *hlc).await?;
            }
            self.local.run(move |database| local::purged(database, &what)).await?;
        }
    }
}

fn collector(shares: &Shares, now: Millis) -> Collector<'_> {
    Collector { shares, redact: |text| Redactor::new().redact(text).into_string(), digest, now }
}
