//! A shell command that ran: its main part, its outcome as far as that is known, and its traces in git and in files.

use serde_json::Value;

use super::error_signature::{error_line, error_signature};
use super::git::{Commit, commits, request_address};
use super::path::{PathBase, extension, file_name};
use super::payload::{ToolPayload, field, text_of};
use super::programs::{Purpose, purpose, unwrapped};
use super::shell::{CommandLine, Join, Simple, split};
use super::test_results::TestResults;
use crate::text::{clean, ends, head, shorten, tail};

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Status 0.
    Success,
    /// Any other status.
    Failure,
}

/// The outcome of the part of a line that matters. A status after `| tail`, `|| true`, `;`, `&` or in the background
/// belongs to another command and is no evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The command's own exit status.
    Certain(Exit),
    /// Nothing may be claimed.
    #[default]
    Unknown,
}

impl Outcome {
    /// True only if the command itself is known to have succeeded.
    pub fn succeeded(self) -> bool {
        self == Self::Certain(Exit::Success)
    }

    /// True only if the command itself is known to have failed.
    pub fn failed(self) -> bool {
        self == Self::Certain(Exit::Failure)
    }
}

/// A command line and its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The line as it was given, on one line and bounded.
    pub line: String,
    /// The parsed line.
    pub parsed: CommandLine,
    /// The purpose of its main part.
    pub purpose: Purpose,
    /// The main part as a person would type it, with its runner.
    pub main: String,
    /// The main part's outcome.
    pub outcome: Outcome,
    /// True if the client reported the whole line as failed.
    pub failed: bool,
    /// The client's id of the task, if the line went on in the background.
    pub task_id: Option<String>,
    /// Beginning and end of the output.
    pub output: String,
    /// True if it printed nothing.
    pub is_silent: bool,
    /// Numbers of a test run, if it was one.
    pub tests: Option<TestResults>,
    /// First meaningful error line of a failure, and its signature.
    pub error: Option<(String, String)>,
    /// Commits that git reported, or that must have been made.
    pub commits: Vec<Commit>,
    /// Address of a pull request or an issue that was opened.
    pub address: Option<String>,
    /// Files of the project that the shell wrote, moved or removed.
    pub files: Vec<String>,
    /// The removed ones among them.
    pub removed: Vec<String>,
}

/// Maximum length of the stored line and of its main part, in columns.
const LINE_COLUMNS: usize = 400;
const MAIN_COLUMNS: usize = 160;
/// Bytes of output kept from each end. Results are at the end, first errors at the beginning.
const OUTPUT_BYTES: usize = 2_000;
/// Maximum number of files attributed to one command.
const MOST_FILES: usize = 24;

impl Command {
    pub(super) fn read(payload: &ToolPayload, failed: bool, place: &PathBase<'_>) -> Self {
        let given = field(&payload.input, &["command"]);
        let parsed = split(given);
        let raw_output = output_of(payload);
        let output = clean(&raw_output);
        let looked_at = ends(&output);
        let main_at = main_part(&parsed.commands);
        let main = main_at.map(|at| &parsed.commands[at]);
        let purpose = main.map_or(Purpose::Nothing, purpose);
        let flag = |name: &str| payload.response.get(name).and_then(Value::as_bool).unwrap_or_default();
        let task_id = field(&payload.response, &["backgroundTaskId"]);
        let was_stopped =
            payload.interrupted || flag("interrupted") || !task_id.is_empty() || flag("timedOut");
        let outcome = match main_at {
            Some(at) if !was_stopped => outcome(&parsed, at, failed),
            _ => Outcome::Unknown,
        };
        let publishes = parsed.commands.iter().any(|part| self::purpose(part) == Purpose::Publish);
        Self {
            line: shorten(given, LINE_COLUMNS),
            purpose,
            main: main.map(displayed).unwrap_or_default(),
            outcome,
            failed,
            task_id: (!task_id.is_empty()).then(|| task_id.to_owned()),
            output: bounded(&output),
            is_silent: output.trim().is_empty(),
            tests: (purpose == Purpose::Test).then(|| TestResults::read(&looked_at)).flatten(),
            error: (failed && !looked_at.contains("<tool_use_error>"))
                .then(|| Some((error_line(&looked_at)?, error_signature(&looked_at)?)))
                .flatten(),
            commits: if leaves_project(&parsed.commands, place) {
                Vec::new()
            } else {
                commits(&parsed.commands, &looked_at, outcome.succeeded() && purpose == Purpose::Commit)
            },
            address: if publishes && !failed { request_address(&looked_at) } else { None },
            files: if failed { Vec::new() } else { changed_files(&parsed.commands, place, files_of) },
            removed: if failed { Vec::new() } else { changed_files(&parsed.commands, place, removed_by) },
            parsed,
        }
    }

