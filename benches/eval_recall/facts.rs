//! Facts that a session may have needed and that the memory had when it began: notes about the files that it worked on, and
//! learnings. People decide which of them it did need.

use std::collections::HashMap;

use claude_mem::project::{is_same_file, without_worktree};
use claude_mem::store::context::ContextMemory;

use crate::history::{Session, words};

/// Candidates for one session.
const MOST_NOTES: usize = 10;
/// A file that was edited says more about a session than one that was read.
const EDITED: f64 = 3.0;
const READ: f64 = 1.0;

/// The notes that existed when a session began and have most to do with it: with its files, and with the words of its prompts
/// and closing messages.
pub fn candidates<'a>(
    memories: &'a [ContextMemory],
    session: &Session,
    newest: i64,
) -> Vec<&'a ContextMemory> {
    let known: Vec<&ContextMemory> =
        memories.iter().filter(|memory| memory.id <= newest && memory.session_id != session.id).collect();
    let text =
        |memory: &ContextMemory| words(&format!("{} {} {}", memory.title, memory.summary, memory.detail));
    let texts: Vec<_> = known.iter().map(|memory| text(memory)).collect();
    let mut having: HashMap<&str, f64> = HashMap::new();
    for word in texts.iter().flatten() {
        *having.entry(word).or_default() += 1.0;
    }
    let all = known.len() as f64;
    let rarity = |count: f64| (1.0 + all / (1.0 + count)).ln();
    let changes = |file: &str| known.iter().filter(|memory| has_changed(memory, file)).count() as f64;
    let worth: Vec<(&str, f64)> = [(&session.edited, EDITED), (&session.read, READ)]
        .into_iter()
        .flat_map(|(files, weight)| files.iter().map(move |file| (file.as_str(), weight)))
        .map(|(file, weight)| (file, weight * rarity(changes(file))))
        .collect();
    let mut ranked: Vec<(f64, &ContextMemory)> = known
        .iter()
        .zip(&texts)
        .map(|(memory, words)| {
            let files: f64 =
                worth.iter().filter(|(file, _)| has_changed(memory, file)).map(|(_, worth)| worth).sum();
            let common = words.iter().filter(|word| session.words.contains(*word));
            let worth: f64 = common.map(|word| rarity(having[word.as_str()])).sum();
            (files + worth / (words.len().max(20) as f64).sqrt(), *memory)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.id.cmp(&a.1.id)));
    ranked.into_iter().take(MOST_NOTES).map(|(_, memory)| memory).collect()
}

fn has_changed(memory: &ContextMemory, file: &str) -> bool {
    memory.files_modified.iter().any(|known| is_same_file(without_worktree(known), file))
}
