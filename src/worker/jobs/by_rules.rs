//! Builds memories by rules, and turns drafts of either kind into rows.

use std::sync::Arc;

use super::job::{Job, Stage, blocking};
use super::outcome::JobError;
use crate::compress::functions::{self, Edited};
use crate::compress::turn::Turn;
use crate::compress::{note, redacted};
use crate::learn::{self, CheckKind, Run, TurnStep};
use crate::model::ObservationDraft;
use crate::store::memory::NewObservation;
use crate::store::memory::learnings::Learning;
use crate::store::memory::sightings::Sighting;
use crate::tools::{Action, Purpose, ToolEvent};

impl Job<'_> {
    /// Makes the note, summary and learnings of a turn by rules.
    pub(super) async fn take_rules(
        &mut self,
        turn: Arc<Turn>,
        edited: Vec<Edited>,
        known: Vec<Learning>,
        stage: Stage,
    ) -> Result<(), JobError> {
        let made = {
            let turn = turn.clone();
            blocking(move || {
                let note = note::note(&turn);
                let summary = note.as_ref().map(|note| redacted::summary(note::summarize(&turn, note)));
                let rules = turn
                    .request()
                    .filter(|_| stage == Stage::End)
                    .map(learn::from_prompt)
                    .unwrap_or_default();
                (note, summary, learn::weigh(&known, rules))
            })
        };
        let (note, summary, learnings) = made.await?;
        self.settlement.summary = summary;
        self.settlement.learnings = learnings;
        if let Some(note) = note {
            self.settlement.later_facts = redacted::observation(note.observation.clone()).facts;
            self.store_drafts(vec![note.observation], &turn, &edited);
        }
        Ok(())
    }

    /// Redacts drafts, and adds the events and functions behind each.
    pub(super) fn store_drafts(&mut self, drafts: Vec<ObservationDraft>, turn: &Turn, edited: &[Edited]) {
        let all: Vec<i64> = turn.events.iter().map(|event| event.id).collect();
        let is_alone = drafts.len() == 1;
        let is_matched = self.sources.len() == drafts.len();
        let new = |(at, mut draft): (usize, ObservationDraft)| {
            let sources = if is_matched { self.sources[at].clone() } else { all.clone() };
            functions::name(&mut draft, &sources, edited, is_alone);
            let bytes =
                turn.events.iter().filter(|event| sources.contains(&event.id)).map(|event| event.raw_bytes);
            NewObservation {
                draft: redacted::observation(draft),
                raw_bytes: i64::try_from(bytes.sum::<u64>()).unwrap_or(i64::MAX),
                sources,
                agent_type: shared_agent(turn),
            }
        };
        self.settlement.observations = drafts.into_iter().enumerate().map(new).collect();
    }
}

/// Returns the type of subagent that did all of the turn's work.
fn shared_agent(turn: &Turn) -> Option<String> {
    let mut agents = turn.events.iter().map(|event| &event.agent_type);
    let first = agents.next()?.clone()?;
    agents.all(|agent| agent.as_ref() == Some(&first)).then_some(first)
}

/// Returns the turn's commands, for learnings that need several sessions.
pub(super) fn sightings(turn: &Turn) -> Vec<Sighting> {
    let activity = |event: &ToolEvent| match &event.action {
        Action::Edit(_) => Some(TurnStep::Edit),
        Action::Command(command) => Some(TurnStep::Ran(Run {
            event: event.id,
            line: command.line.clone(),
            purpose: match command.purpose {
                Purpose::Test => Some(CheckKind::Test),
                Purpose::Build => Some(CheckKind::Build),
                Purpose::Lint => Some(CheckKind::Lint),
                Purpose::Format => Some(CheckKind::Format),
                Purpose::Task => Some(CheckKind::Task),
                _ => None,
            },
            outcome: command.outcome,
            signature: command.error.as_ref().map(|(_, signature)| signature.clone()),
        })),
        _ => None,
    };
    let activities: Vec<TurnStep> = turn.events.iter().filter_map(activity).collect();
    learn::sightings(&activities)
}
