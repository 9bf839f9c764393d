//! A command that was run: what it was for, how it ended, what it made.

use serde_json::Value;

use super::command_line::{LINE_COLUMNS, arguments, changes, displayed, key, main_part, packages};
use super::edits::Edit;
use super::git::{Commit, commits, pushed, request_address};
use super::payload::{Payload, field, text_of};
use super::place::{Place, file_name};
use super::programs::{Purpose, purpose};
use super::shell::{Simple, split};
use super::signature::{error_line, error_signature};
use super::test_results::TestResults;
use super::text::{clean, ends, one_line, shorten};

/// A command and how it ended.
#[derive(Debug, Clone)]
pub(super) struct Command {
    /// What was run, short, without what surrounds it.
    pub line: String,
    /// What makes two runs the same command: `cargo test`, `npm run build`.
    pub key: String,
    /// The assistant's own words for it.
    pub description: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Arguments that narrow it down: files, names of tests.
    pub arguments: Vec<String>,
    /// How it ended.
    pub ended: Ended,
    /// What tests said.
    pub tests: Option<TestResults>,
    /// What went wrong, readable, and its signature.
    pub error: Option<(String, String)>,
    /// Commits that it made.
    pub commits: Vec<Commit>,
    /// The branch that it pushed.
    pub pushed: Option<String>,
    /// The pull request or issue that it opened.
    pub address: Option<String>,
    /// Packages that it installed.
    pub packages: Vec<String>,
    /// Files that it changed by itself.
    pub changes: Vec<Edit>,
    /// The line of its output that says most.
    pub printed: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Badly,
    /// The user stopped it.
    Stopped,
    /// It still ran when the client answered.
    Running,
}

const PRINTED_COLUMNS: usize = 140;

impl Command {
    /// From the payload of Bash and its like.
    pub fn read(payload: &Payload, failed: bool, place: &Place<'_>) -> Self {
        let given = clean(field(&payload.input, &["command", "cmd", "script"])).into_owned();
        let parts = split(&given);
        let main = main_part(&parts);
        let purpose = main.map_or(Purpose::Nothing, purpose);
        let output = output_of(payload);
        let output = clean(&output);
        let looked_at = ends(&output);
        let tests = main.filter(|main| may_test(main, purpose)).and_then(|_| TestResults::read(&looked_at));
        let ended = ended(payload, failed, &given, purpose, tests.as_ref(), &looked_at);
        let error = (ended == Ended::Badly).then(|| failure(&looked_at)).flatten();
        let went_well = ended != Ended::Badly;
        let purposes = |wanted: Purpose| parts.iter().any(|part| super::programs::purpose(part) == wanted);
        Self {
            line: main.map_or_else(|| shorten(&given, LINE_COLUMNS), displayed),
            key: main.map(key).unwrap_or_default(),
            description: shorten(field(&payload.input, &["description"]), 80),
            purpose,
            arguments: main.map(arguments).unwrap_or_default(),
            ended,
            error,
            commits: if purposes(Purpose::Commit) {
                commits(&parts, &looked_at, went_well)
            } else {
                Vec::new()
            },
            pushed: if went_well && purposes(Purpose::Push) { pushed(&looked_at) } else { None },
            address: if went_well && purposes(Purpose::Publish) { request_address(&looked_at) } else { None },
            packages: main.filter(|_| purpose == Purpose::Install).map(packages).unwrap_or_default(),
            changes: if went_well { changes(&parts, place) } else { Vec::new() },
            printed: shorten(telling_line(&looked_at), PRINTED_COLUMNS),
            tests,
        }
    }

    /// Whether it failed at something that matters: a search that finds nothing does not.
    pub fn is_failure(&self) -> bool {
        self.ended == Ended::Badly && self.purpose > Purpose::Look
    }

    /// Whether it checks what was done.
    pub fn verifies(&self) -> bool {
        matches!(self.purpose, Purpose::Test | Purpose::Build | Purpose::Lint)
    }

