//! Every command as people and scripts use it: without a worker, in a pipe, on a terminal, narrow or without colours. Checks
//! its JSON and its exit code.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::help::listed as subcommands;
use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::wait::skip;
use crate::harness::worker::Worker;

const PROGRAM: &str = env!("CARGO_BIN_EXE_claude-mem");

fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(PROGRAM);
    command.args(arguments).env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color");
    command.current_dir(sandbox.path());
    command
}

pub fn mem(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    run(command(sandbox, arguments), b"")
}

/// One turn that became memory, one event that failed, one that waits; no worker.
pub fn remembered() -> Sandbox {
    let sandbox = Sandbox::new();
    // Whether the daily backup is made in time is random: switch it off.
    sandbox.configure("[backup]\nkeep = 0");
    let mut worker = Worker::start(&sandbox);
    sandbox.prompt("one", "Repair the greeting of the server");
    sandbox.edit("one", "edit");
    sandbox.commit("one", "commit", "Correct the greeting");
    sandbox.end_turn("one");
    sandbox.hook("save", "no json at all").assert_unnoticed();
    sandbox.wait_until_settled();
    worker.stop();
    sandbox.edit("two", "waits");
    let file = sandbox.path().join("export.jsonl");
    let exported = mem(&sandbox, &["export", file.to_str().unwrap()]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    sandbox
}

/// Commands that report, with their exit codes without a worker.
const REPORTING: [(&[&str], i32); 27] = [
    (&["status"], 1),
    (&["doctor"], 1),
    (&["sessions"], 0),
    (&["show", "one"], 0),
    (&["today"], 0),
    (&["config", "effective"], 0),
    (&["search", "greeting"], 0),
    (&["timeline", "1"], 0),
    (&["show", "1", "S1", "P1"], 0),
    (&["queue", "list"], 0),
    (&["queue", "errors"], 0),
    (&["stats"], 0),
    (&["sync", "status"], 0),
    (&["context"], 0),
    (&["learn", "add", "Greetings are always polite, also on Sundays"], 0),
    (&["learn", "list"], 0),
    (&["learn", "forget", "1"], 0),
    (&["model", "status"], 0),
    (&["review"], 0),
    (&["value"], 0),
    (&["import", "export.jsonl"], 0),
    (&["backfill"], 0),
    (&["backup"], 0),
    (&["backup", "--list"], 0),
    (&["restore", "--list"], 0),
    (&["forget", "1", "--dry-run"], 0),
    (&["restore", "--yes"], 0),
];

/// The shape of a JSON value: its keys and types, without the values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(items) => Value::Array(items.first().map(shape).into_iter().collect()),
        Value::Object(fields) => {
            // Sorted by name: the order of fields is not part of the contract.
            let shapes: BTreeMap<&String, Value> =
                fields.iter().map(|(name, value)| (name, shape(value))).collect();
            json!(shapes)
        }
    }
}

