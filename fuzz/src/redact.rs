//! No text makes redaction panic, redacting again changes nothing, and JSON stays JSON.

use claude_mem::privacy::redact::Redactor;

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let redactor = Redactor::new();
    let once = redactor.redact(text);
    let twice = redactor.redact(once.as_str());
    assert_eq!(once, twice, "from {text:?}");
    let json = serde_json::json!({ "text": text, "next": [text, 1] }).to_string();
    let redacted = redactor.redact(&json);
    assert!(
        serde_json::from_str::<serde_json::Value>(redacted.as_str()).is_ok(),
        "{json}\n{}",
        redacted.as_str()
    );
}
