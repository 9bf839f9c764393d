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

/// Writes secrets where the example has `{a20}`, always with a digit.
fn invent(example: &str) -> String {
    invent_with(example, 0, true)
}

/// Writes secrets where the example has `{a20}`, others for each seed.
fn invent_with(example: &str, seed: u64, has_digits: bool) -> String {
    let mut state = example
        .bytes()
        .fold(0x2545_f491_4f6c_dd1d_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        .wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
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
        if length > 8 && has_digits {
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

/// Values drawn at random that each rule is tried with.
const DRAWN: usize = 1_000;

#[test]
fn of_a_thousand_random_values_per_rule_none_slips_through() {
    let secret = Regex::new("(?s)‹(.*?)›").unwrap();
    let mut slipped = Vec::new();
    for rule in examples() {
        for seed in 0..DRAWN {
            let example = invent_with(&rule.redacts[seed % rule.redacts.len()], seed as u64 + 1, false);
            let redacted = redact(&example.replace(['‹', '›'], ""));
            let is_left = |found: regex::Captures<'_>| found[1].len() > 6 && redacted.contains(&found[1]);
            if secret.captures_iter(&example).any(is_left) {
                slipped.push(format!("{}: {example} → {redacted}", rule.name));
            }
        }
    }
    assert!(slipped.is_empty(), "{} slipped:\n{}", slipped.len(), slipped.join("\n"));
}

#[test]
fn values_of_letters_only_are_secrets_behind_names_that_say_so() {
    let names =
        ["VERCEL_TOKEN=", "export MY_SECRET=", "DB_PASSWORD=", "token = \"", "\"secret\": \"", "password: "];
    let alphabets: [&[u8]; 2] =
        [b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"];
    let mut state = 7_u64;
    let mut slipped = Vec::new();
    for seed in 0..3_000 {
        let alphabet = alphabets[seed % 2];
        let value: String = (0..24)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(alphabet[(state >> 33) as usize % alphabet.len()])
            })
            .collect();
        let name = names[seed % names.len()];
        let text =
            format!("run this:\n{name}{value}{}\nthen go on", if name.ends_with('"') { "\"" } else { "" });
        if redact(&text).contains(&value) {
            slipped.push(text);
        }
    }
    assert!(slipped.is_empty(), "{} slipped:\n{}", slipped.len(), slipped.join("\n"));
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

#[test]
fn an_escape_in_front_of_a_secret_stays_whole() {
    let key = invent("{b40}\n{b64}\n-----END RSA PRIVATE KEY-----");
    for before in ["\u{0}", "\u{1b}", "\n", "\t", "\u{8}", "\u{1f}\u{0}"] {
        let text = json(&format!("{before}{key}"));
        assert_eq!(redact(&text), json(&format!("{before}[redacted:private-key]")));
    }
    let text = json(&invent("\u{0}{d8}:AA{a33}"));
    assert_eq!(serde_json::from_str::<String>(&redact(&text)).unwrap(), "\u{0}[redacted:token]");
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
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn redacting_twice_is_redacting_once(text in text_with_secrets()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }

    #[test]
    fn a_json_document_stays_one(
        texts in proptest::collection::vec(text_with_secrets(), 1..4),
        number in any::<i64>(),
        pretty in any::<bool>(),
    ) {
        let inner = serde_json::json!({ "password": number, "token": texts, "ok": true, "secret": null });
        let document = serde_json::json!([inner, number, inner.to_string(), number, { "API_KEY": texts[0], "n": number }]);
        let text = if pretty { serde_json::to_string_pretty(&document).unwrap() } else { document.to_string() };
        let redacted = redact(&text);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{}\n{}", text, redacted);
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,400}|(?s).{0,400}") {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }
}
