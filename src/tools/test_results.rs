//! The numbers of a test run, from its output. No runner is assumed: nearly all print how many passed and how many failed.

use std::sync::LazyLock;

use regex::Regex;

use crate::text::pattern;

/// Tests that passed and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestResults {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
}

impl TestResults {
    /// Reads the output; none if it counts nothing.
    pub fn read(output: &str) -> Option<Self> {
        let mut results: Option<Self> = None;
        // A minified line or a data dump is no summary.
        for line in output.lines().filter(|line| line.len() <= 1_000) {
            let (passed, failed) = counts(line);
            if passed.is_none() && failed.is_none() {
                continue;
            }
            let known = results.get_or_insert_default();
            // cargo prints a summary for each binary; others print one, over one line or several.
            let adds = line.trim_start().starts_with("test result:");
            let set = |to: &mut usize, count: Option<usize>| {
                if let Some(count) = count {
                    *to = if adds { to.saturating_add(count) } else { count };
                }
            };
            set(&mut known.passed, passed);
            set(&mut known.failed, failed);
        }
        results
    }
}

impl std::fmt::Display for TestResults {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.passed, self.failed) {
            (passed, 0) => write!(out, "{passed} passed"),
            (0, failed) => write!(out, "{failed} failed"),
            (passed, failed) => write!(out, "{failed} failed, {passed} passed"),
        }
    }
}

/// The counts on one line: `3 failed, 41 passed`, `12 pass`, `2 tests failed`.
fn counts(line: &str) -> (Option<usize>, Option<usize>) {
    static COUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(r"\b([0-9]+) +(?:tests? +)?(pass(?:ed|ing)?|fail(?:ed|ing|ures?)?|errors?)\b")
    });
    let (mut passed, mut failed) = (None, None);
    for found in COUNT.iter().flat_map(|count| count.captures_iter(line)) {
        let number: Option<usize> = found[1].parse().ok();
        let to = if found[2].starts_with("pass") { &mut passed } else { &mut failed };
        *to = number.map(|number| number + to.unwrap_or(0)).or(*to);
    }
    (passed, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_many_runners_are_read() {
        for (output, expected) in [
            (
                "test result: ok. 3 passed; 0 failed; 1 ignored\n\ntest result: FAILED. 2 passed; 1 failed;",
                "1 failed, 5 passed",
            ),
            ("Tests:       1 failed, 2 skipped, 41 passed, 44 total", "1 failed, 41 passed"),
            ("===== 3 failed, 41 passed, 1 error in 2.05s =====", "4 failed, 41 passed"),
            (" 1309 pass\n 0 fail\nRan 1309 tests across 60 files.", "1309 passed"),
            ("  5 passing (20ms)\n  1 failing", "1 failed, 5 passed"),
            ("     Summary [   0.1s] 5 tests run: 5 passed, 0 skipped", "5 passed"),
        ] {
            assert_eq!(
                TestResults::read(output).map(|results| results.to_string()).as_deref(),
                Some(expected),
                "{output}"
            );
        }
        assert_eq!(TestResults::read("ok  \texample.com/a\t0.1s\nerror: x failed"), None);
    }
}
