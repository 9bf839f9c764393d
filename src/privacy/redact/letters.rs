//! Distinguishes random letters from words.

/// The pairs of letters that words are mostly made of: behind each letter of the alphabet those that often follow it. Counted
/// over the words of code and documentation; they cover 88 % of their pairs, and 27 % of all there are.
#[rustfmt::skip]
const FOLLOWERS: [&str; 26] = [
    "bcdgilmnprsty", "aeilou", "acehiklortu", "aeios", "acdefglmnprstvx", "aefio", "ehir", "aeio", "abcdefglmnoprstvz", "",
    "ei", "adeilosuy", "aeiop", "acdegiost", "cdlmnoprstuvw", "aeiloprst", "u", "adeimnorstuy", "acehiopstu",
    "aehilorstuy", "abceilmnprst", "aei", "aei", "", "", "e",
];

/// Words have more of the common pairs than this share, random letters fewer.
const COMMON_SHARE: f64 = 0.62;

/// Fewer letters than this can be anything.
const LEAST: usize = 12;

/// Returns true for letters that look random: few pairs that words have, or capitals all over.
pub(super) fn are_random(value: &str) -> bool {
    let letters: Vec<u8> = value.bytes().filter(u8::is_ascii_alphabetic).collect();
    if letters.len() < LEAST {
        return false;
    }
    let capitals = letters.iter().filter(|letter| letter.is_ascii_uppercase()).count() as f64;
    let share = capitals / letters.len() as f64;
    (0.34..0.8).contains(&share) || common_share(&letters) <= COMMON_SHARE
}

/// Returns true for letters in the case of a word, mostly in pairs that words have. Up to three letters always form one.
pub(super) fn form_word(letters: &str) -> bool {
    let tail = letters.get(1..).unwrap_or_default();
    let has_case_of_word = !tail.bytes().any(|letter| letter.is_ascii_uppercase())
        || !letters.bytes().any(|letter| letter.is_ascii_lowercase());
    has_case_of_word && (letters.len() <= 3 || common_share(letters.as_bytes()) > COMMON_SHARE)
}

/// The share of pairs that words are mostly made of.
fn common_share(letters: &[u8]) -> f64 {
    let common = letters.windows(2).filter(|pair| is_common(pair[0], pair[1])).count() as f64;
    common / (letters.len() - 1) as f64
}

fn is_common(first: u8, second: u8) -> bool {
    let row = usize::from(first.to_ascii_lowercase() - b'a');
    FOLLOWERS[row].as_bytes().contains(&second.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::are_random;

    #[test]
    fn names_are_words_and_keys_are_not() {
        for name in [
            "identifier",
            "createdAtDescending",
            "parse_token_from_header",
            "ClientAuthDetails",
            "authentication",
            "RequireAuthenticatedUser",
            "mySecretIdentifier",
            "PRIMARY_KEY_COLUMN",
            "correcthorsebattery",
        ] {
            assert!(!are_random(name), "{name}");
        }
        for key in ["qWhPzXvTnKdJsRmB", "xkqjzvwpfghtrnbd", "AbCdEfGhIjKlMnOp", "QZXVKWJHPFGTBNRD"] {
            assert!(are_random(key), "{key}");
        }
    }
}
