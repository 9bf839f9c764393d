//! Builds memories with a model: chooses it, calls it, and takes over its answer.

use std::sync::Arc;

use super::job::{Job, Stage, blocking, local_origin};
use super::outcome::{JobError, JobOutcome};
use crate::clock;
use crate::compress::functions::Edited;
use crate::compress::parse::{self, TurnAnswer};
use crate::compress::prompt::{self, Background};
use crate::compress::turn::Turn;
use crate::compress::{note, redacted};
use crate::learn::{self, KnownList};
use crate::llm::Llm;
use crate::model::Millis;
use crate::store::memory::learnings::Learning;
use crate::store::memory::{self, Origin};
use crate::store::queue::{self, Ending};
use crate::store::sessions::TurnPlace;
use crate::tools::ToolEvent;
use crate::worker::compressor::{ModelOutcome, ProviderPlan, next_provider_check, with_response};

/// Maximum titles of earlier notes in a prompt.
const EARLIER_TITLES: u32 = 10;
/// Factor for the output limit when a response was cut off before its first word; the call is then
/// repeated once.
const OUTPUT_LIMIT_FACTOR: u32 = 4;
/// Number of attempts after which a batch is split in halves.
const HALVED_FROM: i64 = 1;
/// Number of unusable responses after which rules settle a turn: the first to the whole, the second
/// to its halves.
const MOST_UNUSABLE: i64 = 2;

