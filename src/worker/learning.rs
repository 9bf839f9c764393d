//! What a turn teaches, by rules or by a model, weighed against what is known of its project.

use crate::compress::parse::Learnt;
use crate::compress::turn::Turn;
use crate::learn;
use crate::model::{LearningDraft, Millis};
use crate::store::learnings::{Learning, Step};

/// The most learnings that a model is told.
const MOST_TOLD: usize = 20;

/// What rules learn from a turn.
pub fn by_rules(turn: &Turn, known: &[Learning]) -> Vec<Step> {
    learn::weigh(known, learn::from_turn(turn))
}

/// What a model is told, by number, so that it does not repeat it: what is known, then what the user said in this turn.
#[derive(Debug)]
pub struct Told {
    known: Vec<Learning>,
    /// A model may forget or misread what the user said plainly; therefore it is learnt as it was said.
    said: Vec<LearningDraft>,
}

impl Told {
    /// The surest of what is known, and what the turn's prompt says.
    pub fn of(turn: &Turn, known: &[Learning], now: Millis) -> Self {
        let said = learn::said_in(turn);
        let mut known: Vec<Learning> = known.iter().filter(|learning| learning.is_active).cloned().collect();
        known.sort_by(|one, other| {
            other.confidence_at(now).total_cmp(&one.confidence_at(now)).then(one.id.cmp(&other.id))
        });
        known.truncate(MOST_TOLD.saturating_sub(said.len()));
        Self { known, said }
    }

    /// The words, in the order of the numbers.
    pub fn contents(&self) -> Vec<String> {
        let known = self.known.iter().map(|learning| learning.content.clone());
        known.chain(self.said.iter().map(|draft| draft.content.clone())).collect()
    }

    /// The id of a known learning.
    fn known_by(&self, number: Option<usize>) -> Option<i64> {
        Some(self.known.get(number?.checked_sub(1)?)?.id)
    }

    /// Whether it says again what the user said, or the opposite of it. The user's own words count.
    fn is_said(&self, learnt: &Learnt) -> bool {
        let first = self.known.len() + 1;
        let is_number =
            |number: Option<usize>| number.is_some_and(|it| (first..first + self.said.len()).contains(&it));
        is_number(learnt.known)
            || is_number(learnt.replaces)
            || self.said.iter().any(|said| {
                learn::restates(&learnt.content, &said.content)
                    || learn::contradicts(&said.content, &learnt.content)
            })
    }
}

/// What the user said and what a model learnt beside it, which was told these.
pub fn by_model(learnt: Vec<Learnt>, told: Told, known: &[Learning]) -> Vec<Step> {
    let draft = |learnt: Learnt| {
        let category = learnt.category.unwrap_or_else(|| learn::category_of(&learnt.content));
        learn::cleaned(LearningDraft {
            everywhere: learnt.everywhere,
            confirms: told.known_by(learnt.known),
            replaces: told.known_by(learnt.replaces),
            ..LearningDraft::new(category, learnt.content, learn::BY_MODEL)
        })
    };
    let learnt: Vec<LearningDraft> =
        learnt.into_iter().filter(|learnt| !told.is_said(learnt)).filter_map(draft).collect();
    let all = told.said.into_iter().chain(learnt).take(learn::MOST_OF_A_TURN);
    learn::weigh(known, all.collect())
}
