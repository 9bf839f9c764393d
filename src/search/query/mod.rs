//! A question: a text of any kind becomes clues, each with the expression that the index understands. Nothing that
//! is typed can be a syntax error: every word is quoted.

pub mod parameters;
pub mod spelling;

use super::language::glossary::in_english;
use super::language::stop_words::is_stop_word;
use super::language::words::{fold, humps, key, pairs, words};

/// One thing to look for.
#[derive(Debug, Clone, PartialEq)]
pub struct Clue {
    /// The index's expression for it.
    pub expression: String,
    /// The same for a text in memory.
    pub shape: Shape,
    /// Its weight among the others.
    pub weight: f64,
    /// The word as it was asked, folded: for spelling. Empty where there is nothing to correct.
    pub asked: String,
}

impl Clue {
    fn new(expression: String, shape: Shape) -> Self {
        Self { expression, shape, weight: 1.0, asked: String::new() }
    }
}

/// The form of a clue in a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Any of these stems.
    Any(Vec<String>),
    /// These stems, one after the other.
    Phrase(Vec<String>),
    /// A character of an unspaced script, wherever it stands.
    Character(String),
}

/// A query, understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The clues in the order asked; any of them will do.
    pub clues: Vec<Clue>,
    /// Quoted phrases: each must be there.
    pub required: Vec<Clue>,
    /// Words and identifiers that were asked, each counted once.
    pub words: usize,
}

/// More clues than this cost more than they find.
const MOST_CLUES: usize = 40;
/// Of a longer text the beginning is enough.
const MOST_BYTES: usize = 8192;

/// Weight of the English word for a word of another language.
const TRANSLATED: f64 = 0.7;
/// Weight of a pair of characters of an unspaced script.
const PAIR: f64 = 0.7;

impl Query {
    /// Understands a text, whatever it is.
    pub fn parse(text: &str) -> Self {
        let text = super::words_cut(text, MOST_BYTES);
        let mut query = Self::default();
        let (phrases, rest) = split_quotes(text);
        for phrase in phrases {
            if let Some(clue) = phrase_clue(phrase) {
                query.required.push(clue.clone());
                query.add(clue);
            }
        }
        for stop_words in [false, true] {
            for piece in rest.iter().flat_map(|part| part.split_whitespace()) {
                let before = query.clues.len();
                query.add_piece(piece, stop_words);
                query.words += usize::from(query.clues.len() > before);
            }
            // "how to do it" has no other words: then these must do.
            if !query.clues.is_empty() {
                break;
            }
        }
        for word in in_english(text) {
            query.add(Clue { asked: String::new(), ..word_clue(word, TRANSLATED) });
        }
        query
    }

    /// Takes one piece between blanks: a word, an identifier, a path, a run of characters.
    fn add_piece(&mut self, piece: &str, with_stop_words: bool) {
        let piece = without_possessive(piece);
        let found: Vec<_> = words(piece).collect();
        let spaced = found.iter().filter(|word| !word.unspaced).count();
        for word in &found {
            if word.unspaced {
                pairs(word.text).for_each(|(_, pair)| self.add(pair_clue(pair)));
                continue;
            }
            let split = humps(word.text);
            if !split.is_empty() {
                self.add_humps(word.text, &split);
            } else if with_stop_words || !is_stop_word(&fold(word.text)) {
                self.add(word_clue(word.text, 1.0));
            }
        }
        // `refresh_token` or a path as a whole.
        if spaced > 1 && spaced == found.len() {
            phrase_clue(piece).into_iter().for_each(|clue| self.add(clue));
        }
    }

    fn add_humps(&mut self, word: &str, split: &[(usize, &str)]) {
        let joined: Vec<&str> = split.iter().map(|(_, part)| *part).collect();
        // Slips are looked for in its parts.
        let whole = Clue { asked: String::new(), ..word_clue(word, 1.0) };
        let expression = format!("({} OR {})", whole.expression, quoted(&joined.join(" ")));
        self.add(Clue { expression, ..whole });
        for part in joined.iter().filter(|part| part.len() > 1) {
            self.add(word_clue(part, 1.0));
        }
    }

    fn add(&mut self, clue: Clue) {
        let is_known = self.clues.iter().any(|known| known.shape == clue.shape);
        if !is_known && self.clues.len() < MOST_CLUES {
            self.clues.push(clue);
        }
    }
}