    /// True for commands that check the project: tests, builds, linters.
    pub fn verifies(&self) -> bool {
        matches!(self.purpose, Purpose::Test | Purpose::Build | Purpose::Lint)
    }
}

/// Index of the part of the line that matters most; the first in case of a tie.
fn main_part(parts: &[Simple]) -> Option<usize> {
    let mut best: Option<(usize, Purpose)> = None;
    for (at, part) in parts.iter().enumerate() {
        let purpose = purpose(part);
        if best.is_none_or(|(_, known)| purpose > known) {
            best = Some((at, purpose));
        }
    }
    best.map(|(at, _)| at)
}

/// The outcome of one part, from the status of the whole line.
///
/// A line that succeeded proves every part of the `&&` chain at its end, unless the part feeds a pipe. A line that failed proves
/// the last part only if nothing before it could have failed instead.
fn outcome(line: &CommandLine, at: usize, failed: bool) -> Outcome {
    let parts = &line.commands;
    let (Some(part), Some(last)) = (parts.get(at), parts.last()) else { return Outcome::Unknown };
    let feeds_pipe = parts.get(at + 1).is_some_and(|next| next.join == Join::Pipe);
    let behind = parts.get(at + 1..).unwrap_or_default();
    let is_chained = behind.iter().all(|next| matches!(next.join, Join::And | Join::Pipe));
    let runs_in_background = part.background || last.background;
    if line.is_compound || feeds_pipe || runs_in_background || !is_chained || part.join == Join::Or {
        return Outcome::Unknown;
    }
    if !failed {
        return Outcome::Certain(Exit::Success);
    }
    let cannot_fail = |part: &Simple| {
        let program = part.words.first().map(String::as_str).unwrap_or_default();
        matches!(program, "cd" | "export" | "set" | "echo" | "pushd" | "mkdir" | "true" | "sleep")
    };
    let is_alone = behind.is_empty() && part.join != Join::Pipe && parts[..at].iter().all(cannot_fail);
    if is_alone { Outcome::Certain(Exit::Failure) } else { Outcome::Unknown }
}

/// The command as a person would type it, without `sudo` and timeouts.
fn displayed(simple: &Simple) -> String {
    let mut words = simple.words.as_slice();
    while matches!(words.first().map(String::as_str), Some("sudo" | "timeout" | "time" | "nohup" | "nice")) {
        let behind = words.iter().skip(1).skip_while(|word| {
            word.starts_with('-') || word.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
        });
        words = &words[words.len() - behind.count()..];
    }
    let quoted = words.iter().map(|word| match word.contains([' ', '\n', ';', '|']) {
        true if word.contains('\'') => format!("\"{word}\""),
        true => format!("'{word}'"),
        false => word.clone(),
    });
    shorten(&quoted.collect::<Vec<_>>().join(" ").replace('`', ""), MAIN_COLUMNS)
}

