//! The clarity of a title: how well someone who was not there understands a line of text.

use crate::text::each;

/// The clarity of a line that cannot be a title, regardless of its source.
pub(super) const REJECTED: i32 = -1_000;

/// Titles that name an activity instead of its subject.
const BANNED_STARTS: &str =
    "run |research |find that|answer:|commit |push |switch |pull |stage |plan: |implement the following";
/// Words that point at something a newcomer cannot see.
const POINTING: &str =
    "it|its|it's|this|that|that's|these|those|they|them|he|she|same|you|your|again|above|below|here|us|me";
/// Words that continue a conversation.
const CONTINUING_STARTS: &str = "but|or|because|not|still|yes|no|maybe|looks|seems|option|instead|since|as|wait|right|both|either|neither|some|none|me|my|i|is|are|was|were|did|does|do|there|looking|so|and|also|ah|oh|hmm|nothing's|you're|kept";
/// Words that begin half a sentence.
const SUBORDINATE_STARTS: &str =
    "if|after|once|while|although|though|unless|with|without|given|before|when|at|where|whether|which";
/// Words that half a sentence ends with.
const DANGLING_ENDS: &str = "and|or|because|but|with|to|of|for|if|when|that|the|a|an|in|on|by|from|as|is|are|so|not|since|yes|has|have|had|shows|includes|uses|will|be|was|were|both|its|via|following|than|into|at";
/// Words in the first person.
const SPEAKING: &str = "i|i'm|i'd|i'll|i've|we|we're|we'll|let|let's|think|maybe|guess|wonder|sure|please|should|probably|hmm|want|feel";
/// Words that say little about a subject.
const WEAK: &str = "the|a|an|to|of|in|on|for|and|or|with|is|are|be|was|were|we|i|me|my|our|not|do|does|did|can|could|should|would|will|have|has|had|there|now|then|also|just|as|at|by|from|so|if|but|when|what|\
    which|how|why|where|who|all|any|some|more|one|two|new|make|made|get|use|used|using|add|fix|change|changes|update|check|review|explain|list|please|want|need|think|like|look|see|thing|things|stuff|something|\
    anything|everything|code|file|files|test|tests|work|works|sure|maybe|really|very|too|only|up|out|into|about|other|first|last|way|case|cases|issue|issues|problem|place|places|part|left|right|help|doing|\
    following|provide|analysis|implement|implemented|implementation|summary|branch|line|lines|step|steps|phase|task|pr|comment|comments|approach|logic|version|plan";

/// Scores a line as a title. A line below zero says too little, or points at something outside of it.
pub(super) fn clarity(text: &str) -> i32 {
    let lower = text.to_lowercase();
    if each(BANNED_STARTS).any(|start| lower.starts_with(start)) {
        return REJECTED;
    }
    if text.chars().any(|char| char > '\u{2e7f}') {
        return if text.chars().count() >= 8 { 12 } else { -20 };
    }
    let is_edge = |char: char| char.is_whitespace() || ",;:()\"?!".contains(char);
    let words: Vec<&str> = lower
        .split(is_edge)
        .map(|word| word.trim_matches(['.', '\'', '`', '*']))
        .filter(|word| !word.is_empty())
        .collect();
    let among = |list: &'static str, word: &str| each(list).any(|known| known == word);
    let count = |list: &'static str| words.iter().filter(|word| among(list, word)).count();
    let is_strong = |word: &&&str| word.chars().count() > 2 && !is_weak(word);
    let strong = words.iter().filter(is_strong).count();
    let names = text.split_whitespace().filter(|word| is_name(word)).count();
    let first = words.first().copied().unwrap_or_default();
    let fault = |applies: bool, points: i32| if applies { -points } else { 0 };
    let has_place = lower.contains("line ") && lower.chars().any(|char| char.is_ascii_digit());
    let symbols = text.chars().filter(|char| "=→%│|<>{}+✓✗❌✅~".contains(*char)).count();
    4 * strong.min(4) as i32
        + 4 * names.min(1) as i32
        + fault(strong < 3 && strong + names < 4, 8)
        + fault(strong < 2 || words.len() < 3, 20)
        + fault(among(CONTINUING_STARTS, first), 14)
        + fault(among(SUBORDINATE_STARTS, first), 14)
        + fault(among(POINTING, first), 16)
        + fault(is_dangling(text), 16)
        + fault(has_place, 8)
        + fault(symbols > 1, 8)
        + fault(text.matches('`').count() % 2 == 1, 8)
        + fault(lower.contains("://"), 16)
        + fault(first.starts_with(|char: char| char.is_ascii_digit()), 10)
        - 6 * count("still|would|just|actually|already|real|worth").min(2) as i32
        - 9 * count(POINTING).min(2) as i32
        - 5 * count(SPEAKING).min(2) as i32
}

/// True for half a sentence.
pub(super) fn is_dangling(text: &str) -> bool {
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default().to_lowercase();
    let last = last.trim_matches(|char: char| !char.is_alphanumeric());
    each(DANGLING_ENDS).any(|known| known == last) || text.ends_with(['…', ':', '-', '—'])
}

/// True for words that say little about a subject.
pub(super) fn is_weak(word: &str) -> bool {
    each(WEAK).chain(each(POINTING)).any(|known| known == word)
}

/// True for words that name something: `code`, paths, identifiers, proper names inside a sentence.
pub(super) fn is_name(word: &str) -> bool {
    let word = word.trim_matches(|char: char| ",.;:!?()'\"".contains(char));
    let has_inner_capital =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    word.contains('`')
        || has_inner_capital
        || (word.len() > 3 && word.chars().skip(1).any(|char| "_./:@".contains(char)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_the_subject_is_clearer_than_pointing_at_it() {
        for (clear, vague) in [
            ("Retry uploads when the signed URL expires", "Retry it when that expires"),
            ("Checkpoint files follow symbolic links", "The key is on line 183"),
            ("Hide the start command from the help text", "I think we should maybe hide this"),
            ("Upload queue drops events after a restart", "At each prompt start"),
            ("The parser keeps leading blanks", "`parser list` now shows"),
        ] {
            assert!(
                clarity(clear) > clarity(vague) + 5,
                "{clear}: {}, {vague}: {}",
                clarity(clear),
                clarity(vague)
            );
            assert!(clarity(clear) >= 0, "{clear}");
        }
        assert_eq!(clarity("Run the whole test suite again"), REJECTED);
    }
}
