//! Compares two learnings: same, part of the other, or opposite. By their words alone, in any language.
//!
//! Two sentences are the same if their content words are, whatever their order and form. One word more or less makes
//! two rules of them: merging "never edit a.sql" with "never edit b.sql" would lose one.

use std::collections::BTreeSet;

use super::each;

/// Words that carry no content.
const FILLERS: &str = "the|a|an|to|in|on|at|of|for|and|or|is|are|be|it|this|that|here|please|always|we|you|i|should|must|our|\
    your|my|just|also|with|by|as|directly|ever|really|all|any|every|each|only|repo|repository|project|codebase|when|if|\
    der|die|das|den|dem|ein|eine|einen|und|oder|ist|immer|stets|bitte|wir|im|mit|für|zu|auf|ich|hier|projekt|make|sure|have|\
    whenever|everywhere|prefer|want|need|has|will|shall";

/// Words that turn a sentence around.
const NEGATIONS: &str = "never|not|don't|dont|no|avoid|stop|without|nie|niemals|nicht|kein|keine|keinen|vermeide|cannot|mustn't|\
    shouldn't|do-not|nobody|nothing|none|forbidden";

/// Verbs that only introduce their object.
const USING: &str = "use|run|write|verwende|verwenden|benutze|benutzen|nutze|nutzen|nimm|nehmen|stick|call|put|anymore|mehr|do|\
    adding|add";

/// Spellings of the same word.
const SYNONYMS: [(&str, &str); 7] = [
    ("documentation", "doc"),
    ("directory", "folder"),
    ("configuration", "config"),
    ("linter", "lint"),
    ("formatter", "format"),
    ("ripgrep", "rg"),
    ("master", "main"),
];

/// Joints behind which a sentence gives its reason.
const REASONS: &str = " because | since |; otherwise | otherwise |: it |: that |: this |: they |: the reason | so that |, weil |, da |\
    , denn |; sonst | sonst |，因为|因为|；否则|，否则|，不然|; 否则|; でないと|; さもないと|; そうしないと|; なぜなら";

/// True if both state the same.
pub fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (Stance::new(one), Stance::new(other));
    one.has_content() && one == other
}

/// True if the longer states all that the shorter does: "use pnpm, not npm" and "use pnpm".
pub fn includes(longer: &str, shorter: &str) -> bool {
    let (long, short) = (Stance::new(longer), Stance::new(shorter));
    short.has_content() && short.favours.is_subset(&long.favours) && short.rejects.is_subset(&long.rejects)
}

/// True if a model's sentence repeats one of the user's: it has all of its content words, and there are several.
pub fn restates(one: &str, other: &str) -> bool {
    let all = |text: &str| -> BTreeSet<String> {
        let Stance { favours, rejects } = Stance::new(text);
        favours.into_iter().chain(rejects).flatten().collect()
    };
    let (repeated, stated) = (all(one), all(other));
    is_same(one, other) || (stated.len() > 1 && stated.is_subset(&repeated))
}

/// True if the newer takes back the older.
pub fn contradicts(newer: &str, older: &str) -> bool {
    let (new, old) = (Stance::new(newer), Stance::new(older));
    let meet = |one: &BTreeSet<Words>, other: &BTreeSet<Words>| !one.is_disjoint(other);
    meet(&new.favours, &old.rejects) || meet(&new.rejects, &old.favours) || is_other_value(newer, older)
}

/// "The server listens on port 3000" and "… 4000": one thing has one value. Instructions with other numbers are others.
fn is_other_value(newer: &str, older: &str) -> bool {
    let states =
        |text: &str| each(" is | are | listens | runs on | ist | läuft ").any(|verb| text.contains(verb));
    let parts = |text: &str| -> (Words, Words) {
        let words = words(claim(&text.to_lowercase()));
        words.into_iter().filter(|word| !is_filler(word)).partition(|word| word.parse::<f64>().is_ok())
    };
    let ((new_numbers, new), (old_numbers, old)) = (parts(newer), parts(older));
    let both = states(newer) && states(older) && new.len() >= 2 && new == old;
    both && !new_numbers.is_empty() && !old_numbers.is_empty() && new_numbers != old_numbers
}

type Words = BTreeSet<String>;

/// The things that a sentence is for and against, each as its content words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stance {
    favours: BTreeSet<Words>,
    rejects: BTreeSet<Words>,
}

/// Joints between the parts of a sentence, and whether the part behind rejects its object.
const JOINTS: [(&str, bool); 21] = [
    (" instead of ", true),
    (" rather than ", true),
    (", never ", true),
    ("; never ", true),
    (", not ", true),
    (" not ", true),
    (" over ", true),
    (" anstelle von ", true),
    (" anstatt ", true),
    (" statt ", true),
    (", nicht ", true),
    (", nie ", true),
    ("而不是", true),
    (", use ", false),
    ("; use ", false),
    (", always ", false),
    (", immer ", false),
    (" but ", false),
    (" sondern ", false),
    ("ではなくて", false),
    ("ではなく", false),
];

