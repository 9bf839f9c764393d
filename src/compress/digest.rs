//! The digest of a session: its title, its outcome and the points that are still open, from the summaries of its turns.
//!
//! Recomputed from all turns each time one is stored, so that a turn that is written twice, or late, changes nothing else.

use super::note;
use crate::model::{Digest, TurnLine};
use crate::text::{shorten, without_ending};

/// Maximum length of title and outcome, in columns.
const TITLE_COLUMNS: usize = 120;
const OUTCOME_COLUMNS: usize = 400;
/// Maximum number of results in an outcome.
const MOST_RESULTS: usize = 3;
/// Maximum number of open points of a session.
const MOST_OPEN: usize = 8;

/// Builds the digest of a session's turns, oldest first.
pub fn digest(turns: &[TurnLine]) -> Digest {
    let requests = turns.iter().filter_map(|turn| turn.request.as_deref());
    let title = requests
        .filter(|request| !note::is_trivial(request))
        .map(|request| shorten(request, TITLE_COLUMNS))
        .next();
    let results = |field: fn(&TurnLine) -> Option<&String>| -> Vec<String> {
        turns
            .iter()
            .rev()
            .filter_map(field)
            .filter(|text| !note::is_trivial(text))
            .take(MOST_RESULTS)
            .cloned()
            .collect()
    };
    let mut latest = results(|turn| turn.completed.as_ref());
    if latest.is_empty() {
        latest = results(|turn| turn.learned.as_ref()).into_iter().take(1).collect();
    }
    let outcome = fitting(latest);
    Digest {
        title: title.or_else(|| outcome.as_deref().map(|text| shorten(text, TITLE_COLUMNS))),
        outcome,
        open_items: open_items(turns),
    }
}

/// As many of the latest results as fit, in the order in which they came about. The latest is never dropped.
fn fitting(latest: Vec<String>) -> Option<String> {
    let mut kept: Vec<String> = Vec::new();
    for result in latest {
        let length: usize = kept.iter().map(|text| text.len() + 1).sum();
        if !kept.is_empty() && length + result.len() > OUTCOME_COLUMNS {
            break;
        }
        kept.push(result);
    }
    kept.reverse();
    (!kept.is_empty()).then(|| kept.join(" "))
}

fn open_items(turns: &[TurnLine]) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    for turn in turns {
        let done = [&turn.request, &turn.completed, &turn.notes]
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join("\n");
        let is_work = turn.completed.is_some() || turn.notes.is_some();
        open.retain(|item| !(is_work && is_done_by(item, &done)));
        for line in turn.next_steps.iter().flat_map(|text| text.lines()) {
            let item = line.trim().trim_start_matches(['-', '*', ' ']).to_owned();
            if !item.is_empty() && !open.contains(&item) {
                open.push(item);
            }
        }
    }
    let surplus = open.len().saturating_sub(MOST_OPEN);
    open.split_off(surplus)
}

/// True if nearly all significant words of the item occur in the completed work.
fn is_done_by(item: &str, done: &str) -> bool {
    let telling = |text: &str| -> Vec<String> {
        let lower = text.to_lowercase();
        let words = lower.split(|char: char| !char.is_alphanumeric() && char != '_');
        words.filter(|word| word.chars().count() > 3).map(|word| without_ending(word).to_owned()).collect()
    };
    let (item, done) = (telling(item), telling(done));
    let shared = item.iter().filter(|word| done.contains(word)).count();
    !item.is_empty() && shared * 3 >= item.len() * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(request: &str, completed: &str) -> TurnLine {
        TurnLine { request: Some(request.into()), completed: Some(completed.into()), ..TurnLine::default() }
    }

    #[test]
    fn small_talk_neither_names_nor_ends_a_session() {
        let turns = [
            TurnLine { request: Some("hi".into()), ..TurnLine::default() },
            did("Retry uploads on 503", "Uploads are retried three times."),
            TurnLine {
                request: Some("How many retries?".into()),
                learned: Some("Three.".into()),
                ..TurnLine::default()
            },
            TurnLine { request: Some("thanks".into()), ..TurnLine::default() },
        ];
        let digest = digest(&turns);
        assert_eq!(digest.title.as_deref(), Some("Retry uploads on 503"));
        assert_eq!(digest.outcome.as_deref(), Some("Uploads are retried three times."));
    }

    #[test]
    fn the_latest_results_are_kept_in_order() {
        let turns: Vec<TurnLine> =
            (1..=5).map(|n| did(&format!("Do thing number {n}"), &format!("Did {n}."))).collect();
        assert_eq!(digest(&turns).outcome.as_deref(), Some("Did 3. Did 4. Did 5."));
        let found = TurnLine { learned: Some("The cache is keyed by path.".into()), ..TurnLine::default() };
        assert_eq!(digest(&[found]).outcome.as_deref(), Some("The cache is keyed by path."));
    }

    #[test]
    fn an_open_point_stays_until_it_is_done() {
        let open = TurnLine {
            next_steps: Some("- Add tests for the parser\n- Update the changelog".into()),
            ..did("Write a parser", "Wrote it.")
        };
        let mut turns = vec![open, TurnLine { request: Some("thanks".into()), ..TurnLine::default() }];
        assert_eq!(digest(&turns).open_items, ["Add tests for the parser", "Update the changelog"]);
        turns.push(did("now the tests", "Added parser tests."));
        assert_eq!(digest(&turns).open_items, ["Update the changelog"]);
        turns.push(TurnLine { notes: Some("Closed: Update the changelog".into()), ..TurnLine::default() });
        assert_eq!(digest(&turns).open_items, Vec::<String>::new());
    }
}
