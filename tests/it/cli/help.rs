//! The help text of every command.

use crate::harness::sandbox::{Sandbox, run};

fn help(words: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(words).arg("--help").env("COLUMNS", "100");
    let ran = run(command, b"");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words:?}");
    ran.stdout
}

/// The commands that a help text lists.
pub fn listed(text: &str) -> Vec<String> {
    let commands =
        text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let top = help(&[]);
    insta::assert_snapshot!("help", top);
    let commands = listed(&top);
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let text = help(&[&command]);
        assert!(text.contains("Example"), "{command} has no example");
        insta::assert_snapshot!(format!("help_{command}"), text);
    }
}

#[test]
fn a_wrong_command_is_a_usage_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.arg("nonsense");
    assert_eq!(run(command, b"").code, Some(2));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    let sandbox = Sandbox::new();
    let mem = |arguments: &[&str]| {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
        command.args(arguments);
        let ran = run(command, b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let pages = sandbox.path().join("man");
    mem(&["man", pages.to_str().unwrap()]);
    for command in listed(&help(&[])) {
        assert!(pages.join(format!("claude-mem-{command}.1")).exists(), "{command}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(mem(&["completions", shell]).contains(&command), "{shell} {command}");
        }
    }
}
