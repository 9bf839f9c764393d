//! Numbers and failing names from what test runners print. One line at a time, no runner assumed: the shapes do not
//! overlap, and a command may run several.

use super::text::{push_new, shorten};

/// What a test run said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TestResults {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Whether whole packages were counted, because the runner counts nothing else.
    pub packages: bool,
    /// The names of failing tests, as far as they were told.
    pub failing: Vec<String>,
}

/// How many failing tests are named.
const MOST_NAMES: usize = 8;

impl TestResults {
    /// What the output tells; None if it is not from a test run.
    pub fn read(output: &str) -> Option<Self> {
        let mut reader = Reader::default();
        for line in output.lines() {
            // A minified line or a data dump is no summary.
            if line.len() <= 1000 {
                reader.line(line);
            }
        }
        reader.finish()
    }

    /// `3 failed, 41 passed`.
    pub fn told(&self) -> String {
        let thing = |count: usize| match (self.packages, count) {
            (true, 1) => " package",
            (true, _) => " packages",
            _ => "",
        };
        let mut parts = Vec::new();
        if self.failed > 0 {
            parts.push(format!("{}{} failed", self.failed, thing(self.failed)));
        }
        if self.passed > 0 || self.failed == 0 {
            let thing = if self.failed > 0 { "" } else { thing(self.passed) };
            parts.push(format!("{}{thing} passed", self.passed));
        }
        if self.skipped > 0 && self.passed + self.failed < 3 {
            parts.push(format!("{} skipped", self.skipped));
        }
        parts.join(", ")
    }
}

#[derive(Default)]
struct Reader {
    results: TestResults,
    seen: bool,
    go_passed: usize,
    go_failed: usize,
    ran: Option<usize>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        if let Some(name) = failing_name(trimmed, line) {
            push_new(&mut self.results.failing, &shorten(name, 100), MOST_NAMES);
        }
        let _ =
            self.counted_words(trimmed) || self.labelled(trimmed) || self.go(trimmed) || self.single(trimmed);
    }

    /// `3 failed, 41 passed`, in the many shapes that say which line is the summary.
    fn counted_words(&mut self, line: &str) -> bool {
        let bare = line.trim_matches(['=', '-', ' ']);
        let adds = line.starts_with("test result:");
        let summary = adds
            || line.contains(" tests run:")
            || line.contains(" test run:")
            || line.starts_with("Tests:")
            || line.starts_with("Tests  ")
            || line.starts_with("ok |")
            || line.starts_with("FAILED |")
            || line.contains(" tests completed,")
            || (starts_with_number(bare) && bare.contains(" in ") && bare.ends_with(['s', ')']));
        if summary {
            return self.take(&numbers_before_words(bare), adds);
        }
        if let Some(rest) =
            line.strip_suffix(" examples").or(line.split_once(" examples,").map(|(total, _)| total))
            && let Ok(total) = rest.trim().parse::<usize>()
        {
            let found = numbers_before_words(line);
            let failed = found.failed;
            return self
                .take(&Found { passed: Some(total - failed.unwrap_or(0).min(total)), ..found }, false);
        }
        if let Some((_, rest)) = line.split_once("% tests passed, ") {
            let numbers: Vec<usize> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            if let [failed, total] = numbers[..] {
                let passed = Some(total.saturating_sub(failed));
                return self.take(&Found { passed, failed: Some(failed), skipped: None }, false);
            }
        }
        false
    }

    /// `Passed: 10, Failed: 1`, `failures=1`, `Tests run: 5, Failures: 1`.
    fn labelled(&mut self, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test")) {
            self.ran = rest.0.parse().ok();
            return true;
        }
        if let Some(ran) = self.ran {
            if line == "OK" || line.starts_with("OK (skipped=") {
                return self.take(&Found { passed: Some(ran), ..Found::default() }, false);
            }
            if line.starts_with("FAILED (") {
                let failed = label(line, "failures=").unwrap_or(0) + label(line, "errors=").unwrap_or(0);
                let passed = Some(ran.saturating_sub(failed));
                return self.take(&Found { passed, failed: Some(failed), skipped: None }, false);
            }
        }
        if let Some(rest) = line.strip_prefix("OK (").filter(|rest| rest.contains(" test")) {
            let passed = rest.split(' ').next().and_then(|number| number.parse().ok());
            return self.take(&Found { passed, ..Found::default() }, false);
        }
        let total = label(line, "Tests run:").or_else(|| label(line, "Tests:"));
        if let Some(total) = total {
            let failed = label(line, "Failures:").unwrap_or(0) + label(line, "Errors:").unwrap_or(0);
            let skipped = label(line, "Skipped:");
            let passed = Some(total.saturating_sub(failed + skipped.unwrap_or(0)));
            return self.take(&Found { passed, failed: Some(failed), skipped }, false);
        }
        match (label(line, "Passed:"), label(line, "Failed:")) {
            (Some(passed), Some(failed)) => {
                let skipped = label(line, "Skipped:");
                self.take(&Found { passed: Some(passed), failed: Some(failed), skipped }, false)
            }
            _ => false,
        }
    }

    fn go(&mut self, line: &str) -> bool {
        if line.starts_with("ok  \t") || line.starts_with("ok\t") {
            self.go_passed += 1;
        } else if line.starts_with("FAIL\t") {
            self.go_failed += 1;
        } else {
            return false;
        }
        true
    }

    /// `5 passing (20ms)`, `1 failing`, `# pass 5`: one number a line.
    fn single(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let (number, word) = match words[..] {
            ["#" | "ℹ", word @ ("pass" | "fail" | "skipped"), number] => (number, word),
            [number, word] => (number, word),
            [number, word, time] if time.starts_with('(') => (number, word),
            _ => return false,
        };
        let Ok(number) = number.parse() else { return false };
        let mut found = Found::default();
        match word {
            "passing" | "passed" | "pass" => found.passed = Some(number),
            "failing" | "failed" | "fail" => found.failed = Some(number),
            "pending" | "skipped" | "skip" => found.skipped = Some(number),
            _ => return false,
        }
        self.take(&found, false)
    }

    /// Lines of one run follow each other (each sets what it names); only cargo prints one for each binary.
    fn take(&mut self, found: &Found, adds: bool) -> bool {
        if found.passed.is_none() && found.failed.is_none() {
            return false;
        }
        self.seen = true;
        let set = |to: &mut usize, value: Option<usize>| {
            if let Some(value) = value {
                *to = if adds { to.saturating_add(value) } else { value };
            }
        };
        set(&mut self.results.passed, found.passed);
        set(&mut self.results.failed, found.failed);
        set(&mut self.results.skipped, found.skipped);
        true
    }

    fn finish(mut self) -> Option<TestResults> {
        if !self.seen && self.go_passed + self.go_failed > 0 {
            (self.results.passed, self.results.failed) = (self.go_passed, self.go_failed);
            self.results.packages = true;
            self.seen = true;
        }
        if self.results.failed == 0 {
            self.results.failing.clear();
        }
        self.seen.then_some(self.results)
    }
}

