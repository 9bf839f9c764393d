//! Outbox rows become records that the server may see, and back.

use std::collections::HashMap;

use uuid::Uuid;

use super::keys::{self, Circle, ProjectKey};
use super::membership::Membership;
use super::server::{self, Head, NewRecord, ServerConnection, StoredRecord, WrappedKey};
use super::{SyncError, keys::sha256};
use crate::store::sync::{Incoming, OutgoingRecord, RecordKind};

/// Maximum size of a sealed body, which the server enforces.
const MAX_BODY_BYTES: usize = 65_536;

/// Seals and opens records for one team, and remembers the project keys that it used.
#[derive(Debug)]
pub struct Sealer {
    team: Uuid,
    is_sealed: bool,
    mine: Circle,
    teams: Circle,
    /// By circle and project.
    by_project: HashMap<(bool, String), ProjectKey>,
    by_id: HashMap<Uuid, Option<ProjectKey>>,
}

impl Sealer {
    /// Creates one with the keys of this membership.
    pub fn new(membership: &Membership) -> Self {
        Self {
            team: membership.team,
            is_sealed: membership.is_sealed,
            mine: membership.circle(false),
            teams: membership.circle(true),
            by_project: HashMap::new(),
            by_id: HashMap::new(),
        }
    }

    /// Drops all project keys: a forgotten project's key was destroyed.
    pub fn forget_project_keys(&mut self) {
        self.by_project.clear();
        self.by_id.clear();
    }

    fn circle(&self, is_shared: bool) -> &Circle {
        if is_shared { &self.teams } else { &self.mine }
    }

    /// Returns the names of a memory on the server, in both circles.
    pub fn refers(&self, item: &str) -> Vec<Uuid> {
        match self.is_sealed {
            true => vec![self.mine.refers(item), self.teams.refers(item)],
            false => vec![clear_refers(item)],
        }
    }

    /// Returns the names of a project on the server, in both circles.
    pub fn projects(&self, key: &str) -> Vec<Vec<u8>> {
        match self.is_sealed {
            true => vec![self.mine.project(key), self.teams.project(key)],
            false => vec![clear_project(key)],
        }
    }

    /// Returns the reason why a record is too large to be sent.
    pub fn too_large(&self, record: &OutgoingRecord) -> Option<String> {
        let bytes = record.body.len() + if self.is_sealed { keys::OVERHEAD } else { 0 };
        (bytes > MAX_BODY_BYTES)
            .then(|| format!("it has {bytes} bytes, and a record may have at most {MAX_BODY_BYTES}"))
    }

    /// Fetches or creates the project keys that these records need.
    pub async fn prepare(
        &mut self,
        server: &ServerConnection,
        records: &[OutgoingRecord],
    ) -> Result<(), SyncError> {
        for record in records.iter().filter(|record| self.is_sealed && has_project(record)) {
            let place = (record.is_shared, record.project.clone());
            if self.by_project.contains_key(&place) {
                continue;
            }
            let circle = self.circle(record.is_shared);
            let project = circle.project(&record.project);
            let (made, wrapped) = circle.new_project_key(&project).ok_or_else(no_key)?;
            let (login, epoch) = (circle.login.clone(), circle.epoch());
            let proposal = WrappedKey { login, project, epoch, id: made.id, wrapped };
            let found = server.project_key(self.team, &proposal).await?;
            let key = self.circle(record.is_shared).open_project_key(
                &found.project,
                found.epoch,
                found.id,
                &found.wrapped,
            );
            let key = key.ok_or_else(|| {
                SyncError::WrongKey(
                    "the key of a project cannot be opened with the keys of this device".into(),
                )
            })?;
            self.by_project.insert(place, key);
        }
        Ok(())
    }

    /// Seals records of this device, whose keys were prepared.
    pub fn seal(&self, device: Uuid, records: &[OutgoingRecord]) -> Result<Vec<NewRecord>, SyncError> {
        records.iter().map(|record| self.seal_one(device, record)).collect()
    }

    fn seal_one(&self, device: Uuid, record: &OutgoingRecord) -> Result<NewRecord, SyncError> {
        let circle = self.circle(record.is_shared);
        let mut sealed = NewRecord {
            seq: record.seq,
            id: server::id(&record.id),
            kind: record.kind,
            project: if self.is_sealed {
                circle.project(&record.project)
            } else {
                clear_project(&record.project)
            },
            hlc: record.hlc,
            epoch: if self.is_sealed { circle.epoch() } else { 0 },
            is_shared: record.is_shared,
            refers: match (record.item.as_str(), self.is_sealed) {
                ("", _) => Uuid::nil(),
                (item, true) => circle.refers(item),
                (item, false) => clear_refers(item),
            },
            body: Vec::new(),
        };
        if record.body.is_empty() {
            return Ok(sealed);
        }
        if !self.is_sealed {
            sealed.body = record.body.clone().into_bytes();
            return Ok(sealed);
        }
        let key = match has_project(record) {
            true => self.by_project.get(&(record.is_shared, record.project.clone())).cloned(),
            false => circle.own_key(circle.epoch()),
        };
        let context = context(self.team, device, &sealed);
        let body = key.and_then(|key| key.seal(record.body.as_bytes(), &context));
        sealed.body = body.ok_or_else(no_key)?;
        Ok(sealed)
    }

