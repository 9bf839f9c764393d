//! Learnings of a model, next to those that the user stated in the same turn.

use super::{BY_MODEL, MOST_PER_TURN, category_of, cleaned, contradicts, from_prompt, restates, weigh};
use crate::compress::parse::Learnt;
use crate::model::{LearningDraft, Millis};
use crate::store::memory::learnings::{Learning, LearningDecision};

/// Maximum learnings that a model is shown.
const MOST_LISTED: usize = 20;

/// The numbered list that a model is shown so that it does not repeat it: known learnings, then the rules of the prompt.
#[derive(Debug)]
pub struct KnownList {
    known: Vec<Learning>,
    /// Kept as the user wrote them: a model may miss or misread them.
    stated: Vec<LearningDraft>,
}

impl KnownList {
    /// Lists the surest of the known learnings and the rules that the prompt states.
    pub fn new(prompt: Option<&str>, known: &[Learning], now: Millis) -> Self {
        let stated = prompt.map(from_prompt).unwrap_or_default();
        let mut known: Vec<Learning> = known.iter().filter(|learning| learning.is_active).cloned().collect();
        known.sort_by(|one, other| {
            other.confidence_at(now).total_cmp(&one.confidence_at(now)).then(one.id.cmp(&other.id))
        });
        known.truncate(MOST_LISTED.saturating_sub(stated.len()));
        Self { known, stated }
    }

    /// The sentences, in the order of their numbers.
    pub fn contents(&self) -> Vec<String> {
        let known = self.known.iter().map(|learning| learning.content.clone());
        known.chain(self.stated.iter().map(|draft| draft.content.clone())).collect()
    }

    fn id(&self, number: Option<usize>) -> Option<i64> {
        Some(self.known.get(number?.checked_sub(1)?)?.id)
    }

    /// True if it repeats or contradicts a rule of the prompt. The user's own words count.
    fn repeats_prompt(&self, learnt: &Learnt) -> bool {
        let numbers = self.known.len() + 1..=self.known.len() + self.stated.len();
        let is_listed = |number: Option<usize>| number.is_some_and(|number| numbers.contains(&number));
        is_listed(learnt.known)
            || is_listed(learnt.replaces)
            || self.stated.iter().any(|stated| {
                restates(&learnt.content, &stated.content) || contradicts(&stated.content, &learnt.content)
            })
    }
}

/// Returns the steps of a turn that a model read, which was shown the list: the rules of the prompt, then its own.
pub fn by_model(learnt: Vec<Learnt>, list: KnownList, known: &[Learning]) -> Vec<LearningDecision> {
    let draft = |learnt: Learnt| {
        let category = learnt.category.unwrap_or_else(|| category_of(&learnt.content));
        cleaned(LearningDraft {
            // Only the user decides what holds in every project.
            everywhere: false,
            confirms: list.id(learnt.known),
            replaces: list.id(learnt.replaces),
            ..LearningDraft::new(category, learnt.content, BY_MODEL)
        })
    };
    let own: Vec<LearningDraft> =
        learnt.into_iter().filter(|learnt| !list.repeats_prompt(learnt)).filter_map(draft).collect();
    weigh(known, list.stated.iter().cloned().chain(own).take(MOST_PER_TURN).collect())
}