/// `Ada's` without its ending, which would make it a phrase that few rows have.
fn without_possessive(piece: &str) -> &str {
    let is_ending = |end: &str| end.chars().filter(|c| c.is_alphabetic()).count() == 1;
    piece.split_once(['\'', '’']).filter(|(_, end)| is_ending(end)).map_or(piece, |(word, _)| word)
}

/// Splits a text into quoted parts and the rest. An unclosed quote is no quote.
fn split_quotes(text: &str) -> (Vec<&str>, Vec<&str>) {
    let pieces: Vec<&str> = text.split('"').collect();
    let is_phrase = |at: usize| at % 2 == 1 && at + 1 < pieces.len();
    let (phrases, rest): (Vec<_>, Vec<_>) = (0..pieces.len()).partition(|at| is_phrase(*at));
    let texts = |list: Vec<usize>| list.into_iter().map(|at| pieces[at]).collect();
    (texts(phrases), texts(rest))
}

/// A string for the index: quoted, so that nothing in it is an operator.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c == '"' || c == '\0' { ' ' } else { c }).collect();
    format!("\"{clean}\"")
}

fn word_clue(word: &str, weight: f64) -> Clue {
    let shape = Shape::Any(vec![key(word)]);
    Clue { weight, asked: fold(word), ..Clue::new(quoted(word), shape) }
}

fn pair_clue(pair: &str) -> Clue {
    match pair.chars().count() {
        1 => Clue::new(format!("{} *", quoted(pair)), Shape::Character(pair.to_owned())),
        _ => Clue { weight: PAIR, ..Clue::new(quoted(pair), Shape::Any(vec![pair.to_owned()])) },
    }
}

fn phrase_clue(text: &str) -> Option<Clue> {
    let stems = parts(text).map(|(part, is_pair)| if is_pair { part.to_owned() } else { key(part) });
    Some(Clue::new(phrase(text)?, Shape::Phrase(stems.collect())))
}

/// The index's expression for the words of a text, one after the other; nothing if it has none.
pub fn phrase(text: &str) -> Option<String> {
    let parts: Vec<&str> = parts(text).map(|(part, _)| part).collect();
    (!parts.is_empty()).then(|| quoted(&parts.join(" ")))
}

/// The words of a text, unspaced scripts as their pairs, as the index has them one after the other. True for a pair.
fn parts(text: &str) -> impl Iterator<Item = (&str, bool)> {
    words(text).flat_map(|word| match word.unspaced {
        true => pairs(word.text).map(|(_, pair)| (pair, true)).collect(),
        false => vec![(word.text, false)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(text: &str) -> Vec<String> {
        Query::parse(text).clues.into_iter().map(|clue| clue.expression).collect()
    }

    #[test]
    fn stop_words_go_unless_there_is_nothing_else() {
        assert_eq!(expressions("why did we use the token cache"), ["\"token\"", "\"cache\""]);
        assert_eq!(expressions("how to"), ["\"how\"", "\"to\""]);
    }

    #[test]
    fn operators_are_words_and_quotes_never_break_out() {
        for text in [
            "a AND OR NEAR(",
            "head:x*",
            "\"unbalanced",
            "\" \" \"",
            "a\0b",
            "^-(){}",
            "col : \"a\" OR \"",
            "''",
        ] {
            for clue in Query::parse(text).clues {
                let quotes = clue.expression.matches('"').count();
                assert!(quotes % 2 == 0 && !clue.expression.contains('\0'), "{text} → {}", clue.expression);
            }
        }
    }

    #[test]
    fn identifiers_are_sought_whole_and_by_their_parts() {
        assert_eq!(
            expressions("refreshToken"),
            ["(\"refreshToken\" OR \"refresh Token\")", "\"refresh\"", "\"Token\""]
        );
        assert_eq!(expressions("refresh_token"), ["\"refresh\"", "\"token\"", "\"refresh token\""]);
        assert!(expressions("src/auth/token.rs").contains(&"\"src auth token rs\"".to_owned()));
    }

    #[test]
    fn unspaced_scripts_are_sought_by_pairs_and_single_characters_anywhere() {
        assert_eq!(expressions("连接池"), ["\"连接\"", "\"接池\"", "\"pool\""]);
        assert_eq!(expressions("鯨"), ["\"鯨\" *"]);
    }

    #[test]
    fn a_quoted_phrase_is_required() {
        let query = Query::parse("find \"connection pool\" timeout");
        assert_eq!(query.required.len(), 1);
        assert_eq!(query.required[0].expression, "\"connection pool\"");
        assert!(Query::parse("an \"open quote").required.is_empty());
    }
}
