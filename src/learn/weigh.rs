//! Relates a turn's drafts to the known learnings: seen again, new, or a replacement.

use super::{SHOWN_FROM, contradicts, includes, is_same};
use crate::model::LearningDraft;
use crate::store::memory::learnings::{Learning, LearningDecision, LearningState};

/// Returns a step for each draft. Forgotten learnings do not come back.
pub fn weigh(known: &[Learning], drafts: Vec<LearningDraft>) -> Vec<LearningDecision> {
    drafts.into_iter().filter_map(|draft| step(known, draft)).collect()
}

/// Returns the step for a learning that the user writes down, which also restores a forgotten one.
pub fn weigh_by_hand(known: &[Learning], draft: LearningDraft) -> LearningDecision {
    let in_scope = |known: &&Learning| known.project.is_none() == draft.everywhere;
    let same = known.iter().filter(in_scope).find(|known| is_same(&known.content, &draft.content));
    let seen = same.map(|known| known.id);
    LearningDecision { supersedes: superseded(known, &draft, seen), draft, seen }
}

fn step(known: &[Learning], draft: LearningDraft) -> Option<LearningDecision> {
    let same = |known: &&Learning| is_same(&known.content, &draft.content);
    let part = |known: &&Learning| includes(&known.content, &draft.content);
    let forgotten = |known: &&Learning| known.standing() == LearningState::Forgotten;
    if known.iter().filter(forgotten).any(|known| same(&known)) {
        return None;
    }
    let active = || known.iter().filter(|known| known.is_active);
    let seen = draft
        .confirms
        .and_then(|id| active().find(|known| known.id == id))
        .or_else(|| active().find(same))
        .or_else(|| known.iter().find(same))
        .or_else(|| active().find(part));
    // Part of a forgotten learning is forgotten, too.
    if seen.is_none() && known.iter().filter(forgotten).any(|known| part(&known)) {
        return None;
    }
    let seen = seen.map(|known| known.id);
    Some(LearningDecision { supersedes: superseded(known, &draft, seen), draft, seen })
}

/// The active learnings of the same scope that the draft replaces. A draft too weak to be shown replaces none.
fn superseded(known: &[Learning], draft: &LearningDraft, seen: Option<i64>) -> Vec<i64> {
    let is_replaced = |known: &&Learning| {
        known.is_active
            && Some(known.id) != seen
            && draft.everywhere == known.project.is_none()
            && (draft.replaces == Some(known.id) || contradicts(&draft.content, &known.content))
    };
    let is_sure = draft.confidence >= SHOWN_FROM;
    known.iter().filter(|_| is_sure).filter(is_replaced).map(|known| known.id).collect()
}
