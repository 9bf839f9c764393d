//! CPU time and memory of redaction. `cargo bench --bench redact`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reports to the person who runs it"
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use claude_mem::privacy::redact::Redactor;

const MIB: usize = 1 << 20;

fn main() {
    let before = resident_kib();
    let redactor = Redactor::new();
    redactor.redact("nothing to see");
    println!("rules loaded: {} KiB", resident_kib() - before);
    redactor.redact(include_str!("../config/redact.toml"));
    println!("every rule used once: {} KiB", resident_kib() - before);
    for (name, unit) in texts() {
        let text = |bytes: usize| unit.repeat(bytes / unit.len() + 1);
        let (one, two) = (median(&redactor, &text(MIB)), median(&redactor, &text(2 * MIB)));
        let growth = two.as_secs_f64() / one.as_secs_f64();
        println!("{name:28} 1 MiB {:6.2} ms   2 MiB {:6.2} ms   x{growth:.2}", ms(one), ms(two));
    }
    println!("after all of them, with what the allocator keeps: {} KiB", resident_kib() - before);
}

/// One unit of each text; repeated to the wanted size.
fn texts() -> Vec<(&'static str, String)> {
    let code = include_str!("../src/config.rs").to_owned();
    let payload = serde_json::json!({"tool_response": {"stdout": code}}).to_string();
    let rules = include_str!("../config/redact.toml").to_owned();
    let filler = "lorem ipsum dolor sit amet ".repeat(40);
    let log = format!("{filler}\nGET /?token={} 200\n", "0123456789abcdef".repeat(2));
    vec![
        ("source code", code),
        ("source code as JSON", payload),
        ("the rules themselves", rules),
        ("prose with a few tokens", log),
        (
            "nothing but a base64 line",
            "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj".to_owned(),
        ),
        ("a name again and again", "password=".to_owned()),
        ("a weak name again and again", "token=".to_owned()),
        ("unclosed quotes", "password=\"'".to_owned()),
        ("keys without an end", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n".to_owned()),
        ("key headers", "-----BEGIN PRIVATE KEY-----Comment: ".to_owned()),
        ("backslashes", "token=\\\\\\\\".to_owned()),
        ("addresses", "a://b:c".to_owned()),
        ("curl and curl", "curl -u ".to_owned()),
    ]
}

fn median(redactor: &Redactor, text: &str) -> Duration {
    let mut times: Vec<_> = (0..9)
        .map(|_| {
            let start = used();
            std::hint::black_box(redactor.redact(text));
            used() - start
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// CPU time of this thread, so that other load does not count; on systems other than Linux, wall-clock time.
fn used() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = status.split(' ').next().and_then(|field| field.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}
