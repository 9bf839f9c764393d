//! The error line of a failure, and its signature: the same line without the parts that differ between occurrences of the
//! same failure.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::text::{clean, each, ends, one_line, pattern, shorten};

/// The signature of the first meaningful error line of a text: numbers, paths, addresses and timings are removed, so
/// that the same failure has the same signature tomorrow and elsewhere. `None` if the text has no error line.
pub fn error_signature(text: &str) -> Option<String> {
    let line = error_line(text)?;
    let normal = normalised(without_place(&line));
    (!normal.is_empty()).then(|| shorten(&normal, SIGNATURE_COLUMNS))
}

/// True for a signature that stands for many failures: it names nothing specific, or reads like every missing file, conflict,
/// lint run and failing test.
pub fn is_generic(signature: &str) -> bool {
    const EVERYDAY: &str = "no such file|file does not exist|cannot access|file not found|merge conflict|conflict (|\
        could not apply|exit code|exit status|exited with|command failed|tests failed|test failed|failing test|--- fail|\
        assertion|expect(|expected|received|lint|problems (|warnings|permission denied|to replace not found|\
        has not been read|modified since|timed out|timeout|interrupted|cancelled|killed|nothing to commit|\
        unknown revision|not a git repository|already exists|would be overwritten|no matches found|rate limit|\
        panicked|unexpected end|usage:|is a directory|not a directory|fetch first|non-fast-forward";
    const LEAST_WORDS: usize = 3;
    let lower = signature.to_lowercase();
    let words = lower.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|word| {
        word.len() > 2 && !["path", "url", "error", "failed", "fatal", "the", "address"].contains(word)
    });
    words.count() < LEAST_WORDS || each(EVERYDAY).any(|phrase| lower.contains(phrase))
}

const SIGNATURE_COLUMNS: usize = 160;
const LINE_COLUMNS: usize = 200;

/// The first meaningful error line, readable.
pub(crate) fn error_line(text: &str) -> Option<String> {
    let cleaned = clean(text);
    let looked_at = ends(&cleaned);
    let lines: Vec<&str> = looked_at.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut best: Option<(u8, usize)> = None;
    for (at, line) in lines.iter().enumerate() {
        let rank = rank(line);
        if rank > best.map_or(0, |(known, _)| known) {
            best = Some((rank, at));
        }
    }
    let (_, at) = best?;
    let message = with_continuation(&lines, at);
    (!message.is_empty()).then(|| shorten(&message, LINE_COLUMNS))
}

