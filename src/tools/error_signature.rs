//! The error line of a failure, and its signature: the same line without the parts that differ between occurrences of the
//! same failure.

use crate::text::{clean, each, ends, shorten};

/// The signature of the first meaningful error line of a text: numbers, paths, addresses and timings are removed, so
/// that the same failure has the same signature tomorrow and elsewhere. `None` if the text has no error line.
pub fn error_signature(text: &str) -> Option<String> {
    let line = error_line(text)?;
    let normal = normalised(without_location(&line));
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

/// Ranks a line by how specific its error is; 0 for none.
fn rank(line: &str) -> u8 {
    if line.len() > 2000 || is_noise(line) {
        return 0;
    }
    if is_consequence(line) {
        return 2;
    }
    if is_specific(line) {
        return 4;
    }
    let lower = line.to_ascii_lowercase();
    if ["error", "failed", "failure", "fatal", "exception", "cannot", "denied", "invalid"]
        .iter()
        .any(|word| lower.contains(word))
    {
        return 3;
    }
    1
}

/// Lines that every run prints.
fn is_noise(line: &str) -> bool {
    const STARTS: &str = "Exit code |Traceback (most recent|During handling of|Compiling |Finished |Running |\
        Checking |Blocking |warning:|warning[|> |$ |====|----|note:|= help:|= note:|at ";
    each(STARTS).any(|start| line.starts_with(start))
        || line.ends_with("... ok")
        || line.starts_with("test result: ok")
        || line.starts_with("File \"")
        || line.starts_with("[claude-mem: ")
        || line.starts_with("0 errors")
        || is_count(line)
        || line.chars().all(|char| !char.is_alphanumeric())
}

/// True for a summary that only counts.
fn is_count(line: &str) -> bool {
    let bare = line.trim_matches(['=', '-', ' ']);
    let counted = bare.split_once(' ').is_some_and(|(number, rest)| {
        number.parse::<u32>().is_ok()
            && each("failed|passed|failing|passing|tests").any(|word| rest.starts_with(word))
    });
    counted
        || each("Tests:|Test Suites:|Test Files|Tests  |test result:|Summary [")
            .any(|start| bare.starts_with(start))
}

/// Lines that only report a failure above them.
fn is_consequence(line: &str) -> bool {
    const STARTS: &str = "error: could not compile|error: test failed|error: aborting due to|\
        error: process didn't exit|error: recipe |error Command failed|npm ERR! A complete log|\
        npm error A complete log|npm ERR! code|npm error code|make: ***|make[|\
        error: test run failed|error: doctest failed|Error: Process completed";
    each(STARTS).any(|start| line.starts_with(start))
        || line.contains("ELIFECYCLE")
        || line.contains("exit status ")
}

fn is_specific(line: &str) -> bool {
    const ANYWHERE: &str = " panicked at |: error:|: fatal error:|error TS|command not found|\
        No such file or directory|Permission denied|undefined reference|assertion failed|\
        assertion `|syntax error|SyntaxError|expect(|Cannot find module";
    const STARTS: &str = "error[|error: |fatal: |panic: |--- FAIL: |E   |Error: ";
    each(STARTS).any(|start| line.starts_with(start))
        || each(ANYWHERE).any(|part| line.contains(part))
        || names_exception(line)
        || (line.starts_with("FAILED ") && line.contains(" - "))
        || go_location(line).is_some()
}

/// `TypeError: …`, `java.lang.IllegalStateException: …`, `Uncaught ReferenceError: …`.
fn names_exception(line: &str) -> bool {
    let Some((head, _)) = line.split_once(':') else { return line.ends_with("Error") && !line.contains(' ') };
    let name = head.split_whitespace().next_back().unwrap_or_default();
    let named = ["Error", "Exception", "Failure", "Panic"]
        .iter()
        .any(|end| name.ends_with(end) && name.len() > end.len());
    named && name.chars().all(|char| char.is_alphanumeric() || "._$".contains(char)) && head.len() < 80
}

/// The message after a place: `file.go:3:5: …`.
fn go_location(line: &str) -> Option<&str> {
    let (file, rest) = line.split_once(':')?;
    let (row, rest) = rest.split_once(':')?;
    let is_place = file.contains('.') && !file.contains(' ') && row.parse::<u32>().is_ok();
    let rest = rest
        .split_once(':')
        .filter(|(column, _)| column.parse::<u32>().is_ok())
        .map_or(rest, |(_, rest)| rest);
    (is_place && rest.starts_with(' ')).then(|| rest.trim_start())
}

/// The line with its continuation lines.
fn with_continuation(lines: &[&str], at: usize) -> String {
    let line = lines[at];
    if line.contains(" panicked at ") {
        let message = lines.get(at + 1).filter(|next| !is_noise(next)).copied().unwrap_or_default();
        let sides: Vec<&str> = lines
            .iter()
            .skip(at + 2)
            .take(2)
            .copied()
            .filter(|next| next.starts_with("left:") || next.starts_with("right:"))
            .collect();
        let old_style = line
            .split_once(" panicked at '")
            .and_then(|(_, rest)| rest.rsplit_once('\''))
            .map(|(text, _)| text);
        let message = old_style.unwrap_or(message);
        return match (message.is_empty(), sides.is_empty()) {
            (true, _) => line.to_owned(),
            (false, true) => format!("panicked: {message}"),
            (false, false) => format!("panicked: {message} ({})", sides.join(", ")),
        };
    }
    if line.starts_with("--- FAIL: ")
        && let Some(message) = lines.get(at + 1).and_then(|next| go_location(next))
    {
        let name = line.trim_start_matches("--- FAIL: ").split(" (").next().unwrap_or(line);
        return format!("{name}: {message}");
    }
    if let Some((_, message)) = line.strip_prefix("FAILED ").and_then(|rest| rest.split_once(" - ")) {
        return message.to_owned();
    }
    let line = without_step(line);
    let line = each("E   |npm error |npm ERR! ").find_map(|start| line.strip_prefix(start)).unwrap_or(line);
    line.trim().to_owned()
}

/// Strips the number and the time that an image build puts before each line: `#8 12.31 …`.
fn without_step(line: &str) -> &str {
    let Some((number, rest)) = line.strip_prefix('#').and_then(|rest| rest.split_once(' ')) else {
        return line;
    };
    if number.parse::<u16>().is_err() {
        return line;
    }
    rest.split_once(' ')
        .filter(|(time, _)| time.parse::<f32>().is_ok())
        .map_or(rest, |(_, rest)| rest)
        .trim_start()
}

/// Strips the place that a compiler puts before the message.
fn without_location(line: &str) -> &str {
    if let Some(rest) = go_location(line) {
        return rest;
    }
    match line.split_once("): ") {
        Some((place, rest)) if place.contains('(') && place.contains('.') && !place.contains(' ') => rest,
        _ => line,
    }
}

fn normalised(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let is_edge = |char: char| char.is_whitespace() || "'\"`()[]{},;<>=".contains(char);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if is_edge(first) {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(is_edge).unwrap_or(rest.len());
        out.push_str(&normal_word(&rest[..end]));
        rest = &rest[end..];
    }
    let joined = out.split_whitespace().collect::<Vec<_>>().join(" ");
    joined.trim_end_matches([':', ' ', '.']).to_owned()
}

fn normal_word(word: &str) -> String {
    let core = word.trim_end_matches([':', '.', '!', '?']);
    let tail = &word[core.len()..];
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = core.bytes().filter(u8::is_ascii_digit).count();
    if core.contains("://") {
        return format!("<url>{tail}");
    }
    if is_path(core) {
        return format!("<path>{tail}");
    }
    if core.strip_prefix("0x").is_some_and(|rest| !rest.is_empty() && is_hex(rest)) {
        return format!("<address>{tail}");
    }
    if digits > 0 && core.len() >= 7 && is_hex(&core.replace('-', "")) && digits < core.len() {
        return format!("<id>{tail}");
    }
    if digits > 0 && core.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ+".contains(&byte)) {
        return format!("<n>{tail}");
    }
    let unit = core.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
    if unit.len() < core.len()
        && ["ms", "s", "us", "µs", "ns", "m", "min", "KB", "MB", "GB", "kB", "%"].contains(&unit)
    {
        return format!("<n>{tail}");
    }
    without_numbers(core) + tail
}

fn is_path(word: &str) -> bool {
    let slashes = word.matches(['/', '\\']).count();
    let rooted = ["/", "./", "../", "~/"].iter().any(|start| word.starts_with(start)) && word.len() > 2;
    rooted || slashes >= 2 || (slashes == 1 && word.contains('.'))
}

/// Removes digits that stand alone; `E0502`, `utf8` and `i32` are names.
fn without_numbers(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut previous = ' ';
    let mut in_number = false;
    for char in word.chars() {
        let digit = char.is_ascii_digit() && (in_number || !(previous.is_alphanumeric() || previous == '_'));
        // A version is one number.
        let stands_alone = digit || (in_number && char == '.');
        if stands_alone && !in_number {
            out.push_str("<n>");
        }
        if !stands_alone {
            out.push(char);
        }
        in_number = stands_alone;
        previous = char;
    }
    out
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
