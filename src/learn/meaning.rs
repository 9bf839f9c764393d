//! Whether two sentences say the same, or the opposite. By their words alone, in any language.

use std::collections::BTreeSet;

use super::each;

/// Words that do not decide what a sentence says.
const FILLERS: &str = "the|a|an|to|in|on|at|of|for|and|or|is|are|be|it|this|that|here|please|always|we|you|i|should|\
    must|our|your|my|just|also|with|by|der|die|das|den|ein|eine|und|oder|ist|immer|stets|bitte|wir|\
    im|mit|für|zu|auf|ich|as";

/// Words that turn a sentence around.
const NEGATIONS: &str = "never|not|don't|don’t|dont|no|avoid|stop|without|nie|niemals|nicht|kein|keine|keinen|vermeide|\
    cannot";

/// Verbs that only say that what follows is used.
const USING: &str = "use|uses|using|run|prefer|write|verwende|verwenden|benutze|benutzen|nutze|nutzen|nimm|stick|\
    call|put|works|ever|anymore|mehr|do|fails";

/// Whether both say the same.
pub fn is_same(one: &str, other: &str) -> bool {
    // "Use this, not that" has the words of "use that, not this".
    if contradicts(one, other) {
        return false;
    }
    let (one, other) = (Meaning::of(one), Meaning::of(other));
    if one.negated != other.negated || one.numbers != other.numbers {
        return false;
    }
    if one.words == other.words {
        return !one.words.is_empty();
    }
    let shared = one.words.intersection(&other.words).count();
    let all = one.words.union(&other.words).count();
    // "Use pnpm" and "use yarn" share half their words: short sentences must be alike in all.
    one.words.len().min(other.words.len()) >= 4 && 5 * shared >= 4 * all
}

/// Whether the longer says what the shorter says, and what not to do beside it: "use pnpm, not npm" and "use pnpm".
pub fn includes(longer: &str, shorter: &str) -> bool {
    let (long, short) = (Stance::of(longer), Stance::of(shorter));
    let all =
        |some: &[BTreeSet<String>], of: &[BTreeSet<String>]| some.iter().all(|words| of.contains(words));
    let says_something = !short.favours.is_empty() || !short.rejects.is_empty();
    says_something && all(&short.favours, &long.favours) && all(&short.rejects, &long.rejects)
}

/// Whether one says again what the other says, if both came from the same words: every word that counts is there, in some
/// form, and there is more than one.
pub fn restates(one: &str, other: &str) -> bool {
    let (Some(said), Some(wanted)) = (object(&one.to_lowercase()), object(&other.to_lowercase())) else {
        return false;
    };
    is_same(one, other)
        || (wanted.len() > 1 && wanted.iter().all(|word| said.iter().any(|known| is_form(known, word))))
}

/// Whether two words are forms of one: "edit" and "edited", "file" and "files".
fn is_form(one: &str, other: &str) -> bool {
    let shared = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let (short, long) =
        (one.chars().count().min(other.chars().count()), one.chars().count().max(other.chars().count()));
    one == other || (shared >= 4 && shared + 1 >= short && long <= shared + 3)
}

/// Whether the newer takes back what the older says.
pub fn contradicts(newer: &str, older: &str) -> bool {
    let (new, old) = (Stance::of(newer), Stance::of(older));
    let meets =
        |one: &[BTreeSet<String>], other: &[BTreeSet<String>]| one.iter().any(|words| other.contains(words));
    if meets(&new.favours, &old.rejects) || meets(&new.rejects, &old.favours) {
        return true;
    }
    // The same sentence with another number.
    let (new, old) = (Meaning::of(newer), Meaning::of(older));
    new.words.len() >= 3 && new.words == old.words && new.negated == old.negated && new.numbers != old.numbers
}

/// A sentence as a set of words.
#[derive(Debug)]
struct Meaning {
    words: BTreeSet<String>,
    negated: bool,
    numbers: Vec<String>,
}

impl Meaning {
    fn of(text: &str) -> Self {
        let mut meaning = Self { words: BTreeSet::new(), negated: false, numbers: Vec::new() };
        for word in words(text) {
            if each(NEGATIONS).any(|known| known == word.as_str()) {
                meaning.negated = true;
            } else if word.chars().all(|char| char.is_ascii_digit() || char == '.') {
                meaning.numbers.push(word);
            } else if !each(FILLERS).any(|known| known == word.as_str()) {
                meaning.words.insert(word);
            }
        }
        meaning.negated |= has_negation_without_blanks(text);
        meaning
    }
}

