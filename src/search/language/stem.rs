//! Porter's stemmer for English (M. F. Porter, "An algorithm for suffix stripping", 1980), as SQLite's `porter` applies it.

/// Longer words are left as they are, as SQLite leaves them.
const LONGEST: usize = 64;

/// Cuts a folded word down to its stem. A word of another language loses little by it.
pub fn stem(word: &mut String) {
    if word.len() < 3 || word.len() > LONGEST || !word.is_ascii() {
        return;
    }
    plurals(word);
    past_and_progressive(word);
    final_y(word);
    replace_longest(word, &STEP_2, 1);
    replace_longest(word, &STEP_3, 1);
    step_4(word);
    final_e(word);
}

#[rustfmt::skip]
const STEP_2: [(&str, &str); 21] = [
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"),
    ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
];

#[rustfmt::skip]
const STEP_3: [(&str, &str); 7] = [
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
];

#[rustfmt::skip]
const STEP_4: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
    "iti", "ous", "ive", "ize",
];

fn is_vowel(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => true,
        b'y' => at > 0 && !is_vowel(word, at - 1),
        _ => false,
    }
}

/// Counts how many times a vowel is followed by a consonant.
fn measure(word: &[u8]) -> usize {
    let vowels: Vec<bool> = (0..word.len()).map(|at| is_vowel(word, at)).collect();
    vowels.windows(2).filter(|pair| pair[0] && !pair[1]).count()
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|at| is_vowel(word, at))
}

fn ends_in_double_consonant(word: &[u8]) -> bool {
    let count = word.len();
    count >= 2 && word[count - 1] == word[count - 2] && !is_vowel(word, count - 1)
}

/// consonant, vowel, consonant that is not w, x or y.
fn ends_short(word: &[u8]) -> bool {
    let count = word.len();
    count >= 3
        && !is_vowel(word, count - 1)
        && is_vowel(word, count - 2)
        && !is_vowel(word, count - 3)
        && !matches!(word[count - 1], b'w' | b'x' | b'y')
}

/// The part before the ending, if the word has it.
fn before<'a>(word: &'a str, ending: &str) -> Option<&'a [u8]> {
    word.strip_suffix(ending).map(str::as_bytes)
}

fn plurals(word: &mut String) {
    if word.ends_with("sses") || word.ends_with("ies") {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

fn past_and_progressive(word: &mut String) {
    if let Some(root) = before(word, "eed").filter(|root| !root.is_empty()) {
        if measure(root) > 0 {
            word.pop();
        }
        return;
    }
    let cut = ["ed", "ing"].into_iter().find(|ending| before(word, ending).is_some_and(has_vowel));
    let Some(ending) = cut else { return };
    word.truncate(word.len() - ending.len());
    let bytes = word.as_bytes();
    if ["at", "bl", "iz"].iter().any(|ending| word.ends_with(ending)) {
        word.push('e');
    } else if ends_in_double_consonant(bytes) && !matches!(bytes[bytes.len() - 1], b'l' | b's' | b'z') {
        word.pop();
    } else if measure(bytes) == 1 && ends_short(bytes) {
        word.push('e');
    }
}

fn final_y(word: &mut String) {
    if before(word, "y").is_some_and(has_vowel) {
        word.pop();
        word.push('i');
    }
}

/// Replaces the longest of the endings, if enough stands before it.
fn replace_longest(word: &mut String, endings: &[(&str, &str)], least: usize) {
    let longest =
        endings.iter().filter(|(ending, _)| word.ends_with(ending)).max_by_key(|(ending, _)| ending.len());
    if let Some((ending, replacement)) = longest
        && before(word, ending).is_some_and(|root| measure(root) >= least)
    {
        word.truncate(word.len() - ending.len());
        word.push_str(replacement);
    }
}

fn step_4(word: &mut String) {
    let longest = STEP_4.iter().filter(|ending| word.ends_with(**ending)).max_by_key(|ending| ending.len());
    let Some(ending) = longest else { return };
    let Some(root) = before(word, ending) else { return };
    let fits = *ending != "ion" || matches!(root.last(), Some(b's' | b't'));
    if fits && measure(root) > 1 {
        word.truncate(word.len() - ending.len());
    }
}

fn final_e(word: &mut String) {
    if let Some(root) = before(word, "e") {
        let count = measure(root);
        if count > 1 || (count == 1 && !ends_short(root)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && measure(word.as_bytes()) > 1 {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word of the evaluation set, and what SQLite's own stemmer makes of it.
    #[test]
    fn stems_are_those_of_the_index() {
        let texts =
            [include_str!("../../../eval/a.docs.jsonl"), include_str!("../../../eval/b.docs.jsonl")].concat();
        let database = rusqlite::Connection::open_in_memory().unwrap();
        database
            .execute_batch(
                "CREATE VIRTUAL TABLE i USING fts5 (w, tokenize = 'porter unicode61 remove_diacritics 2');
                 CREATE VIRTUAL TABLE v USING fts5vocab (i, row);",
            )
            .unwrap();
        let mut all: Vec<String> = texts
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| word.len() > 1)
            .map(str::to_ascii_lowercase)
            .collect();
        all.sort();
        all.dedup();
        assert!(all.len() > 5000, "{}", all.len());
        let mut wrong = Vec::new();
        for word in all {
            database.execute("INSERT INTO i (w) VALUES (?1)", [&word]).unwrap();
            let theirs: String = database.query_row("SELECT term FROM v", [], |row| row.get(0)).unwrap();
            database.execute("DELETE FROM i", []).unwrap();
            let mut ours = word.clone();
            stem(&mut ours);
            if ours != theirs {
                wrong.push((word, ours, theirs));
            }
        }
        assert!(wrong.is_empty(), "{} differ: {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    }
}
