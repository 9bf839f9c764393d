//! What a turn teaches, by rules or by a model, weighed against what is known of its project.

use crate::compress::parse::Learnt;
use crate::compress::turn::Turn;
use crate::learn;
use crate::model::{LearningDraft, Millis};
use crate::store::learnings::{Learning, Step};

/// The most known learnings that a model is told.
const MOST_TOLD: usize = 20;

/// What rules learn from a turn.
pub fn by_rules(turn: &Turn, known: &[Learning]) -> Vec<Step> {
    learn::weigh(known, learn::from_turn(turn))
}

/// The learnings that a model is told, so that it does not repeat them: the surest first.
pub fn to_tell(known: &[Learning], now: Millis) -> Vec<Learning> {
    let mut told: Vec<Learning> = known.iter().filter(|learning| learning.is_active).cloned().collect();
    told.sort_by(|one, other| {
        other.confidence_at(now).total_cmp(&one.confidence_at(now)).then(one.id.cmp(&other.id))
    });
    told.truncate(MOST_TOLD);
    told
}

/// What a model learnt, which was told these by number.
pub fn by_model(learnt: Vec<Learnt>, told: &[Learning], known: &[Learning]) -> Vec<Step> {
    let numbered = |number: Option<usize>| Some(told.get(number?.checked_sub(1)?)?.id);
    let draft = |learnt: Learnt| {
        let category = learnt.category.unwrap_or_else(|| learn::category_of(&learnt.content));
        learn::cleaned(LearningDraft {
            everywhere: learnt.everywhere,
            confirms: numbered(learnt.known),
            replaces: numbered(learnt.replaces),
            ..LearningDraft::new(category, learnt.content, learn::BY_MODEL)
        })
    };
    learn::weigh(known, learnt.into_iter().filter_map(draft).take(learn::MOST_OF_A_TURN).collect())
}