/// Lines by how specific their error is; the first pattern that matches decides, and 0 is no error line.
const RANKS: [(u8, &str); 4] = [
    // Lines that every run prints.
    (
        0,
        r#"(?x)^(Exit\ code\ |Traceback\ \(most\ recent|During\ handling\ of|(Compiling|Finished|Running|Checking|Blocking)\ |warning[:\[]|[>$]\ |====|----|note:|=\ (help|note):|at\ |test\ result:
        |File\ "|\[claude-mem:\ |0\ errors|[=\ -]*(\d+\ (failed|passed|failing|passing|tests)|Tests:|Test\ Suites:|Test\ Files|Tests\ \ |Summary\ \[))|\.\.\.\ ok$"#,
    ),
    // Lines that only report a failure above them.
    (
        2,
        r"(?x)^(error:\ (could\ not\ compile|test\ (run\ )?failed|doctest\ failed|aborting\ due\ to|process\ didn't\ exit|recipe\ )|error\ Command\ failed
        |npm\ (ERR!|error)\ (A\ complete\ log|code)|make(:\ \*\*\*|\[)|Error:\ Process\ completed)|ELIFECYCLE|exit\ status\ ",
    ),
    (
        4,
        r"(?x)^(error\[|error:\ |fatal:\ |panic:\ |---\ FAIL:\ |E\ \ \ |Error:\ |FAILED\ .*\ -\ |[^\s:]*\.[^\s:]*:\d+:(\d+:)?\ |([^:]*\s)?[\w.$]+(Error|Exception|Failure|Panic):|\S+Error$)
        |\ panicked\ at\ |:\ (fatal\ )?error:|error\ TS|command\ not\ found|No\ such\ file\ or\ directory|Permission\ denied|undefined\ reference|assertion\ (failed|`)|syntax\ error|SyntaxError|expect\(|Cannot\ find\ module",
    ),
    (3, "(?i)error|failed|failure|fatal|exception|cannot|denied|invalid"),
];

fn rank(line: &str) -> u8 {
    static PATTERNS: LazyLock<Vec<(u8, Regex)>> =
        LazyLock::new(|| RANKS.into_iter().filter_map(|(rank, text)| Some((rank, pattern(text)?))).collect());
    if line.len() > 2000 || !line.contains(char::is_alphanumeric) {
        return 0;
    }
    PATTERNS.iter().find(|(_, pattern)| pattern.is_match(line)).map_or(1, |(rank, _)| *rank)
}

/// The line with its continuation lines, without the marks that test runners and image builds put before it.
fn with_continuation(lines: &[&str], at: usize) -> String {
    let line = lines[at];
    let next = |ahead: usize| lines.get(at + ahead).copied().unwrap_or_default();
    if line.contains(" panicked at ") {
        let quoted = line.split_once(" panicked at '").and_then(|(_, rest)| rest.rsplit_once('\''));
        let message = quoted.map_or(next(1), |(text, _)| text);
        let is_side = |line: &&str| line.starts_with("left:") || line.starts_with("right:");
        let sides = [next(2), next(3)].into_iter().filter(is_side).collect::<Vec<_>>().join(", ");
        return match (rank(message), sides.is_empty()) {
            (0, _) => line.to_owned(),
            (_, true) => format!("panicked: {message}"),
            (_, false) => format!("panicked: {message} ({sides})"),
        };
    }
    if let Some(test) = line.strip_prefix("--- FAIL: ")
        && without_place(next(1)).len() < next(1).len()
    {
        return format!("{}: {}", test.split(" (").next().unwrap_or(test), without_place(next(1)));
    }
    static MARK: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"^(#\d+ ([\d.]+ )?|E   |npm (error|ERR!) |FAILED \S.*? - )+"));
    without(&MARK, line).trim().to_owned()
}

/// Strips the place that a compiler puts before the message: `file.go:3:5: …`, `file.ts(3,5): …`.
fn without_place(line: &str) -> &str {
    static PLACE: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"^[^\s:(]*\.[^\s:(]*(:\d+:(\d+:)?|\([^\s]*\):) +"));
    without(&PLACE, line)
}

fn without<'a>(start: &LazyLock<Option<Regex>>, line: &'a str) -> &'a str {
    &line[start.as_ref().and_then(|start| start.find(line)).map_or(0, |found| found.end())..]
}

/// Replaces what differs between two occurrences of a failure, word by word. `E0502`, `utf8` and `i32` are names.
fn normalised(line: &str) -> String {
    const PARTS: [(&str, &str); 6] = [
        ("^.*://.*$", "<url>"),
        (r"^((/|\./|\.\./|~/).+|.*[/\\].*[/\\].*|.*\..*[/\\].*|.*[/\\].*\..*)$", "<path>"),
        ("^0x[0-9a-fA-F]+$", "<address>"),
        (r"^[-:.TZ+]*[0-9][-0-9:.TZ+]*(ms|s|us|µs|ns|m|min|KB|MB|GB|kB|%)?$", "<n>"),
        (r"^[0-9a-fA-F-]*[0-9][0-9a-fA-F-]{6,}$|^[0-9a-fA-F-]{6,}[0-9][0-9a-fA-F-]*$", "<id>"),
        (r"(?P<before>^|[^0-9\p{L}_])[0-9][0-9.]*", "$before<n>"),
    ];
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> =
        LazyLock::new(|| PARTS.into_iter().filter_map(|(text, name)| Some((pattern(text)?, name))).collect());
    static WORD: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r#"([^\s'"`()\[\]{},;<>=]+?)([:.!?]*)([\s'"`()\[\]{},;<>=]+|$)"#));
    let Some(word) = WORD.as_ref() else { return String::new() };
    let normal = word.replace_all(line, |found: &Captures<'_>| {
        let part = PATTERNS.iter().find(|(pattern, _)| pattern.is_match(&found[1]));
        let part = part.map_or(found[1].into(), |(pattern, name)| pattern.replace_all(&found[1], *name));
        format!("{part}{}{}", &found[2], &found[3])
    });
    one_line(&normal).trim_end_matches([':', ' ', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_meaningful_line_is_found() {
        for (output, expected) in [
            ("Exit code 3\nout\nerr", "out"),
            (
                "Exit code 101\n   Compiling app v0.1.0 (/home/dev/app)\nerror[E0502]: cannot borrow `x` as mutable\n --> src/a.rs:3:5\nerror: could not compile `app`",
                "error[E0502]: cannot borrow `x` as mutable",
            ),
            (
                "Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in <module>\n    main()\nValueError: invalid literal for int() with base 10: 'x7'",
                "ValueError: invalid literal for int() with base 10: 'x7'",
            ),
            (
                "running 2 tests\nthread 'tests::adds' panicked at src/lib.rs:10:5:\nassertion `left == right` failed\n  left: 3\n right: 4\nnote: run with RUST_BACKTRACE",
                "panicked: assertion `left == right` failed (left: 3, right: 4)",
            ),
            (
                "src/a.ts(3,5): error TS2345: Argument of type 'string'",
                "src/a.ts(3,5): error TS2345: Argument of type 'string'",
            ),
            ("# example.com/a\n./main.go:12:2: undefined: load", "./main.go:12:2: undefined: load"),
            ("--- FAIL: TestRetry (0.00s)\n    retry_test.go:14: got 2, want 3", "TestRetry: got 2, want 3"),
            (
                "E       AssertionError: assert 'Helo, x' == 'Hello, x'",
                "AssertionError: assert 'Helo, x' == 'Hello, x'",
            ),
            (
                "npm error code ELIFECYCLE\nbash: line 1: vite: command not found",
                "bash: line 1: vite: command not found",
            ),
            (
                "error: failed to push some refs\nfatal: unable to access 'https://x/'",
                "error: failed to push some refs",
            ),
        ] {
            assert_eq!(error_line(output).as_deref(), Some(expected));
        }
    }

    #[test]
    fn the_same_failure_has_the_same_signature() {
        for (one, other) in [
            (
                "src/a.rs:3:5: error: expected 4 arguments, found 3",
                "lib/b.rs:77:1: error: expected 9 arguments, found 12",
            ),
            (
                "FileNotFoundError: [Errno 2] No such file or directory: '/home/a/x.json'",
                "FileNotFoundError: [Errno 2] No such file or directory: '/srv/other/y.json'",
            ),
            ("Error: timeout after 3012ms at 0x7ffd12ab", "Error: timeout after 29ms at 0x55aa00ff"),
            ("--- FAIL: TestRetry (0.00s)", "--- FAIL: TestRetry (1.25s)"),
            ("Error: commit 1a2b3c4d is not an ancestor", "Error: commit 99ffee01 is not an ancestor"),
        ] {
            assert_eq!(error_signature(one), error_signature(other));
        }
    }

    #[test]
    fn different_failures_have_different_signatures() {
        assert_ne!(
            error_signature("error[E0502]: cannot borrow"),
            error_signature("error[E0505]: cannot borrow")
        );
        assert_ne!(
            error_signature("TypeError: x is not a function"),
            error_signature("TypeError: y is not a function")
        );
        assert_eq!(error_signature("error TS2345: no"), Some("error TS2345: no".to_owned()));
    }

    #[test]
    fn empty_and_generic_output_has_no_signature() {
        for text in ["", "\n \n", "Exit code 1", "----\n====", "\u{1b}[0m"] {
            assert_eq!(error_signature(text), None, "{text:?}");
        }
    }

    #[test]
    fn other_scripts_pass_through() {
        assert_eq!(
            error_signature("Fehler: Datei „größe.txt“ fehlt").as_deref(),
            Some("Fehler: Datei „größe.txt“ fehlt")
        );
        assert_eq!(
            error_signature("エラー: 接続できません (3回)").as_deref(),
            Some("エラー: 接続できません (<n>回)")
        );
    }
}
