//! Memories whose code has changed since.

use super::Doctor;
use super::finding::Finding;
use crate::cli::output::wrap::counted;
use crate::store::{self, browse};

/// A hook or the service may write at the same moment.
const PATIENCE_MS: u32 = 10_000;
/// Memories that are named.
const MOST_NAMED: usize = 5;

pub fn stale_notes(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "stale memories";
    let stale =
        store::open_to_read(doctor.home, PATIENCE_MS).and_then(|database| browse::stale(&database, None));
    let Ok(stale) = stale else { return Finding::good(NAME, "not checked: there is no readable database") };
    if stale.is_empty() {
        return Finding::good(NAME, "no memory is about code that has changed since");
    }
    let gone = stale.iter().filter(|note| note.standing == "gone").count();
    let names: Vec<String> = stale.iter().take(MOST_NAMED).map(|note| format!("#{}", note.note.id)).collect();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    Finding::note(
        NAME,
        format!(
            "{} about code that has changed, {gone} of them about code that is gone: {}{}",
            counted(count(stale.len()), "memory", "memories"),
            names.join(", "),
            if stale.len() > MOST_NAMED { ", …" } else { "" }
        ),
        "the first rank lower, and the others are only found by search",
        "claude-mem review",
    )
}