    /// Fetches the project keys that opening these records needs.
    pub async fn prepare_to_open(
        &mut self,
        server: &ServerConnection,
        records: &[StoredRecord],
    ) -> Result<(), SyncError> {
        let ids = records
            .iter()
            .filter(|stored| stored.record.epoch > 0)
            .filter_map(|stored| keys::split(&stored.record.body));
        let mut missing: Vec<Uuid> =
            ids.map(|(id, _)| id).filter(|id| !id.is_nil() && !self.by_id.contains_key(id)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let found = server.keys_by_id(self.team, &missing).await?;
        for id in missing {
            let wrapped = found.iter().find(|key| key.id == id);
            let key = wrapped.and_then(|wrapped| {
                let circle = self.circle(wrapped.login.is_empty());
                circle.open_project_key(&wrapped.project, wrapped.epoch, id, &wrapped.wrapped)
            });
            // A key that exists but cannot be opened is not the same as a destroyed one.
            if key.is_some() || wrapped.is_none() {
                self.by_id.insert(id, key);
            }
        }
        Ok(())
    }

    /// Opens a record of another device.
    pub fn open(&self, head: &Head, stored: &StoredRecord) -> Incoming {
        let record = &stored.record;
        Incoming {
            seq: record.seq,
            kind: record.kind,
            hlc: record.hlc,
            is_shared: record.is_shared,
            is_foreign: !head.is_mine,
            refers: record.refers.to_string(),
            received_at: stored.received_at,
            body: self.open_body(head.device, record),
        }
    }

    fn open_body(&self, device: Uuid, record: &NewRecord) -> Result<Option<String>, String> {
        if record.body.is_empty() {
            return Ok(None);
        }
        if record.epoch == 0 {
            // Accepting it would let the server, or a member, add readable records to a sealed team.
            return match self.is_sealed {
                true => Err("it is not sealed, but the team's records are".into()),
                false => text(record.body.clone()).map(Some),
            };
        }
        let (id, sealed) = keys::split(&record.body).ok_or("its seal is incomplete")?;
        let key = match (id.is_nil(), self.by_id.get(&id)) {
            (true, _) => self.circle(record.is_shared).own_key(record.epoch),
            (false, Some(Some(key))) => Some(key.clone()),
            // Its project was forgotten, and the key destroyed.
            (false, Some(None)) => return Ok(None),
            (false, None) => None,
        };
        let key = key.ok_or("this device does not have its key; join again with a new invitation")?;
        let opened = key.open(sealed, &context(self.team, device, record));
        opened.ok_or_else(|| "its seal is broken".to_owned()).and_then(text).map(Some)
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "its body is not text".into())
}

fn no_key() -> SyncError {
    SyncError::WrongKey("this device has no key for new records".into())
}

/// Tombstones belong to no project: they stay readable when a project's key is destroyed.
fn has_project(record: &OutgoingRecord) -> bool {
    record.kind != RecordKind::Forget as i16
}

fn clear_refers(item: &str) -> Uuid {
    keys::short(&sha256(item.as_bytes()))
}

/// Returns the readable name of a project; the hash of one that is too long.
fn clear_project(key: &str) -> Vec<u8> {
    if key.len() <= 512 { key.as_bytes().to_vec() } else { sha256(key.as_bytes()).to_vec() }
}

/// Everything that the server can read about a record: none of it can be changed unnoticed.
fn context(team: Uuid, device: Uuid, record: &NewRecord) -> Vec<u8> {
    let mut context = Vec::with_capacity(128);
    context.extend_from_slice(team.as_bytes());
    context.extend_from_slice(device.as_bytes());
    context.extend_from_slice(&record.seq.to_be_bytes());
    context.extend_from_slice(record.id.as_bytes());
    context.extend_from_slice(&record.kind.to_be_bytes());
    context.extend_from_slice(&record.hlc.to_be_bytes());
    context.extend_from_slice(&record.epoch.to_be_bytes());
    context.push(record.is_shared.into());
    context.extend_from_slice(record.refers.as_bytes());
    context.extend_from_slice(&record.project);
    context
}