    /// Whether it says or does more than looking around.
    pub fn matters(&self) -> bool {
        self.purpose > Purpose::Look
    }

    /// `3 failed, 41 passed`, `failed: …`, `passed`.
    pub fn outcome(&self) -> String {
        match (&self.ended, &self.tests, &self.error) {
            (Ended::Stopped, ..) => "stopped by the user".to_owned(),
            (Ended::Running, ..) => "started in the background".to_owned(),
            (Ended::Badly, Some(tests), _) if tests.failed == 0 => format!("failed after {}", tests.told()),
            (_, Some(tests), _) => tests.told(),
            (Ended::Badly, _, Some((error, _))) => format!("failed: {error}"),
            (Ended::Badly, ..) => "failed".to_owned(),
            (Ended::Well, ..) if self.verifies() => "passed".to_owned(),
            (Ended::Well, ..) => "succeeded".to_owned(),
        }
    }

    /// Whether this run, which went well, shows that the other, which did not, is repaired.
    pub fn repairs(&self, broken: &Self) -> bool {
        if self.ended != Ended::Well || self.key != broken.key || self.key.is_empty() {
            return false;
        }
        let narrower = |argument: &String| !broken.arguments.contains(argument);
        let named = |argument: &String| {
            let failing = broken.tests.iter().flat_map(|tests| &tests.failing);
            failing
                .into_iter()
                .any(|name| name.contains(argument.as_str()) || argument.contains(name.as_str()))
        };
        self.arguments.iter().all(|argument| !narrower(argument) || named(argument))
    }
}

/// Whether numbers of tests in its output are its own: what prints any text may print those too.
fn may_test(main: &Simple, purpose: Purpose) -> bool {
    let runs_others = |word: &String| {
        let name = file_name(word);
        name.ends_with(".sh")
            || matches!(name, "make" | "just" | "docker" | "nix" | "task" | "npm" | "pnpm" | "yarn")
    };
    let runs_others = || main.words.iter().take(3).any(runs_others);
    matches!(purpose, Purpose::Test | Purpose::Build | Purpose::Lint)
        || (purpose == Purpose::Run && runs_others())
}

fn output_of(payload: &Payload) -> String {
    if let Some(error) = &payload.error {
        return error.clone();
    }
    let (stdout, stderr) = (field(&payload.response, &["stdout"]), field(&payload.response, &["stderr"]));
    match (stdout.is_empty(), stderr.is_empty()) {
        (false, false) => format!("{stdout}\n{stderr}"),
        (false, true) => stdout.to_owned(),
        (true, false) => stderr.to_owned(),
        (true, true) if payload.response.get("stdout").is_some() => String::new(),
        (true, true) => text_of(&payload.response),
    }
}

fn ended(
    payload: &Payload,
    failed: bool,
    given: &str,
    purpose: Purpose,
    tests: Option<&TestResults>,
    output: &str,
) -> Ended {
    let flag = |name: &str| payload.response.get(name).and_then(Value::as_bool).unwrap_or_default();
    if payload.interrupted || flag("interrupted") {
        return Ended::Stopped;
    }
    if payload.response.get("backgroundTaskId").is_some_and(Value::is_string) {
        return Ended::Running;
    }
    // A pipe hides the exit code of what it begins with; the output does not.
    let hidden = tests.is_some_and(|tests| tests.failed > 0)
        || (matches!(purpose, Purpose::Build | Purpose::Lint | Purpose::Test) && has_compile_error(output))
        || (given.contains("$?") && ends_in_failure(output));
    if failed || payload.error.is_some() || hidden { Ended::Badly } else { Ended::Well }
}

fn has_compile_error(output: &str) -> bool {
    output.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with("error[E")
            || line.starts_with("error: could not compile")
            || line.contains("): error TS")
    })
}

/// `exit: 101` as the last line.
fn ends_in_failure(output: &str) -> bool {
    let last = output.trim_end().lines().next_back().unwrap_or_default();
    let digits = last.trim_start_matches(|char: char| !char.is_ascii_digit());
    last.len() < 40 && digits.trim().parse::<u8>().is_ok_and(|code| code != 0)
}