fn output_of(payload: &ToolPayload) -> String {
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

pub(super) fn bounded(text: &str) -> String {
    let text = text.trim();
    if text.len() <= 2 * OUTPUT_BYTES {
        return text.to_owned();
    }
    format!("{}\n[…]\n{}", head(text, OUTPUT_BYTES).trim_end(), tail(text, OUTPUT_BYTES).trim_start())
}

/// True if the line changes to a scratch directory, or to one that is not known. A sibling directory may be a worktree.
fn leaves_project(parts: &[Simple], place: &PathBase<'_>) -> bool {
    let mut cwd = place.cwd.map(str::to_owned);
    let folders = parts.iter().filter(|part| part.words.first().is_some_and(|word| word == "cd"));
    folders.filter_map(|part| part.words.get(1)).any(|folder| {
        let now = entered(cwd.take(), folder);
        let is_scratch = now == "/"
            || ["/tmp/", "/private/tmp/", "/var/folders/"].iter().any(|start| now.starts_with(start));
        let leaves = is_scratch && !place.owns(&format!("{now}/file"));
        cwd = Some(now);
        leaves
    })
}

/// The directory after `cd folder`; `/`, which holds no file of a project, if it cannot be known.
fn entered(cwd: Option<String>, folder: &str) -> String {
    if folder.contains(['$', '`', '~']) || folder == "-" {
        return "/".to_owned();
    }
    let base = cwd.filter(|_| !folder.starts_with('/')).map(|cwd| format!("{cwd}/"));
    base.unwrap_or_default() + folder
}

/// Files of the project among those that `files_of` finds in each part of the line.
fn changed_files(parts: &[Simple], place: &PathBase<'_>, files_of: fn(&Simple) -> Vec<&str>) -> Vec<String> {
    let mut files = Vec::new();
    let mut cwd = place.cwd.map(str::to_owned);
    for part in parts {
        if let [program, folder] = part.words.as_slice()
            && program == "cd"
        {
            cwd = Some(entered(cwd, folder));
            continue;
        }
        let place = PathBase { cwd: cwd.as_deref(), ..*place };
        files.extend(
            files_of(part).into_iter().filter(|file| place.owns(file)).map(|file| place.relative(file)),
        );
    }
    files.dedup();
    files.truncate(MOST_FILES);
    files
}

fn removed_by(part: &Simple) -> Vec<&str> {
    let words = unwrapped(&part.words);
    let words = if words.first().is_some_and(|word| word == "git") { &words[1..] } else { words };
    let removes = words.first().is_some_and(|program| matches!(file_name(program), "rm" | "unlink"));
    let files = words.iter().skip(1).map(String::as_str).filter(|word| removes && !word.starts_with('-'));
    files.collect()
}

/// Files that the shell itself wrote, moved or removed.
fn files_of(part: &Simple) -> Vec<&str> {
    let is_plain = |word: &&str| {
        !word.starts_with('-')
            && !word.starts_with("/dev/")
            && !word.contains(['*', '$', '?', '{', ' ', '\n'])
    };
    let is_file = |word: &&str| is_plain(word) && !extension(word).is_empty() && !word.ends_with('/');
    // Text that was typed in is an edit; the output of a command is a log or a build product.
    let written = part.writes.iter().filter(|_| part.heredoc.is_some()).map(|(target, _)| target.as_str());
    let mut files: Vec<&str> = written.filter(is_plain).collect();
    let words = unwrapped(&part.words);
    let words = if words.first().is_some_and(|word| word == "git") { &words[1..] } else { words };
    let Some((program, arguments)) = words.split_first() else { return files };
    let mut arguments = arguments.iter().map(String::as_str).filter(is_file);
    match file_name(program) {
        "rm" | "mv" => files.extend(arguments),
        "sed" | "perl" if purpose(part) == Purpose::Housekeeping => files.extend(arguments.next_back()),
        _ => {}
    }
    files
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(command: &str, output: &str, failed: bool) -> Command {
        let input = json!({"command": command});
        let payload = if failed {
            ToolPayload { input, error: Some(output.to_owned()), ..ToolPayload::default() }
        } else {
            ToolPayload { input, response: json!({"stdout": output}), ..ToolPayload::default() }
        };
        Command::read(
            &payload,
            failed,
            &PathBase { root: Some("/p"), cwd: Some("/p"), ..PathBase::default() },
        )
    }

    #[test]
    fn commits_and_files_of_scratch_directories_are_not_the_projects() {
        let printed = "[main 1a2b3c4] Add rows";
        for line in [
            "git commit -m 'Add rows'",
            "cd /p && git commit -m 'Add rows'",
            "cd /p-feature && git commit -m x",
        ] {
            assert_eq!(run(line, printed, false).commits.len(), 1, "{line}");
        }
        for line in [
            "cd /tmp/try && git commit -m x",
            "cd $(mktemp -d) && git commit -m x",
            "cd \"$DIR\" && git commit -m x",
        ] {
            assert_eq!(run(line, printed, false).commits, Vec::new(), "{line}");
        }
        let files = |line: &str| run(line, "", false).files;
        assert_eq!(files("cat > a.rs <<EOF\nx\nEOF"), ["a.rs"]);
        assert_eq!(files("cd $TMP && cat > a.rs <<EOF\nx\nEOF"), Vec::<String>::new());
        assert_eq!(files("cargo build > build.log"), Vec::<String>::new());
    }

    #[test]
    fn a_status_is_certain_only_where_it_is_the_commands_own() {
        for line in [
            "cargo test",
            "cd /p && cargo test",
            "cargo test 2>&1",
            "cargo build && cargo test",
            "FOO=1 cargo test > log",
            "cargo test && git status | head -3",
            "a; cargo test",
            "timeout 60 cargo test",
        ] {
            assert_eq!(run(line, "", false).outcome, Outcome::Certain(Exit::Success), "{line}");
        }
        for line in [
            "cargo test | head",
            "cargo test 2>&1 | tail -20",
            "cargo test || true",
            "cargo test; echo done",
            "cargo test &",
            "(cargo test)",
            "if cargo test; then ls; fi",
            "cargo test || echo failed",
            "cargo test\necho done",
            "for x in a b; do cargo test $x; done",
            "make x || cargo test",
        ] {
            assert_eq!(run(line, "", false).outcome, Outcome::Unknown, "{line}");
        }
        assert!(run("cd /p && cargo test", "error", true).outcome.failed());
        for line in
            ["cargo test | tail", "cargo build && cargo test", "cargo test && cargo clippy", "cargo test; ls"]
        {
            assert_eq!(run(line, "error", true).outcome, Outcome::Unknown, "{line}");
        }
        let background = ToolPayload {
            input: json!({"command": "cargo test"}),
            response: json!({"stdout": "", "backgroundTaskId": "b1"}),
            ..ToolPayload::default()
        };
        assert_eq!(Command::read(&background, false, &PathBase::default()).outcome, Outcome::Unknown);
    }

    #[test]
    fn the_main_part_keeps_its_runner() {
        for (line, main) in [
            ("cd /p && timeout 60 uv run pytest -q 2>&1 | tail -20", "uv run pytest -q"),
            ("PYTHONPATH=src poetry run pytest", "PYTHONPATH=src poetry run pytest"),
            ("ls && pnpm --filter web test", "pnpm --filter web test"),
            ("sudo npx vitest run", "npx vitest run"),
        ] {
            assert_eq!(run(line, "", false).main, main);
        }
    }

    #[test]
    fn commits_are_claimed_only_if_git_made_them_for_certain() {
        assert_eq!(run("git commit -m 'Add retry' | tail -1", "", false).commits, []);
        assert_eq!(run("git commit -m 'Add retry'", "", false).commits[0].subject, "Add retry");
        let printed = run("git commit -m 'Add retry' | tail -1", "[main 1a2b3c4] Add retry", false);
        assert_eq!(printed.commits[0].id.as_deref(), Some("1a2b3c4"));
    }

    #[test]
    fn files_that_the_shell_changed_are_listed() {
        assert_eq!(
            run("git mv src/a.rs src/b.rs && rm old.py", "", false).files,
            ["src/a.rs", "src/b.rs", "old.py"]
        );
        assert_eq!(run("cd src && cat > x.py <<'EOF'\nx\nEOF", "", false).files, ["src/x.py"]);
        assert_eq!(run("sed -i s/a/b/ src/c.rs", "", false).files, ["src/c.rs"]);
        let none: [&str; 0] = [];
        assert_eq!(
            run("rm -rf target *.tmp /etc/x.conf; echo a > /tmp/b.txt; make 2>/dev/null", "", false).files,
            none
        );
        assert_eq!(run("rm old.py", "no such file", true).files, none);
    }
}
