//! Waiting for a signal, with a limit that only bounds a failure, and skipping a test visibly.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Maximum time that a test waits for a condition.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(|| what.to_owned(), || holds().then_some(()));
}

/// Waits until there is a value. `what` describes the wait, and the state, when it was in vain.
pub fn wait_for<T>(what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {}", what());
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a process has ended.
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let id = child.id();
    wait_for(|| format!("process {id} ends"), || child.try_wait().unwrap())
}

/// Reports that a test is skipped for want of something that every developer can install. Fails in CI, which has it.
pub fn skip(reason: &str) {
    assert!(!is_ci(), "CI must not skip this test: {reason}");
    skip_even_in_ci(reason);
}

/// Reports that a test is skipped for want of something that CI may lack as well: root, mounts, a network.
pub fn skip_even_in_ci(reason: &str) {
    eprintln!("SKIPPED: {reason}");
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
