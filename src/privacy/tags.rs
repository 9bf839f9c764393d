//! Removes `<private>…</private>` passages, which never reach the disk.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

/// Removes private passages from a text that may come in several pieces: a passage that opens in one piece goes on in
/// the next until it is closed, or to the end of everything.
#[derive(Debug, Default)]
pub struct PrivateTags {
    depth: u32,
}

/// A tag found in a text.
struct Tag {
    start: usize,
    end: usize,
    kind: TagKind,
}

#[derive(PartialEq)]
enum TagKind {
    Open,
    Close,
    SelfClosing,
}

impl PrivateTags {
    /// True if the last piece ended inside a private passage.
    pub fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// Returns the piece without its private passages.
    pub fn strip<'t>(&mut self, piece: &'t str) -> Cow<'t, str> {
        let Some(first) = next_tag(piece, 0) else {
            return if self.is_open() { Cow::Borrowed("") } else { Cow::Borrowed(piece) };
        };
        let mut kept = String::with_capacity(piece.len());
        let mut position = 0;
        let mut tag = Some(first);
        while let Some(found) = tag {
            if !self.is_open() {
                kept.push_str(&piece[position..found.start]);
            }
            match found.kind {
                TagKind::Open => self.depth += 1,
                TagKind::Close => self.depth = self.depth.saturating_sub(1),
                TagKind::SelfClosing => {}
            }
            position = found.end;
            tag = next_tag(piece, position);
        }
        if !self.is_open() {
            kept.push_str(&piece[position..]);
        }
        Cow::Owned(kept)
    }
}

/// Returns true if the text may hold a tag, escaped or not: a cheap test before the exact one.
pub fn may_hold_tag(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr_iter(b'<', bytes).any(|at| {
        let near = &bytes[at..bytes.len().min(at + 40)];
        near.windows(NAME.len()).any(|window| window.eq_ignore_ascii_case(NAME))
    })
}

fn next_tag(text: &str, from: usize) -> Option<Tag> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let start = at + memchr(b'<', &bytes[at..])?;
        if let Some(tag) = tag_at(bytes, start) {
            return Some(tag);
        }
        at = start + 1;
    }
}

/// The tag at `start`, which holds `<`. Blanks, capitals and attributes are allowed; a tag that the text's end cuts off
/// counts as whole, because the text behind it is private as well.
fn tag_at(bytes: &[u8], start: usize) -> Option<Tag> {
    let mut at = skip_blanks(bytes, start + 1);
    let closes = bytes.get(at) == Some(&b'/');
    if closes {
        at = skip_blanks(bytes, at + 1);
    }
    let name_end = at + NAME.len();
    if !bytes.get(at..name_end)?.eq_ignore_ascii_case(NAME) {
        return None;
    }
    match bytes.get(name_end) {
        None | Some(b'>' | b'/') => {}
        Some(byte) if byte.is_ascii_whitespace() => {}
        Some(_) => return None,
    }
    let end = memchr(b'>', &bytes[name_end..]).map_or(bytes.len(), |offset| name_end + offset + 1);
    let self_closing = bytes.get(end.wrapping_sub(2)) == Some(&b'/') && bytes.get(end - 1) == Some(&b'>');
    let kind = match (closes, self_closing) {
        (true, _) => TagKind::Close,
        (false, true) => TagKind::SelfClosing,
        (false, false) => TagKind::Open,
    };
    Some(Tag { start, end, kind })
}

const NAME: &[u8] = b"private";

fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(pieces: &[&str]) -> Vec<String> {
        let mut tags = PrivateTags::default();
        pieces.iter().map(|piece| tags.strip(piece).into_owned()).collect()
    }

    #[test]
    fn what_is_marked_goes_and_the_rest_stays() {
        assert_eq!(strip(&["a <private>x</private> b"]), ["a  b"]);
        assert_eq!(strip(&["no tags < here > at all"]), ["no tags < here > at all"]);
        assert_eq!(strip(&["<privateKey>kept</privateKey>"]), ["<privateKey>kept</privateKey>"]);
    }

    #[test]
    fn capitals_blanks_and_attributes_do_not_hide_a_tag() {
        assert_eq!(strip(&["a<PRIVATE>x</Private >b"]), ["ab"]);
        assert_eq!(strip(&["a< private why='x'>y</ private>b"]), ["ab"]);
        assert_eq!(strip(&["a<private/>b"]), ["ab"]);
    }

    #[test]
    fn an_unclosed_tag_reaches_to_the_end() {
        assert_eq!(strip(&["a<private>x"]), ["a"]);
        assert_eq!(strip(&["a<private"]), ["a"]);
        assert_eq!(strip(&["a<private>x", "y", "z"]), ["a", "", ""]);
    }

    #[test]
    fn nested_tags_close_from_the_inside() {
        assert_eq!(strip(&["a<private>x<private>y</private>z</private>b"]), ["ab"]);
    }

    #[test]
    fn a_passage_may_span_pieces() {
        assert_eq!(strip(&["a<private>x", "y", "z</private>b", "c"]), ["a", "", "b", "c"]);
    }

    #[test]
    fn a_stray_closing_tag_hides_nothing() {
        assert_eq!(strip(&["a</private>b"]), ["ab"]);
    }

    proptest::proptest! {
        #[test]
        fn nothing_between_tags_survives(before in "[^<>]{0,20}", secret in "[^<>]{1,20}", after in "[^<>]{0,20}") {
            let text = format!("{before}<private>{secret}</private>{after}");
            assert_eq!(strip(&[&text]), [format!("{before}{after}")]);
        }

        #[test]
        fn any_text_is_survived(text in ".*") {
            strip(&[&text, &text]);
        }
    }
}
