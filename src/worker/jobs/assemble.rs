//! Assembles a whole turn from claimed and finished rows, and the turns that it continues.

use super::classify::parse_row;
use super::job::Job;
use super::outcome::JobError;
use super::transcript::{self, TurnEnd};
use crate::compress::note;
use crate::compress::turn::{Turn, is_client_text};
use crate::store::queue::{self, QueueKind};
use crate::store::sessions::TurnPlace;
use crate::tools::ToolEvent;

/// Maximum events of a turn that its note is made of.
const MOST_EVENTS: u32 = 600;

impl Job<'_> {
    /// Assembles the whole turn: the claimed events, its finished ones, and the turns that it
    /// continues.
    pub(super) async fn assemble(
        &mut self,
        number: i64,
        place: &TurnPlace,
        events: Vec<ToolEvent>,
        marker: TurnEnd,
    ) -> Result<Turn, JobError> {
        let mut turn = self.gather(number, number, place, events, marker).await?.unwrap_or_default();
        let root = root_of(number, place, &turn);
        if root < number
            && let Some(whole) =
                self.gather(root, number, place, turn.events.clone(), TurnEnd::of(&turn)).await?
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
        marker: TurnEnd,
    ) -> Result<Option<Turn>, JobError> {
        let (session, project_path) = (self.settlement.session.clone(), place.project_path.clone());
        let claimed: Vec<i64> = events.iter().map(|event| event.id).collect();
        let read = move |database: &rusqlite::Connection| {
            let (mut finished, mut markers, mut is_faded) = (Vec::new(), Vec::new(), false);
            queue::for_each_finished(database, &session, from..=to, MOST_EVENTS, |row| {
                if row.kind != QueueKind::Observation {
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
    let noted = place.noted.iter().copied().filter(|noted| *noted < number).max();
    // Background work belongs to the request that started it, which may have no note yet.
    let requested = place.prompts.iter().filter(|(known, prompt)| {
        is_notification(number) && *known < number && !is_client_text(prompt) && !note::is_trivial(prompt)
    });
    noted.into_iter().chain(requested.map(|(known, _)| *known)).max().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_work_belongs_to_the_request_that_started_it() {
        let done = "<task-notification>\n<task-id>a1</task-id>";
        let prompts = [(1, "review the sandbox"), (2, "fix all four in agents"), (3, "yes"), (4, done)];
        let place = TurnPlace {
            prompts: prompts.map(|(number, prompt)| (number, prompt.to_owned())).into(),
            noted: vec![1],
            ..TurnPlace::default()
        };
        let turn = |prompt: &str| Turn { prompt: Some(prompt.to_owned()), ..Turn::default() };
        assert_eq!(root_of(4, &place, &turn(done)), 2);
        assert_eq!(root_of(3, &place, &turn("yes")), 1);
        assert_eq!(root_of(2, &place, &turn("fix all four in agents")), 2);
    }
}
