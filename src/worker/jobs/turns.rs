//! Builds a settlement from claimed rows: routine rows are skipped, and the end of a turn gets its
//! note, summary, digest and learnings; by a model if there is one and the ceiling allows it,
//! otherwise by rules.
//!
//! A turn may come in parts, fall silent, be compacted, or end more than once. The rows of a part
//! are settled at once; the note is made of the whole turn whenever possible, and replaces an
//! earlier note made by rules.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::json;

use super::transcript::{self, Marker};
use crate::clock;
use crate::compress::functions::{self, Edited};
use crate::compress::parse::{self, TurnAnswer};
use crate::compress::prompt::{self, Background};
use crate::compress::routine::{Verdict, classify};
use crate::compress::turn::{Turn, is_client_text};
use crate::compress::{note, redacted, traces};
use crate::learn::{self, Activity, Check, KnownList, Run};
use crate::llm::Llm;
use crate::model::{Millis, ObservationDraft};
use crate::store::StoreError;
use crate::store::log::LogEntry;
use crate::store::memory::learnings::{self, Learning};
use crate::store::memory::sightings::Sighting;
use crate::store::memory::{self, NewObservation, Origin, Settlement};
use crate::store::queue::{self, Ending, Kind, QueueRow, Work};
use crate::store::sessions::{TurnPlace, turn_place};
use crate::tools::{Action, Purpose, RawEvent, ToolEvent};
use crate::worker::compressor::{Asked, Plan, next_provider_check, with_response};
use crate::worker::state::Running;

/// The result of building a settlement.
#[derive(Debug)]
pub enum Built {
    /// Results to store.
    Settlement(Box<Settlement>),
    /// The rows themselves failed: the reason, and the cost of the attempt.
    Failed(String, Vec<LogEntry>),
    /// The rows are fine; retry no earlier than this.
    Postponed(Millis),
}

/// The reason why nothing was built.
enum Stop {
    Store(StoreError),
    Built(Built),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Maximum titles of earlier notes in a prompt.
const EARLIER_TITLES: u32 = 10;
/// Maximum events of a turn that its note is made of.
const MOST_EVENTS: u32 = 600;
/// Factor for the output limit when a response was cut off before its first word; the call is then
/// repeated once.
const OUTPUT_LIMIT_FACTOR: u32 = 4;
/// Number of attempts after which a batch is split in halves.
const HALVED_FROM: i64 = 1;
/// Number of unusable responses after which rules settle a turn: the first to the whole, the second
/// to its halves.
const MOST_UNUSABLE: i64 = 2;

/// Builds the settlement of claimed rows.
pub async fn build(running: &Arc<Running>, work: Work) -> Result<Built, StoreError> {
    match Job::new(running, work).run().await {
        Ok(settlement) => Ok(Built::Settlement(Box::new(settlement))),
        Err(Stop::Built(built)) => Ok(built),
        Err(Stop::Store(error)) => Err(error),
    }
}

/// The progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// More of it waits in the queue, or a single event is settled.
    Part,
    /// It is silent, or about to be compacted.
    Pause,
    /// It has ended.
    End,
}

struct Job<'a> {
    running: &'a Arc<Running>,
    settlement: Settlement,
    rows: Vec<QueueRow>,
    marker: Option<QueueRow>,
    attempts: i64,
    /// True for "commit" or "thanks" after a turn that has its note: no model is called for that
    /// turn again.
    is_errand: bool,
    /// True for a session that was read from its history without asking for a model.
    is_rules_only: bool,
    /// The events behind each observation of the model's answers: of its half, if the turn was split.
    sources: Vec<Vec<i64>>,
}

