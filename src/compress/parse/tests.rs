use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::model::ObservationType;

/// The seeds of the fuzzer are also answers whose correct reading is known.
#[test]
fn known_answers_are_read_as_intended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/parse");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 30);
    let mut read = String::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let answer = if name.contains("summary") { shown_summary(&text) } else { shown_observations(&text) };
        writeln!(read, "== {name}\n{answer}").unwrap();
    }
    insta::assert_snapshot!(read);
}

fn shown_observations(text: &str) -> String {
    match observations(text) {
        Ok(drafts) if drafts.is_empty() => "nothing worth keeping".into(),
        Ok(drafts) => drafts.iter().map(shown).collect::<Vec<_>>().join("\n  and\n"),
        Err(unusable) => format!("unusable: {unusable}"),
    }
}

fn shown_summary(text: &str) -> String {
    match summary(text) {
        Ok(SummaryAnswer::Summary(draft)) => shown(&draft),
        Ok(SummaryAnswer::Skip { reason }) => format!("skipped: {reason:?}"),
        Err(unusable) => format!("unusable: {unusable}"),
    }
}

/// The fields that are set, one per line.
fn shown(draft: &impl serde::Serialize) -> String {
    let Value::Object(fields) = serde_json::to_value(draft).unwrap() else {
        unreachable!("drafts are objects")
    };
    let is_there = |value: &Value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
    let lines =
        fields.iter().filter(|(_, value)| is_there(value)).map(|(key, value)| format!("  {key}: {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn nesting_of_any_depth_is_survived() {
    for bracket in [
        "[",
        "{\"observations\":",
        "{\"a\":[",
        "<observation>",
        "<observation><facts>",
        "<summary>",
        "[{\"title\":",
    ] {
        let deep = bracket.repeat(100_000);
        assert!(observations(&deep).is_err(), "{bracket}");
        assert!(summary(&deep).is_err(), "{bracket}");
    }
    let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let wrapped = format!("{{\"observations\":[{{\"title\":\"Kept\",\"detail\":{closed}}}]}}");
    assert_eq!(observations(&wrapped).unwrap()[0].title.as_deref(), Some("Kept"));
    let objects = format!("{}1{}", "{\"deep\":".repeat(1_000), "}".repeat(1_000));
    let wrapped = format!("[{{\"detail\":{objects},\"title\":\"Kept\"}},{{\"title\":\"Too\"}}]");
    assert_eq!(observations(&wrapped).unwrap().len(), 2);
}

#[test]
fn an_answer_of_ten_megabytes_stays_small() {
    let long = "word ".repeat(2 << 20);
    let answer = serde_json::json!({"observations": [
        {"title": &long[..900], "summary": &long[..90_000], "facts": vec!["fact"; 9_000], "files_read": (0..9_000).collect::<Vec<_>>()},
        {"a": "Second", "detail": long},
    ]});
    let drafts = observations(&answer.to_string()).unwrap();
    assert_eq!(drafts.len(), 2);
    assert_eq!(drafts[0].title.as_ref().unwrap().chars().count(), fields::TITLE);
    assert!(drafts[0].title.as_ref().unwrap().ends_with('…'));
    assert_eq!(drafts[0].facts, ["fact"]);
    assert!(drafts.iter().map(|draft| serde_json::to_string(draft).unwrap().len()).sum::<usize>() < 100_000);
    let many = format!("[{}]", vec![r#"{"title":"again"}"#; 500_000].join(","));
    assert_eq!(observations(&many).unwrap().len(), MOST_OBSERVATIONS);
}

#[test]
fn an_unusable_answer_is_described_in_the_error() {
    let reason = |text: &str| observations(text).unwrap_err().to_string();
    assert_eq!(reason(" \n"), "the answer is empty");
    assert_eq!(
        reason("<html><body>502</body></html>"),
        "a web page instead of an answer: <html><body>502</body></html>"
    );
    for text in [
        "{}",
        "[{}]",
        "[1, 2]",
        "{\"observations\":[{\"type\":\"bugfix\"}]}",
        "null",
        "42",
        "I can't find nothing worth it",
    ] {
        assert!(observations(text).is_err(), "{text}");
        assert!(summary(text).is_err(), "{text}");
    }
}

#[test]
fn an_empty_list_is_an_answer_only_if_it_was_not_cut() {
    for text in [
        "[]",
        "```json\n{\"observations\": []}\n```",
        "{\"observations\":null}",
        "<skip/>",
        "none",
        "{\"skip\":true}",
    ] {
        assert_eq!(observations(text), Ok(Vec::new()), "{text}");
    }
    for text in ["[", "{\"observations\":", "{\"observations\":[", "{\"observations\":[{"] {
        assert!(observations(text).is_err(), "{text}");
    }
}

#[test]
fn an_unknown_type_is_a_change_and_no_concept_is_a_type() {
    let drafts = observations(
        r#"[{"title":"a","type":"Sparkle","concepts":["Feature","queue","DISCOVERY","queue"]}]"#,
    )
    .unwrap();
    assert_eq!(
        (drafts[0].kind, drafts[0].concepts.as_slice()),
        (ObservationType::Change, ["queue".to_owned()].as_slice())
    );
}

#[test]
fn lone_surrogates_and_control_characters_do_not_get_through() {
    let drafts =
        observations(r#"[{"title":"a\ud800b\u0000c\ud83d\ude00","summary":"x\u001b[31my"}]"#).unwrap();
    assert_eq!(drafts[0].title.as_deref(), Some("a\u{fffd}bc😀"));
    assert_eq!(drafts[0].summary.as_deref(), Some("x[31my"));
}

/// Text as a model writes it, already in its cleaned form.
fn phrase() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9 \"'<>&{}\\[\\],:\\\\/äß漢😀.-]{0,30}[a-z0-9]"
        .prop_map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .prop_filter("these mean nothing", |text| {
            !matches!(text.to_lowercase().as_str(), "null" | "none" | "undefined" | "n/a")
        })
}

fn phrases() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set(phrase(), 0..4).prop_map(|set| set.into_iter().collect())
}

prop_compose! {
    fn a_draft()(
        kind in proptest::sample::select(ObservationType::ALL.to_vec()),
        title in phrase(),
        summary in proptest::option::of(phrase()),
        detail in proptest::option::of(phrase()),
        (facts, files_read, files_modified, functions_changed) in (phrases(), phrases(), phrases(), phrases()),
        concepts in phrases(),
    ) -> ObservationDraft {
        let concepts = concepts.into_iter().map(|word| format!("c{word}")).collect();
        let title = Some(title);
        ObservationDraft { kind, title, summary, detail, facts, concepts, files_read, files_modified, functions_changed }
    }
}

prop_compose! {
    fn a_summary()(
        summary in phrase(),
        parts in proptest::collection::vec(proptest::option::of(phrase()), 6),
        (files_read, files_edited, key_decisions) in (phrases(), phrases(), phrases()),
    ) -> SummaryDraft {
        let mut parts = parts.into_iter();
        let mut part = || parts.next().flatten();
        SummaryDraft {
            summary: Some(summary), request: part(), investigated: part(), learned: part(), completed: part(),
            next_steps: part(), notes: part(), files_read, files_edited, key_decisions,
        }
    }
}

fn as_tags(draft: &ObservationDraft) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let field = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| format!("<{name}>{}</{name}>\n", escape(text))).unwrap_or_default()
    };
    let list = |name: &str, item: &str, items: &[String]| {
        let items: String = items.iter().map(|text| format!("<{item}>{}</{item}>", escape(text))).collect();
        format!("<{name}>{items}</{name}>\n")
    };
    [
        "<observation>\n".to_owned(),
        field("type", &Some(draft.kind.as_str().to_owned())),
        field("title", &draft.title),
        field("subtitle", &draft.summary),
        field("narrative", &draft.detail),
        list("facts", "fact", &draft.facts),
        list("concepts", "concept", &draft.concepts),
        list("files_read", "file", &draft.files_read),
        list("files_modified", "file", &draft.files_modified),
        list("functions_changed", "function", &draft.functions_changed),
        "</observation>\n".to_owned(),
    ]
    .concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_answer_comes_back_as_it_was(drafts in proptest::collection::vec(a_draft(), 1..4), pretty in any::<bool>()) {
        let answer = serde_json::json!({ "observations": drafts });
        let text = if pretty { serde_json::to_string_pretty(&answer).unwrap() } else { answer.to_string() };
        prop_assert_eq!(observations(&text).unwrap(), drafts.clone());
        let fenced = format!("Here it is:\n```json\n{text}\n```\nDone.");
        prop_assert_eq!(observations(&fenced).unwrap(), drafts.clone());
        let tagged: String = drafts.iter().map(as_tags).collect();
        prop_assert_eq!(observations(&tagged).unwrap(), drafts);
    }

    #[test]
    fn a_valid_summary_comes_back_as_it_was(draft in a_summary()) {
        let text = serde_json::to_string(&draft).unwrap();
        prop_assert_eq!(summary(&text).unwrap(), SummaryAnswer::Summary(draft));
    }

    #[test]
    fn a_cut_answer_keeps_its_complete_parts(drafts in proptest::collection::vec(a_draft(), 1..4), cut in any::<prop::sample::Index>()) {
        let parts: Vec<_> = drafts.iter().map(|draft| serde_json::to_string(draft).unwrap()).collect();
        let text = format!("{{\"observations\":[{}]}}", parts.join(","));
        let cut = text.floor_char_boundary(cut.index(text.len()));
        let ends = parts.iter().scan("{\"observations\":[".len(), |at, part| {
            *at += part.len() + 1;
            Some(*at - 1)
        });
        let complete = ends.filter(|end| *end <= cut).count();
        let kept = observations(&text[..cut]).unwrap_or_default();
        prop_assert!(kept.len() >= complete && kept.len() <= complete + 1);
        prop_assert_eq!(&kept[..complete], &drafts[..complete]);
    }

    #[test]
    fn cut_tags_keep_their_complete_parts(drafts in proptest::collection::vec(a_draft(), 1..4), cut in any::<prop::sample::Index>()) {
        let parts: Vec<_> = drafts.iter().map(as_tags).collect();
        let text = parts.concat();
        let cut = text.floor_char_boundary(cut.index(text.len()));
        let ends = parts.iter().scan(0, |at, part| {
            *at += part.len();
            Some(*at)
        });
        let complete = ends.filter(|end| *end <= cut).count();
        let kept = observations(&text[..cut]).unwrap_or_default();
        prop_assert!(kept.len() >= complete && kept.len() <= complete + 1);
        prop_assert_eq!(&kept[..complete], &drafts[..complete]);
    }

    #[test]
    fn any_text_is_survived(text in r#"(?s).{0,200}|([\[\]{}",:'\\<>/a-z1]|observation|title|null|facts|\\u|```){0,80}"#) {
        let _ = observations(&text);
        let _ = summary(&text);
    }
}
