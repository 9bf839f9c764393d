//! No text makes redaction panic, redacting again changes nothing, and JSON stays JSON.

#![no_main]

use claude_mem::privacy::redact::Redactor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
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
});