impl Job<'_> {
    /// Returns the model to call; `None` if rules are to do it, as for every turn without
    /// substance.
    pub(super) async fn chosen_model(
        &mut self,
        turn: &Turn,
        stage: Stage,
    ) -> Result<Option<Box<Llm>>, JobError> {
        if stage != Stage::End || self.is_errand || self.is_rules_only {
            return Ok(None);
        }
        match self.running.compressor.plan() {
            ProviderPlan::Local => Ok(None),
            ProviderPlan::Wait | ProviderPlan::Model(_) if !note::has_substance(turn) => Ok(None),
            ProviderPlan::Wait => self.wait_for_user(next_provider_check()).await.map(|()| None),
            ProviderPlan::Model(llm) => Ok(Some(llm)),
        }
    }

    /// Calls the model for the turn: as a whole, or in halves after two bad responses. `None` if
    /// rules have to do it after all.
    pub(super) async fn ask(
        &mut self,
        llm: &Llm,
        turn: &Arc<Turn>,
        list: &KnownList,
    ) -> Result<Option<TurnAnswer>, JobError> {
        let session = self.settlement.session.clone();
        let earlier = self
            .running
            .database
            .read(move |database| memory::recent_titles(database, &session, EARLIER_TITLES))
            .await?;
        let date = clock::date(self.settlement.at);
        let background = Background { date, earlier, known: list.contents() };
        let parts = if self.attempts >= HALVED_FROM { halves(turn) } else { vec![turn.as_ref().clone()] };
        let mut answers = Vec::new();
        self.sources.clear();
        for part in parts {
            let events: Vec<i64> = part.events.iter().map(|event| event.id).collect();
            match self.ask_once(llm, part, &background).await? {
                Some(answer) => {
                    self.sources.extend(answer.observations.iter().map(|_| events.clone()));
                    answers.push(answer);
                }
                None => return Ok(None),
            }
        }
        let joined = answers.into_iter().reduce(|mut one, other| {
            one.observations.extend(other.observations);
            one.summary = other.summary.or(one.summary);
            one.learnings.extend(other.learnings);
            one
        });
        Ok(joined)
    }

    async fn ask_once(
        &mut self,
        llm: &Llm,
        part: Turn,
        background: &Background,
    ) -> Result<Option<TurnAnswer>, JobError> {
        let (settings, background) = (self.running.config.compress.clone(), background.clone());
        let request = blocking(move || prompt::for_turn(&part, &background, &settings)).await?;
        let session = self.settlement.session.clone();
        let ask =
            |request| self.running.compressor.ask(self.running, llm, &session, request, prompt::VERSION);
        let mut asked = ask(request.clone()).await?;
        if matches!(&asked, ModelOutcome::Answered(response, _) if response.truncated && response.text.trim().is_empty())
        {
            // It used its whole output limit for thinking.
            let max_output_tokens = request.max_output_tokens.saturating_mul(OUTPUT_LIMIT_FACTOR);
            asked = ask(crate::llm::ModelRequest { max_output_tokens, ..request }).await?;
        }
        match asked {
            ModelOutcome::Postponed(time) => self.wait_for_user(time).await.map(|()| None),
            ModelOutcome::OverCeiling => {
                self.note_ceiling();
                Ok(None)
            }
            ModelOutcome::Declined(why) => {
                self.settlement.origin = local_origin();
                self.mark_without_model(&why);
                Ok(None)
            }
            ModelOutcome::Failed(message) => self.failed(message, i64::MAX),
            ModelOutcome::Answered(response, origin) => match parse::turn(&response.text) {
                Ok(answer) => {
                    let Origin { tokens_in, tokens_out, .. } = self.settlement.origin;
                    let (tokens_in, tokens_out) =
                        (tokens_in + origin.tokens_in, tokens_out + origin.tokens_out);
                    self.settlement.origin = Origin { tokens_in, tokens_out, ..origin };
                    Ok(Some(answer))
                }
                Err(unusable) => {
                    self.failed(with_response(&unusable.reason, Some(&response.text)), MOST_UNUSABLE)
                }
            },
        }
    }

    /// Waits for the provider; after it has refused us for too long, rules settle the turn.
    async fn wait_for_user(&mut self, until: Millis) -> Result<(), JobError> {
        let compressor = &self.running.compressor;
        if let Some(why) = compressor.unusable() {
            compressor.note_refusal(self.running, &why).await?;
        }
        if !compressor.is_given_up(&self.running.config) {
            return Err(JobOutcome::RetryAt(until).into());
        }
        self.settlement.origin = local_origin();
        self.mark_without_model("the provider refuses requests");
        Ok(())
    }

    /// Schedules another attempt after a bad response; after the last attempt, or `most` bad
    /// responses, rules settle the turn.
    fn failed(&mut self, message: String, most: i64) -> Result<Option<TurnAnswer>, JobError> {
        let max_attempts =
            i64::try_from(self.running.config.queue.max_attempts).unwrap_or(i64::MAX).min(most);
        if self.attempts + 1 < max_attempts {
            return Err(JobOutcome::Failed {
                reason: message,
                log: std::mem::take(&mut self.settlement.log),
            }
            .into());
        }
        self.settlement.origin = local_origin();
        self.mark_without_model(&message);
        Ok(None)
    }

    fn note_ceiling(&mut self) {
        self.settlement.origin = local_origin();
        self.mark_without_model(queue::OVER_CEILING);
        self.settlement.notice = Some(format!(
            "claude-mem: today's cost ceiling of ${:.2} is reached. Turns are processed without a model until tomorrow; \
             `claude-mem queue redo` repeats them then. The ceiling is cost.max_usd_per_day.",
            self.running.config.cost.max_usd_per_day
        ));
    }

    /// Marks the turn's rows, so that `queue redo` finds them later.
    fn mark_without_model(&mut self, reason: &str) {
        for (_, ending) in &mut self.settlement.endings {
            if *ending == Ending::Done {
                *ending = Ending::DoneWithoutModel(reason.to_owned());
            }
        }
    }

    /// Takes over a model's response. Files, commits and decisions come from the events, whatever
    /// the model returns.
    pub(super) fn take_answer(
        &mut self,
        answer: TurnAnswer,
        turn: &Turn,
        edited: Vec<Edited>,
        list: KnownList,
        known: &[Learning],
    ) -> Result<(), JobError> {
        let by_rules = note::note(turn);
        let mut drafts = answer.observations;
        if drafts.is_empty() && !turn.changed_files().is_empty() {
            // A turn that changed code gets a note even if the model omitted it.
            drafts.extend(by_rules.as_ref().map(|note| note.observation.clone()));
        }
        let is_alone = drafts.len() == 1;
        for draft in &mut drafts {
            if is_alone && draft.files_modified.is_empty() {
                draft.files_modified = turn.changed_files();
            }
            if is_alone && draft.files_read.is_empty() {
                draft.files_read = turn.read_files();
            }
        }
        let facts = by_rules.as_ref().map(|note| note.observation.facts.clone()).unwrap_or_default();
        if let Some(first) = drafts.first_mut() {
            let is_new = |fact: &String| !first.facts.contains(fact);
            let certain: Vec<String> = facts.into_iter().filter(is_new).take(8).collect();
            first.facts.extend(certain);
        }
        self.store_drafts(drafts, turn, &edited);
        self.settlement.summary = answer.summary.map(|mut summary| {
            if let Some(note) = &by_rules {
                let own = note::summarize(turn, note);
                summary.files_read = own.files_read;
                summary.files_edited = own.files_edited;
                summary.request = summary.request.or(own.request);
                summary.summary = summary.summary.or_else(|| summary.completed.clone()).or(own.summary);
            }
            redacted::summary(summary)
        });
        self.settlement.learnings = learn::by_model(answer.learnings, list, known);
        Ok(())
    }

    /// Makes observations of a single event, for users who want one call per event.
    pub(super) async fn single_event(
        &mut self,
        events: Vec<ToolEvent>,
        place: TurnPlace,
    ) -> Result<(), JobError> {
        let is_kept =
            !self.is_rules_only && self.settlement.endings.iter().any(|(_, ending)| *ending == Ending::Done);
        let llm = match self.running.compressor.plan() {
            ProviderPlan::Model(llm) if is_kept => llm,
            ProviderPlan::Wait if is_kept => return self.wait_for_user(next_provider_check()).await,
            _ => return Ok(()),
        };
        let number = self.settlement.prompt_number.unwrap_or_default();
        let prompt =
            place.prompts.iter().find(|(known, _)| *known == number).map(|(_, prompt)| prompt.clone());
        let turn = Turn {
            project: place.project,
            project_path: Some(place.project_path),
            branch: place.branch,
            prompt,
            events,
            ..Turn::default()
        };
        let date = clock::date(self.settlement.at);
        let background = Background { date, ..Background::default() };
        if let Some(answer) = self.ask_once(&llm, turn.clone(), &background).await? {
            self.store_drafts(answer.observations, &turn, &[]);
        }
        Ok(())
    }
}

/// The turn in two halves of its events; the closing message goes with the second.
fn halves(turn: &Turn) -> Vec<Turn> {
    let middle = turn.events.len() / 2;
    if middle == 0 {
        return vec![turn.clone()];
    }
    let (first, second) = turn.events.split_at(middle);
    let first =
        Turn { events: first.to_vec(), closings: Vec::new(), notifications: Vec::new(), ..turn.clone() };
    vec![first, Turn { events: second.to_vec(), ..turn.clone() }]
}
