//! One cycle: check who we are, receive, purge, send. Can be repeated, interrupted and resumed at any
//! point.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use uuid::Uuid;

use super::SyncError;
use super::cycle::Cycle;
use super::membership::{Membership, place};
use super::sealing::Sealer;
use super::server::{self, Head, ServerConnection};
use super::team::{self, check_keys};
use crate::config::{Environment, Share};
use crate::model::Millis;
use crate::paths::Home;
use crate::store::StoreError;
use crate::store::sync::{self as local, DeviceState};

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

/// A connection of this process alone.
#[derive(Debug)]
pub struct OwnConnection(Mutex<Connection>);

impl OwnConnection {
    /// Takes over a connection that may write.
    pub fn new(database: Connection) -> Self {
        Self(Mutex::new(database))
    }
}

impl Local for OwnConnection {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The result of a cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct CycleReport {
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
    session: Option<SyncSession>,
    /// True if the server should announce new records.
    is_listening: bool,
    /// Called with the records sent and received so far.
    progress: OnProgress,
}

pub(super) type OnProgress = Box<dyn Fn(&CycleReport) + Send + Sync>;

/// A connection that has introduced itself.
#[derive(Debug)]
pub(super) struct SyncSession {
    pub server: ServerConnection,
    pub sealer: Sealer,
    pub membership: Membership,
    pub device: Uuid,
    pub may_write: bool,
}

impl<L: Local> Engine<L> {
    /// Creates an engine; it connects when the first cycle needs it.
    pub fn new(local: L, home: Home, environment: Environment, default_share: Share) -> Self {
        let (session, is_listening, progress) = (None, false, Box::new(|_: &CycleReport| {}));
        Self { local, home, environment, default_share, session, is_listening, progress }
    }

    /// Asks the server, on every connection, to announce new records.
    pub fn listening(mut self) -> Self {
        self.is_listening = true;
        self
    }

    /// Sets a function that is called after each batch.
    pub fn on_progress(mut self, progress: impl Fn(&CycleReport) + Send + Sync + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Returns the local database.
    pub fn local(&self) -> &L {
        &self.local
    }

    /// Returns the connection, if there is one.
    pub fn server(&mut self) -> Option<&mut ServerConnection> {
        self.session.as_mut().map(|session| &mut session.server)
    }

    /// Runs a cycle and records its outcome.
    pub async fn cycle(&mut self, now: Millis) -> Result<CycleReport, SyncError> {
        let _lock = self.lock().await?;
        let mut outcome = self.cycle_locked(now).await;
        if let Err(SyncError::KeyChanged | SyncError::Conflict) = outcome {
            // A fresh connection fetches the new key, or finds that another device has our id.
            self.session = None;
            outcome = self.cycle_locked(now).await;
        }
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

    async fn cycle_locked(&mut self, now: Millis) -> Result<CycleReport, SyncError> {
        let membership = Membership::load(&self.home, &self.environment)?.ok_or(SyncError::NotSetUp)?;
        let mut state = self.identify(&membership, now).await?;
        self.connect(membership, &state).await?;
        let Some(session) = &mut self.session else { return Err(SyncError::NotSetUp) };
        let heads = session.server.heads(session.membership.team).await?;
        if let Some(renewed) = check_own_log(&self.local, &self.home, session, &state, &heads).await? {
            state = renewed;
        }
        let shares = session.membership.shares(self.default_share);
        let mut cycle = Cycle::new(&self.local, session, shares, now, &self.progress);
        cycle.pull(&heads).await?;
        if cycle.session.may_write && self.local.read(local::dirty).await? > 0 {
            cycle.push(&state).await?;
        }
        Ok(cycle.report)
    }

    /// Returns this device, after it got tables or a new id where it needs one.
    async fn identify(&self, membership: &Membership, now: Millis) -> Result<DeviceState, SyncError> {
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
    async fn connect(&mut self, mut membership: Membership, state: &DeviceState) -> Result<(), SyncError> {
        let device = server::id(&state.device);
        if let Some(session) = &mut self.session
            && !session.server.is_closed()
            && session.device == device
            && session.membership.team == membership.team
        {
            session.membership.shares = membership.shares;
            return Ok(());
        }
        let mut server = ServerConnection::connect(membership.url.expose()).await?;
        server.check_schema().await?;
        let hello = server.hello(membership.team, device).await?;
        check_keys(&membership, &hello.checks)?;
        if team::renew_keys(&server, &mut membership, &hello).await? {
            membership.save_team_keys(&self.home)?;
        }
        if !hello.is_device {
            if state.acked > 0 {
                return Err(SyncError::Removed);
            }
            server.register(membership.team, device, &membership.label).await?;
        }
        if self.is_listening {
            // Before the heads are read: a record that comes in between would be announced to nobody.
            server.listen().await?;
        }
        let may_write = hello.role != "read";
        let sealer = Sealer::new(&membership);
        self.session = Some(SyncSession { server, sealer, membership, device, may_write });
        Ok(())
    }
}

/// Compares this device's log with the server's copy. A log that another database continued, or that
/// was continued from an older copy of this one, belongs to another device now. Returns the new
/// identity, if there is one.
async fn check_own_log<L: Local>(
    local_database: &L,
    home: &Home,
    session: &mut SyncSession,
    state: &DeviceState,
    heads: &[Head],
) -> Result<Option<DeviceState>, SyncError> {
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