impl<'a> Job<'a> {
    fn new(running: &'a Arc<Running>, work: Work) -> Self {
        let (session, claim) = (work.session, work.claim);
        let attempts = work.rows.iter().map(|row| row.attempts).max().unwrap_or_default();
        let prompt_number = work.rows.iter().filter_map(|row| row.prompt_number).max();
        let (rows, mut markers): (Vec<_>, Vec<_>) =
            work.rows.into_iter().partition(|row| row.kind == Kind::Observation);
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

    async fn run(mut self) -> Result<Settlement, Stop> {
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
            Some((Kind::Summarize, marker)) if marker.is_compaction => Stage::Pause,
            Some(_) => Stage::End,
            None if is_full || !batching => Stage::Part,
            None => Stage::Pause,
        };
        let is_flush = matches!(marker, Some((Kind::Flush, _)));
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

    /// Classifies and parses the claimed rows. Rows that break the parser end as errors, each on
    /// its own.
    async fn classify(
        &mut self,
        rows: Vec<QueueRow>,
        place: &TurnPlace,
    ) -> Result<(Vec<ToolEvent>, Vec<Edited>), Stop> {
        let verbosity = self.running.config.compress.verbosity;
        let mut seen = self.running.seen.of(&self.settlement.session);
        let project_path = place.project_path.clone();
        let classified = blocking(move || {
            let (mut endings, mut events, mut edited, mut lines) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for row in rows {
                let id = row.id;
                let Some(mut event) = parse_row(row, &project_path) else {
                    endings.push((id, Ending::Error("the rules panicked on this event".into())));
                    continue;
                };
                match classify(&event, verbosity, &mut seen) {
                    Verdict::Keep => endings.push((id, Ending::Done)),
                    Verdict::Routine(reason) => endings.push((id, Ending::Skipped(reason.to_owned()))),
                }
                edited.extend(functions::changed(&event));
                lines.extend(traces::edit_trace(&event));
                event.release_texts();
                events.push(event);
            }
            (endings, events, edited, traces::joined(lines), seen)
        });
        let (endings, events, edited, lines, seen) = classified.await?;
        self.settlement.edits = lines;
        self.running.seen.propose(&self.settlement.session, seen);
        self.settlement.endings.extend(endings);
        Ok((events, edited))
    }

    /// Assembles the whole turn: the claimed events, its finished ones, and the turns that it
    /// continues.
    async fn assemble(
        &mut self,
        number: i64,
        place: &TurnPlace,
        events: Vec<ToolEvent>,
        marker: Marker,
    ) -> Result<Turn, Stop> {
        let mut turn = self.gather(number, number, place, events, marker).await?.unwrap_or_default();
        let root = root_of(number, place, &turn);
        if root < number
            && let Some(whole) =
                self.gather(root, number, place, turn.events.clone(), Marker::of(&turn)).await?
        {
            self.is_errand = !note::has_substance(&turn);
            self.settlement.prompt_number = Some(root);
            turn = whole;
        }
        self.settlement.turn_events = turn.events.iter().map(|event| event.id).collect();
        Ok(turn)
    }

    /// Reads the finished rows of these turns and adds the given events. `None` if retention has
    /// removed payloads of several turns: a note made of the rest would be worse than the existing
    /// one.
    async fn gather(
        &self,
        from: i64,
        to: i64,
        place: &TurnPlace,
        events: Vec<ToolEvent>,
        marker: Marker,
    ) -> Result<Option<Turn>, Stop> {
        let (session, project_path) = (self.settlement.session.clone(), place.project_path.clone());
        let claimed: Vec<i64> = events.iter().map(|event| event.id).collect();
        let read = move |database: &rusqlite::Connection| {
            let (mut finished, mut markers, mut is_faded) = (Vec::new(), Vec::new(), false);
            queue::for_each_finished(database, &session, from..=to, MOST_EVENTS, |row| {
                if row.kind != Kind::Observation {
                    markers.push(row.payload.unwrap_or_default());
                    return;
                }
                is_faded |= row.payload.is_none();
                if row.payload.is_some()
                    && !claimed.contains(&row.id)
                    && let Some(mut event) = parse_row(row, &project_path)
                {
                    event.release_texts();
                    finished.push(event);
                }
            })?;
            Ok((finished, markers, is_faded))
        };
        let (mut all, markers, is_faded) = self.running.database.read(read).await?;
        if is_faded && from < to {
            return Ok(None);
        }
        all.extend(events);
        all.sort_by_key(|event| event.id);
        let mut closings: Vec<String> =
            markers.iter().filter_map(|payload| transcript::sent_message(payload)).collect();
        closings.extend(marker.closings);
        closings.dedup();
        let prompts = || place.prompts.iter().filter(|(number, _)| (from..=to).contains(number));
        let own = place.prompts.iter().find(|(number, _)| *number == from).map(|(_, prompt)| prompt.clone());
        let earlier: Vec<&String> = place
            .prompts
            .iter()
            .rev()
            .filter(|(number, _)| *number < from)
            .map(|(_, prompt)| prompt)
            .collect();
        Ok(Some(Turn {
            project: place.project.clone(),
            project_path: Some(place.project_path.clone()).filter(|path| !path.is_empty()),
            branch: place.branch.clone(),
            prompt: own,
            earlier_request: earlier.into_iter().find(|prompt| !note::is_trivial(prompt)).cloned(),
            closings,
            notifications: prompts()
                .map(|(_, prompt)| prompt)
                .filter(|prompt| is_client_text(prompt))
                .cloned()
                .collect(),
            refusals: marker.refusals,
            functions: Vec::new(),
            events: all,
        }))
    }

    /// Makes the note, summary and learnings of a turn, by a model or by rules.
    async fn make_memory(&mut self, turn: Arc<Turn>, stage: Stage, edited: Vec<Edited>) -> Result<(), Stop> {
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

    /// Returns the model to call; `None` if rules are to do it, as for every turn without
    /// substance.
    async fn chosen_model(&mut self, turn: &Turn, stage: Stage) -> Result<Option<Box<Llm>>, Stop> {
        if stage != Stage::End || self.is_errand || self.is_rules_only {
            return Ok(None);
        }
        match self.running.compressor.plan() {
            Plan::Local => Ok(None),
            Plan::Wait | Plan::Model(_) if !note::has_substance(turn) => Ok(None),
            Plan::Wait => self.wait_for_user(next_provider_check()).await.map(|()| None),
            Plan::Model(llm) => Ok(Some(llm)),
        }
    }

    /// Calls the model for the turn: as a whole, or in halves after two bad responses. `None` if
    /// rules have to do it after all.
    async fn ask(
        &mut self,
        llm: &Llm,
        turn: &Arc<Turn>,
        list: &KnownList,
    ) -> Result<Option<TurnAnswer>, Stop> {
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
    ) -> Result<Option<TurnAnswer>, Stop> {
        let (settings, background) = (self.running.config.compress.clone(), background.clone());
        let request = blocking(move || prompt::for_turn(&part, &background, &settings)).await?;
        let session = self.settlement.session.clone();
        let ask =
            |request| self.running.compressor.ask(self.running, llm, &session, request, prompt::VERSION);
        let mut asked = ask(request.clone()).await?;
        if matches!(&asked, Asked::Answered(response, _) if response.truncated && response.text.trim().is_empty())
        {
            // It used its whole output limit for thinking.
            let max_output_tokens = request.max_output_tokens.saturating_mul(OUTPUT_LIMIT_FACTOR);
            asked = ask(crate::llm::Request { max_output_tokens, ..request }).await?;
        }
        match asked {
            Asked::Postponed(time) => self.wait_for_user(time).await.map(|()| None),
            Asked::OverCeiling => {
                self.note_ceiling();
                Ok(None)
            }
            Asked::Failed(message) => self.failed(message, i64::MAX),
            Asked::Answered(response, origin) => match parse::turn(&response.text) {
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
    async fn wait_for_user(&mut self, until: Millis) -> Result<(), Stop> {
        let compressor = &self.running.compressor;
        if let Some(why) = compressor.unusable() {
            compressor.note_refusal(self.running, &why).await?;
        }
        if !compressor.is_given_up(&self.running.config) {
            return Err(Stop::Built(Built::Postponed(until)));
        }
        self.settlement.origin = local_origin();
        self.mark_without_model("the provider refuses requests");
        Ok(())
    }

    /// Schedules another attempt after a bad response; after the last attempt, or `most` bad
    /// responses, rules settle the turn.
    fn failed(&mut self, message: String, most: i64) -> Result<Option<TurnAnswer>, Stop> {
        let max_attempts =
            i64::try_from(self.running.config.queue.max_attempts).unwrap_or(i64::MAX).min(most);
        if self.attempts + 1 < max_attempts {
            return Err(Stop::Built(Built::Failed(message, std::mem::take(&mut self.settlement.log))));
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
    fn take_answer(
        &mut self,
        answer: TurnAnswer,
        turn: &Turn,
        edited: Vec<Edited>,
        list: KnownList,
        known: &[Learning],
    ) -> Result<(), Stop> {
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

    async fn take_rules(
        &mut self,
        turn: Arc<Turn>,
        edited: Vec<Edited>,
        known: Vec<Learning>,
        stage: Stage,
    ) -> Result<(), Stop> {
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

    /// Makes observations of a single event, for users who want one call per event.
    async fn single_event(&mut self, events: Vec<ToolEvent>, place: TurnPlace) -> Result<(), Stop> {
        let is_kept =
            !self.is_rules_only && self.settlement.endings.iter().any(|(_, ending)| *ending == Ending::Done);
        let llm = match self.running.compressor.plan() {
            Plan::Model(llm) if is_kept => llm,
            Plan::Wait if is_kept => return self.wait_for_user(next_provider_check()).await,
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

    fn store_drafts(&mut self, drafts: Vec<ObservationDraft>, turn: &Turn, edited: &[Edited]) {
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

    async fn known(&self, turn: &Turn) -> Result<Vec<Learning>, StoreError> {
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

/// Returns the turn that this one continues: the latest noted one before a notification of the
/// client, or before a turn that only commits, thanks or agrees. Otherwise its own number.
fn root_of(number: i64, place: &TurnPlace, turn: &Turn) -> i64 {
    let prompt = |number: i64| {
        place.prompts.iter().find(|(known, _)| *known == number).map(|(_, prompt)| prompt.as_str())
    };
    let is_notification = |number: i64| prompt(number).is_some_and(is_client_text);
    let has_errand = turn.request().is_none_or(note::is_trivial) || !turn.commits().is_empty();
    let continues = is_notification(number) || (has_errand && !note::has_substance(turn));
    if !continues {
        return number;
    }
    place.noted.iter().copied().filter(|noted| *noted < number).max().unwrap_or(number)
}

/// The time of the last event or closing message; that of the marker where there is neither.
fn time_of(rows: &[QueueRow], marker: Option<&QueueRow>) -> Option<Millis> {
    let closing = marker.filter(|marker| marker.kind == Kind::Summarize);
    let last = rows.iter().chain(closing).map(|row| row.created_at).max();
    last.or_else(|| marker.map(|marker| marker.created_at))
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

/// Parses a row. `None` if the parser panics on it, which affects this row only.
fn parse_row(row: QueueRow, project_path: &str) -> Option<ToolEvent> {
    let raw = RawEvent {
        id: row.id,
        tool_name: row.tool_name,
        payload: row.payload.unwrap_or_default(),
        failed: row.failed,
        cwd: row.cwd,
        by_subagent: row.agent_id.is_some() || row.agent_type.is_some(),
        agent_type: row.agent_type,
        raw_bytes: u64::try_from(row.raw_bytes).unwrap_or_default(),
    };
    let path = Some(project_path).filter(|path| !path.is_empty());
    catch_unwind(AssertUnwindSafe(|| ToolEvent::parse(&raw, path))).ok()
}

/// Returns the type of subagent that did all of the turn's work.
fn shared_agent(turn: &Turn) -> Option<String> {
    let mut agents = turn.events.iter().map(|event| &event.agent_type);
    let first = agents.next()?.clone()?;
    agents.all(|agent| agent.as_ref() == Some(&first)).then_some(first)
}

/// Returns the turn's commands, for learnings that need several sessions.
fn sightings(turn: &Turn) -> Vec<Sighting> {
    let activity = |event: &ToolEvent| match &event.action {
        Action::Edit(_) => Some(Activity::Edit),
        Action::Command(command) => Some(Activity::Ran(Run {
            event: event.id,
            line: command.line.clone(),
            purpose: match command.purpose {
                Purpose::Test => Some(Check::Test),
                Purpose::Build => Some(Check::Build),
                Purpose::Lint => Some(Check::Lint),
                Purpose::Format => Some(Check::Format),
                Purpose::Task => Some(Check::Task),
                _ => None,
            },
            outcome: command.outcome,
            signature: command.error.as_ref().map(|(_, signature)| signature.clone()),
        })),
        _ => None,
    };
    let activities: Vec<Activity> = turn.events.iter().filter_map(activity).collect();
    learn::sightings(&activities)
}

fn local_origin() -> Origin {
    Origin { provider: "local".into(), prompt_version: note::VERSION.into(), ..Origin::default() }
}

/// Runs CPU-bound work outside the asynchronous thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Stop> {
    let failed = |error: tokio::task::JoinError| {
        Stop::Built(Built::Failed(format!("the rules panicked: {error}"), Vec::new()))
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