/// The words of a text in lower case; of a script without blanks, the pairs of characters.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lower = text.to_lowercase();
    let is_part = |char: char| char.is_alphanumeric() || "'’_-./:@+#".contains(char);
    for chunk in lower.split(|char: char| !is_part(char)) {
        let (mut plain, mut run) = (String::new(), Vec::new());
        for char in chunk.chars() {
            if is_ideograph(char) {
                run.push(char);
            } else {
                pairs(&mut run, &mut found);
                plain.push(char);
                continue;
            }
            take(&mut plain, &mut found);
        }
        take(&mut plain, &mut found);
        pairs(&mut run, &mut found);
    }
    found
}

fn take(plain: &mut String, found: &mut Vec<String>) {
    let word = std::mem::take(plain);
    let word = word.trim_matches(|char: char| "'’_-./:@+#".contains(char));
    if !word.is_empty() {
        found.push(word.to_owned());
    }
}

fn pairs(run: &mut Vec<char>, found: &mut Vec<String>) {
    match run.as_slice() {
        [] => {}
        [one] => found.push(one.to_string()),
        many => found.extend(many.windows(2).map(|pair| pair.iter().collect())),
    }
    run.clear();
}

fn is_ideograph(char: char) -> bool {
    matches!(char, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn has_negation_without_blanks(text: &str) -> bool {
    ["不要", "别用", "禁止", "不能", "ないで", "しないこと"].iter().any(|word| text.contains(word))
}

/// What a sentence is for, and what it is against.
#[derive(Debug, Default)]
struct Stance {
    favours: Vec<BTreeSet<String>>,
    rejects: Vec<BTreeSet<String>>,
}

/// What stands between what is wanted and what is not.
const RATHER: &str = "works here; | instead of | rather than |, not | not | over | statt | anstatt |, nicht | anstelle von |而不是";
/// The same the other way round.
const BUT: &str = " but |, use |; use | sondern |ではなくて|ではなく";

impl Stance {
    fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let lower = lower.trim().trim_end_matches(['.', '!', '。', '！']);
        let mut stance = Self::default();
        if let Some((wanted, unwanted)) = each(RATHER).find_map(|word| lower.split_once(word)) {
            // "`pnpm test` works here; `npm test` fails: …"
            let unwanted = unwanted.split(" fails").next().unwrap_or(unwanted);
            stance.favours.extend(object(wanted));
            stance.rejects.extend(object(unwanted));
            return stance;
        }
        let is_against = |text: &str| {
            let first = text.split_whitespace().next().unwrap_or_default();
            each(NEGATIONS).any(|known| known == first)
                || has_negation_without_blanks(text)
                || text.starts_with("do not ")
        };
        if let Some((first, second)) = each(BUT).find_map(|word| lower.split_once(word))
            && (is_against(first) || lower.contains("ではなく"))
        {
            stance.rejects.extend(object(first));
            stance.favours.extend(object(second));
            return stance;
        }
        let against = lower.split_whitespace().any(|word| each(NEGATIONS).any(|known| known == word))
            || has_negation_without_blanks(lower);
        let side = if against { &mut stance.rejects } else { &mut stance.favours };
        side.extend(object(lower));
        stance
    }
}

/// What is spoken of: the words without those that say what to do with it.
fn object(text: &str) -> Option<BTreeSet<String>> {
    let text = [
        "不要使用",
        "不要用",
        "别用",
        "总是使用",
        "始终使用",
        "请使用",
        "使用",
        "应该用",
        "改用",
        "を使ってください",
        "を使わないでください",
        "を使って",
        "を使わないで",
        "常に",
        "必ず",
        "絶対に",
        "永远",
        "总是",
        "始终",
        "不要",
        "用",
    ]
    .iter()
    .fold(text.to_owned(), |text, word| text.replace(word, " "));
    let plain = |word: &String| {
        let word = word.as_str();
        !each(FILLERS).any(|known| known == word)
            && !each(NEGATIONS).any(|known| known == word)
            && !each(USING).any(|known| known == word)
    };
    let words: BTreeSet<String> = words(&text).into_iter().filter(plain).collect();
    (!words.is_empty()).then_some(words)
}
