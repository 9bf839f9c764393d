//! A job: claimed rows on their way to a settlement.
//!
//! Routine rows are skipped, and the end of a turn gets its note, summary, digest and learnings: by a
//! model if there is one and the ceiling allows it, otherwise by rules. A turn may come in parts, fall
//! silent, be compacted, or end more than once. The rows of a part are settled at once; the note is
//! made of the whole turn whenever possible, and replaces an earlier note made by rules.

use std::sync::Arc;

use serde_json::json;

use super::by_rules::sightings;
use super::outcome::{JobError, JobOutcome};
use super::transcript;
use crate::clock;
use crate::compress::functions::Edited;
use crate::compress::turn::Turn;
use crate::compress::{note, traces};
use crate::learn::KnownList;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::learnings::{self, Learning};
use crate::store::memory::{Origin, Settlement};
use crate::store::queue::{self, Ending, QueueKind, QueueRow, Work};
use crate::store::sessions::{TurnPlace, turn_place};
use crate::worker::state::Running;

/// The progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// More of it waits in the queue, or a single event is settled.
    Part,
    /// It is silent, or about to be compacted.
    Pause,
    /// It has ended.
    End,
}

/// Claimed rows, and what has been built of them so far.
pub struct Job<'a> {
    pub(super) running: &'a Arc<Running>,
    pub(super) settlement: Settlement,
    pub(super) rows: Vec<QueueRow>,
    pub(super) marker: Option<QueueRow>,
    pub(super) attempts: i64,
    /// True for "commit" or "thanks" after a turn that has its note: no model is called for that
    /// turn again.
    pub(super) is_errand: bool,
    /// True for a session that was read from its history without asking for a model.
    pub(super) is_rules_only: bool,
    /// The events behind each observation of the model's answers: of its half, if the turn was split.
    pub(super) sources: Vec<Vec<i64>>,
}

impl<'a> Job<'a> {
    /// Takes over claimed rows.
    pub fn new(running: &'a Arc<Running>, work: Work) -> Self {
        let (session, claim) = (work.session, work.claim);
        let attempts = work.rows.iter().map(|row| row.attempts).max().unwrap_or_default();
        let prompt_number = work.rows.iter().filter_map(|row| row.prompt_number).max();
        let (rows, mut markers): (Vec<_>, Vec<_>) =
            work.rows.into_iter().partition(|row| row.kind == QueueKind::Observation);
        let origin = local_origin();
        let marker = markers.pop();
        let now = clock::now();
        let at = time_of(&rows, marker.as_ref()).map_or(now, |at| at.min(now));
        let settlement =
            Settlement { session, claim, prompt_number, origin, now, at, ..Settlement::default() };
        Self {
            running,
            settlement,
            rows,
            marker,
            attempts,
            sources: Vec::new(),
            is_errand: false,
            is_rules_only: false,
        }
    }

    /// Classifies the rows and builds their settlement.
    pub async fn run(mut self) -> Result<Settlement, JobError> {
        let number = self.settlement.prompt_number.unwrap_or_default();
        let session = self.settlement.session.clone();
        let place =
            self.running.database.read(move |database| turn_place(database, &session, number)).await?;
        self.is_rules_only = place.is_rules_only;
        let rows = std::mem::take(&mut self.rows);
        let is_full = rows.len() as u64 >= self.running.config.batch.max_size;
        let batching = self.running.config.batch.enabled;
        let marker = match self.marker.take() {
            Some(row) => {
                self.settlement.endings.push((row.id, Ending::Done));
                let kind = row.kind;
                Some((kind, transcript::read_marker(row.payload.as_deref()).await))
            }
            None => None,
        };
        let stage = match &marker {
            Some((QueueKind::Summarize, marker)) if marker.is_compaction => Stage::Pause,
            Some(_) => Stage::End,
            None if is_full || !batching => Stage::Part,
            None => Stage::Pause,
        };
        let is_flush = matches!(marker, Some((QueueKind::Flush, _)));
        if is_flush && rows.is_empty() && self.is_ended(number).await? {
            return Ok(self.finished());
        }
        let (events, edited) = self.classify(rows, &place).await?;
        self.settlement.functions = edited.iter().flat_map(|edited| edited.changes.clone()).collect();
        if stage == Stage::Part {
            if !batching {
                self.single_event(events, place).await?;
            }
            return Ok(self.finished());
        }
        let marker = marker.map(|(_, marker)| marker).unwrap_or_default();
        let mut turn = self.assemble(number, &place, events, marker).await?;
        turn.functions =
            self.settlement.functions.iter().map(|change| change.qualified_name.clone()).collect();
        turn.functions.dedup();
        let is_empty = turn.events.is_empty() && turn.closing().is_none() && turn.notifications.is_empty();
        if is_empty && (is_flush || turn.request().is_none()) {
            return Ok(self.finished());
        }
        self.settlement.is_whole_turn = true;
        self.settlement.reverted = turn.commits().iter().filter_map(|commit| commit.reverts()).collect();
        self.make_memory(Arc::new(turn), stage, edited).await?;
        if !batching && self.is_noted(&place) {
            // Its events have their own notes.
            self.settlement.observations.clear();
        }
        Ok(self.finished())
    }

