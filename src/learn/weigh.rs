//! How what a turn taught relates to what is known: seen again, new, or the opposite of it.

use super::{TOLD_FROM, contradicts, includes, is_same};
use crate::model::LearningDraft;
use crate::store::learnings::{Learning, Standing, Step};

/// What is to become of the drafts. What was forgotten does not come back.
pub fn weigh(known: &[Learning], drafts: Vec<LearningDraft>) -> Vec<Step> {
    drafts.into_iter().filter_map(|draft| step(known, draft)).collect()
}

/// The same for what the user writes down, which also brings back what was forgotten.
pub fn weigh_by_hand(known: &[Learning], draft: LearningDraft) -> Step {
    let scoped = |known: &&Learning| known.project.is_none() == draft.everywhere;
    let same = known.iter().filter(scoped).find(|known| is_same(&known.content, &draft.content));
    let seen = same.map(|known| known.id);
    let supersedes = known
        .iter()
        .filter(|known| known.is_active && Some(known.id) != seen && takes_back(&draft, known))
        .map(|known| known.id)
        .collect();
    Step { draft, seen, supersedes }
}

fn step(known: &[Learning], draft: LearningDraft) -> Option<Step> {
    let same: Vec<&Learning> = known.iter().filter(|known| is_same(&known.content, &draft.content)).collect();
    if same.iter().any(|known| known.standing() == Standing::Forgotten) {
        return None;
    }
    let named = draft.confirms.and_then(|id| known.iter().find(|known| known.id == id && known.is_active));
    let is_active = |known: &&&Learning| known.is_active;
    let included = || known.iter().find(|known| known.is_active && includes(&known.content, &draft.content));
    let seen = named
        .or_else(|| same.iter().find(is_active).copied())
        .or_else(|| same.first().copied())
        .or_else(included);
    // A shorter word for what was forgotten is that as well.
    let is_forgotten = |known: &Learning| {
        known.standing() == Standing::Forgotten && includes(&known.content, &draft.content)
    };
    if seen.is_none() && known.iter().any(is_forgotten) {
        return None;
    }
    let seen = seen.map(|known| known.id);
    let supersedes = known
        .iter()
        .filter(|known| known.is_active && Some(known.id) != seen && takes_back(&draft, known))
        .map(|known| known.id)
        .collect();
    Some(Step { draft, seen, supersedes })
}

/// Whether the draft takes the place of a learning of the same scope. What is not sure enough to be told does not.
fn takes_back(draft: &LearningDraft, known: &Learning) -> bool {
    let same_scope = draft.everywhere == known.project.is_none();
    let says_so = draft.replaces == Some(known.id);
    same_scope && draft.confidence >= TOLD_FROM && (says_so || contradicts(&draft.content, &known.content))
}