#[test]
fn every_command_that_reports_prints_json_of_a_known_shape() {
    let sandbox = remembered();
    for (arguments, code) in REPORTING {
        let ran = mem(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        let value: Value = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {ran:?}"));
        let name: Vec<&str> = arguments.iter().filter(|word| !word.contains([' ', '.'])).copied().collect();
        let name = name.join("_").replace("--", "");
        insta::assert_snapshot!(format!("json_{name}"), format!("{:#}", shape(&value)));
    }
}

#[test]
fn no_command_that_prints_json_is_left_out() {
    // The tests of synchronisation have a server for these.
    let needs_server = |words: &[&str]| matches!(words, ["sync", "now" | "devices"]);
    // tests/it/context/truth.rs corrects memories.
    let corrects = |words: &[&str]| matches!(words, ["pin" | "veto" | "supersede" | "merge" | "edit"]);
    let listed = |words: &[&str]| {
        needs_server(words)
            || corrects(words)
            || REPORTING.iter().any(|(arguments, _)| arguments.starts_with(words))
    };
    let sandbox = Sandbox::new();
    let help = |words: &[&str]| mem(&sandbox, &[words, &["--help"]].concat()).stdout;
    let mut found = 0;
    for command in subcommands(&help(&[])) {
        for inner in subcommands(&help(&[&command])).iter().map(String::as_str).chain([""]) {
            let words: Vec<&str> =
                [command.as_str(), inner].into_iter().filter(|word| !word.is_empty()).collect();
            if help(&words).lines().any(|line| line.trim_start().starts_with("--json")) {
                found += 1;
                assert!(listed(&words), "{words:?}");
            }
        }
    }
    assert!(found > 15, "{found}");
}

#[test]
fn commands_work_in_a_pipe_without_colours_or_a_worker() {
    let sandbox = remembered();
    for (arguments, code) in REPORTING {
        let ran = mem(&sandbox, arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{arguments:?}: {ran:?}");
        assert!(!ran.stdout.trim().is_empty(), "{arguments:?}");
    }
}

#[test]
fn commands_report_an_empty_memory_without_failing() {
    for (arguments, _) in REPORTING {
        let sandbox = Sandbox::new();
        let ran = mem(&sandbox, arguments);
        assert!(matches!(ran.code, Some(0 | 1)), "{arguments:?}: {ran:?}");
        assert!(!ran.stdout.is_empty() || ran.stderr.starts_with("claude-mem: "), "{arguments:?}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{arguments:?}: {ran:?}");
    }
}

/// Runs a command on a terminal of this many columns.
fn on_a_terminal(sandbox: &Sandbox, columns: u16, arguments: &[&str], no_colour: bool) -> Option<String> {
    through_a_pager(sandbox, columns, arguments, no_colour, "cat")
}

fn through_a_pager(
    sandbox: &Sandbox,
    columns: u16,
    arguments: &[&str],
    no_colour: bool,
    pager: &str,
) -> Option<String> {
    let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("stty cols {columns}; '{PROGRAM}' {}", quoted.join(" "));
    let mut script = sandbox.command("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    script.env("PAGER", pager);
    script.current_dir(sandbox.path());
    if no_colour {
        script.env("NO_COLOR", "1");
    }
    let output = script.output().ok().filter(|_| std::path::Path::new("/usr/bin/script").exists());
    if output.is_none() {
        skip("`script` is not installed");
    }
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_terminal_gets_colours_unless_no_color_is_set() {
    let sandbox = remembered();
    let search = ["search", "greeting"];
    let Some(coloured) = on_a_terminal(&sandbox, 100, &search, false) else { return };
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    let plain = on_a_terminal(&sandbox, 100, &search, true).unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.contains("greeting"), "{plain:?}");
}

#[test]
fn long_output_on_a_terminal_goes_through_the_pager() {
    let sandbox = remembered();
    let pager = "sed 's/^/| /'";
    let Some(paged) = through_a_pager(&sandbox, 100, &["show", "one"], true, pager) else { return };
    assert!(seen(&paged).iter().any(|line| line.starts_with("| Correct the greeting")), "{paged}");
    let status = through_a_pager(&sandbox, 100, &["status"], true, pager).unwrap();
    assert!(!status.contains("| "), "a screen needs none: {status}");
    let quit = through_a_pager(&sandbox, 100, &["config", "show"], true, "head -n 1").unwrap();
    assert_eq!(seen(&quit).len(), 1, "a reader who quits is no error: {quit}");
}

/// The lines that stay on the screen: progress overwrites itself.
fn seen(shown: &str) -> Vec<String> {
    let plain = regex::Regex::new("\u{1b}\\[[0-9;]*[a-zA-Z]").unwrap();
    plain
        .replace_all(shown, "")
        .lines()
        .map(|line| line.trim_end().rsplit('\r').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn output_wraps_at_words_on_a_narrow_terminal() {
    let sandbox = remembered();
    let colour = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    // `context` prints exactly the text that a session gets, unwrapped.
    let commands =
        REPORTING.into_iter().map(|(arguments, _)| arguments).filter(|words| *words != ["context"]);
    for arguments in commands {
        for no_colour in [false, true] {
            let Some(shown) = on_a_terminal(&sandbox, 40, arguments, no_colour) else { return };
            assert!(!no_colour || !colour.is_match(&shown), "{arguments:?}: {shown:?}");
            for line in seen(&shown) {
                let is_one_word = !line.trim().contains(' ');
                // Error messages may be copied, so they are never wrapped.
                let is_error = line.starts_with("claude-mem: ");
                assert!(
                    line.chars().count() <= 40 || is_one_word || is_error,
                    "{arguments:?}: {line:?} of\n{shown}"
                );
            }
        }
        let shown = on_a_terminal(&sandbox, 5, arguments, false).unwrap();
        assert!(!shown.contains("panicked"), "{arguments:?}: {shown}");
    }
}

#[test]
fn a_narrow_terminal_loses_decoration_and_no_figures() {
    let sandbox = remembered();
    let Some(narrow) = on_a_terminal(&sandbox, 40, &["stats"], true) else { return };
    for figure in ["1 observation", "tokens in", "ratio", "$0.0000 of $1.00"] {
        assert!(seen(&narrow).join(" ").contains(figure), "{figure}: {narrow}");
    }
    let id = "0b93be06-0ec2-4265-baf0-5a7606842b9a";
    sandbox.prompt(id, "A session with an id as real ones have it");
    let sessions = on_a_terminal(&sandbox, 40, &["sessions"], true).unwrap();
    assert!(seen(&sessions).join(" ").contains("0b93be06"), "{sessions}");
    assert!(mem(&sandbox, &["sessions"]).stdout.contains(id), "whole in a pipe");
    assert!(mem(&sandbox, &["show", "0b93be06"]).stdout.contains(id), "and its beginning is enough");
    let doomed = mem(&sandbox, &["forget", "--session", "0b93be06", "--dry-run", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&doomed).unwrap()["rows"]["sessions"], 1, "{doomed}");
}

#[test]
fn a_wait_of_more_than_a_second_is_explained() {
    let sandbox = remembered();
    // Forgetting must wait: another connection holds the write lock.
    let other = sandbox.database();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let line = format!("stty cols 40; '{PROGRAM}' forget 1 --yes");
    let mut script = sandbox.command("script");
    script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(mut child) = script.spawn() else {
        skip("`script` is not installed");
        return;
    };
    let (mut shown, mut some) = (String::new(), [0; 256]);
    let mut output = child.stdout.take().unwrap();
    while !shown.contains("forgetting …") {
        let count = output.read(&mut some).unwrap();
        assert!(count > 0, "it ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    other.execute_batch("ROLLBACK").unwrap();
    output.read_to_string(&mut shown).unwrap();
    assert!(child.wait().unwrap().success(), "{shown}");
    let (_, after) = shown.rsplit_once("\r\u{1b}[K").expect("the line is wiped away");
    assert!(after.contains("Deleted:"), "{shown:?}");
}

#[test]
fn config_check_reports_a_variable_that_sets_nothing() {
    let sandbox = Sandbox::new();
    let mut check = command(&sandbox, &["config", "check"]);
    check.env("CLAUDE_MEM_HOOK_BUSYMS", "70").env("CLAUDE_MEM_HOOK_BUSY_MS", "70");
    let ran = run(check, b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let notes: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(notes.len(), 1, "{ran:?}");
    assert!(notes[0].contains("CLAUDE_MEM_HOOK_BUSYMS has no effect"), "{ran:?}");
}

#[test]
fn exit_codes_are_0_done_1_failed_2_usage() {
    let sandbox = remembered();
    let cases: [(&[&str], i32); 20] = [
        (&["--version"], 0),
        (&["help"], 0),
        (&["config", "check"], 0),
        (&["config", "path"], 0),
        (&["show", "999999"], 1),
        (&["show", "nonsense"], 1),
        (&["search", "--type", "nonsense", "x"], 2),
        (&["search", "--since", "nonsense", "x"], 2),
        (&["search", "nothinghasthisword"], 0),
        (&["sessions", "--limit", "0"], 2),
        (&["queue", "retry", "999999"], 1),
        // Two selectors are ambiguous (both or either), so they are refused.
        (&["forget", "--project", "x", "--text", "y", "--yes"], 2),
        (&["timeline", "999999"], 1),
        (&["forget", "999999", "--yes"], 1),
        (&["restore", "/nonexistent"], 1),
        (&["import", "/nonexistent"], 1),
        (&["forget"], 2),
        (&["stats", "--days", "0"], 2),
        (&["timeline"], 2),
        (&["nonsense"], 2),
    ];
    for (arguments, code) in cases {
        let ran = mem(&sandbox, arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        // The error is printed once, and not to stdout, where a pipe would take it for a result.
        assert_eq!(ran.stderr.is_empty(), code == 0, "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let sandbox = remembered();
    // A memory can be forgotten only once.
    let reports = REPORTING
        .into_iter()
        .filter(|(arguments, _)| arguments[..2.min(arguments.len())] != ["learn", "forget"]);
    let reports = reports.map(|(arguments, code)| (arguments, code.to_string()));
    let others = [&["export"][..], &["completions", "bash"], &["config", "show"]];
    let all = reports.chain(others.map(|arguments| (arguments, "0".to_owned())));
    for (arguments, code) in all {
        let command = format!("'{PROGRAM}' '{}'", arguments.join("' '"));
        let shell = |line: &str| {
            let mut shell = sandbox.command("bash");
            shell.args(["-c", line]);
            run(shell, b"")
        };
        let closed = shell(&format!("{{ sleep 0.1; {command}; echo $? > code; }} | true; cat code"));
        assert_eq!(closed.stdout.trim(), code, "{command}: {closed:?}");
        assert!(!closed.stderr.contains("panicked"), "{closed:?}");
        let full = shell(&format!("{command} > /dev/full"));
        let output = full.stderr.contains("No space left on device") && !full.stderr.contains("panicked");
        assert!(full.code == Some(1) && output, "{command}: {full:?}");
    }
}
