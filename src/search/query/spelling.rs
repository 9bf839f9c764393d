//! Words that are not in the index: what was probably meant, out of the words that are.

use rusqlite::Connection;
use strsim::osa_distance;

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
    index::for_each_word(database, |word| {
        for (asked, found) in unknown.iter().zip(&mut found) {
            found.extend(likeness(asked, word).map(|weight| Guess { word: word.to_owned(), weight }));
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
fn likeness(asked: &str, known: &str) -> Option<f64> {
    let (length, known_length) = (asked.chars().count(), known.chars().count());
    if length.min(known_length) < 3 {
        return None;
    }
    if let Some(slips) = slips(asked, known, length.abs_diff(known_length), length / 4) {
        // A slip in the first letter is rare.
        let first = if asked.chars().next() == known.chars().next() { 0.0 } else { 0.1 };
        return Some(1.05 - 0.15 * slips as f64 - first);
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    if known_length > length && known.contains(asked) {
        return Some(0.4 + 0.3 * share(length, known_length));
    }
    // The beginning in common: another ending, a compound's first part.
    let common = asked.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    let is_beginning = common + 3 >= known_length;
    (common >= 5 && is_beginning && share(common, length) >= 0.6).then(|| 0.3 + 0.3 * share(common, length))
}

/// The number of slips between two words: a letter too many, too few, wrong, or two swapped. One is allowed from four letters on,
/// two from eight on.
fn slips(asked: &str, known: &str, longer: usize, allowed: usize) -> Option<usize> {
    let allowed = allowed.min(2);
    // A slip changes at most two letters of the set of all: nearly every other word is ruled out by that.
    let letters = |word: &str| word.bytes().fold(0_u32, |letters, byte| letters | 1 << (byte & 31));
    let is_near = longer <= allowed && (letters(asked) ^ letters(known)).count_ones() as usize <= 2 * allowed;
    is_near.then(|| osa_distance(asked, known)).filter(|slips| (1..=allowed).contains(slips))
}

/// Returns the word that was most likely meant.
pub fn closest<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.filter_map(|word| Some((likeness(asked, word)?, word)));
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

    #[test]
    fn slips_of_the_keyboard_are_forgiven() {
        for (asked, known) in
            [("peroid", "period"), ("seperator", "separator"), ("conection", "connection"), ("lokc", "lock")]
        {
            assert!(likeness(asked, known).is_some_and(|weight| weight > 0.7), "{asked} {known}");
        }
        for (asked, known) in [("cat", "car"), ("lock", "clock2x"), ("table", "cradle"), ("of", "off")] {
            assert!(likeness(asked, known).is_none_or(|weight| weight < 0.7), "{asked} {known}");
        }
    }

    #[test]
    fn parts_and_beginnings_are_found_but_count_less() {
        assert!(likeness("listener", "pglistener").is_some());
        assert!(likeness("verbindungen", "verbindung").is_some());
        assert!(likeness("verbindung", "verbindungspool").is_some());
        assert!(likeness("auth", "oauth2provider").unwrap() < likeness("autn", "auth").unwrap());
    }

    #[test]
    fn hashes_are_not_remembered() {
        assert!(is_worth_knowing("refresh") && is_worth_knowing("oauth2"));
        assert!(!is_worth_knowing("9f86d081884c") && !is_worth_knowing("ab"));
    }
}
