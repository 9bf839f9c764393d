use proptest::prelude::*;
use regex::Regex;

use super::rule::is_replacement;
use super::*;

#[derive(Deserialize)]
struct Examples {
    name: String,
    replacement: String,
    redacts: Vec<String>,
    keeps: Vec<String>,
}

fn examples() -> Vec<Examples> {
    #[derive(Deserialize)]
    struct File {
        rule: Vec<Examples>,
    }
    let file: File = toml::from_str(include_str!("../../../config/redact.toml")).unwrap();
    file.rule
}

fn redact(text: &str) -> String {
    Redactor::new().redact(text).into_string()
}

/// Writes secrets where the example has `{a20}`, each time others.
fn invent(example: &str) -> String {
    let mut state = example
        .bytes()
        .fold(0x2545_f491_4f6c_dd1d_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut draw = |from: &[u8]| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(from[(state >> 33) as usize % from.len()])
    };
    let placeholder = Regex::new(r"\{([ahudb])([0-9]+)\}").unwrap();
    let fill = |found: &regex::Captures<'_>| {
        let alphabet: &[u8] = match &found[1] {
            "h" => b"0123456789abcdef",
            "u" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            "d" => b"0123456789",
            _ => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        };
        let length: usize = found[2].parse().unwrap();
        let mut text: String = (0..length).map(|_| draw(alphabet)).collect();
        // What is random has digits, lest a test depend on luck; base64 has its two signs.
        let telling = if &found[1] == "b" { "7k+Z/9" } else { "7" };
        if length > 8 {
            text.replace_range(3..3 + telling.len(), telling);
        }
        text
    };
    placeholder.replace_all(example, fill).into_owned()
}

/// The example before and after.
fn before_and_after(example: &str, replacement: &str) -> (String, String) {
    let example = invent(example);
    let secret = Regex::new("(?s)‹.*?›").unwrap();
    (example.replace(['‹', '›'], ""), secret.replace_all(&example, replacement).into_owned())
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// As it is, as a JSON string, as JSON within JSON.
fn in_every_wrapping(before: &str, after: &str) -> [(String, String); 3] {
    let payload = |text: &str| json(&format!("{{\"stdout\":{}}}", json(text)));
    [(before.to_owned(), after.to_owned()), (json(before), json(after)), (payload(before), payload(after))]
}

#[test]
fn every_rule_redacts_its_examples_and_nothing_else_of_them() {
    let mut wrong = Vec::new();
    for rule in examples() {
        assert!(
            rule.replacement.starts_with(MARK) && is_replacement(&rule.replacement),
            "{}",
            rule.replacement
        );
        assert!(!rule.redacts.is_empty() && !rule.keeps.is_empty(), "{} has no examples", rule.name);
        for example in &rule.redacts {
            let (before, after) = before_and_after(example, &rule.replacement);
            for (before, after) in in_every_wrapping(&before, &after) {
                let redacted = redact(&before);
                if redacted != after {
                    wrong.push(format!("{}\n  from {before}\n  want {after}\n  have {redacted}", rule.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_rule_touches_what_any_rule_keeps() {
    let mut wrong = Vec::new();
    for rule in examples() {
        for example in &rule.keeps {
            let example = invent(example);
            for (before, after) in in_every_wrapping(&example, &example) {
                let redacted = redact(&before);
                if redacted != after {
                    wrong.push(format!("{}\n  keep {before}\n  have {redacted}", rule.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Pieces of which texts are made that look like secrets, like code, and like both.
fn text_with_secrets() -> impl Strategy<Value = String> {
    let pieces: Vec<String> = examples()
        .iter()
        .flat_map(|rule| {
            rule.redacts
                .iter()
                .chain(&rule.keeps)
                .cloned()
                .chain([rule.replacement.clone()])
                .collect::<Vec<_>>()
        })
        .map(|example| invent(&example).replace(['‹', '›'], ""))
        .collect();
    let words = [
        "\"", "\\\"", "'", "\n", "\\n", " ", "=", ": ", "[", "]", "{", ",", "@", "password", "TOKEN=", "ö",
        "\\",
    ];
    let piece = prop_oneof![
        4 => proptest::sample::select(pieces.clone()),
        // Cut anywhere, as a payload is.
        2 => (proptest::sample::select(pieces), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(piece, at, head)| {
            let at = piece.floor_char_boundary(at.index(piece.len() + 1));
            if head { piece[..at].to_owned() } else { piece[at..].to_owned() }
        }),
        4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn redacting_twice_is_redacting_once(text in text_with_secrets()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,400}|(?s).{0,400}") {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }
}