fn failure(output: &str) -> Option<(String, String)> {
    Some((error_line(output)?, error_signature(output)?))
}

/// The line of an output that says most: the last one with words in it.
fn telling_line(output: &str) -> &str {
    let mut lines = output.lines().rev().filter(|line| line.chars().any(char::is_alphanumeric));
    let last = lines.next().unwrap_or_default();
    if one_line(last).len() < 3 { lines.next().unwrap_or(last) } else { last }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(command: &str, output: &str, failed: bool) -> Command {
        let payload = if failed {
            Payload {
                input: json!({"command": command}),
                error: Some(output.to_owned()),
                ..Payload::default()
            }
        } else {
            Payload {
                input: json!({"command": command}),
                response: json!({"stdout": output}),
                ..Payload::default()
            }
        };
        Command::read(&payload, failed, &Place { root: Some("/p"), cwd: Some("/p") })
    }

    #[test]
    fn the_part_that_matters_is_found_in_a_long_line() {
        let command = run(
            "cd /p && RUST_BACKTRACE=1 cargo test -p core retry 2>&1 | tail -20",
            "test result: ok. 3 passed; 0 failed;",
            false,
        );
        assert_eq!((command.line.as_str(), command.key.as_str()), ("cargo test -p core retry", "cargo test"));
        assert_eq!(
            (command.arguments.join(","), command.outcome()),
            ("retry".to_owned(), "3 passed".to_owned())
        );
    }

    #[test]
    fn a_failure_hidden_by_a_pipe_is_a_failure() {
        assert!(run("cargo test | tail", "test result: FAILED. 3 passed; 1 failed;", false).is_failure());
        assert!(run("cargo build 2>&1 | head", "error[E0308]: mismatched types", false).is_failure());
        assert!(run("./deploy.sh; echo \"exit: $?\"", "no space left\nexit: 2", false).is_failure());
        assert!(!run("./deploy.sh; echo \"exit: $?\"", "fine\nexit: 0", false).is_failure());
        assert!(!run("grep x a.txt", "Exit code 1", true).is_failure());
        assert!(!run("cat log.txt", "test result: FAILED. 3 passed; 1 failed;", false).is_failure());
    }

    #[test]
    fn a_later_run_repairs_an_earlier_one_only_if_it_covers_it() {
        let broken =
            run("cargo test", "test a::two ... FAILED\ntest result: FAILED. 1 passed; 1 failed;", true);
        let ok = "test result: ok. 2 passed; 0 failed;";
        assert!(run("cargo test", ok, false).repairs(&broken));
        assert!(run("cargo nextest run", ok, false).repairs(&broken));
        assert!(run("cargo test two", ok, false).repairs(&broken));
        assert!(!run("cargo test other", ok, false).repairs(&broken));
        assert!(!run("cargo build", "", false).repairs(&broken));
    }

    #[test]
    fn files_that_the_shell_changed_are_told() {
        let told = |command: &str| -> Vec<String> {
            run(command, "", false).changes.iter().map(Edit::statement).collect()
        };
        assert_eq!(
            told("git mv src/a.rs src/b.rs && rm old.py"),
            ["src/b.rs (moved from src/a.rs)", "old.py (deleted)"]
        );
        assert_eq!(
            told("cat > src/x.py <<'EOF'\ndef f():\n    pass\nEOF"),
            ["src/x.py (written, 2 lines): defines f"]
        );
        assert_eq!(
            told("rm -rf target *.tmp /etc/x.conf; echo a > /tmp/b.txt; make 2>/dev/null"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn packages_are_named() {
        assert_eq!(
            run("npm install --save-dev vitest @types/node", "", false).packages,
            ["vitest", "@types/node"]
        );
        assert_eq!(run("pip install -r requirements.txt", "", false).packages, Vec::<String>::new());
    }
}
