//! Words of a text, as far as a context needs them: to compare two texts.

use xxhash_rust::xxh3::xxh3_64;

/// Words without a topic, sorted.
#[rustfmt::skip]
const EMPTY: [&str; 119] = [
    "about", "add", "added", "after", "again", "all", "also", "and", "any", "are", "avec", "been",
    "before", "being", "but", "can", "con", "could", "dans", "das", "del", "dem", "den", "der", "des",
    "did", "die", "does", "doing", "done", "each", "ein", "eine", "est", "for", "from", "für", "get",
    "got", "had", "has", "have", "her", "here", "his", "how", "into", "ist", "its", "just", "las", "les",
    "let", "los", "made", "make", "mit", "more", "most", "need", "needs", "nicht", "not", "now", "off",
    "one", "only", "other", "our", "out", "over", "para", "per", "please", "por", "pour", "que", "qui",
    "same", "see", "should", "some", "still", "than", "that", "the", "their", "them", "then", "there",
    "they", "this", "two", "una", "und", "under", "une", "use", "used", "using", "very", "via", "von",
    "want", "wanted", "wants", "was", "were", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your",
];

/// The words with a topic, in lower case. Scripts without blanks are taken by pairs of characters.
pub fn content_words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    each_content_word(text, |word| found.push(word.to_owned()));
    found
}

fn each_content_word(text: &str, mut found: impl FnMut(&str)) {
    let mut word = String::new();
    for run in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let is_ascii = run.is_ascii();
        if !is_ascii && run.chars().any(is_unspaced) {
            let seconds = run.char_indices().skip(1);
            run.char_indices()
                .zip(seconds)
                .for_each(|((at, _), (next, c))| found(&run[at..next + c.len_utf8()]));
            continue;
        }
        word.clear();
        match is_ascii {
            // Most texts are, and hundreds of them are looked at while somebody waits.
            true => {
                word.push_str(run.trim_matches('_'));
                word.make_ascii_lowercase();
            }
            false => word.extend(run.trim_matches('_').chars().flat_map(char::to_lowercase)),
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if word.chars().nth(2).is_some() && !is_number && EMPTY.binary_search(&word.as_str()).is_err() {
            found(&word);
        }
    }
}

fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{0e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// The words of a text, to compare it with others: their hashes in order, because hundreds of texts are compared while
/// somebody waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordSet(Vec<u64>);

impl WordSet {
    /// The words of some texts together.
    pub fn of(texts: &[&str]) -> Self {
        let mut hashes = Vec::new();
        texts.iter().for_each(|text| each_content_word(text, |word| hashes.push(xxh3_64(word.as_bytes()))));
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes)
    }

    /// The same by their stems.
    #[cfg(feature = "service")]
    pub fn stemmed(texts: &[&str]) -> Self {
        let mut hashes = Vec::new();
        let mut note = |word: &str| hashes.push(xxh3_64(crate::text::without_ending(word).as_bytes()));
        texts.iter().for_each(|text| each_content_word(text, &mut note));
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a word, in lower case, is among them.
    pub fn has(&self, word: &str) -> bool {
        self.0.binary_search(&xxh3_64(word.as_bytes())).is_ok()
    }

    fn in_common(&self, other: &Self) -> usize {
        let (mut at, mut common) = (0, 0);
        for hash in &self.0 {
            while other.0.get(at).is_some_and(|known| known < hash) {
                at += 1;
            }
            common += usize::from(other.0.get(at) == Some(hash));
        }
        common
    }

    /// True if nearly all of these words are in the other set.
    pub fn is_within(&self, other: &Self) -> bool {
        !self.is_empty() && self.in_common(other) * 10 >= self.len() * 9
    }

    /// True if most of these words are in the other set.
    pub fn is_mostly_in(&self, other: &Self) -> bool {
        !self.is_empty() && self.in_common(other) * 3 >= self.len() * 2
    }

    /// The share of both sets' words that they have in common.
    pub fn alike(&self, other: &Self) -> f64 {
        let common = self.in_common(other);
        let all = self.len() + other.len() - common;
        if all == 0 { 1.0 } else { common as f64 / all as f64 }
    }
}

/// True if two texts have the same content: the shorter one's words are nearly all in the other, which has few more.
pub fn near(one: &str, other: &str) -> bool {
    let (one, other) = (WordSet::of(&[one]), WordSet::of(&[other]));
    let (short, long) = if one.len() <= other.len() { (&one, &other) } else { (&other, &one) };
    let common = short.in_common(long);
    !short.is_empty() && common * 10 >= short.len() * 8 && long.len() <= short.len() + 3
}

/// The lines so far, so that nothing is repeated.
#[derive(Debug, Clone, Default)]
pub struct SeenText(Vec<WordSet>);

/// A text of so few words is not taken for another one's repetition.
const FEW_WORDS: usize = 4;

impl SeenText {
    /// Notes a text.
    pub fn note(&mut self, text: &str) {
        self.0.push(WordSet::of(&[text]));
    }

    /// True if a text adds next to nothing to the earlier ones.
    pub fn has(&self, words: &WordSet) -> bool {
        self.0.iter().any(|seen| {
            let is_part = words.len() > FEW_WORDS && words.len() <= seen.len();
            words.alike(seen) > 0.7 || (is_part && words.in_common(seen) as f64 > 0.85 * words.len() as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_words_are_in_order() {
        assert!(EMPTY.is_sorted());
    }

    #[test]
    fn words_that_tell_are_found_in_any_script() {
        assert_eq!(
            content_words("Please fix the `parse_date` of src/dates.rs, 42"),
            ["fix", "parse_date", "src", "dates"]
        );
        assert_eq!(content_words("连接池"), ["连接", "接池"]);
        assert!(content_words("the of to 12").is_empty());
    }

    #[test]
    fn a_repetition_is_known_and_a_longer_text_is_none() {
        let mut seen = SeenText::default();
        seen.note("Retry uploads three times with exponential backoff");
        let has = |text: &str| seen.has(&WordSet::of(&[text]));
        assert!(has("retry the uploads three times, with exponential backoff."));
        assert!(!has(
            "Retry uploads three times with exponential backoff, because the storage answers 503 under load in the evening"
        ));
        assert!(!has("Rename the upload client"));
    }
}
