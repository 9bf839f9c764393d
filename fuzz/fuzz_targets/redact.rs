//! No text makes redaction panic, and redacting again changes nothing.

#![no_main]

use claude_mem::privacy::redact::Redactor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let redactor = Redactor::new();
    let once = redactor.redact(text);
    let twice = redactor.redact(once.as_str());
    assert_eq!(once, twice, "from {text:?}");
});
