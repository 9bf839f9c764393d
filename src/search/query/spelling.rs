//! Words that are not in the index: what was probably meant, out of the words that are.

use rusqlite::Connection;

use crate::store::StoreError;
use crate::store::index::search as index;

/// A known word that may be meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// The word.
    pub word: String,
    /// The confidence, below one.
    pub weight: f64,
}

/// Guesses for each of the unknown words, best first, in one walk over all known ones.
pub fn guesses(database: &Connection, unknown: &[&str]) -> Result<Vec<Vec<Guess>>, StoreError> {
    let mut found: Vec<Vec<Guess>> = vec![Vec::new(); unknown.len()];
    if unknown.is_empty() {
        return Ok(found);
    }
    let asked: Vec<Vec<char>> = unknown.iter().map(|word| word.chars().collect()).collect();
    let mut known = Vec::new();
    index::for_each_word(database, |word| {
        known.clear();
        known.extend(word.chars());
        for (asked, found) in asked.iter().zip(&mut found) {
            if let Some(weight) = likeness(asked, &known) {
                found.push(Guess { word: word.to_owned(), weight });
            }
        }
    })?;
    for guesses in &mut found {
        guesses.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.word.len().cmp(&b.word.len())));
        // A clear winner stands alone: farther ones are other words.
        let best = guesses.first().map_or(0.0, |guess| guess.weight);
        guesses.retain(|guess| guess.weight >= best - 0.15);
        guesses.truncate(MOST_GUESSES);
    }
    Ok(found)
}

const MOST_GUESSES: usize = 6;

/// The likeness of a known word to the one that was asked for; nothing if it is another word.
fn likeness(asked: &[char], known: &[char]) -> Option<f64> {
    let shorter = asked.len().min(known.len());
    if shorter < 3 {
        return None;
    }
    let allowed = match asked.len() {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    if asked.len().abs_diff(known.len()) <= allowed
        && let Some(distance) = distance_within(asked, known, allowed)
    {
        // A slip in the first letter is rare.
        let first = if asked[0] == known[0] { 0.0 } else { 0.1 };
        return Some(0.9 - 0.15 * f64::from(u32::try_from(distance).unwrap_or(9) - 1) - first);
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    if known.len() > asked.len() && known.windows(asked.len()).any(|part| part == asked) {
        return Some(0.4 + 0.3 * share(asked.len(), known.len()));
    }
    // The beginning in common: another ending, a compound's first part.
    let common = asked.iter().zip(known).take_while(|(a, b)| a == b).count();
    let is_beginning = common == known.len() || common + 3 >= known.len();
    (common >= 5 && is_beginning && share(common, asked.len()) >= 0.6)
        .then(|| 0.3 + 0.3 * share(common, asked.len()))
}

/// The number of slips (a letter too many, too few, wrong, or two swapped) between two words, if it is within `allowed`.
fn distance_within(a: &[char], b: &[char], allowed: usize) -> Option<usize> {
    let mut older: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, &letter) in a.iter().enumerate() {
        let mut this = Vec::with_capacity(b.len() + 1);
        this.push(row + 1);
        for (column, &other) in b.iter().enumerate() {
            let substituted = last[column] + usize::from(letter != other);
            let mut best = substituted.min(last[column + 1] + 1).min(this[column] + 1);
            if row > 0 && column > 0 && letter == b[column - 1] && other == a[row - 1] {
                best = best.min(older[column - 1] + 1);
            }
            this.push(best);
        }
        if this.iter().min().is_some_and(|best| *best > allowed) {
            return None;
        }
        older = std::mem::replace(&mut last, this);
    }
    last.last().copied().filter(|distance| (1..=allowed).contains(distance))
}

/// Returns the word that was most likely meant.
pub fn closest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let asked: Vec<char> = asked.chars().collect();
    let likely = known.filter_map(|word| Some((likeness(&asked, &word.chars().collect::<Vec<_>>())?, word)));
    likely.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, word)| word)
}

/// True for a folded word that is worth remembering for spelling: not numbers, hashes or pieces of encodings.
pub fn is_worth_knowing(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    (3..=40).contains(&word.chars().count()) && digits <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(asked: &str, known: &str) -> Option<f64> {
        likeness(&asked.chars().collect::<Vec<_>>(), &known.chars().collect::<Vec<_>>())
    }

    #[test]
    fn slips_of_the_keyboard_are_forgiven() {
        for (asked, known) in
            [("peroid", "period"), ("seperator", "separator"), ("conection", "connection"), ("lokc", "lock")]
        {
            assert!(like(asked, known).is_some_and(|weight| weight > 0.7), "{asked} {known}");
        }
        for (asked, known) in [("cat", "car"), ("lock", "clock2x"), ("table", "cradle"), ("of", "off")] {
            assert!(like(asked, known).is_none_or(|weight| weight < 0.7), "{asked} {known}");
        }
    }

    #[test]
    fn parts_and_beginnings_are_found_but_count_less() {
        assert!(like("listener", "pglistener").is_some());
        assert!(like("verbindungen", "verbindung").is_some());
        assert!(like("verbindung", "verbindungspool").is_some());
        assert!(like("auth", "oauth2provider").unwrap() < like("autn", "auth").unwrap());
    }

    #[test]
    fn hashes_are_not_remembered() {
        assert!(is_worth_knowing("refresh") && is_worth_knowing("oauth2"));
        assert!(!is_worth_knowing("9f86d081884c") && !is_worth_knowing("ab"));
    }
}
