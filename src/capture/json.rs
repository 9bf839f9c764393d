//! JSON as text: walks over the tokens of a value that is known to be valid, without building anything.

use memchr::memchr2;

/// A token of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A string with its quotes; `is_key` if a colon follows.
    String {
        /// The text, quotes and escapes included.
        raw: &'a str,
        /// True if it names a member.
        is_key: bool,
    },
    /// A number, true, false or null.
    Scalar(&'a str),
    /// `{` or `[`.
    Open,
    /// `}` or `]`.
    Close,
}

/// The tokens of a valid JSON text with their offsets. Commas, colons and blanks are passed over.
pub fn tokens(json: &str) -> Tokens<'_> {
    Tokens { json, at: 0 }
}

/// Iterator of [`tokens`].
pub struct Tokens<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, Token<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.json.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        let start = self.at;
        let token = match bytes[start] {
            b'{' | b'[' => {
                self.at += 1;
                Token::Open
            }
            b'}' | b']' => {
                self.at += 1;
                Token::Close
            }
            b'"' => {
                self.at = string_end(bytes, start);
                let follows = bytes[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
                Token::String { raw: &self.json[start..self.at], is_key: follows == Some(&b':') }
            }
            _ => {
                while bytes.get(self.at).is_some_and(|byte| !b" \t\n\r,:]}".contains(byte)) {
                    self.at += 1;
                }
                Token::Scalar(&self.json[start..self.at])
            }
        };
        Some((start, token))
    }
}

/// The end of the string that starts at `start`, after its closing quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(offset) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += offset;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// The last place at or before `limit` in an escaped string's content where it may be cut: not inside a character, an
/// escape, or a pair of surrogates.
pub fn cut_before(content: &str, limit: usize) -> usize {
    unit_ends(content).take_while(|end| *end <= limit).last().unwrap_or(0)
}

/// The first place at or after `limit` where it may be cut.
pub fn cut_after(content: &str, limit: usize) -> usize {
    unit_ends(content).find(|end| *end >= limit).unwrap_or(content.len())
}

/// The ends of the units of an escaped text: each is a character or a whole escape, and a surrogate pair is one.
fn unit_ends(content: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = content.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *bytes.get(at)?;
        at += match first {
            b'\\' if bytes.get(at + 1) == Some(&b'u') => {
                let high = bytes.get(at + 2).is_some_and(|digit| digit.eq_ignore_ascii_case(&b'd'));
                let pair = high && bytes.get(at + 6) == Some(&b'\\') && bytes.get(at + 7) == Some(&b'u');
                if pair { 12 } else { 6 }
            }
            b'\\' => 2,
            0x00..=0x7f => 1,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        };
        at = at.min(bytes.len());
        Some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_with_their_places() {
        let json = r#"{"a\"b": [1, "x", null], "c":"d\\"}"#;
        let found: Vec<_> = tokens(json).collect();
        assert_eq!(found[1], (1, Token::String { raw: r#""a\"b""#, is_key: true }));
        assert_eq!(found[3], (10, Token::Scalar("1")));
        assert_eq!(found[4], (13, Token::String { raw: r#""x""#, is_key: false }));
        assert_eq!(found[8], (29, Token::String { raw: r#""d\\""#, is_key: false }));
        assert_eq!(found.iter().filter(|(_, token)| *token == Token::Close).count(), 2);
    }

    #[test]
    fn a_cut_never_falls_into_a_character_or_an_escape() {
        let content = r"aé\n\ud83d\ude00b";
        let ends: Vec<_> = unit_ends(content).collect();
        assert_eq!(ends, [1, 3, 5, 17, 18]);
        assert_eq!((cut_before(content, 10), cut_after(content, 10)), (5, 17));
        assert_eq!((cut_before(content, 2), cut_after(content, 2)), (1, 3));
    }
}
