//! The parts of a cycle: receive, remove what was forgotten, send.

use std::collections::BTreeMap;

use rusqlite::Connection;
use uuid::Uuid;

use super::SyncError;
use super::engine::{CycleReport, Local, OnProgress, SyncSession};
use super::server::{self, Forget, Head};
use crate::compress::digest::digest;
use crate::model::Millis;
use crate::privacy::redact::Redactor;
use crate::store::sync::{self as local, Collector, DeviceState, NextBatch, RecordKind, Shares};

/// Maximum records of one batch.
const BATCH: u32 = 500;
/// Maximum bytes of one batch, beyond its first record.
const BATCH_BYTES: usize = 1 << 20;

/// One cycle.
pub(super) struct Cycle<'a, L> {
    local: &'a L,
    pub session: &'a mut SyncSession,
    shares: Shares,
    now: Millis,
    pub report: CycleReport,
    progress: &'a OnProgress,
}

impl<'a, L: Local> Cycle<'a, L> {
    pub fn new(
        local: &'a L,
        session: &'a mut SyncSession,
        shares: Shares,
        now: Millis,
        progress: &'a OnProgress,
    ) -> Self {
        // Another process may have applied the tombstone of a project, whose key is destroyed, for this device.
        session.sealer.forget_project_keys();
        Self { local, session, shares, now, report: CycleReport::default(), progress }
    }

    /// Receives what the other devices sent.
    pub async fn pull(&mut self, heads: &[Head]) -> Result<(), SyncError> {
        let cursors = self.local.read(local::cursors).await?;
        // Our own devices first: what they shared must be known as the team's before others change it.
        let (mine, others): (Vec<_>, Vec<_>) = heads.iter().partition(|head| head.is_mine);
        for head in mine.into_iter().chain(others) {
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
            if records.iter().any(|stored| stored.record.kind == RecordKind::Forget as i16) {
                self.session.sealer.forget_project_keys();
            }
            self.session.sealer.prepare_to_open(&self.session.server, &records).await?;
            let opened: Vec<_> =
                records.iter().map(|stored| self.session.sealer.open(head, stored)).collect();
            let (name, wishes) = (device.to_string(), self.wishes());
            let apply = move |database: &mut Connection| {
                local::apply(database, &name, &opened, cursor, wishes.collector())
            };
            let outcome = self.local.run(apply).await?;
            self.report.received += outcome.applied;
            self.report.refused += outcome.refused;
            (self.progress)(&self.report);
        }
        Ok(())
    }

    /// Sends everything that changed here, and removes what was forgotten, batch by batch.
    pub async fn push(&mut self, state: &DeviceState) -> Result<(), SyncError> {
        let mut sent = state.acked;
        loop {
            let wishes = self.wishes();
            let next = move |database: &mut Connection| {
                local::next_batch(database, wishes.collector(), sent, (BATCH, BATCH_BYTES))
            };
            let mut batch = match self.local.run(next).await? {
                NextBatch::Purges(what) => {
                    self.purge(what).await?;
                    continue;
                }
                NextBatch::Records(batch) => batch,
            };
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

    fn wishes(&self) -> Wishes {
        Wishes { shares: self.shares.clone(), now: self.now, server_now: self.session.server.now() }
    }

    /// Removes the bodies of forgotten memories from the server.
    async fn purge(&mut self, what: Vec<(String, i64)>) -> Result<(), SyncError> {
        let team = self.session.membership.team;
        let mut memories: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
        for (what, hlc) in &what {
            let memories = memories.entry(*hlc).or_default();
            if let Some(project) = what.strip_prefix("project:") {
                for project in self.session.sealer.projects(project) {
                    self.session.server.forget(team, Forget::Project(&project), i64::MAX).await?;
                }
                self.session.sealer.forget_project_keys();
            } else if let Some(refers) = what.strip_prefix("ref:") {
                memories.push(server::id(refers));
            } else {
                memories.extend(self.session.sealer.refers(what));
            }
        }
        for (hlc, memories) in memories.iter().filter(|(_, memories)| !memories.is_empty()) {
            self.session.server.forget(team, Forget::Memories(memories), *hlc).await?;
        }
        Ok(self.local.run(move |database| local::purged(database, &what)).await?)
    }
}

/// The user's wishes and the time, for work on the database's thread.
struct Wishes {
    shares: Shares,
    now: Millis,
    server_now: Option<Millis>,
}

impl Wishes {
    fn collector(&self) -> Collector<'_> {
        Collector {
            shares: &self.shares,
            redact: |text| Redactor::new().redact(text).into_string(),
            digest,
            now: self.now,
            server_now: self.server_now,
        }
    }
}
