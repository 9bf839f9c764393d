//! docs/api.md: it has every route, every error code, and every field of the responses.

use claude_mem::api::{self, ErrorCode, route};
use serde::Serialize;

const PAGE: &str = include_str!("../../../docs/api.md");

/// Checks that the section of a type lists every field that is serialized.
fn assert_documented<T: Serialize + Default>(name: &str) {
    let start = PAGE.find(&format!("\n### {name}\n")).unwrap_or_else(|| panic!("no section {name}"));
    let section = PAGE[start + 5..].split("\n### ").next().unwrap_or_default();
    let value = serde_json::to_value(T::default()).unwrap();
    for field in value.as_object().unwrap().keys() {
        assert!(section.contains(&format!("- `{field}`")), "{name} has no {field} in docs/api.md");
    }
}

#[test]
fn documentation_has_every_route_and_no_other() {
    let rows: Vec<String> =
        route::ALL.iter().map(|(methods, path)| format!("| {methods} | `{path}` |")).collect();
    for row in &rows {
        assert!(PAGE.contains(row), "{row}");
    }
    let listed = PAGE.lines().filter(|line| line.contains(" | `/")).count();
    assert_eq!(listed, rows.len());
}

#[test]
fn documentation_has_every_error_code() {
    for code in ErrorCode::ALL {
        let word = serde_json::to_string(&code).unwrap().replace('"', "`");
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| {word}")));
        let row = row.unwrap_or_else(|| panic!("{word}"));
        assert!(row.contains(&format!("| {} |", code.status())), "{row}");
        assert_eq!(row.starts_with(&format!("| {word}*")), code.permits_fallback(), "{row}");
    }
}

#[test]
fn documentation_has_every_field() {
    assert_documented::<api::Health>("Health");
    assert_documented::<api::Status>("Status");
    assert_documented::<api::Overview>("Overview");
    assert_documented::<api::QueueStats>("QueueStats");
    assert_documented::<api::SearchResponse>("SearchResponse");
    assert_documented::<api::Hit>("Hit");
    assert_documented::<api::ScoreParts>("ScoreParts");
    assert_documented::<api::Timeline>("Timeline");
    assert_documented::<api::TimelineEntry>("TimelineEntry");
    assert_documented::<api::Memory>("Memory");
    assert_documented::<api::ObservationRow>("ObservationRow");
    assert_documented::<api::Recent>("Recent");
    assert_documented::<api::SessionRow>("SessionRow");
    assert_documented::<api::ContextResponse>("ContextResponse");
    assert_documented::<api::InSessionResponse>("InSessionResponse");
    assert_documented::<api::Statement>("Statement");
    assert_documented::<api::Saved>("Saved");
    assert_documented::<api::Changed>("Changed");
    assert_documented::<api::SessionOffer>("SessionOffer");
    assert_documented::<api::SessionJob>("SessionJob");
    assert_documented::<api::SessionAnswer>("SessionAnswer");
}