impl Stance {
    fn new(text: &str) -> Self {
        let lower = text.to_lowercase().replace('’', "'").replace("do not ", "don't ");
        let lower = claim(&lower);
        let mut stance = Self::default();
        let Some((at, joint, rejects)) = JOINTS
            .iter()
            .filter_map(|(joint, rejects)| Some((lower.find(joint)?, *joint, *rejects)))
            .min_by_key(|(at, joint, _)| (*at, usize::MAX - joint.len()))
            // "Tests must not hit the network" is one part.
            .filter(|(at, joint, _)| *joint != " not " || !ends_with_modal(&lower[..*at]))
        else {
            stance.add(lower, is_negated(lower));
            return stance;
        };
        let (first, second) = (&lower[..at], &lower[at + joint.len()..]);
        stance.add(first, is_negated(first) || joint.starts_with("ではなく"));
        stance.add(second, rejects || is_negated(second));
        stance
    }

    fn add(&mut self, part: &str, rejects: bool) {
        let object = object(part);
        if !object.is_empty() {
            if rejects { &mut self.rejects } else { &mut self.favours }.insert(object);
        }
    }

    fn has_content(&self) -> bool {
        !self.favours.is_empty() || !self.rejects.is_empty()
    }
}

/// The sentence without its reason.
fn claim(lower: &str) -> &str {
    let end = each(REASONS).filter_map(|joint| lower.find(joint)).filter(|at| *at > 0).min();
    end.map_or(lower, |end| &lower[..end]).trim_end_matches(['.', '!', '。', '！', ' '])
}

fn ends_with_modal(text: &str) -> bool {
    each("must|should|may|can|do|does|shall|will|are|is|need|dürfen|sollen")
        .any(|modal| text.ends_with(modal))
}

/// True if the sentence, or the part of it, says what not to do.
pub fn is_negated(text: &str) -> bool {
    let text = &text.to_lowercase();
    text.split_whitespace().map(|word| word.trim_matches([',', ';', '.', ':'])).any(|word| {
        word.ends_with("n't") || word.ends_with("n’t") || each(NEGATIONS).any(|known| known == word)
    }) || each("不要|别用|禁止|不能|不得|ないで|ないこと|いけない|いけません|禁止")
        .any(|word| text.contains(word))
}

/// True for a word in small letters that carries no content.
pub fn is_filler(word: &str) -> bool {
    each(FILLERS).chain(each(NEGATIONS)).chain(each(USING)).any(|known| known == word)
}

/// Forms of "use", "always" and "don't" in scripts without blanks.
const JOINED_FILLERS: &str = "不要使用|不要用|别用|总是使用|始终使用|请使用|使用|应该用|改用|を使ってください|を使わないでください|を使って|を使わないで|ください|\
    常に|必ず|絶対に|永远|总是|始终|一律|必须|不要|用";

/// The content words of a part.
fn object(part: &str) -> Words {
    let text = each(JOINED_FILLERS).fold(part.to_owned(), |text, word| text.replace(word, " "));
    words(&text).into_iter().filter(|word| !is_filler(word)).map(|word| stem(&word)).collect()
}

/// Unites the forms of an English word: "committing", "commits". Names with digits or marks stay.
fn stem(word: &str) -> String {
    let word = SYNONYMS.iter().find(|(form, _)| *form == word).map_or(word, |(_, word)| word);
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let cut = ["ing", "ed"].iter().find_map(|end| word.strip_suffix(end)).filter(|stem| stem.len() >= 3);
    let stem = cut.or_else(|| word.strip_suffix('s').filter(|stem| !stem.ends_with('s'))).unwrap_or(word);
    let bytes = stem.as_bytes();
    let is_doubled = cut.is_some() && bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    let stem = if is_doubled { &stem[..stem.len() - 1] } else { stem };
    stem.strip_suffix('e').unwrap_or(stem).to_owned()
}

/// The words of a text; of a script without blanks, the pairs of characters.
fn words(text: &str) -> Vec<String> {
    const MARKS: &str = "'_-./:@+#";
    let mut found = Vec::new();
    for chunk in text.split(|char: char| !(char.is_alphanumeric() || MARKS.contains(char))) {
        let mut rest = chunk;
        while let Some(first) = rest.chars().next() {
            let joined = is_joined_script(first);
            let end = rest.find(|char| is_joined_script(char) != joined).unwrap_or(rest.len());
            let run: Vec<char> = rest[..end].chars().collect();
            if joined && run.len() > 1 {
                found.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
            } else {
                found.push(rest[..end].trim_matches(|char| MARKS.contains(char)).to_owned());
            }
            rest = &rest[end..];
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

fn is_joined_script(char: char) -> bool {
    matches!(char, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}