#[derive(Default)]
struct Found {
    passed: Option<usize>,
    failed: Option<usize>,
    skipped: Option<usize>,
}

fn starts_with_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Every `<number> <word>` of a line.
fn numbers_before_words(line: &str) -> Found {
    let mut found = Found::default();
    let mut number: Option<usize> = None;
    for word in line.split([' ', '\t', '|']).filter(|word| !word.is_empty()) {
        let add = |to: &mut Option<usize>| *to = number.map(|number| number + to.unwrap_or(0)).or(*to);
        match word.trim_end_matches([',', ';', '.', ')']) {
            "passed" | "passing" => add(&mut found.passed),
            "failed" | "failing" | "failure" | "failures" | "error" | "errors" => add(&mut found.failed),
            "skipped" | "ignored" | "pending" | "todo" => add(&mut found.skipped),
            _ => {}
        }
        number = word.parse().ok();
    }
    found
}

/// The number behind a label.
fn label(line: &str, label: &str) -> Option<usize> {
    let rest = line[line.find(label)? + label.len()..].trim_start();
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The test that a line calls failing.
fn failing_name<'l>(line: &'l str, indented: &str) -> Option<&'l str> {
    let timed = |text: &'l str| text.split(" (").next().unwrap_or(text).trim();
    if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
        return Some(name);
    }
    if let Some(rest) = line.strip_prefix("FAIL [") {
        return rest.split_once(']')?.1.split_whitespace().next_back();
    }
    for start in ["--- FAIL: ", "FAIL: ", "ERROR: "] {
        if let Some(rest) = line.strip_prefix(start) {
            return Some(timed(rest));
        }
    }
    if let Some(rest) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR ")) {
        return rest.split(" - ").next().filter(|name| name.contains(".py") || name.contains("::"));
    }
    if let Some(rest) = line.strip_prefix("● ") {
        return rest.contains(" › ").then_some(rest);
    }
    if let Some(rest) = line.strip_prefix("FAIL ") {
        return rest.contains(" > ").then(|| rest.trim());
    }
    if let Some(rest) = line.strip_prefix("rspec ./") {
        return rest.split_once(" # ").map(|(_, name)| name);
    }
    if let Some(rest) = line.strip_prefix("not ok ") {
        return rest.split_once(" - ").map(|(_, name)| name);
    }
    if let Some(rest) = line.strip_prefix("✖ ") {
        return (!rest.starts_with("failing tests")).then(|| timed(rest));
    }
    if let Some(name) = line.strip_suffix(" FAILED") {
        return name.contains(" > ").then_some(name);
    }
    // dotnet, PHPUnit and mocha number or indent them.
    if let Some(rest) = line.strip_prefix("Failed ") {
        return (indented.starts_with("  ") && rest.ends_with("ms]")).then(|| rest.split(" [").next())?;
    }
    let (number, rest) = line.split_once(") ")?;
    (number.len() <= 3 && number.parse::<u16>().is_ok()).then(|| rest.trim_end_matches(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(output: &str) -> String {
        let Some(results) = TestResults::read(output) else { return "nothing".to_owned() };
        format!("{}: {}", results.told(), results.failing.join(", "))
    }

    #[test]
    fn every_common_runner_is_understood() {
        for (output, expected) in [
            (
                "test a::one ... ok\ntest a::two ... FAILED\n\ntest result: FAILED. 41 passed; 1 failed; 2 ignored; 0 measured\ntest result: ok. 3 passed; 0 failed;",
                "1 failed, 44 passed: a::two",
            ),
            (
                "        FAIL [   0.003s] claude-mem queue::claims_once\n     Summary [   0.5s] 44 tests run: 43 passed, 1 failed, 0 skipped",
                "1 failed, 43 passed: queue::claims_once",
            ),
            (
                "FAILED tests/test_a.py::test_b - AssertionError: x\n===== 1 failed, 4 passed, 1 skipped in 0.12s =====",
                "1 failed, 4 passed: tests/test_a.py::test_b",
            ),
            ("4 passed in 0.02s", "4 passed: "),
            ("Ran 5 tests in 0.001s\n\nOK", "5 passed: "),
            (
                "FAIL: test_x (tests.A)\nERROR: test_y (tests.A)\nRan 5 tests in 0.001s\n\nFAILED (failures=1, errors=1)",
                "2 failed, 3 passed: test_x, test_y",
            ),
            (
                "  ● cart › adds an item\n\nTest Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 5 passed, 6 total",
                "1 failed, 5 passed: cart › adds an item",
            ),
            (
                " FAIL  src/a.test.ts > cart > adds\n Test Files  1 failed (1)\n      Tests  1 failed | 5 passed (6)",
                "1 failed, 5 passed: src/a.test.ts > cart > adds",
            ),
            ("  5 passing (20ms)\n  1 failing\n\n  1) cart\n", "1 failed, 5 passed: cart"),
            (
                "--- FAIL: TestRetry (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s\nok  \texample.com/b\t0.02s",
                "1 package failed, 1 passed: TestRetry",
            ),
            ("ok  \texample.com/b\t0.02s", "1 package passed: "),
            (
                "Failed!  - Failed:     1, Passed:    10, Skipped:     0, Total:    11",
                "1 failed, 10 passed: ",
            ),
            (
                "rspec ./spec/a_spec.rb:12 # Cart adds\n12 examples, 1 failure",
                "1 failed, 11 passed: Cart adds",
            ),
            ("OK (5 tests, 9 assertions)", "5 passed: "),
            (
                "1) Tests\\FooTest::testBar\nTests: 5, Assertions: 9, Failures: 1.",
                "1 failed, 4 passed: Tests\\FooTest::testBar",
            ),
            ("[INFO] Tests run: 7, Failures: 0, Errors: 0, Skipped: 0", "7 passed: "),
            ("FooTest > bar() FAILED\n5 tests completed, 1 failed", "1 failed: FooTest > bar()"),
            ("not ok 3 - adds\n# pass 5\n# fail 1", "1 failed, 5 passed: adds"),
            ("ok | 5 passed | 0 failed (12ms)", "5 passed: "),
            (" 5 pass\n 1 fail\nRan 6 tests across 1 files.", "1 failed, 5 passed: "),
            ("95% tests passed, 1 tests failed out of 20", "1 failed, 19 passed: "),
            ("  1 failed\n    [chromium] › a.spec.ts:3:1 › adds\n  5 passed (2.1s)", "1 failed, 5 passed: "),
        ] {
            assert_eq!(told(output), expected, "{output}");
        }
    }

    #[test]
    fn other_output_is_no_test_run() {
        for output in
            ["", "Hello, world", "12 files changed", "3 errors and 2 warnings", "passed", "Tests are good"]
        {
            assert_eq!(told(output), "nothing", "{output}");
        }
    }

    #[test]
    fn absurd_numbers_do_no_harm() {
        let huge = format!("test result: ok. {0} passed; {0} failed;\n", usize::MAX).repeat(3);
        assert!(TestResults::read(&huge).is_some());
        TestResults::read("Ran 99999999999999999999999 tests in 1s\nOK");
        TestResults::read("3 examples, 9 failures");
    }
}