    /// True if nothing arrived since a marker that ended the turn.
    async fn is_ended(&self, number: i64) -> Result<bool, StoreError> {
        let session = self.settlement.session.clone();
        self.running.database.read(move |database| queue::is_ended(database, &session, number)).await
    }

    fn is_noted(&self, place: &TurnPlace) -> bool {
        self.settlement.prompt_number.is_some_and(|number| place.noted.contains(&number))
    }

    /// Makes the note, summary and learnings of a turn, by a model or by rules.
    async fn make_memory(
        &mut self,
        turn: Arc<Turn>,
        stage: Stage,
        edited: Vec<Edited>,
    ) -> Result<(), JobError> {
        let known = self.known(&turn).await?;
        let list = KnownList::new(turn.request(), &known, self.settlement.now);
        let answer = match self.chosen_model(&turn, stage).await? {
            Some(llm) => self.ask(&llm, &turn, &list).await?,
            None => None,
        };
        // Another session may have learned something meanwhile.
        let known = self.known(&turn).await?;
        if stage == Stage::End {
            let sighted = turn.clone();
            (self.settlement.sightings, self.settlement.repairs) =
                blocking(move || (sightings(&sighted), traces::repairs(&sighted.events))).await?;
        }
        match answer {
            Some(answer) => self.take_answer(answer, &turn, edited, list, &known),
            None => self.take_rules(turn, edited, known, stage).await,
        }
    }

    pub(super) async fn known(&self, turn: &Turn) -> Result<Vec<Learning>, StoreError> {
        let project = turn.project.clone();
        self.running.database.read(move |database| learnings::known(database, &project)).await
    }

    fn finished(mut self) -> Settlement {
        if self.settlement.observations.is_empty() {
            return self.settlement;
        }
        let entry = LogEntry {
            event_type: "observed",
            session: Some(self.settlement.session.clone()),
            data: json!({"events": self.settlement.endings.len(), "observations": self.settlement.observations.len(),
                         "provider": self.settlement.origin.provider}),
            ..LogEntry::default()
        };
        self.settlement.log.push(entry);
        self.settlement
    }
}

/// The time of the last event or closing message; that of the marker where there is neither.
fn time_of(rows: &[QueueRow], marker: Option<&QueueRow>) -> Option<Millis> {
    let closing = marker.filter(|marker| marker.kind == QueueKind::Summarize);
    let last = rows.iter().chain(closing).map(|row| row.created_at).max();
    last.or_else(|| marker.map(|marker| marker.created_at))
}

pub(super) fn local_origin() -> Origin {
    Origin { provider: "local".into(), prompt_version: note::VERSION.into(), ..Origin::default() }
}

/// Runs CPU-bound work outside the asynchronous thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JobError> {
    let failed = |error: tokio::task::JoinError| {
        JobOutcome::Failed { reason: format!("the rules panicked: {error}"), log: Vec::new() }.into()
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
